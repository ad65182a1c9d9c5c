"""The judge of doses counts only liquid where a pump draws air through a straw."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.composed_rigs import straw
from verification.campaign.doses import Doses
from verification.campaign.findings import Findings
from verification.campaign.troubles import Troubles

pytestmark = pytest.mark.virtual_time


class Judged:
    """A judge over a plant whose volumes the test sets."""

    def __init__(self) -> None:
        rig = straw()
        flows = [dict.fromkeys(rig.lines, 0.0) for _ in range(3)]
        self.moved, self.arrived = flows[0], flows[1]
        truth = SimpleNamespace(moved_ul=flows[0], arrived_ul=flows[1], backwards_ul=flows[2])
        plant = SimpleNamespace(truth=lambda: truth, faults=SimpleNamespace(bubble_ul={}))
        lab = cast(Any, SimpleNamespace(plant=plant))
        self.findings = Findings()
        telling = cast(Any, SimpleNamespace(last_s={}))
        self.judge = Doses(rig, lab, self.findings, Troubles(rig, ()), telling)

    def draws(self, asked_ul: float, truly_ul: float, **booked: float) -> list[str]:
        self.judge.requested({"n": 1, "args": {"volume_ul": asked_ul}}, "run-1")
        self.judge.announced({"n": 1, "act": 1, "line": "extract", "ul": asked_ul}, "run-1")
        self.moved["extract"] += truly_ul
        self.arrived["extract"] += truly_ul
        row = {
            "ul": asked_ul,
            "low": 0.97 * asked_ul,
            "high": 1.03 * asked_ul,
            "source": "pump",
            "end": "done",
            **booked,
        }
        self.judge.settled("moved", {"n": 1, **row}, "run-1")
        self.judge.done({"n": 1, "result": {}}, "run-1")
        return [violation.invariant for violation in self.findings.all]


async def test_air_that_a_straw_draws_is_no_lost_dose() -> None:
    assert Judged().draws(1_800.0, 0.0, liquid_ul=0.0) == []
    assert Judged().draws(1_800.0, 500.0, liquid_ul=480.0) == []


async def test_liquid_that_is_booked_and_does_not_move_is_found() -> None:
    assert Judged().draws(1_800.0, 0.0) == ["mass balance", "no lost dose"]
    assert Judged().draws(1_800.0, 1_800.0, liquid_ul=480.0) == ["no double dose", "mass balance"]
