"""A bench: how a driver is built, what stands at the far end of its line, and what is true there.

The truth of a bench is written from the device's manual, in Choroid's inner units, and apart from the driver.
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
    """What a bench can make true where a device measures: each of `values`, in `unit`.

    The first value holds at the start. Choose values that differ clearly, with zero and negative ones where the device
    measures them. Leave `values` empty for a point that only follows an output (the position of a valve).
    """

    unit: str
    values: tuple[float, ...] = ()
    within: float = 0.0
    """How far a sound reading may be from the truth: half of the device's resolution, in `unit`."""
    share: float = 1e-6
    """The same as a share of the value, added to `within`."""
    drift: float = 0.0
    """How far the truth may go by itself between a reading and a look at the truth: a bath cools."""
    doubts: bool = False
    """Whether the device can say that its reading is not to be trusted (:meth:`FarEnd.doubt`)."""
    moves: bool = False
    """Whether the device can say that its value is still in motion (:meth:`FarEnd.disturb`)."""

    def near(self, value: float, truth: float) -> bool:
        """Whether `value` is a sound reading of what was `truth` at that very moment."""
        return abs(value - truth) <= self.within + self.share * abs(truth)


@dataclass(frozen=True)
class Bench:
    """One driver ready to be examined.

    `far_end` makes the device that `config` describes. `senses` names every sensor, and every level whose status tells
    a measured value. `other` is a second device of the model at another address, where the model shares a bus.
    `commands` by point; a point that is not named gets commands of its kind that it accepts.
    """

    driver: type[Device]
    far_end: Callable[[DeviceConfig], FarEnd]
    config: DeviceConfig
    senses: Mapping[str, Sense] = field(default_factory=dict)
    other: DeviceConfig | None = None
    commands: Mapping[str, Sequence[Command]] = field(default_factory=dict)
    impostors: Mapping[str, Callable[[DeviceConfig], FarEnd]] = field(default_factory=dict)
    """Other devices that speak the same language, by name: the driver must not take any of them for its own."""
    untold: frozenset[Untold] = frozenset()
    """What the protocol cannot tell of a pump that another program started."""
    checksum: bool = False
    """Whether every reply carries a checksum, so that no wrong bit may change a reading."""
    no_worse: Mapping[str, str] = field(default_factory=dict)
    """Broken drivers (by name) that do no harm on this bench, and why: the device itself makes up for what is broken."""
    settles_s: float = 0.0
    """How long after a command was carried out its output may still be on the way (a valve that turns)."""
    memory_writes_a_day: int = 100
    """What the device's memory stands: 100 a day are 100,000 in 2.7 years."""

    @property
    def model(self) -> str:
        """The model's id."""
        return self.driver.model.id

    def __str__(self) -> str:
        return self.model
