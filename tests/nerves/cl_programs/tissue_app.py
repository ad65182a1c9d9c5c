"""An application package for cl-sdk: pulses on six channels, and the spikes before and after them."""

from cl import BurstDesign, ChannelSet, StimDesign, open
from cl.app import BaseApplication, BaseApplicationConfig, OutputType, RunSummary
from pydantic import Field

WINDOW_MS = 30


class EvokedConfig(BaseApplicationConfig):
    pulses: int = Field(title="Pulses", default=20)


class Evoked(BaseApplication):
    def run(self, config, output_directory):
        before = after = stims = spikes = troughs = 0
        with open() as neurons:
            recording = neurons.record(file_location=output_directory)
            last = None
            for tick in neurons.loop(1000, stop_after_seconds=0.2 * config.pulses + 0.5, ignore_jitter=True):
                if tick.iteration % 200 == 100 and tick.iteration < 200 * config.pulses:
                    neurons.stim(
                        ChannelSet(20, 21, 22, 28, 29, 30), StimDesign(160, -1.0, 160, 1.0), BurstDesign(1, 100)
                    )
                    last = tick.iteration
                stims += len(tick.analysis.stims)
                spikes += len(tick.analysis.spikes)
                troughs += sum(abs(int(spike.samples.argmin()) - 25) <= 3 for spike in tick.analysis.spikes)
                if last is not None and tick.iteration - last <= WINDOW_MS:
                    after += len(tick.analysis.spikes)
                elif last is not None and 200 - (tick.iteration - last) <= WINDOW_MS:
                    before += len(tick.analysis.spikes)
            recording.stop()
        counts = {"before": before, "after": after, "stims": stims, "spikes": spikes, "troughs": troughs}
        return RunSummary(OutputType.JSON, data=counts)

    @staticmethod
    def config_class():
        return EvokedConfig
