"""What the API says about any rig: tissue by chamber, hearts by name, and nothing of what the rig does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.rig.loading import load_rig
from dashboards.auth import Role
from dashboards.views import rig_view
from tests.browser.sample_rigs import sixteen, unequal_branches
from tests.dashboards.world import world

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = ROOT / "tests" / "rigs"
FILES = sorted([*FOREIGN.glob("*.yaml"), *(ROOT / "examples" / "rigs").glob("*.yaml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_rig_is_described_as_declared(path: Path) -> None:
    rig = load_rig(path)
    view = rig_view(rig, user="vera", role="viewer")
    assert [each.chamber for each in view.tissue] == list(rig.tissue)
    assert [each.name for each in view.hearts] == list(rig.organs.hearts)
    assert {vessel["name"] for vessel in view.schematic["vessels"]} == rig.vessels.keys()
    assert {junction["name"] for junction in view.schematic["junctions"]} == rig.junctions.keys()


def test_the_bench_rig_keeps_its_keys() -> None:
    view = rig_view(load_rig(ROOT / "examples" / "rigs" / "bench.yaml"), user="vera", role="viewer")
    (tissue,), (heart,) = view.tissue, view.hearts
    assert tissue.model_dump(include={"count", "diameter_mm", "age_d", "chamber"}) == {
        "count": 16, "diameter_mm": 2.5, "age_d": 60.0, "chamber": "chamber",
    }  # fmt: skip
    assert (heart.pump, heart.flow_ul_min, view.mass_point) == ("reglo.heart", 2000.0, "balance.mass")
    assert [(goal.point, goal.setpoint, goal.high) for goal in view.goals] == [
        ("t_chamber.temperature", 37.0, 38.5), ("do_loop.oxygen", 90.0, None), ("ph_loop.ph", 7.35, None),
        ("p_heart.pressure", None, 60.0), ("p_filter.pressure", None, 80.0),
    ]  # fmt: skip


def test_a_branch_has_the_share_that_its_resistance_leaves_it() -> None:
    view = rig_view(unequal_branches(), user="vera", role="viewer")
    (heart,) = view.hearts
    assert heart.chambers == pytest.approx({"plate_a": 2 / 3, "plate_b": 1 / 3})
    shares = {line["name"]: line["share"] for line in view.schematic["lines"]}
    assert shares == {
        "heart": None, "branch_a": pytest.approx(2 / 3), "branch_b": pytest.approx(1 / 3), "back_a": 1.0, "back_b": 1.0,
    }  # fmt: skip
    assert (view.mass_point, view.return_valve) == (None, None)


def test_each_chamber_has_the_goal_of_its_own_thermometer() -> None:
    goals = {goal.point: goal.setpoint for goal in rig_view(sixteen(), user="vera", role="viewer").goals}
    assert {point for point in goals if point.startswith("t")} == {f"t{n}.temperature" for n in range(1, 17)}
    assert set(goals.values()) >= {37.0}


@pytest.mark.parametrize("name", ["dish", "two_plates", "plates_192", "two_hearts_one_chamber"])
async def test_rig_state_and_ledger_are_answered_without_loop_and_kidney(name: str) -> None:
    async with world(rig=FOREIGN / f"{name}.yaml") as w, w.http(Role.VIEWER) as page:
        for path in ("rig", "state", "ledger", "grade", "viability", "decisions"):
            answer = await page.get(f"/api/{path}")
            assert answer.status_code == 200, (path, answer.text[:300])
        async with w.socket(Role.VIEWER) as socket:
            body = await socket.body()
        assert body["whole"] is True
        assert body["volumes"].keys() >= load_rig(FOREIGN / f"{name}.yaml").vessels.keys()
