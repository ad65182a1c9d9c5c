"""Pump tubing: what is fitted in each head, its revolutions so far, and its life. Pure.

Roller pumps wear their tubing out by turning, so its age is counted in revolutions. A pump's total is the number of
revolutions times its nominal volume of one, so revolutions follow from it for every model. A total that went back means that
the pump lost power and started again at zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from controller.rig.description import Rig
from controller.rig.upkeep import TubingSpec

LIFE_REVOLUTIONS: Mapping[str, float] = {
    "silicone": 3e6,
    "tygon": 3e6,
    "santoprene": 10e6,
    "pharmed-bpt": 10e6,
    "other": 3e6,
}
"""Life of tubing in revolutions, by material. Cautious estimates of this project, not maker's figures: see docs/ledger.md;
`life` in the rig file replaces them."""
UL_PER_REVOLUTION, BORE_EXPONENT = 81.0, 2.08
"""Volume of a revolution with tubing of 1 mm bore (µL), and its growth with the bore: fitted to table 9-2 of the OMEGA FPU5
manual, bores of 1 to 4 mm. Only for pumps that do not report it."""


@dataclass(frozen=True, slots=True)
class Tubing:
    """A piece of tubing in one head since it was fitted. `bore_mm` is None if unknown."""

    pump: str
    material: str
    bore_mm: float | None
    life_revolutions: float
    installed_utc: str = ""
    """Empty for the tubing that was fitted when the journal began."""
    by: str = ""
    lot: str = ""
    revolutions: float = 0.0

    @property
    def used(self) -> float:
        """Used share of its life; above 1 it is overdue."""
        return self.revolutions / self.life_revolutions

    def turned(self, revolutions: float) -> Tubing:
        """Return the tubing after further revolutions."""
        return replace(self, revolutions=self.revolutions + revolutions)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with the remaining revolutions."""
        return {
            **asdict(self),
            "remaining_revolutions": max(self.life_revolutions - self.revolutions, 0.0),
            "used": self.used,
        }


def fitted(rig: Rig, pump: str) -> Tubing:
    """Return the tubing in a pump's head by the rig file."""
    spec = rig.upkeep.tubing.get(pump, TubingSpec())
    bore_mm = spec.bore_mm if spec.bore_mm is not None else bore_of(rig, pump)
    life = spec.life_revolutions if spec.life_revolutions is not None else LIFE_REVOLUTIONS[spec.material]
    return Tubing(pump, spec.material, bore_mm, life)


def bore_of(rig: Rig, pump: str) -> float | None:
    """Return the bore (mm) that the pump assumes, as far as the rig file says."""
    name, _, point = pump.partition(".")
    device = rig.devices[name]
    for channel in device.channels.values():
        if channel.point == point:
            return channel.tubing_mm
    bore_mm = device.settings.get("tubing_mm")
    return float(bore_mm) if isinstance(bore_mm, int | float) and not isinstance(bore_mm, bool) else None


def revolution_of(bore_mm: float) -> float:
    """Return the approximate volume of one revolution (µL), for a pump that does not report it."""
    return float(UL_PER_REVOLUTION * bore_mm**BORE_EXPONENT)


def moved_since(before_ul: float | None, now_ul: float) -> float:
    """Return what a pump has moved by its total since the last reading; a total that went back began at zero."""
    if before_ul is None:
        return 0.0
    return now_ul - before_ul if now_ul >= before_ul - 1e-6 else now_ul
