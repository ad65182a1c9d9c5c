"""Pump tubing: what is fitted in each head, how many revolutions it has made, and how many it may make. Pure.

Roller pumps wear their tubing out by turning, so its age is counted in revolutions. A pump's own total is the number of
its revolutions times what it believes one to move, so revolutions follow from it for every model; a total that went back
means that the pump lost power and began anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from controller.rig.description import Rig, TubingSpec

LIFE_REVOLUTIONS: Mapping[str, float] = {
    "silicone": 3e6,
    "tygon": 3e6,
    "santoprene": 10e6,
    "pharmed-bpt": 10e6,
    "other": 3e6,
}
"""Revolutions until tubing is to be replaced, by its material. Cautious estimates of ours, not any maker's figures:
docs/ledger.md says where they come from; `life` in the rig file replaces them."""
UL_PER_REVOLUTION, BORE_EXPONENT = 81.0, 2.08
"""What a revolution moves through tubing of 1 mm bore (µL), and how that grows with the bore: fitted to table 9-2 of the
OMEGA FPU5 manual, bores of 1 to 4 mm. Only used for pumps that do not tell it themselves."""


@dataclass(frozen=True, slots=True)
class Tubing:
    """One piece of tubing in one head since it was fitted. `bore_mm` is None where nobody has told it."""

    pump: str
    material: str
    bore_mm: float | None
    life_revolutions: float
    installed_utc: str = ""
    """Empty for what was there when the journal began."""
    by: str = ""
    lot: str = ""
    revolutions: float = 0.0

    @property
    def used(self) -> float:
        """Share of its life that is over; beyond 1 it is overdue."""
        return self.revolutions / self.life_revolutions

    def turned(self, revolutions: float) -> Tubing:
        """After so many revolutions more."""
        return replace(self, revolutions=self.revolutions + revolutions)

    def to_json(self) -> dict[str, Any]:
        """Plain data, with what is left."""
        return {
            **asdict(self),
            "remaining_revolutions": max(self.life_revolutions - self.revolutions, 0.0),
            "used": self.used,
        }


def fitted(rig: Rig, pump: str) -> Tubing:
    """What the rig file says is in a pump's head."""
    spec = rig.upkeep.tubing.get(pump, TubingSpec())
    bore_mm = spec.bore_mm if spec.bore_mm is not None else bore_of(rig, pump)
    life = spec.life_revolutions if spec.life_revolutions is not None else LIFE_REVOLUTIONS[spec.material]
    return Tubing(pump, spec.material, bore_mm, life)


def bore_of(rig: Rig, pump: str) -> float | None:
    """The inner diameter (mm) that the pump reckons with, as far as the rig file says."""
    name, _, point = pump.partition(".")
    device = rig.devices[name]
    for channel in device.channels.values():
        if channel.point == point:
            return channel.tubing_mm
    told = device.settings.get("tubing_mm")
    return float(told) if isinstance(told, int | float) and not isinstance(told, bool) else None


def revolution_of(bore_mm: float) -> float:
    """About what one revolution moves (µL), for a pump that does not tell it."""
    return float(UL_PER_REVOLUTION * bore_mm**BORE_EXPONENT)


def moved_since(before_ul: float | None, now_ul: float) -> float:
    """What a pump has moved by its own total since it was last looked at; a total that went back began at nothing."""
    if before_ul is None:
        return 0.0
    return now_ul - before_ul if now_ul >= before_ul - 1e-6 else now_ul
