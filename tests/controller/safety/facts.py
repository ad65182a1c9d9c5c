"""A bench rig at peace, as the kernel sees it; tests change one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from controller.rig.loading import load_rig
from controller.safety.limits import limits_of
from controller.safety.terms import Seen, View
from drivers.commands import Quality

RIG = load_rig(Path(__file__).resolve().parents[3] / "examples" / "rigs" / "bench.yaml")
LIMITS = limits_of(RIG)
AT_ONCE = replace(LIMITS, interlocks=tuple(replace(rule, debounce_s=0.0) for rule in LIMITS.interlocks))
"""The same without debounce, for tests of what follows once a level counts as left (test_debounce.py has the rest)."""
NOW_S = 10_000.0

TEMPERATURE, HEART_PRESSURE, FILTER_PRESSURE = "t_chamber.temperature", "p_heart.pressure", "p_filter.pressure"
HEATER, VALVE, HEART = "relay.heater", "relay.return_valve", "reglo.heart"
DRAW, RETURN, DISCARD, FEED = "reglo.draw", "reglo.return", "reglo.discard", "dose_fresh.pump"
AIR, CO2, O2, PH = "gas_air.flow", "gas_co2.flow", "gas_o2.flow", "ph_loop.ph"


class FittingUnit(str):
    """A unit that equals every other one: most tests are not about units."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True)
class Told:
    value: float
    quality: Quality = Quality.GOOD
    at_s: float = NOW_S - 1.0
    same_since_s: float = NOW_S - 1.0
    last_good: Told | None = None
    unit: str = field(default=FittingUnit(), repr=False)

    @property
    def good(self) -> Told | None:
        return self if self.quality is Quality.GOOD else self.last_good


@dataclass(frozen=True)
class Amount:
    ul: float
    sd_ul: float = 50.0


def peace(**changes: Any) -> View:
    """The view of a rig in which nothing is wrong, changed as told."""
    view = View(
        now_s=NOW_S,
        readings={
            TEMPERATURE: Told(37.0),
            HEART_PRESSURE: Told(5.0),
            FILTER_PRESSURE: Told(1.0),
            AIR: Told(47.0),
            CO2: Told(3.0),
            PH: Told(7.4),
            O2: Told(0.0),
        },
        volumes={
            name: Amount(vessel.volume_ul if name != "spent" else 20_000.0) for name, vessel in RIG.vessels.items()
        },
        seen={
            HEART: Seen(True, 2000.0, NOW_S - 1.0),
            VALVE: Seen(True, 1.0, NOW_S - 1.0),
            AIR: Seen(True, 47.0, NOW_S - 1.0),
            CO2: Seen(True, 3.0, NOW_S - 1.0),
            O2: Seen(False, 0.0, NOW_S - 1.0),
        },
    )
    return replace(view, **changes)


def with_reading(point: str, told: Told | None) -> View:
    readings = {name: reading for name, reading in peace().readings.items() if name != point}
    return peace(readings=readings if told is None else readings | {point: told})


def with_volumes(**volumes: Amount) -> View:
    return peace(volumes={**peace().volumes, **volumes})
