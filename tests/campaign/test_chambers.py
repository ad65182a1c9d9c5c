"""The judge of the doses of single chambers notices each kind of spoiled dose, and is silent about a sound one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.rig.description import Rig
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from tests.execution.plate import PLATE
from tests.execution.two_media import TWO_MEDIA
from verification.campaign.chambers import ChamberDoses
from verification.campaign.findings import Findings
from verification.campaign.troubles import Troubles

pytestmark = pytest.mark.virtual_time


@dataclass
class Truth:
    """What the judge reads of a plant."""

    rig: Rig
    moved_ul: dict[str, float] = field(default_factory=dict)
    volumes_ul: dict[str, float] = field(default_factory=dict)
    held_ul: dict[str, float] = field(default_factory=dict)
    held: dict[str, dict[str, float]] = field(default_factory=dict)
    concentrations: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.moved_ul = dict.fromkeys(self.rig.lines, 0.0)
        self.volumes_ul = {name: vessel.volume_ul for name, vessel in self.rig.vessels.items()}
        self.held_ul = dict.fromkeys(self.rig.lines, 100.0)
        media = {
            name: self.rig.media[vessel.contains or next(iter(self.rig.media))]
            for name, vessel in self.rig.vessels.items()
        }
        self.concentrations = {
            name: {"glucose": medium.glucose_mm, "glutamine": medium.glutamine_mm} for name, medium in media.items()
        }
        self.fill(next(iter(self.rig.vessels)))

    def fill(self, vessel: str) -> None:
        """Fill all lines with the medium of a vessel."""
        self.held = {line: {s: 100.0 * mm for s, mm in self.concentrations[vessel].items()} for line in self.held_ul}


class Judged:
    """A judge over a made-up plant."""

    def __init__(self, rig: Rig = PLATE, faults: tuple[Fault, ...] = ()) -> None:
        self.truth = Truth(rig)
        self.turned: list[tuple[float, str, float]] = []
        plant = SimpleNamespace(truth=lambda: self.truth, turned_under_flow=self.turned)
        self.findings = Findings()
        lab = cast(SimulatedLab, SimpleNamespace(plant=plant))
        self.judge = ChamberDoses(rig, lab, self.findings, Troubles(rig, faults))

    def dose(self, line: str, ports: dict[str, int], passed: dict[str, float], **args: Any) -> list[str]:
        """Announce a dose, let volumes pass lines, settle it; return the broken invariants."""
        self.judge.requested({"n": 1, "args": {"volume_ul": 150.0, **args}}, "run-1")
        self.judge.announced({"n": 1, "act": 1, "line": line, "ports": ports}, "run-1")
        for name, ul in passed.items():
            self.truth.moved_ul[name] += ul
        self.judge.settled({"n": 1}, "run-1")
        self.judge.update(cast(Any, self.truth))
        return [violation.invariant for violation in self.findings.all]


async def test_a_dose_into_its_chamber_is_sound() -> None:
    assert Judged().dose("dose", {"supply": 3}, {"dose": 150.0, "to03": 150.0}) == []


async def test_a_dose_into_another_chamber_is_noticed() -> None:
    assert Judged().dose("dose", {"supply": 3}, {"dose": 150.0, "to04": 150.0}) == ["doses reach their chamber"]


async def test_a_dose_that_no_row_announces_is_noticed() -> None:
    judged = Judged()
    judged.truth.moved_ul["to07"] += 100.0
    judged.judge.update(cast(Any, judged.truth))
    assert [violation.invariant for violation in judged.findings.all] == ["doses reach their chamber"]


@pytest.mark.parametrize("level_ul", [300.0, 1600.0])
async def test_a_chamber_outside_its_bounds_is_noticed(level_ul: float) -> None:
    judged = Judged()
    judged.truth.volumes_ul["w03"] = level_ul
    judged.judge.update(cast(Any, judged.truth))
    assert [violation.invariant for violation in judged.findings.all] == ["chambers stay within their bounds"]


async def test_a_selector_that_turns_under_flow_is_noticed() -> None:
    judged = Judged()
    judged.turned.append((5.0, "giver.valve", 1000.0))
    judged.judge.update(cast(Any, judged.truth))
    assert [violation.invariant for violation in judged.findings.all] == ["selectors turn at rest"]


async def test_a_rotor_that_has_slipped_excuses_its_selector() -> None:
    judged = Judged(faults=(Fault("slipped", "giver", 0.0, 60.0, 1.0),))
    assert judged.dose("dose", {"supply": 3}, {"dose": 150.0, "to04": 150.0}) == []


def _unchanged(truth: Truth) -> None:
    truth.fill("rich")


def _of_the_other(truth: Truth) -> None:
    truth.fill("poor")


@pytest.mark.parametrize(("fills", "expected"), [(_unchanged, []), (_of_the_other, ["carry-over is bounded"])])
async def test_other_medium_in_the_lines_of_a_dose_is_noticed(
    fills: Callable[[Truth], None], expected: list[str]
) -> None:
    judged = Judged(TWO_MEDIA)
    fills(judged.truth)
    ports = {"choice": 1, "supply": 1}
    assert judged.dose("dose", ports, {"dose": 150.0, "to1": 150.0}) == expected
    if expected:
        allowed = Judged(TWO_MEDIA)
        fills(allowed.truth)
        assert allowed.dose("dose", ports, {"dose": 150.0, "to1": 150.0}, max_carry_over_pct=100.0) == []
