"""The stimulation envelope: every limit that a pulse must keep, by electrode material.

Charge-injection limits found in the literature differ by three orders of magnitude for one and the same
metal, and no organoid-specific damage limit is published; these defaults are engineering judgement at the
cautious end: 50 µC/cm² for platinum (below the classic 50 to 150 µC/cm²), 70 µC/cm² for titanium nitride
(as found in vivo by the study that found 18 µC/cm² for PtIr, PMC4518750), Shannon's k ≤ 1.5 (damage is
reported from 1.85 on; Shannon 1992). Shannon's rule alone says nothing about microelectrodes (Cogan et al.
2016), so charge, density, current and rate have limits of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal

MAX_PHASES: Final = 7
"""Phases and pauses of one pulse."""
MAX_REVERSALS: Final = 2
"""Changes of sign within one pulse: with three it would be two pulses that count as one."""
DENSITY_UC_CM2: Final = {"Pt": 50.0, "PtIr": 18.0, "TiN": 70.0}


@dataclass(frozen=True, slots=True)
class Envelope:
    """Limits in the unit of each name; a limit is kept when the value is not above it.

    Raises ValueError when a limit is not a positive finite number or lies above what no operator may sign
    (:data:`HARD`).
    """

    charge_nc: float = 1.0
    """Charge that a pulse moves before it is taken back (:func:`one_sided_nc`): that of a phase, if there are two."""
    density_uc_cm2: float = 50.0
    """The same charge over the electrode's geometric area."""
    shannon_k: float = 1.5
    """log10(density in µC/cm²) + log10(charge in µC), of the same charge."""
    current_ua: float = 3.0
    phase_us_min: float = 20.0
    phase_us_max: float = 500.0
    pause_us_max: float = 500.0
    """Pause between the phases."""
    pulse_us_max: float = 1500.0
    """Whole pulse, in which charge waits until it is taken back: as two phases with a pause. At the highest rate the limiter
    of the card process has no reason to act."""
    net_share: float = 0.01
    """Net charge as a share of the phase charge, or `net_pc`, whichever is larger."""
    net_pc: float = 5.0
    negative_first: bool = True
    voltage_v: float = 0.9
    """Current times impedance; the array's own compliance applies too."""
    impedance_kohm_min: float = 10.0
    impedance_kohm_max: float = 2000.0
    impedance_age_s: float = 86_400.0
    rate_hz: float = 200.0
    """Pulses on one electrode, as the closest distance of two."""
    at_once: int = 8
    """Electrodes with overlapping pulses."""
    electrode_nc_s: float = 10.0
    requester_nc_s: float = 60.0
    organoid_nc_s: float = 80.0
    electrode_pulses_min: float = 2400.0
    requester_pulses_min: float = 12_000.0
    organoid_pulses_min: float = 20_000.0
    duty: float = 0.5
    """Share of the seconds of any hour in which the tissue may be stimulated at all."""
    session_s: float = 1200.0
    """Longest time without a rest."""
    rest_s: float = 300.0
    organoid_nc_h: float = 60_000.0
    """Charge to the whole organoid in any hour: an eighth of what the budget of a second would let through [P]."""
    day_h: float = 16.0
    """Hours of any 24 with stimulation: at least 8 h a day are free of it (biology.md §4 [P])."""
    ahead_s: float = 5.0
    """How far in the future a pulse may be asked for."""
    tolerance_s: float = 0.01
    """How much later than asked a pulse may at most be allowed to come."""
    pulses_per_request: int = 256
    """Pulses times electrodes in one request."""
    pending: int = 4096
    """Pulses accepted and not yet delivered."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool):
                continue
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"envelope: {field.name} is {value}; write a positive finite number")
            hard = HARD.get(field.name)
            if hard is not None and value > hard:
                raise ValueError(f"envelope: {field.name} is {value:g}; no operator may sign more than {hard:g}")

    @classmethod
    def of(cls, material: Literal["Pt", "PtIr", "TiN"]) -> Envelope:
        """Return the default envelope of electrodes of this material."""
        return cls(density_uc_cm2=DENSITY_UC_CM2[material])


@dataclass(frozen=True, slots=True)
class AgentBudget:
    """Limits one agent within the envelope's budgets; it can only tighten them."""

    nc_s: float = math.inf
    """Charge in any second."""
    pulses_min: float = math.inf
    """Pulses in any minute."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ValueError(f"budget: {field.name} is {value}; write a positive number")


UNLIMITED: Final = AgentBudget()
"""The budget of an agent that has none of its own: the envelope's."""

HARD: Final = {
    "charge_nc": 3.0,
    "density_uc_cm2": 150.0,
    "shannon_k": 1.85,
    "current_ua": 20.0,
    "net_share": 0.05,
    "net_pc": 20.0,
    "pulse_us_max": 1500.0,
    "rate_hz": 200.0,
    "at_once": 16,
    "voltage_v": 2.0,
    "impedance_age_s": 7 * 86_400.0,
    "duty": 0.9,
    "session_s": 1200.0,
    "day_h": 20.0,
    "ahead_s": 60.0,
    "tolerance_s": 0.01,
    "pulses_per_request": 1024,
    "pending": 65_536,
}
"""What no configuration may exceed. The charge limit is that of the CL1; the rest is engineering judgement. The
limiter of the card process drops what comes after 1,320 s without a rest, so no envelope may allow a longer session.
"""


def disc_area_cm2(diameter_um: float) -> float:
    """Return the geometric area of a disc electrode (cm²)."""
    return math.pi * (diameter_um * 1e-4) ** 2 / 4.0


def one_sided_nc(charges_nc: Sequence[float]) -> float:
    """Return the largest charge that a pulse moves before it is taken back (nC).

    Phases of one sign that follow each other, also over a pause, count together; and so does what has stayed of all phases so
    far. Of a pulse of two phases it is the charge of the larger one. What a weak phase between two others takes back is not
    credited to them: limits of charge are published for one phase and its reversal (Shannon 1992; Cogan 2008).

    Args:
        charges_nc: Signed charge of each phase (nC), pauses included.

    Returns:
        The magnitude (nC); 0 without phases.
    """
    largest = side = moved = 0.0
    for charge in charges_nc:
        side = side + charge if side * charge >= 0.0 else charge
        moved += charge
        largest = max(largest, abs(side), abs(moved))
    return largest


def shannon_k(charge_nc: float, area_cm2: float) -> float:
    """Return Shannon's k of one phase: log10 D + log10 Q with D in µC/cm² and Q in µC."""
    charge_uc = charge_nc * 1e-3
    if charge_uc <= 0:
        return -math.inf
    return math.log10(charge_uc / area_cm2) + math.log10(charge_uc)
