"""A bench: how a driver is built, what is at the far end of its line, and what is true there.

The truth of a bench is written from the device's manual, in Choroid's internal units, and independently of the
driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from drivers.commands import Command
from drivers.conformance.far_end import FarEnd
from drivers.device import Device, DeviceConfig

Untold = Literal["flow", "direction"]


@dataclass(frozen=True, slots=True)
class Sense:
    """Lists values that a bench can make true at a sensor: each of `values`, in `unit`.

    The first value holds at the start. Choose clearly different values, with zero and negative ones where the
    device measures them. Leave `values` empty for a point that only follows an output (the position of a valve).
    """

    unit: str
    values: tuple[float, ...] = ()
    within: float = 0.0
    """Maximum deviation of a good reading from the truth: half of the device's resolution, in `unit`."""
    share: float = 1e-6
    """Maximum deviation as a share of the value, added to `within`."""
    drift: float = 0.0
    """Maximum change of the truth by itself between a reading and the comparison: a bath cools."""
    doubts: bool = False
    """Whether the device can mark its reading as unreliable (:meth:`FarEnd.doubt`)."""
    moves: bool = False
    """Whether the device can report that its value is in motion (:meth:`FarEnd.disturb`)."""

    def near(self, value: float, truth: float) -> bool:
        """Return whether a value is a good reading of the truth at the same moment.

        Args:
            value: What the driver reads (`unit`).
            truth: What the far end has (`unit`).

        Returns:
            True within the tolerances `within` and `share`.
        """
        return abs(value - truth) <= self.within + self.share * abs(truth)


@dataclass(frozen=True)
class Bench:
    """Holds one driver with everything that its examination needs.

    `far_end` makes the device that `config` describes. `senses` names every sensor, and every level whose status
    has a measured value. `other` is a second device of the model at another address, where the model shares a bus.
    `commands` by point; a point without an entry gets commands of its kind that it accepts.
    """

    driver: type[Device]
    far_end: Callable[[DeviceConfig], FarEnd]
    config: DeviceConfig
    senses: Mapping[str, Sense] = field(default_factory=dict)
    other: DeviceConfig | None = None
    commands: Mapping[str, Sequence[Command]] = field(default_factory=dict)
    impostors: Mapping[str, Callable[[DeviceConfig], FarEnd]] = field(default_factory=dict)
    """Other devices with the same protocol, by name: the driver must reject each of them."""
    untold: frozenset[Untold] = frozenset()
    """What the protocol cannot report of a pump that another program started."""
    checksum: bool = False
    """Whether every reply has a checksum, so that no wrong bit may change a reading."""
    pushes: bool = False
    """Whether the device sends by itself: where the kit drops requests, it then drops what the device sends."""
    no_worse: Mapping[str, str] = field(default_factory=dict)
    """Broken drivers (by name) that do no harm on this bench, with the reason: the device itself compensates the
    defect.
    """
    settles_s: float = 0.0
    """Maximum time after a command during which its output may still be moving (a valve that turns; s)."""
    memory_writes_a_day: int = 100
    """Endurance of the device's memory: 100 a day are 100,000 in 2.7 years."""

    @property
    def model(self) -> str:
        """The model's id."""
        return self.driver.model.id

    def __str__(self) -> str:
        return self.model
