"""What the engine needs of an electrode array: frames come in, pulses go out, and the array says what
became of them.

A device driver (or the composed simulator) fulfils :class:`ArrayDevice` by shape; nothing of the engine is
imported by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Frames = NDArray[np.int16]
"""Raw samples, shape (frames, electrodes), contiguous; one unit is `ArrayInfo.uv_per_unit` microvolts."""


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """What an array is and can do. `time_step_us` and `current_step_ua` are the grid of its stimulator.

    A waveform off that grid would be rounded by the hardware and lose its balance, so the governor refuses
    it. `lead_frames` is the shortest notice at which the array can still hit an exact frame.
    """

    name: str
    electrodes: int
    sample_rate_hz: float
    uv_per_unit: float
    material: Literal["Pt", "PtIr", "TiN"]
    diameter_um: float
    block_frames: int
    lead_frames: int
    time_step_us: float
    current_step_ua: float
    compliance_v: float
    simulated: bool


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a pulse: `duration_us` at `current_ua` (signed; 0 is a pause between phases)."""

    duration_us: float
    current_ua: float

    @property
    def charge_nc(self) -> float:
        """Signed charge in nC (µA × µs = pC)."""
        return self.current_ua * self.duration_us / 1000.0


@dataclass(frozen=True, slots=True)
class Impedance:
    """Magnitude at 1 kHz, and the frame at which it was measured."""

    kohm: float
    at_frame: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """One pulse on one electrode: to begin at `at_frame`, or as soon after as possible, never after
    `not_after`.
    """

    id: int
    electrode: int
    phases: tuple[Phase, ...]
    at_frame: int
    not_after: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the array says became of a pulse: the frame at which it began, or None when it was too late and
    dropped.
    """

    pulse: Pulse
    frame: int | None


@dataclass(frozen=True, slots=True)
class FrameBlock:
    """Consecutive frames from `first_frame` on, and the pulses that began in them (or were dropped)."""

    first_frame: int
    samples: Frames
    deliveries: tuple[Delivery, ...] = ()


class ArrayDevice(Protocol):
    """An electrode array. All methods are called from the engine's one real-time thread."""

    @property
    def info(self) -> ArrayInfo:
        """What the array is."""
        ...

    def read(self) -> FrameBlock:
        """Wait for the next block. Frames the hardware lost show as a jump of `first_frame`, never as other
        frames.

        Raises OSError when the array is gone.
        """
        ...

    def deliver(self, pulse: Pulse) -> None:
        """Take one pulse for exact delivery; a later block reports its fate."""
        ...

    def impedances(self) -> tuple[Impedance | None, ...]:
        """The latest known impedance of each electrode; None where none was measured."""
        ...

    def close(self) -> None:
        """Stop stimulating, ground the electrodes, let go of the hardware."""
        ...
