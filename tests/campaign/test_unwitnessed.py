"""What no sensor can show of a dose is excused, and nothing else; on a line with a flow sensor it is judged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from choroid.common.examples import bench_rig
from controller.hazards.loading import load_checked_rig
from controller.rig.description import Rig
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from sim.plant.faults import Faults
from verification.campaign.doses import Doses
from verification.campaign.findings import Findings
from verification.campaign.telling import Telling
from verification.campaign.troubles import Troubles

pytestmark = pytest.mark.virtual_time

WELLS = load_checked_rig(bench_rig().with_name("selector_wells.yaml"))
"""The line `dose` has a flow sensor that proves doses from 83 µL; `take` has none."""
BENCH = load_checked_rig(bench_rig())
PORTS = {"dose": {"supply": 5}, "take": {"takeoff": 5}, "draw": {}}


@dataclass
class Plant:
    """What the judge reads of a plant."""

    rig: Rig
    faults: Faults = field(default_factory=Faults)
    moved_ul: dict[str, float] = field(default_factory=dict)
    backwards_ul: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.moved_ul = dict.fromkeys(self.rig.lines, 0.0)
        self.backwards_ul = dict.fromkeys(self.rig.lines, 0.0)
        self.volumes_ul = {name: vessel.volume_ul for name, vessel in self.rig.vessels.items()}

    @property
    def arrived_ul(self) -> dict[str, float]:
        """All that a line takes in arrives."""
        return self.moved_ul

    def truth(self) -> Plant:
        """Return itself."""
        return self


class Judged:
    """A judge over a made-up plant."""

    def __init__(self, *faults: Fault, rig: Rig = WELLS) -> None:
        self.plant = Plant(rig)
        self.findings = Findings()
        troubles = Troubles(rig, faults)
        lab = cast(SimulatedLab, SimpleNamespace(plant=self.plant))
        self.judge = Doses(rig, lab, self.findings, troubles, Telling(self.findings, 5.0, troubles))
        self._n = 0

    async def dose(
        self, line: str, ul: float, moved: float, *, back: float = 0.0, air: tuple[float, float] = (0.0, 0.0)
    ) -> list[str]:
        """Give a dose in 10 s that ends as done; return the broken invariants. `air` has still to pass before and after."""
        self._n += 1
        self.plant.faults.bubble_ul[line] = air[0]
        self.judge.requested({"n": self._n, "args": {"volume_ul": ul}}, "run-1")
        self.judge.announced({"n": self._n, "ul": ul, "line": line, "ports": PORTS[line]}, "run-1")
        await asyncio.sleep(10.0)
        self.plant.moved_ul[line] += moved
        self.plant.backwards_ul[line] += back
        self.plant.faults.bubble_ul[line] = air[1]
        booked: dict[str, Any] = {"n": self._n, "ul": ul, "low": 0.8 * ul, "high": 1.2 * ul, "source": "command"}
        self.judge.settled("moved", {**booked, "end": "done"}, "run-1")
        self.judge.done({"n": self._n, "result": None}, "run-1")
        return [violation.invariant for violation in self.findings.all]

    def volumes(self, **errors_ul: float) -> list[str]:
        """Judge the vessels when the ledger is off by these volumes, each known exactly; return the broken invariants."""
        known = {
            name: SimpleNamespace(ul=ul + errors_ul.get(name, 0.0), sd_ul=0.0)
            for name, ul in self.plant.volumes_ul.items()
        }
        ledger = SimpleNamespace(volumes=lambda: known)
        journal = SimpleNamespace(entries=lambda **_: iter(()))
        self.judge.judge(cast(Any, SimpleNamespace(ledger=ledger, journal=journal)))
        return [violation.invariant for violation in self.findings.all]


LOST = ["mass balance", "no lost dose"]


@pytest.mark.parametrize(("line", "ul", "rig", "expected"), [
    ("take", 150.0, WELLS, []),  # nothing is there to see it
    ("dose", 80.0, WELLS, []),  # shorter than the flow sensor needs
    ("dose", 150.0, WELLS, LOST),  # the flow sensor must see it
    ("draw", 3000.0, BENCH, LOST),  # the balance must see it
])  # fmt: skip
async def test_air_is_excused_where_nothing_can_show_it(line: str, ul: float, rig: Rig, expected: list[str]) -> None:
    judged = Judged(Fault("bubble", line, 0.0, 0.0, 5000.0), rig=rig)
    assert await judged.dose(line, ul, 0.0, air=(5000.0, 5000.0 - ul)) == expected


@pytest.mark.parametrize(("line", "ul", "expected"), [
    ("take", 150.0, []), ("dose", 80.0, []), ("dose", 150.0, LOST),
])  # fmt: skip
async def test_a_motor_that_turns_backwards_is_excused_where_nothing_can_show_it(
    line: str, ul: float, expected: list[str]
) -> None:
    judged = Judged(Fault("reversed", f"reglo.{line}", 2.0, 4.0))
    assert await judged.dose(line, ul, ul, back=ul) == expected


@pytest.mark.parametrize(("amount", "expected"), [(0.9, []), (1.0, LOST)])
async def test_a_valve_between_two_ports_is_excused_and_one_at_a_port_is_not(
    amount: float, expected: list[str]
) -> None:
    assert await Judged(Fault("slipped", "taker", 2.0, 4.0, amount)).dose("take", 150.0, 0.0) == expected


@pytest.mark.parametrize("fault", [
    Fault("bubble", "dose", 0.0, 0.0, 500.0), Fault("reversed", "reglo.dose", 2.0, 4.0),
    Fault("reversed", "reglo.take", 900.0, 4.0), Fault("slipped", "giver", 2.0, 4.0, 0.9),
    Fault("occlusion", "take", 0.0, 60.0, 1.0), Fault("leak", "take", 0.0, 60.0, 500.0),
])  # fmt: skip
async def test_another_line_another_time_and_another_fault_excuse_nothing(fault: Fault) -> None:
    assert await Judged(fault).dose("take", 150.0, 0.0) == LOST


async def test_no_more_is_excused_than_the_air_that_has_passed() -> None:
    bubble = Fault("bubble", "take", 0.0, 0.0, 20.0)
    assert await Judged(bubble).dose("take", 150.0, 0.0, air=(20.0, 0.0)) == ["mass balance"]
    assert await Judged(bubble).dose("take", 150.0, 130.0, air=(20.0, 0.0)) == []


async def test_air_in_place_of_what_a_straw_would_have_drawn_as_air_is_counted_once() -> None:
    judged = Judged(Fault("bubble", "take", 0.0, 0.0, 700.0))
    assert await judged.dose("take", 700.0, 700.0, air=(700.0, 0.0)) == [], (
        "all of it has moved, so nothing was lacking"
    )
    assert judged.volumes(waste=700.0) == ["mass balance"]


async def test_the_ledger_may_be_off_by_what_the_dose_lacked_in_the_vessels_at_its_ends() -> None:
    for vessel, error_ul, expected in (
        ("waste", 150.0, []), ("w05", -150.0, []), ("w06", -150.0, ["mass balance"]), ("waste", 300.0, ["mass balance"]),
    ):  # fmt: skip
        judged = Judged(Fault("bubble", "take", 0.0, 0.0, 150.0))
        await judged.dose("take", 150.0, 0.0, air=(150.0, 0.0))
        assert judged.volumes(**{vessel: error_ul}) == expected, (vessel, error_ul)


async def test_the_straw_of_a_chamber_that_got_nothing_draws_as_much_less() -> None:
    judged = Judged(Fault("bubble", "dose", 0.0, 0.0, 80.0))
    assert await judged.dose("dose", 80.0, 0.0, air=(80.0, 0.0)) == []
    assert await judged.dose("take", 80.0, 0.0) == []
    sound = Judged()
    assert await sound.dose("dose", 80.0, 80.0) == []
    assert await sound.dose("take", 80.0, 0.0) == LOST
