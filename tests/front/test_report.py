"""`choroid report` on what a simulated rig has left, next to a running one, and on what cannot be reported."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from choroid.common.failure import UserError
from choroid.report.period import asked, zone_of
from choroid.report.report import as_text, report
from choroid.simulation.rates import ACTIVE_HZ
from choroid.simulation.simulate import EPOCH, simulate
from controller.figures.records import Records
from controller.journal.terms import JournalError
from sim.lab import SimulatedLab
from sim.neurons.conditions import TissueConditions
from sim.neurons.rates import RateModel
from tests.execution.test_whole_stack import controlled
from tests.execution.world import BENCH, RIG

DAYS = 0.025
"""Thirty-six minutes: 20 mL are drawn and discarded, as much fresh medium passes the filter into the loop."""
BEGIN = EPOCH.timestamp()
RECORDED = (BEGIN, BEGIN + 10 * 86_400.0)
NOW = BEGIN + 9.5 * 86_400.0


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    data = tmp_path_factory.mktemp("report")
    return data, simulate(BENCH, protocol="exchange", params={}, days=DAYS, seed=1, data=data, progress=False)


def copied(data: Path, to: Path) -> Path:
    shutil.copytree(data, to / "data")
    return to / "data"


class Page(HTMLParser):
    """Whether every tag is closed in its turn, which anchors there are, and what is loaded from elsewhere."""

    VOID = ("meta", "line", "circle", "rect", "polygon", "polyline", "br", "link", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        of = dict(attrs)
        assert not {"src", "onclick", "onload"} & set(of)
        if (anchor := of.get("id")) is not None:
            assert anchor not in self.anchors
            self.anchors.add(anchor)
        if tag == "a":
            self.links.add(of["href"] or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_figures_are_those_of_the_simulation(simulated: tuple[Path, dict[str, Any]]) -> None:
    data, truth = simulated
    answer = report(BENCH, data, now=NOW)
    organs = {name: organ["figures"] for name, organ in answer["organs"].items()}
    assert organs["kidney"]["drawn"]["value"] == pytest.approx(truth["drawn_ml"], abs=0.001)
    assert organs["gut"]["fresh"]["value"] == pytest.approx(truth["fresh_medium_ml"], abs=0.001)
    assert organs["kidney"]["discarded"]["value"] == pytest.approx(truth["discarded_ml"], abs=0.001)
    for name, vessel in answer["vessels_ml"].items():
        assert vessel["end"] == pytest.approx(truth["vessels"][name]["ledger_ml"], abs=0.01)
    assert organs["heart"]["flow"]["value"] == pytest.approx(2000.0, rel=0.01)
    assert organs["heart"]["flow"]["coverage"] > 0.9
    assert organs["skin"]["duty"]["value"] == pytest.approx(45.0, abs=10.0)
    assert organs["immune"]["tmp"]["value"] > 5.0
    rates = RateModel(32, 1).rates_hz(TissueConditions(alive=truth["viability_true"]), 0.0)
    assert organs["nerves"]["active"]["value"] == pytest.approx(float((rates >= ACTIVE_HZ).sum()), abs=1.0)
    assert answer["journal"]["verified"] >= truth["journal_rows"]
    assert [run["protocol"] for run in answer["runs"]] == ["exchange"]
    assert len(answer["grades"]) == sum(truth["grade_counts"].values())
    assert answer["viability"]
    assert all(series["coverage"] > 0.9 for series in answer["series"].values()), answer["series"]
    assert json.loads(json.dumps(answer)) == answer
    text = as_text(answer)
    assert "no data: the rig has no dialyser" in text
    assert "medium drawn from the loop" in text


def test_the_page_stands_by_itself(simulated: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    answer = report(BENCH, simulated[0], html_path=path, zone="Europe/Zurich", now=NOW)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert {link.removeprefix("#") for link in page.links} <= page.anchors
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not re.search(r"(?:src|href)=\"(?:https?:|//)|url\(|@import", text)
    assert "@page" in text
    assert "A4" in text
    assert page.tags.count("svg") >= 10
    assert "2026-01-01\u00a001:00" in text  # midnight UTC, in the zone asked for
    assert "Human-metric-compatible".lower() in text.lower()
    assert "human-compatible" not in text.lower()
    assert answer["html"] == str(path)


def test_a_part_of_the_period_holds_only_what_happened_in_it(simulated: tuple[Path, dict[str, Any]]) -> None:
    later = report(BENCH, simulated[0], begin="2026-01-01T00:20Z", end="end", now=NOW)
    assert later["organs"]["kidney"]["figures"]["drawn"]["value"] == 0.0
    assert [run["id"] for run in later["runs"]]  # it was under way all the same
    whole = report(BENCH, simulated[0], now=NOW)
    assert later["vessels_ml"]["waste"]["begin"] == whole["vessels_ml"]["waste"]["end"]


def test_the_same_records_give_the_same_page(simulated: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    first, second = tmp_path / "1.html", tmp_path / "2.html"
    for path in (first, second):
        report(BENCH, simulated[0], html_path=path, now=NOW)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.virtual_time
async def test_a_running_controller_is_read_and_not_disturbed(tmp_path: Path) -> None:

    lab = SimulatedLab(RIG, seed=1)
    try:
        async with controlled(lab, tmp_path) as controller:
            await asyncio.sleep(600.0)
            controller.history.flush()
            controller.journal.flush()
            head, row = controller.journal.sha256(), controller.journal.next_seq
            with closing(Records(tmp_path)) as records:
                extent = records.extent()
                assert extent is not None
                await asyncio.sleep(60.0)
                controller.journal.flush()
                assert controller.journal.next_seq > row
                period = records.period(RIG, *extent)
            assert period.chain.rows == row - 1
            assert period.chain.head == head
            assert next(organ for organ in period.organs if organ.name == "skin").figures[0].value is not None
            assert controller.journal.verify() >= row
    finally:
        await lab.close()


def test_an_edited_journal_is_told_first(simulated: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    data = copied(simulated[0], tmp_path)
    with closing(sqlite3.connect(data / "journal.db")) as db:
        db.execute("DROP TRIGGER entries_are_not_edited")
        db.execute("UPDATE entries SET body = replace(body, '20000', '21000') WHERE kind = 'moved'")
        db.commit()
    answer = report(BENCH, data, html_path=tmp_path / "r.html", now=NOW)
    assert answer["worst"] == "bad"
    assert "the journal's chain is broken" in answer["findings"][0]["text"]
    assert answer["journal"]["verified"] is None
    assert "BROKEN" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_what_people_wrote_is_text_and_never_markup(simulated: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    data = copied(simulated[0], tmp_path)
    spell = "<script>alert(1)</script>"
    with closing(sqlite3.connect(data / "journal.db")) as db:
        row = {"user": spell, "reason": spell, "vessel": "reservoir", "ul": 5e5, "change_ul": 0.0, "sd_ul": 10.0}
        values = ("2026-01-01T00:10:00.000Z", "ledger.reconciled", json.dumps(row))
        db.execute("INSERT INTO entries (at_s, utc, kind, body, hash) VALUES (600.0, ?, ?, ?, '')", values)
        db.commit()
    path = tmp_path / "r.html"
    report(BENCH, data, html_path=path, now=NOW)
    text = path.read_text(encoding="utf-8")
    assert "script" not in Page(text).tags
    assert "&lt;script&gt;" in text


# --- periods --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end", "hours"),
    [
        (None, None, (0, 240)),
        ("7d", None, (60, 228)),
        ("36h", "end", (204, 240)),
        ("yesterday", None, (192, 216)),
        ("today", None, (216, 228)),
        ("yesterday", "today", (192, 216)),
        ("begin", "2026-01-02T01:00+01:00", (0, 24)),
        ("2026-01-02T00:00Z", "now", (24, 228)),
    ],
)
def test_a_period_is_what_its_words_mean(begin: str | None, end: str | None, hours: tuple[int, int]) -> None:
    found = asked(begin, end, now=NOW, recorded=RECORDED)
    assert found.begin == pytest.approx(BEGIN + hours[0] * 3600, abs=0.01)
    assert found.end == pytest.approx(BEGIN + hours[1] * 3600, abs=0.01)


def test_a_day_of_a_zone_has_as_many_hours_as_it_has() -> None:
    zone = ZoneInfo("Europe/Zurich")
    day = asked("2026-03-29", "2026-03-30", now=NOW, recorded=(BEGIN, BEGIN + 365 * 86_400.0), zone=zone)
    assert (day.end - day.begin) / 3600 == 23


@pytest.mark.parametrize(
    ("begin", "end", "said"),
    [
        ("2026-01-05T00:00Z", "2026-01-04T00:00Z", "before it begins"),
        ("2026-01-05T00:00Z", "2026-01-05T00:00Z", "before it begins"),
        ("2026-02-05T00:00Z", "2026-02-06T00:00Z", "nothing is recorded between"),
        ("2025-01-05T00:00Z", "2025-01-06T00:00Z", "nothing is recorded between"),
        ("2026-01-05T00:00", None, "has no time zone"),
        ("2026-01-05", None, "T00:00Z"),
        ("last tuesday", None, "is no time"),
        ("2026-13-45T00:00Z", None, "is no time"),
    ],
)
def test_a_period_that_cannot_be_is_told_with_what_to_write(begin: str, end: str | None, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)) as error:
        asked(begin, end, now=NOW, recorded=RECORDED)
    assert "Next: " in str(error.value)


def test_an_unknown_zone_and_an_empty_record_are_told() -> None:
    with pytest.raises(UserError, match="no such time zone"):
        zone_of("Mars/Olympus")
    with pytest.raises(UserError, match="nothing is recorded there"):
        asked(None, None, now=NOW, recorded=None)


def test_a_directory_without_records_is_told(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal at"):
        report(BENCH, tmp_path, now=NOW)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["journal.db", "history.db"])
def test_a_damaged_file_is_told_and_left_as_it_is(
    name: str, simulated: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    data = copied(simulated[0], tmp_path)
    names = _names(data)
    (data / name).write_bytes(b"not a data base at all" * 400)
    before = (data / name).read_bytes()
    with pytest.raises((JournalError, UserError), match="cannot be read") as error:
        report(BENCH, data, now=NOW)
    assert name in str(error.value)
    assert (data / name).read_bytes() == before
    assert _names(data) == names


def _names(folder: Path) -> list[str]:
    """Return the names of the files, without those of SQLite, which a reader of a data base in WAL mode leaves."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm")))


def test_history_of_another_format_is_told(simulated: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    data = copied(simulated[0], tmp_path)
    with closing(sqlite3.connect(data / "history.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match="has format 99"):
        report(BENCH, data, now=NOW)


def test_the_command_prints_one_object_or_one_sentence(simulated: tuple[Path, dict[str, Any]]) -> None:
    words = [sys.executable, "-m", "choroid", "report", str(BENCH), "--data", str(simulated[0])]
    good = subprocess.run([*words, "--json"], capture_output=True, text=True, timeout=60)
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["rig"] == "bench"
    bad = subprocess.run(
        [*words, "--from", "2030-01-01T00:00Z", "--to", "2030-01-02T00:00Z"], capture_output=True, text=True
    )
    assert bad.returncode == 1
    assert bad.stdout == ""
    assert bad.stderr.startswith("choroid: nothing is recorded between")
