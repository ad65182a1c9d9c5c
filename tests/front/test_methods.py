"""The paragraph of methods: each number is that of the journal, and what has no record is said to have none."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from choroid.cli import main
from choroid.report.methods import methods
from choroid.report.report import report
from choroid.simulation.simulate import simulate
from controller.core.clock import Clock
from controller.figures.records import Records
from controller.figures.transfers import seconds
from controller.journal.journal import Journal
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from tests.execution.world import BENCH, EPOCH
from tests.upgrade.make_folder import stimulated

BEGINNINGS = (
    "This rig is simulated", "Organoids were kept in the rig “bench”", "Chamber “chamber” held 16 organoids",
    "The medium was “fresh”", "Means over the period:", "Protocols: exchange", "By the ledger",
    "Assays of samples: glucose", "Electrical stimulation:",
    "Viability was estimated", "Deviations:", "All figures are those of the journal",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("methods")
    simulate(
        BENCH, protocol="exchange", days=0.1, seed=1, data=folder, tended=True, assay_every_d=0.042, progress=False
    )
    return folder


@pytest.fixture(scope="module")
def told(data: Path) -> dict[str, Any]:
    found = report(BENCH, data)["methods"]
    assert isinstance(found, dict)
    return found


def rows(data: Path, kind: str) -> list[tuple[str | None, dict[str, Any]]]:
    """Rows of a kind, without the code that the report is made with."""
    with closing(sqlite3.connect(data / "journal.db")) as db:
        return [
            (run, json.loads(body)) for run, body in db.execute("SELECT run, body FROM entries WHERE kind = ?", (kind,))
        ]


def test_the_paragraph_has_its_sentences_in_order(told: dict[str, Any], data: Path) -> None:
    text = told["text"].replace("Electrical stimulation is not", "Electrical stimulation: not")
    places = [text.find(begin) for begin in BEGINNINGS]
    assert -1 not in places, dict(zip(BEGINNINGS, places, strict=True))
    assert places == sorted(places)
    assert "\n" not in text


def test_each_number_is_that_of_the_journal(told: dict[str, Any], data: Path) -> None:
    figures, text = told["figures"], told["text"]
    moved = [body for _, body in rows(data, "moved")]
    for purpose, line in (("feed", "feed"), ("draw", "draw"), ("discard", "discard")):
        some = [body for body in moved if body["line"] == line]
        assert some
        ml = sum(body.get("liquid_ul", body["ul"]) for body in some) / 1000
        assert figures["volumes"][purpose]["transfers"] == len(some)
        assert figures["volumes"][purpose]["ml"] == pytest.approx(ml)
        assert f"{ml:.2f} ± " in text
    assays = [body["analyte"] for _, body in rows(data, "assay")]
    assert {each["analyte"]: each["n"] for each in figures["assays"]} == {name: assays.count(name) for name in assays}
    ((run, start),) = rows(data, "run.start")
    assert figures["runs"] == [{"run": run, "protocol": "exchange", "sha256": start["source_sha256"]}]
    assert start["source_sha256"][:12] in text
    ((_, begun),) = rows(data, "controller.started")
    assert figures["rig_sha256"] == [begun["rig_hash"]]
    assert begun["rig_hash"][:12] in text
    assert figures["releases"] == [begun["version"]]
    assert figures["alarms"] == len(rows(data, "alarm.raised"))
    assert figures["viability"]["n"] == sum(isinstance(body["viability"], dict) for _, body in rows(data, "scores"))
    with closing(sqlite3.connect(data / "journal.db")) as db:
        assert figures["journal_rows"] == db.execute("SELECT count(*) FROM entries").fetchone()[0]
    assert figures["conditions"]["flow through heart"]["mean"] == pytest.approx(2000.0, rel=0.02)
    assert figures["conditions"]["temperature of the chamber"]["unit"] == "degC"


def test_what_has_no_record_is_said_to_have_none(told: dict[str, Any], data: Path) -> None:
    for words in ("lots not recorded", "batch not recorded", "cell line not recorded", "stimulation is not recorded"):
        assert words in told["text"]
    assert told["figures"]["pulses"] is None
    assert told["figures"]["lots"] == []


def test_stimulation_is_counted_and_the_command_prints_the_paragraph(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stimulated(data / "stimulation.db")
    try:
        assert main(["report", str(BENCH), "--data", str(data), "--methods"]) == 0
        text = capsys.readouterr().out
    finally:
        (data / "stimulation.db").unlink()
    assert re.search(r"Electrical stimulation: \d+ pulses, \S+ nC in all\.", text)
    assert main(["report", str(BENCH), "--data", str(data), "--html", str(tmp_path / "a.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["methods"]["figures"]["days"] == pytest.approx(0.1, rel=0.01)
    assert '<section id="methods">' in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_later_period_names_the_controller_that_was_started_before_it(data: Path, told: dict[str, Any]) -> None:
    with closing(sqlite3.connect(data / "journal.db")) as db:
        ((first, last),) = db.execute("SELECT min(utc), max(utc) FROM entries")
    middle = datetime.fromtimestamp((seconds(first) + seconds(last)) / 2.0, UTC).isoformat()
    later = report(BENCH, data, begin=middle, end="end")["methods"]
    assert isinstance(later, dict)
    assert later["figures"]["starts"] == 0
    for name in ("rig_sha256", "releases"):
        assert later["figures"][name] == told["figures"][name] != []


def test_only_the_lots_that_flowed_in_the_period_are_named_and_used_assays_counted(data: Path, tmp_path: Path) -> None:
    def lot(name: str, medium: str, ul: float) -> dict[str, Any]:
        return {"lot": name, "medium": medium, "passed_ul": {"feed": ul}, "now_ul": {}}

    async def assay() -> None:
        clock = Clock(follow_system=False, epoch=EPOCH)
        with closing(Journal(tmp_path / "data" / "journal.db", clock, durable=False)) as journal:
            for used in (True, False):
                journal.append("assay", {"where": "loop", "analyte": "ldh", "value": 1.0, "unit": "U/L", "used": used})

    shutil.copytree(data, tmp_path / "data")
    asyncio.run(assay())
    rig = load_rig(BENCH, models=MODELS)
    with closing(Records(tmp_path / "data")) as records:
        extent = records.extent()
        assert extent is not None
        whole = records.period(rig, extent[0], extent[1] + 0.001)
        assert whole.ledger_begin is not None
        assert whole.ledger_end is not None
        begin = (lot("old", "fresh", 500.0), lot("open", "fresh", 500.0), lot("stock", "glucose", 0.0))
        end = (
            lot("old", "fresh", 500.0),
            lot("open", "fresh", 700.0),
            lot("stock", "glucose", 9.0),
            lot("new", "fresh", 5.0),
        )
        ledgers = replace(whole.ledger_begin, batches=begin), replace(whole.ledger_end, batches=end)
        found = methods(replace(whole, ledger_begin=ledgers[0], ledger_end=ledgers[1]), records)["figures"]
    assert found["lots"] == ["open (fresh)", "new (fresh)"]
    assert {"analyte": "ldh", "method": None, "n": 1} in found["assays"]
