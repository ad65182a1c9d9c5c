"""A culture that moves: what one rig wrote is what the other one begins with, or nothing is taken."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from choroid.failure import UserError
from choroid.handover import as_text, taken, written
from controller.clock import Clock
from controller.execution.catalogue import shipped
from controller.execution.journal import Entry, Journal
from controller.execution.ledger import Ledger
from controller.usual import HOUR_US, Usual
from protocols.baseline import WARM_UP_H
from sim.virtual_time import run_virtual
from tests.execution.world import BENCH, EPOCH, RIG, Controller, World


def culture(folder: Path) -> Path:
    """The data directory of a rig that has fed its culture and knows what is usual for it."""
    data = folder / "here"
    data.mkdir()

    async def lived() -> None:
        controller = Controller(World(), data / "journal.db", catalogue=shipped())
        first = controller.clock.utc_us() // HOUR_US - WARM_UP_H - 2
        for hour in range(first, first + WARM_UP_H + 2):
            body = {"hour": hour, "values": {"firing": 5.0}, "left_out": {}, "anchors": {}, "extremes": {}}
            controller.journal.append("baseline", body)
        run = await controller.runs.start("partial-exchange", {"share": "20 %"}, "anna", "a test")
        await controller.until(lambda: controller.runs.get(run).state.ended)
        await controller.gone()

    run_virtual(lived())
    return data


def read(data: Path) -> tuple[dict[str, float], list[Entry], Usual]:
    """Volumes (µL), all rows, and what is usual, as the next controller in `data` will find them."""

    async def looked() -> tuple[dict[str, float], list[Entry], Usual]:
        clock = Clock(follow_system=False, epoch=EPOCH)
        journal = Journal(data / "journal.db", clock, durable=False)
        try:
            journal.verify()
            volumes = {name: volume.ul for name, volume in Ledger(RIG, journal, clock).volumes().items()}
            return volumes, list(journal.entries()), Usual(journal, clock)
        finally:
            journal.close()

    return asyncio.run(looked())


def test_what_one_rig_wrote_is_what_the_other_begins_with(tmp_path: Path) -> None:
    here, there, file = culture(tmp_path), tmp_path / "there", tmp_path / "culture.json"
    before = [entry.hash for entry in read(here)[1]]
    told = written(BENCH, here, file)
    assert [entry.hash for entry in read(here)[1]] == before  # reading it wrote nothing
    assert told["vessels"]["loop"]["ul"] == pytest.approx(read(here)[0]["loop"], abs=30.0)
    assert told["vessels"]["loop"]["age_s"] > 0.0
    assert taken(BENCH, there, file, who="bert") == told
    volumes, rows, usual = read(there)
    assert volumes["loop"] == pytest.approx(told["vessels"]["loop"]["ul"], abs=30.0)
    norm = usual.norms()["firing"]
    assert norm == read(here)[2].norms()["firing"]
    booked = [row for row in rows if row.kind == "ledger.reconciled"]
    assert {row.body["vessel"] for row in booked} == {"loop", "chamber"}
    assert all(row.body["user"] == "bert" and "handed over by bench" in row.body["reason"] for row in booked)
    assert rows[-1].kind == "handover.taken"
    assert rows[-1].body["last"]["estimate"] == told["last"]["estimate"]
    text = as_text(told)
    assert "the culture of bench" in text
    assert f"{WARM_UP_H + 2} hours of its baseline" in text

    with pytest.raises(UserError, match="taken here before"):
        taken(BENCH, there, file, who="bert")
    assert len(read(there)[1]) == len(rows)


def test_a_file_that_is_not_whole_or_does_not_fit_is_refused_and_nothing_is_taken(tmp_path: Path) -> None:
    here, file = culture(tmp_path), tmp_path / "culture.json"
    written(BENCH, here, file)
    whole = file.read_text()
    edited = json.loads(whole)
    edited["vessels"]["loop"]["ul"] += 1000.0
    for text in (json.dumps(edited), whole[: len(whole) // 2], "[]", "{}", ""):
        file.write_text(text)
        with pytest.raises(UserError, match="no whole hand-over file"):
            taken(BENCH, tmp_path / "there", file, who="bert")
    assert not (tmp_path / "there").exists()

    file.write_text(whole)
    small = tmp_path / "small.yaml"
    line = "loop:      {contains: fresh, volume: 40 mL, capacity: 60 mL, floor: 15 mL, ceiling: 50 mL, kind: loop}"
    text = BENCH.read_text()
    assert line in text
    small.write_text(text.replace(line, line.replace("40 mL", "20 mL").replace("50 mL", "30 mL")))
    with pytest.raises(UserError, match=r"were handed over in the loop, “loop” of bench holds 30 mL"):
        taken(small, tmp_path / "there", file, who="bert")
    assert not [row for row in read(tmp_path / "there")[1] if row.kind in ("ledger.reconciled", "baseline")]

    with pytest.raises(UserError, match="there is no journal"):
        written(BENCH, tmp_path / "nowhere", file)
