"""Results of at-line analysers: each becomes one assay, whatever restarts; doubtful ones are kept and ask for a person."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.alarms.states import AlarmState
from controller.analysers.analysers import RECEIVED, SETTLED, Analysers, SampleIdError, parse_sample_id
from controller.journal.terms import JournalUnwritten
from controller.rig.description import DeviceSpec, Rig
from drivers.errors import NoReply
from drivers.results import AnalyserResult, ResultSource, SampleTerms
from sim.devices.roche_cedex import ANALYSIS_S, RocheCedex
from sim.lab import SimulatedLab
from tests.execution.test_assays import bench, the_assays, the_estimator
from tests.execution.test_whole_stack import controlled, until
from tests.execution.world import BENCH, EPOCH, RIG, Controller

SETTINGS: dict[str, float | bool | str] = {
    "sample_ul": 150.0,
    "lactate_test": 12.0,
    "glucose_test": 11.0,
    "ammonia_test": 31.0,
    "ldh_test": 8.0,
    "zone": "UTC",
    "timeout_s": 10.0,
}
NOON = datetime(2026, 3, 1, 12, 0)  # noqa: DTZ001  (the clock of a laboratory)


def with_cedex(rig: Rig = RIG, **more: float | bool | str) -> Rig:
    spec = DeviceSpec(model="roche-cedex-bio-ht", link="sim:cedex", every="60 s", settings=SETTINGS | more)
    return rig.model_copy(update={"devices": {**rig.devices, "cedex": spec}})


class Listed(ResultSource):
    """Results that wait in a list."""

    def __init__(self, *results: AnalyserResult, shared: bool = False) -> None:
        self.terms = SampleTerms(150.0, (("S", "spent"),), "UTC", shared)
        self.waiting = list(results)
        self.silent = False

    async def fetch(self) -> AnalyserResult | None:
        if self.silent:
            raise NoReply("no reply", where="cedex", cause="it is off", action="switch it on")
        return self.waiting[0] if self.waiting else None

    def keep(self, result: AnalyserResult) -> None:
        self.waiting.remove(result)


def result(analyte: str = "lactate", value: float | None = 0.4, **more: Any) -> AnalyserResult:
    plain = AnalyserResult(f"1|{analyte}|{value}", "loop-0030", analyte, "12", value, "mmol/L", None, raw="as sent")
    return replace(plain, **more)


def analysers(controller: Controller, source: ResultSource) -> Analysers:
    assays = the_assays(controller)
    return Analysers(
        with_cedex(),
        {"cedex": source},
        enter=assays.enter,
        book=assays.book,
        journal=controller.journal,
        clock=controller.clock,
        alarm=controller.alarm,
        start=lambda name, work: asyncio.create_task(work, name=name).add_done_callback(lambda task: task.result()),
    )


async def taken(controller: Controller, *results: AnalyserResult, shared: bool = False) -> list[dict[str, Any]]:
    """Fetch these results; return what became of them."""
    analysers(controller, source := Listed(*results, shared=shared)).update(controller.clock.now_s())
    await asyncio.sleep(1.0)
    assert not source.waiting
    return [dict(row.body) for row in controller.journal.entries(kinds=(SETTLED,))]


def used(controller: Controller) -> list[tuple[str, float]]:
    rows = controller.journal.entries(kinds=("assay",))
    return [(row.body["analyte"], row.body["value"]) for row in rows if row.body["used"]]


@pytest.mark.virtual_time
async def test_a_sample_of_the_loop_corrects_the_estimate_and_is_booked_once(tmp_path: Path) -> None:
    rig = with_cedex()
    lab = SimulatedLab(rig, seed=3)
    cedex = lab.devices["cedex"]
    assert isinstance(cedex, RocheCedex)
    cedex.clock_zero = EPOCH.replace(tzinfo=None)
    async with controlled(lab, tmp_path, rig=rig) as controller:
        await asyncio.sleep(1800.0)
        truth = lab.plant.truth().concentrations["loop"]
        contents = {name: truth[name] for name in ("lactate", "glucose", "ammonia")} | {"ldh": 12.0}
        cedex.load("LOOP-0030", contents)
        await asyncio.sleep(ANALYSIS_S + 130.0)
        rows = [row.body for row in controller.journal.entries(kinds=("assay",))]
        assert [row["analyte"] for row in rows] == ["lactate", "glucose", "ammonia", "ldh"]
        assert all(row["used"] and row["taken_utc"].startswith("2026-01-01T00:30:00") for row in rows)
        assert {row["user"] for row in rows} == {"analyser cedex"}
        assert rows[1]["value"] == pytest.approx(contents["glucose"], rel=0.1)
        assert controller.ledger.totals.sampled_ul == 150.0
        settled = [row.body["outcome"] for row in controller.journal.entries(kinds=(SETTLED,))]
        assert settled == ["used"] * 4
    async with controlled(lab, tmp_path, rig=rig) as again:
        cedex.send_again()
        await until(lambda: not cedex.waiting)
        await asyncio.sleep(130.0)
        assert len(list(again.journal.entries(kinds=("assay",)))) == 4
        assert len(list(again.journal.entries(kinds=(RECEIVED,)))) == 4
        assert again.ledger.totals.sampled_ul == 150.0
    await lab.close()


@pytest.mark.virtual_time
async def test_C3_an_analyser_that_is_off_holds_up_nothing_and_is_told_after_an_hour(tmp_path: Path) -> None:
    rig = with_cedex()
    lab = SimulatedLab(rig, seed=3)
    lab.devices["cedex"].power_off()
    async with controlled(lab, tmp_path, rig=rig) as controller:
        assert asyncio.get_running_loop().time() < 10.0
        await asyncio.sleep(1800.0)
        assert lab.plant.truth().flows_ul_min[rig.organs.hearts["heart"].line] > 0.0

        def told() -> list[AlarmState]:
            return [alarm.state for alarm in controller.alarms.active() if alarm.kind == "analyser_silent"]

        assert told() == []
        await asyncio.sleep(3600.0)
        assert told() == [AlarmState.UNACKNOWLEDGED]
        lab.devices["cedex"].power_on()
        await until(lambda: told() == [AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED], 900.0)
    await lab.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize("entered", [False, True], ids=["before the assay", "after the assay"])
async def test_E4_a_process_that_ended_between_receiving_and_settling_enters_the_result_once(
    entered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await bench(tmp_path / "j.db")
    with monkeypatch.context() as dying:
        dying.setattr(Analysers, "_settle", lambda self, body: None)
        assert await taken(controller, result()) == []
    if entered:
        taken_at = EPOCH.replace(minute=30).isoformat()
        the_assays(controller).enter("lactate", "0.4 mM", vessel="loop", taken=taken_at, user="analyser cedex")
    assert [row["outcome"] for row in await taken(controller)] == ["used"]
    assert used(controller) == [("lactate", 0.4)]
    assert [row["outcome"] for row in await taken(controller, result())] == ["used"], "it comes again and is known"
    assert used(controller) == [("lactate", 0.4)]
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_gross_contradiction_is_kept_unused_and_asks_for_a_person(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    state = the_estimator(controller).state
    (row,) = await taken(controller, result(value=8.2))
    assert row["outcome"] == "not used"
    assert "contradicts the estimate" in row["why"]
    assert the_estimator(controller).state.interval("loop", "lactate_mm").value < 2.0 or state is None
    assert [kind for kind, _, _ in controller.alarms] == ["assay_doubtful"]
    assert used(controller) == []
    the_assays(controller).enter(
        "lactate", "8.2 mM", vessel="loop", taken=EPOCH.replace(minute=30).isoformat(), user="anna", sure=True
    )
    assert used(controller) == [("lactate", 8.2)]
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"flags": ("flag CALC 30",)}, "flag CALC 30"),
        ({"value": None, "flags": ("the analyser has no result",)}, "no result"),
        ({"value": 820.0}, "cannot be"),
        ({"unit": "furlong"}, "lactate"),
        ({"unit": ""}, "no unit"),
        ({"sample": "loop-0230-1130"}, "no day of the year"),
        ({"sample": "loop"}, "when it was taken"),
        ({"sample": "reservoir-0030"}, "not estimated"),
        ({"sample": "lop-0030"}, "names no vessel"),
        ({"sample": "loop-0102-0030"}, "still to come"),
    ],
)
async def test_I2_what_cannot_be_believed_is_kept_not_used_and_asks_for_a_person(
    more: dict[str, Any], says: str, tmp_path: Path
) -> None:
    controller = await bench(tmp_path / "j.db")
    (row,) = await taken(controller, result(**more))
    assert row["outcome"] != "used"
    assert says in row["why"]
    ((kind, source, detail),) = controller.alarms
    assert (kind, source) == ("assay_doubtful", "lactate by cedex")
    assert "Likely cause:" in detail
    assert "Next:" in detail
    assert used(controller) == []
    kept = controller.journal.last(RECEIVED)
    assert kept is not None
    assert kept.body["raw"] == "as sent"
    await controller.gone()


@pytest.mark.virtual_time
async def test_the_sample_of_a_doubtful_result_is_booked_too_and_once(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    await taken(controller, result(flags=("flag S 1",)))
    assert controller.ledger.totals.sampled_ul == 150.0
    await taken(controller, result("glucose", 20.5), result("ldh", 9.0, unit="U/l"))
    assert controller.ledger.totals.sampled_ul == 150.0
    (*_, other) = await taken(controller, result("", 7.0))
    assert other["outcome"] == "recorded", "a test that the rig file does not name"
    assert used(controller) == [("glucose", 20.5), ("ldh", 9.0)]
    await controller.gone()


@pytest.mark.virtual_time
async def test_D2_a_result_that_is_not_on_the_disk_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request would let the analyser forget it."""
    controller = await bench(tmp_path / "j.db")
    source = Listed(result())

    async def full(seq: int) -> None:
        raise JournalUnwritten("the disk is full")

    with monkeypatch.context() as disk:
        disk.setattr(controller.journal, "durable", full)
        analysers(controller, source).update(controller.clock.now_s())
        await asyncio.sleep(1.0)
        assert len(source.waiting) == 1
    analysers(controller, source).update(controller.clock.now_s())
    await asyncio.sleep(1.0)
    assert source.waiting == []
    assert used(controller) == [("lactate", 0.4)]
    await controller.gone()


@pytest.mark.virtual_time
async def test_samples_of_others_on_a_shared_analyser_are_recorded_without_an_alarm(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    (row,) = await taken(controller, result(sample="CHO-77"), shared=True)
    assert row["outcome"] == "of another rig"
    assert controller.alarms == []
    assert controller.ledger.totals.sampled_ul == 0.0
    await controller.gone()


@pytest.mark.virtual_time
async def test_F6_units_of_the_analyser_are_converted(tmp_path: Path) -> None:
    controller = await bench(tmp_path / "j.db")
    await taken(controller, result("glucose", 3.69, unit="g/L"), result("lactate", 36.0, unit="mg/L"))
    assert [name for name, _ in used(controller)] == ["glucose", "lactate"]
    assert [value for _, value in used(controller)] == pytest.approx([20.482, 0.4042], abs=1e-3)
    await controller.gone()


@pytest.mark.parametrize(
    ("text", "place", "when"),
    [
        ("loop-1040", "loop", "2026-03-01 10:40"),
        ("LOOP-1040", "loop", "2026-03-01 10:40"),
        ("s 1204", "spent", "2026-03-01 12:04"),
        ("loop-2350", "loop", "2026-02-28 23:50"),
        ("loop-0227-0915", "loop", "2026-02-27 09:15"),
        ("loop-1231-2350", "loop", "2025-12-31 23:50"),
        ("chamber_1-0227-0915", "chamber_1", "2026-02-27 09:15"),
        ("loop", "loop", None),
        ("lop-1040", None, None),
        ("loop-2540", None, None),
        ("", None, None),
    ],
)
def test_a_sample_id_says_where_and_when(text: str, place: str | None, when: str | None) -> None:
    found = parse_sample_id(text, ("loop", "chamber_1", "spent"), {"S": "spent"}, NOON)
    assert (None if found is None else found.place) == place
    told = None if found is None or found.taken is None else f"{found.taken:%Y-%m-%d %H:%M}"
    assert told == when


def test_a_day_that_no_year_has_is_an_error_and_no_other_vessel() -> None:
    with pytest.raises(SampleIdError, match="no day of the year"):
        parse_sample_id("loop-0230-1200", ("loop",), {}, NOON)


def test_the_example_in_the_documentation_fits_a_rig(tmp_path: Path) -> None:
    text = (BENCH.parents[2] / "docs" / "estimation.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(cedex:\n.*?)```", text, re.DOTALL)
    rig = yaml.safe_load(BENCH.read_text(encoding="utf-8"))
    rig["devices"] |= yaml.safe_load(example)
    path = tmp_path / "rig.yaml"
    path.write_text(yaml.safe_dump(rig, allow_unicode=True), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "choroid", "check", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
