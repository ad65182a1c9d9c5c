"""The timeline of the tissue: each intervention of the journal, once for each culture that it concerns."""

from __future__ import annotations

import ast
import asyncio
import csv
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from choroid.cli import main
from choroid.common.failure import UserError
from choroid.export import events as events_module
from choroid.export.events import KINDS, LEFT_OUT
from choroid.export.timeline import COLUMNS, export_timeline, timeline_table
from choroid.simulation.simulate import simulate
from controller.core.clock import Clock
from controller.figures.cultures import CULTURE_ROWS, Occupancy
from controller.figures.records import Records
from controller.figures.story import person_actions
from controller.figures.transfers import ROWS as TRANSFER_ROWS
from controller.figures.transfers import transfers
from controller.journal.journal import Journal
from controller.journal.reader import JournalReader
from controller.memory.history import History
from controller.rig.description import Rig
from controller.tissue.record import TissueRecord
from nerves.charge import charge_between
from tests.composed_rigs import two_plates
from tests.execution.world import BENCH, EPOCH
from tests.upgrade.make_folder import stimulated

ADA: Any = {"user": "ada", "reason": "split"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of an hour of exchange, with a technician who assays the loop, and of stimulation."""
    folder = tmp_path_factory.mktemp("timeline")
    simulate(
        BENCH, protocol="exchange", days=0.1, seed=1, data=folder, tended=True, assay_every_d=0.042, progress=False
    )
    stimulated(folder / "stimulation.db")
    return folder


@pytest.fixture(scope="module")
def frame(data: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    out = tmp_path_factory.mktemp("out") / "timeline.parquet"
    export_timeline(BENCH, data, out)
    return pd.read_parquet(out)


def seqs(frame: pd.DataFrame, *kinds: str) -> set[int]:
    some = frame[(frame.source == "journal") & frame.kind.isin(kinds)] if kinds else frame[frame.source == "journal"]
    return {int(seq) for seq in some.seq}


def test_each_intervention_of_the_journal_is_in_the_timeline(data: Path, frame: pd.DataFrame) -> None:
    with closing(JournalReader(data / "journal.db")) as journal:
        people = [
            each.seq for each in person_actions(journal.entries()) if not each.who.startswith(("regulator", "gate"))
        ]
        assert len(people) >= 3
        assert set(people) <= seqs(frame)
        assert seqs(frame, "draw", "exchange", "recycle return", "discard", "transfer", "dose") == {
            row.seq for row in journal.entries(kinds=("moved",))
        }
        assert seqs(frame, "assay", "assay not used") == {row.seq for row in journal.entries(kinds=("assay",))} != set()
        assert seqs(frame, "alarm") == {row.seq for row in journal.entries(kinds=("alarm.raised",))}
        assert seqs(frame, "protocol") == {row.seq for row in journal.entries(kinds=("run.start",))} != set()
        whole = {row.seq for row in journal.entries() if row.kind not in {*LEFT_OUT, "act", "act.outcome"}}
        assert whole - seqs(frame) <= {row.seq for row in journal.entries(kinds=("scores", "estimate", "tissue.look"))}
        booked = sum(each.ul for each in transfers(journal.entries(kinds=TRANSFER_ROWS)))
    told = frame[frame.unit.eq("uL") & frame.row_kind.eq("moved")]
    assert told.value.sum() == pytest.approx(booked)
    assert (told.sd > 0).all()


def test_values_have_units_and_uncertainty(frame: pd.DataFrame) -> None:
    assert (frame[frame.value.notna() & ~frame.kind.isin(["command"])].unit != "").all()
    assays = frame[frame.kind == "assay"]
    assert set(assays.unit) == {"mmol/L"}
    assert (assays.utc <= assays.recorded_utc).all()
    assert (assays.person != "").all()
    viability = frame[frame.kind == "viability"]
    assert len(viability) > 0
    assert ((viability.low <= viability.value) & (viability.value <= viability.high)).all()
    assert set(frame.culture) == {"chamber#0"}


def test_stimulation_comes_from_its_own_ledger(data: Path, frame: pd.DataFrame) -> None:
    told = frame[frame.source == "stimulation"].set_index("what")
    pulses, charge_nc, unknown, refused = charge_between(data / "stimulation.db", "2025-12-31", "2026-02-01")
    assert told.value["pulses"] == pulses > 0
    assert told.value["charge"] == pytest.approx(charge_nc)
    assert told.text["charge"].startswith(f"{refused} requests refused, {unknown} pulses of unknown fate")


def test_csv_and_parquet_hold_the_same_and_the_command_says_what_it_wrote(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = tmp_path / "a.csv", tmp_path / "a.parquet"
    for path in paths:
        assert main(["tissue", "export", str(BENCH), str(path), "--data", str(data), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
    with paths[0].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(paths[1])
    assert len(rows) == table.num_rows == answer["rows"]
    assert list(rows[0]) == table.column_names == [column["name"] for column in answer["columns"]]
    assert all(table.schema.field(name).metadata[b"meaning"] for name in table.column_names)
    with pytest.raises(UserError, match="replaces nothing"):
        export_timeline(BENCH, data, paths[0])
    with pytest.raises(UserError, match=r"ends with \.parquet or \.csv"):
        export_timeline(BENCH, data, tmp_path / "a.xlsx")


def told(rig: Rig, folder: Path) -> list[dict[str, Any]]:
    with closing(Records(folder)) as records:
        table = timeline_table(rig, records, folder, 0.0, float("inf"))
        return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]


@pytest.mark.virtual_time
async def test_a_culture_keeps_its_name_when_it_is_moved_and_a_new_one_has_another(tmp_path: Path) -> None:
    rig = two_plates()
    clock = Clock(follow_system=False, epoch=EPOCH)
    with closing(Journal(tmp_path / "journal.db", clock, durable=False)) as journal:
        History(tmp_path / "history.db", clock).close()
        journal.append("controller.started", {"rig": rig.name, "rig_hash": "a", "version": "0"})
        record = TissueRecord(rig, journal, clock)
        record.remove("left", count=2, **ADA)
        record.remove("left", **ADA)
        record.move("right", "left", **ADA)
        journal.append("image.failed", {"camera": "eye", "chamber": "left", "error": "dark"})
        placed: Any = {"count": 3, "diameter_mm": 2.0, "age_d": 30.0, "batch": "b9", "cell_line": "c"}
        record.place("right", **placed, **ADA)
        await asyncio.sleep(60)
        described = rig.tissue["right"].model_copy(update={"batch": "b10"})
        later = rig.model_copy(update={"tissue": {**rig.tissue, "right": described}})
        journal.append("controller.started", {"rig": rig.name, "rig_hash": "b", "version": "0"})
        TissueRecord(later, journal, clock).remove("right", count=1, **ADA)
        journal.append("safety.estop", {"user": "ada", "reason": "smoke"})
        rows = list(journal.entries(kinds=CULTURE_ROWS))
    lines = told(later, tmp_path)
    seen = [(each["kind"], each["culture"], each["chamber"], each["organoids"], each["batch"]) for each in lines]
    assert seen[:2] == [("described", "left#0", "left", 6, ""), ("described", "right#0", "right", 4, "b7")]
    assert [each for each in seen if each[0] in ("removed", "moved", "placed", "image failed")] == [
        ("removed", "left#0", "left", 4, ""),
        ("removed", "left#0", "left", 4, ""),
        ("moved", "right#0", "left", 4, "b7"),
        ("image failed", "right#0", "left", 4, "b7"),
        ("placed", "right#6", "right", 3, "b9"),
        ("removed", "right#7", "right", 3, "b10"),
    ]
    assert [each[1] for each in seen if each[0] == "emergency stop"] == ["right#0", "right#7"]
    assert Occupancy(rig, []).concerned(["left"])[0].id == "left#0"
    assert Occupancy(later, rows).cultures["right"].batch == "b7", "the oldest row says what the file said at first"


def test_the_kinds_that_a_plan_may_name_are_those_of_the_timeline() -> None:
    source = ast.parse(Path(events_module.__file__).read_text(encoding="utf-8"))
    calls = [each for each in ast.walk(source) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)]
    made = {
        str(call.args[0].value)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in ("TimelineEvent", "_said", "_tissue", "_vessel")
        if isinstance(call.args[0], ast.Constant)
    }
    in_words = {
        "described",
        "stimulation",
        "assay",
        "assay not used",
        "image",
        "image not used",
        "hold",
        "protocol state",
    }
    assert made | in_words | {*events_module.TRANSFERS.values(), "transfer"} == KINDS


def image(**more: Any) -> dict[str, Any]:
    figures = {"diameter_mm": 2.0, "area_mm2": 3.1}
    return {
        "camera": "eye",
        "chamber": "left",
        "taken": "2026-01-01T00:00:00Z",
        "defects": [],
        "features": figures,
        **more,
    }


@pytest.mark.virtual_time
async def test_what_was_not_used_has_a_kind_of_its_own(tmp_path: Path) -> None:
    rig = two_plates()
    clock = Clock(follow_system=False, epoch=EPOCH)
    assay = {"where": "loop", "analyte": "lactate", "value": 3.0, "unit": "mmol/L", "sd": 0.1, "method": "strip"}
    with closing(Journal(tmp_path / "journal.db", clock, durable=False)) as journal:
        History(tmp_path / "history.db", clock).close()
        journal.append("assay", {**assay, "used": True})
        journal.append("assay", {**assay, "used": False, "reason": "impossible"})
        journal.append("image.taken", image())
        journal.append("image.taken", image(defects=["out_of_focus"], note="Not measured: 1 other object."))
        journal.append("image.taken", image(defects=["too_dark"], features=None))
        journal.append("image.taken", image(features=None, note="no tissue"))
    left = [each for each in told(rig, tmp_path) if each["culture"] == "left#0" and each["source"] == "journal"]
    assert [(each["kind"], each["what"], each["text"]) for each in left] == [
        ("assay", "loop.lactate", "strip"),
        ("assay not used", "loop.lactate", "strip; impossible"),
        ("image", "eye.diameter_mm", ""),
        ("image", "eye.area_mm2", ""),
        ("image not used", "eye.diameter_mm", "out of focus; Not measured: 1 other object."),
        ("image not used", "eye.area_mm2", "out of focus; Not measured: 1 other object."),
        ("image not used", "eye", "too dark"),
        ("image", "eye", "no tissue"),
    ]


@pytest.mark.virtual_time
async def test_estimates_and_looks_have_units(tmp_path: Path) -> None:
    rig = two_plates()
    clock = Clock(follow_system=False, epoch=EPOCH)
    known = {"value": 0.9, "low": 0.8, "high": 1.0}
    with closing(Journal(tmp_path / "journal.db", clock, durable=False)) as journal:
        History(tmp_path / "history.db", clock).close()
        journal.append("tissue.look", {"hour": 1, "look": {"ldh": known, "ph": known, "glucose_mm": known}})
        journal.append("estimate", {"estimate": {"tissue": {"viability": known}, "loop": {"ph": known}}})
    units = {each["what"]: each["unit"] for each in told(rig, tmp_path) if each["kind"] in ("look", "estimate")}
    assert units == {"ldh": "1", "ph": "pH", "glucose_mm": "mM", "tissue.viability": "1", "loop.ph": "pH"}


@pytest.mark.virtual_time
async def test_a_sample_belongs_to_the_culture_that_was_there_when_it_was_taken(tmp_path: Path) -> None:
    rig = two_plates()
    clock = Clock(follow_system=False, epoch=EPOCH)
    with closing(Journal(tmp_path / "journal.db", clock, durable=False)) as journal:
        History(tmp_path / "history.db", clock).close()
        journal.append("controller.started", {"rig": rig.name, "rig_hash": "a", "version": "0"})
        begin = clock.utc_text()
        record = TissueRecord(rig, journal, clock)
        await asyncio.sleep(3600)
        sampled = clock.utc_text()
        await asyncio.sleep(60)
        record.remove("left", **ADA)
        await asyncio.sleep(60)
        empty = clock.utc_text()
        await asyncio.sleep(60)
        placed: Any = {"count": 3, "diameter_mm": 2.0, "age_d": 30.0, "batch": "b9", "cell_line": "c"}
        record.place("left", **placed, **ADA)
        new = clock.utc_text()
        await asyncio.sleep(60)
        assay = {"where": "left", "analyte": "ldh", "value": 3.0, "unit": "U/L", "used": True}
        for taken in (sampled, empty, clock.utc_text()):
            await asyncio.sleep(60)
            journal.append("assay", {**assay, "taken_utc": taken})
    lines = told(rig, tmp_path)
    seen = [(each["culture"], each["organoids"], each["begun_utc"]) for each in lines if each["kind"] == "assay"]
    placed_at = pd.Timestamp(new).timestamp()
    assert seen == [("left#0", 6, pd.Timestamp(begin).timestamp()), ("", None, None), ("left#3", 3, placed_at)]
    begun = pd.Timestamp(begin).timestamp()
    assert {each["begun_utc"] for each in lines if each["culture"].endswith("#0")} == {begun}
    with closing(Records(tmp_path)) as records:
        later = timeline_table(rig, records, tmp_path, begun + 3600.0, float("inf"))
        at = [column.name for column in COLUMNS].index("begun_utc")
        rows = list(later.rows)
    assert {row[at] for row in rows} == {begun, placed_at, None}, "a later period tells the same begin"


def test_a_stimulation_ledger_that_cannot_be_read_is_told(data: Path, tmp_path: Path) -> None:
    ledger = (data / "stimulation.db").read_bytes()
    (data / "stimulation.db").write_bytes(b"no database" * 100)
    try:
        with pytest.raises(UserError, match=r"stimulation\.db cannot be read .* Likely cause: .* Next: "):
            export_timeline(BENCH, data, tmp_path / "a.csv")
    finally:
        (data / "stimulation.db").write_bytes(ledger)
    assert list(tmp_path.iterdir()) == []
