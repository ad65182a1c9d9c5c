"""A Keller transmitter on the Keller bus, with temperature; see :mod:`sim.devices.keller_x_line`."""

from __future__ import annotations

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.keller_x_line import CHANNELS, KB_READ_FLOAT, KB_READ_INTEGER, KellerXLine
from sim.devices.port import PlantPort


class KellerBus(KellerXLine):
    """As :class:`KellerXLine`; TOB1 is the plant's temperature, and a value may carry a status."""

    model_id = "keller-bus"
    bench = BenchFacts(similar=("addressed frames", "repeating senders"), doubts=True, checksum=True)

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.status = 0
        """The status byte behind every value."""
        self._temperature = f"{name}.temperature"

    def value(self, channel: int) -> float:
        """See :meth:`KellerXLine.value`."""
        if channel == CHANNELS.index("TOB1"):
            return self.plant.sense(self._temperature)
        return super().value(channel)

    def _kb_answer(self, function: int, data: bytes) -> bytes:
        answer = super()._kb_answer(function, data)
        return answer[:-1] + bytes((self.status,)) if function in (KB_READ_FLOAT, KB_READ_INTEGER) else answer
