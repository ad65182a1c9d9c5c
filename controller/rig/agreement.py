"""Which probes must agree, from what the rig file says: those in one circulating medium, and those whose balance is known."""

from __future__ import annotations

from dataclasses import dataclass

from controller.rig.description import Rig
from controller.rig.families import PH, TEMPERATURE, PointKind, by_thermostat, points_of
from controller.rig.probes import culture_places


@dataclass(frozen=True, slots=True)
class SameMedium:
    """Probes of one quantity in the same medium.

    They may differ by `tolerance` (their unit) for `for_s`; with `learnt`, from the difference that they had at first.
    """

    quantity: str
    unit: str
    points: tuple[str, ...]
    tolerance: float
    for_s: float
    learnt: bool


@dataclass(frozen=True, slots=True)
class BalancedProbe:
    """A probe that is compared with a balance: what must be so if it is right. `suspects` includes the other side."""

    name: str
    point: str
    unit: str
    suspects: tuple[str, ...]
    tolerance: float
    for_s: float
    learnt: bool
    by: str
    """The balance, as text."""


def same_medium(rig: Rig) -> tuple[SameMedium, ...]:
    """Return the groups of two or more probes that must agree.

    The spent vessel holds what was drawn from the loop; base that a batch gets there is returned or discarded within hours.
    """
    circulating = culture_places(rig)
    kidney = rig.organs.kidney
    drawn = {*circulating, *(() if kidney is None else (kidney.vessel,))}
    groups = (
        SameMedium("temperature", "degC", _at(rig, TEMPERATURE, circulating), 1.0, 900.0, learnt=True),
        SameMedium("pH", "pH", _at(rig, PH, drawn), 0.25, 7200.0, learnt=False),
    )
    return tuple(group for group in groups if len(group.points) > 1 and rig.organs.hearts)


def balanced(rig: Rig) -> tuple[BalancedProbe, ...]:
    """Return the probes that a regulator follows, each with the balance that shows its drift."""
    skin, lung = rig.organs.skin, rig.organs.lung
    found: list[BalancedProbe] = []
    if skin is not None:
        by = "the bath's set-point" if by_thermostat(rig) else "the heater's mean power"
        warm = (skin.temperature, skin.heater)
        found.append(BalancedProbe("heat", skin.temperature, "degC", warm, 1.2, 900.0, learnt=True, by=by))
    if lung is not None:
        suspects = (lung.ph, lung.co2, lung.air)
        found.append(
            BalancedProbe("acid", lung.ph, "pH", suspects, 0.15, 3600.0, learnt=False, by="CO2 and bicarbonate")
        )
        suspects = (lung.oxygen, lung.o2, lung.air)
        found.append(
            BalancedProbe("oxygen", lung.oxygen, "%", suspects, 15.0, 1800.0, learnt=True, by="oxygen in the gas")
        )
    return tuple(found)


def _at(rig: Rig, kind: PointKind, places: set[str]) -> tuple[str, ...]:
    standing = (
        (point, rig.devices[point.partition(".")[0]].at) for point, its in points_of(rig).items() if its == kind
    )
    return tuple(point for point, at in standing if at in places)
