"""Scores of rigs with several chambers, without probes, without a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.alarms.care import FailedCare
from controller.alarms.definitions import DEFINITIONS
from controller.alarms.states import Alarms
from controller.core.clock import Clock
from controller.core.state import ActuatorView, Reading, State, StateStore
from controller.estimator.estimator import estimator_of
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.rig.description import DeviceSpec, Nerves, Rig
from controller.vitals.scoring import Scoring
from controller.vitals.tissue import TissueWatch
from controller.vitals.vitals import VitalSigns, vital_signs, why_unscored
from drivers.commands import Guarantee, PumpStatus, Quality, Run
from nerves.summary import NervesSummary
from tests.composed_rigs import dishes, single_pass, two_hearts, two_plates
from tests.execution.world import EPOCH, RIG

pytestmark = pytest.mark.virtual_time


@contextmanager
def scored(rig: Rig, folder: Path) -> Iterator[VitalSigns | None]:
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(folder / "journal.db", clock, durable=False)
    try:
        ledger = Ledger(rig, journal, clock)
        estimator = estimator_of(rig, ledger=ledger, journal=journal, clock=clock, store=StateStore())
        yield vital_signs(rig, estimator, grade=lambda: None, journal=journal, clock=clock)
    finally:
        journal.close()


def state(readings: Mapping[str, tuple[float, str]], *running: str) -> State:
    now_s = asyncio.get_running_loop().time()
    run = Run(2000.0)
    seen = {point: Reading(value, unit, Quality.GOOD, now_s) for point, (value, unit) in readings.items()}
    view = ActuatorView(PumpStatus(True, 2000.0, 0.0, 4000.0), now_s, run, run, Guarantee.DEVICE)
    return State(now_s, "", seen, dict.fromkeys(running, view), {}, (), {})


def with_device(rig: Rig, **devices: DeviceSpec) -> Rig:
    return rig.model_copy(update={"devices": rig.devices | devices})


async def test_one_score_for_several_chambers_says_so(tmp_path: Path) -> None:
    with scored(two_plates(), tmp_path) as signs:
        assert signs is not None
        answer = signs.score(state({}), None, "").to_json()
    assert answer["of"] == "one score for the tissue of 2 chambers together (left, right)"


async def test_one_chamber_has_the_answer_as_before(tmp_path: Path) -> None:
    with scored(RIG, tmp_path) as signs:
        assert signs is not None
        assert "of" not in signs.score(state({}), None, "").to_json()


async def test_without_a_loop_and_an_array_there_is_no_score_and_a_reason(tmp_path: Path) -> None:
    for name, rig in (("dishes", dishes()), ("single", single_pass())):
        (tmp_path / name).mkdir()
        assert "nothing tells how the tissue is" in why_unscored(rig)
        with scored(rig, tmp_path / name) as signs:
            assert signs is None
            scoring = Scoring(signs, care=FailedCare(rig), record=lambda kind, body: pytest.fail(kind))
            scoring.update(state({}), None, Alarms(lambda kind, body: None, str))
            assert (scoring.latest, scoring.concerns) == (None, {})


async def test_an_array_is_scored_without_a_loop(tmp_path: Path) -> None:
    array = Nerves.model_validate({"link": "sim:nerves", "electrodes": 8, "sample_rate": "20 kHz", "diameter": "30 um"})
    rig = dishes().model_copy(update={"nerves": array})
    assert why_unscored(rig) == ""
    with scored(rig, tmp_path) as signs:
        assert signs is not None
        inputs = signs.score(state({"thermometer.temperature": (37.0, "degC")}), None, "").to_json()["care_rating"][
            "inputs"
        ]
    assert inputs["temperature_c"]["value"] == 37.0
    assert inputs["lactate_yield"] is None


async def test_N8_muted_electrodes_lower_the_quality_of_the_signal_and_are_not_silent(tmp_path: Path) -> None:
    array = Nerves.model_validate({"link": "sim:nerves", "electrodes": 8, "sample_rate": "20 kHz", "diameter": "30 um"})
    rig = dishes().model_copy(update={"nerves": array})

    def firing(dead: int) -> NervesSummary:
        states = ("dead",) * dead + ("ok",) * (8 - dead)
        rates = (0.0,) * dead + (2.0,) * (8 - dead)
        now_s = asyncio.get_running_loop().time()
        return NervesSummary(now_s, 2.0, 8 - dead, 8, rates, None, 8 - dead, states)

    with scored(rig, tmp_path) as signs:
        assert signs is not None
        known = {"thermometer.temperature": (37.0, "degC")}
        for _ in range(30 * 60):
            await asyncio.sleep(60.0)
            signs.score(state(known), firing(0), "")
        whole, muted, deaf = (signs.score(state(known), firing(dead), "").vitals.firing for dead in (0, 3, 5))
    assert whole.active_ratio is not None
    assert muted.active_ratio is not None
    assert muted.active_ratio.value == pytest.approx(whole.active_ratio.value)
    assert whole.signal_quality is not None
    assert muted.signal_quality is not None
    assert (whole.signal_quality.value, muted.signal_quality.value) == (1.0, 5 / 8)
    assert (deaf.active_ratio, deaf.rate_z, deaf.signal_quality) == (None, None, None)


async def test_a_probe_that_the_rig_lacks_does_not_keep_the_baseline_from_forming(tmp_path: Path) -> None:
    oxygen = DeviceSpec.model_validate({"model": "atlas-ezo-do", "link": "sim:oxygen", "at": "bottle"})
    outlet = DeviceSpec.model_validate({"model": "atlas-ezo-do", "link": "sim:outlet", "at": "two"})
    rig = with_device(two_hearts(), oxygen=oxygen, outlet=outlet)
    seen = {"oxygen.oxygen": (90.0, "%"), "outlet.oxygen": (80.0, "%")}
    with scored(rig, tmp_path) as signs:
        assert signs is not None
        for _ in range(60 * 60):
            await asyncio.sleep(60.0)
            scores = signs.score(state(seen, "icc.one", "icc.two"), None, "")
        assert scores.vitals.temperature_c is None
        assert scores.norms["oxygen_uptake"].value == pytest.approx(2000.0 * 10.0)  # the flow of its own heart only
        stopped = signs.score(state(seen, "icc.one"), None, "")
        assert stopped.vitals.oxygen_uptake is None


async def test_exchanged_oxygen_probes_are_no_loss_of_uptake_and_the_lower_one_counts(tmp_path: Path) -> None:
    """Tissue makes no oxygen: a higher value behind it than before it is a fault of the probes."""
    oxygen = DeviceSpec.model_validate({"model": "atlas-ezo-do", "link": "sim:oxygen", "at": "bottle"})
    outlet = DeviceSpec.model_validate({"model": "atlas-ezo-do", "link": "sim:outlet", "at": "two"})
    rig = with_device(two_hearts(), oxygen=oxygen, outlet=outlet)
    right = {"oxygen.oxygen": (90.0, "%"), "outlet.oxygen": (30.0, "%")}
    exchanged = {"oxygen.oxygen": (30.0, "%"), "outlet.oxygen": (90.0, "%")}
    within_error = {"oxygen.oxygen": (90.0, "%"), "outlet.oxygen": (92.0, "%")}
    found = []
    for number, seen in enumerate((right, exchanged, within_error)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with scored(rig, folder) as signs:
            assert signs is not None
            statement = signs.score(state(seen, "icc.one", "icc.two"), None, "").tissue()
            assert statement is not None
            found.append(statement.look)
    assert [look.oxygen_pct is not None and look.oxygen_pct.value for look in found] == [30.0, 30.0, 92.0]
    assert found[0].oxygen_uptake is not None
    assert found[1].oxygen_uptake is None
    assert found[2].oxygen_uptake is not None
    assert found[2].oxygen_uptake.value == 0.0, "no uptake within the error of the probes is a finding"


async def test_a_loss_of_viability_is_a_concern_and_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with scored(RIG, tmp_path) as signs:
        scoring = Scoring(signs, care=FailedCare(RIG), record=lambda kind, body: None)
        assert ("viability_loss", "tissue") not in scoring.concerns
        monkeypatch.setattr(TissueWatch, "lost", 0.12)
        assert scoring.concerns["viability_loss", "tissue"].startswith("about 12% of the viability is lost")
        assert {kind for kind, _ in scoring.concerns} <= DEFINITIONS.keys()
