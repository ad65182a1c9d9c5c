"""The scores through the whole stack in virtual time: they fall when the truth falls, and say by what."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from choroid.simulation.rates import RateNerves
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.rig.loading import load_rig
from controller.vitals.rolling_baseline import HOUR_US, ROW
from controller.vitals.vitals import VitalSigns
from drivers.registry import MODELS
from protocols.care_rating import Vitals, care_rating
from sim.lab import SimulatedLab
from verification.sensitivity.truth import FAULTS, ScreenedFault, Trace, bottles, live, summary

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
RIG = load_rig(BENCH, models=MODELS)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = 12
pytestmark = pytest.mark.virtual_time


async def with_a_past(folder: Path) -> None:
    """A journal in which this organoid has been well for twelve hours: what an earlier process left."""
    lab = SimulatedLab(RIG, seed=1)
    assert RIG.nerves is not None
    nerves = await RateNerves(lab.plant, electrodes=RIG.nerves.electrodes, seed=1).summary()
    await lab.close()
    assert nerves is not None
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(folder / "journal.db", clock, durable=False)
    now_h = clock.utc_us() // HOUR_US
    values = {"firing_hz": nerves.firing_rate_hz, "active_share": nerves.active_electrodes / nerves.electrodes}
    for ago in range(HOURS, 0, -1):
        anchors = {name: [now_h - ago, value] for name, value in values.items()}
        body = {"hour": now_h - ago, "values": values, "left_out": {}, "anchors": anchors, "extremes": {}}
        journal.append(ROW, body)
    journal.append("note.tissue", {"ldh": 1.2, "growth": -9})
    journal.close()


async def lived(folder: Path, fault: ScreenedFault, hours: float) -> Trace:
    await with_a_past(folder)
    return await live(RIG, fault, folder, 1, hours, EPOCH)


def part(scores: dict[str, Any], name: str) -> float:
    return float(scores["care_rating"]["parts"][name]["score"])


async def test_the_score_falls_with_the_truth_without_glucose(tmp_path: Path) -> None:
    trace = await lived(tmp_path, ScreenedFault("no glucose", rig=bottles(glucose_mm=0.0)), 2.0)
    found = summary(trace)
    assert found["viability_true"][1] < found["viability_true"][0] - 0.1
    assert found["care_rating_fell"]
    assert found["care_rating_truth_in_interval"] == 1.0
    first, last = trace[0][2], trace[-1][2]
    assert part(last, "activity") < part(first, "activity")
    assert last["baseline"]["firing_hz"]["hours"] >= HOURS, "the baseline of the earlier process was taken up"
    assert (part(last, "ldh"), last["care_rating"]["parts"]["growth"]["coverage"]) == (1.0, 0.0), "as found by hand"
    again = care_rating(Vitals.from_json(last["care_rating"]["inputs"]))
    assert again.score == last["care_rating"]["score"], "a journalled score can be recomputed"


async def test_a_burnt_heater_shuts_the_gate(tmp_path: Path) -> None:
    trace = await lived(tmp_path, next(each for each in FAULTS if "heater" in each.name), 1.1)
    last = trace[-1][2]["care_rating"]
    assert (last["score"], last["high"], last["limiting"]) == (0.0, 0.0, "temperature")
    rows = Journal(tmp_path / "journal.db", Clock(follow_system=False, epoch=EPOCH), durable=False)
    left_out = [row.body["left_out"] for row in rows.entries(kinds=(ROW,)) if "firing_hz" in row.body["left_out"]]
    alarms = [row.body["alarm"] for row in rows.entries(kinds=("alarm.raised",))]
    rows.close()
    assert left_out, "the cold hour was kept out of the baseline"
    assert "temperature:t_chamber.temperature" in alarms


def test_vital_signs_know_nothing_of_tasks() -> None:
    """N10: nothing that the scores are gathered from could tell how a task goes."""
    names = set(VitalSigns.__init__.__annotations__) | set(VitalSigns.score.__annotations__)
    assert not {name for name in names if {"task", "reward", "score"} & set(name.split("_"))}
