"""The paragraph of methods: each number is that of the journal, and what has no record is said to have none."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from choroid.cli import main
from choroid.report.report import report
from choroid.simulation.simulate import simulate
from tests.execution.world import BENCH
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
