"""Plans: stimulations that are prepared and then begin at one time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from choroid.client.cl.designs import BurstDesign, Channels, ChannelSet, StimDesign, channel_set, design_of
from choroid.client.cl.errors import RunTimestampOrderError, TransactionRejected
from choroid.client.cl.queues import StimOperation, require_lead

if TYPE_CHECKING:
    from choroid.client.cl.culture import CultureSession


class StimPlan:
    """Runs several steps together, as often as wanted; after the first run they cannot be changed.

    Attributes:
        channels_to_interrupt: Channels whose waiting pulses are cancelled when the plan begins; None means none.
    """

    def __init__(self, neurons: CultureSession) -> None:
        """Begin an empty plan; see :meth:`CulturedNeurons.create_stim_plan`."""
        self._neurons = neurons
        self._steps: list[StimOperation] = []
        self._interrupted: ChannelSet | None = None
        self._frozen = False

    @property
    def channels_to_interrupt(self) -> ChannelSet | None:
        """Return the channels that are interrupted first."""
        return self._interrupted

    @channels_to_interrupt.setter
    def channels_to_interrupt(self, channels: Channels | None) -> None:
        self._require_open()
        self._interrupted = None if channels is None else channel_set(channels)

    def stim(
        self,
        channels: Channels,
        stim_design: StimDesign | float,
        burst_design: BurstDesign | None = None,
        lead_time_us: float = 80,
    ) -> None:
        """Add a stimulation.

        Args:
            channels: Where.
            stim_design: The pulse, or the amplitude (µA) of a pulse of 160 µs a phase.
            burst_design: Several pulses in a row; None means one.
            lead_time_us: Shortest time from the beginning of the plan (µs); at least 80.

        Raises:
            TransactionRejected: The plan has run already, or the lead time is out of range.
        """
        self._require_open()
        require_lead(lead_time_us)
        self._steps.append(StimOperation(channel_set(channels), design_of(stim_design), burst_design, lead_time_us))

    def interrupt(self, channels: Channels) -> None:
        """Add an interruption: what waits on channels is cancelled when the plan begins.

        Args:
            channels: The channels. Steps of this plan that were added before are cancelled with the rest.

        Raises:
            TransactionRejected: The plan has run already.
        """
        self._require_open()
        self._steps.append(StimOperation(channel_set(channels), interrupts=True))

    def interrupt_then_stim(
        self,
        channels: Channels,
        stim_design: StimDesign | float,
        burst_design: BurstDesign | None = None,
        lead_time_us: float = 80,
    ) -> None:
        """Add an interruption and a stimulation of the same channels.

        Args:
            channels: Where.
            stim_design: The pulse, or the amplitude (µA) of a pulse of 160 µs a phase.
            burst_design: Several pulses in a row; None means one.
            lead_time_us: Shortest time from the beginning of the plan (µs); at least 80.

        Raises:
            TransactionRejected: The plan has run already, or the lead time is out of range.
        """
        self.interrupt(channels)
        self.stim(channels, stim_design, burst_design, lead_time_us)

    def sync(self, channels: Channels) -> None:
        """Let the channels wait for each other.

        Args:
            channels: The channels that wait for each other.

        Raises:
            TransactionRejected: The plan has run already.
        """
        self._require_open()
        self._steps.append(StimOperation(channel_set(channels)))

    def run(self, at_timestamp: int | None = None) -> None:
        """Run the steps, now or from a frame on.

        Several steps keep their distances to the frame: each begins at its own, or is refused.

        Args:
            at_timestamp: Frame from which lead times count; None means now, or soon for several steps.

        Raises:
            RunTimestampOrderError: The frame has passed.
            ControlRequiredError: The program has no control.
        """
        self._frozen = True
        neurons = self._neurons
        if at_timestamp is not None and at_timestamp <= neurons.timestamp():
            raise RunTimestampOrderError(f"frame {at_timestamp} has passed; it is {neurons.timestamp()}")
        if self._interrupted is not None:
            neurons.interrupt_from(self._interrupted, at_timestamp or 0)
        begin = at_timestamp or 0
        if at_timestamp is None and sum(step.design is not None for step in self._steps) > 1:
            begin = neurons.timestamp() + neurons.margin_frames()
        for step in self._steps:
            if step.interrupts:
                neurons.interrupt_from(step.channels, at_timestamp or 0)
            else:
                neurons.queue(step, begin)

    def _require_open(self) -> None:
        if self._frozen:
            raise TransactionRejected("the plan has run already and cannot be changed; next: create another one")
