"""Tissue by chamber: placed, moved, removed, over restarts and changes of the rig file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.rig.description import Rig
from controller.tissue.record import TissueError, TissueRecord
from tests.composed_rigs import two_plates
from tests.execution.world import EPOCH

pytestmark = pytest.mark.virtual_time
DAY_S = 86_400.0
PERSON = {"user": "ada", "reason": "split for imaging"}


@contextmanager
def journal_in(folder: Path) -> Iterator[tuple[Journal, Clock]]:
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(folder / "journal.db", clock, durable=False)
    journal.append("controller.started", {"rig": "two-plates"})
    try:
        yield journal, clock
    finally:
        journal.close()


def without(rig: Rig, chamber: str) -> Rig:
    return rig.model_copy(update={"tissue": {name: of for name, of in rig.tissue.items() if name != chamber}})


def removed(record: TissueRecord, count: int | None = None) -> None:
    record.remove("left", count=count, user="ada", reason="split for imaging")


async def test_the_rig_file_says_what_lives_in_a_chamber_and_it_ages(tmp_path: Path) -> None:
    with journal_in(tmp_path) as (journal, clock):
        record = TissueRecord(two_plates(), journal, clock)
        await asyncio.sleep(3 * DAY_S)
        left, right = record.to_json()
        assert (left["chamber"], left["tissue"]["count"], left["tissue"]["aged_d"]) == ("left", 6, 43.0)
        assert right["tissue"]["batch"] == "b7"
        assert left["history"] == []


async def test_tissue_that_is_moved_keeps_its_identity_and_age_over_a_restart(tmp_path: Path) -> None:
    rig = without(two_plates(), "left")
    with journal_in(tmp_path) as (journal, clock):
        record = TissueRecord(rig, journal, clock)
        await asyncio.sleep(DAY_S)
        record.move("right", "left", **PERSON)
        await asyncio.sleep(DAY_S)
        for known in (record, TissueRecord(rig, journal, clock)):
            left, right = known.to_json()
            assert right["tissue"] is None
            assert left["tissue"]["batch"] == "b7"
            assert left["tissue"]["came_from"] == "right"
            assert left["tissue"]["aged_d"] == pytest.approx(42.0)
            assert [row["kind"] for row in left["history"]] == ["tissue.moved"]
            assert [row["user"] for row in right["history"]] == ["ada"]


async def test_a_part_may_be_taken_out_and_other_tissue_put_in_when_none_is_left(tmp_path: Path) -> None:
    with journal_in(tmp_path) as (journal, clock):
        record = TissueRecord(two_plates(), journal, clock)
        removed(record, 2)
        assert record.cultures["left"].count == 4
        with pytest.raises(TissueError, match="5 organoids cannot leave left, which holds 4"):
            removed(record, 5)
        with pytest.raises(TissueError, match="4 organoids are in left"):
            record.place("left", count=8, diameter_mm=1.0, age_d=20.0, **PERSON)
        removed(record)
        assert "left" not in record.cultures
        record.place("left", count=8, diameter_mm=1.0, age_d=20.0, batch="b9", cell_line="H9", **PERSON)
        again = TissueRecord(two_plates(), journal, clock).cultures["left"]
        assert (again.count, again.batch, again.cell_line, again.by) == (8, "b9", "H9", "ada")


async def test_a_chamber_that_is_described_again_is_as_the_rig_file_says(tmp_path: Path) -> None:
    with journal_in(tmp_path) as (journal, clock):
        rig = two_plates()
        removed(TissueRecord(rig, journal, clock))
        assert "left" not in TissueRecord(rig, journal, clock).cultures
        spec = rig.tissue["left"].model_copy(update={"batch": "b12"})
        described = TissueRecord(rig.model_copy(update={"tissue": rig.tissue | {"left": spec}}), journal, clock)
        assert described.cultures["left"].batch == "b12"
        assert len(described.to_json()[0]["history"]) == 1


async def test_what_cannot_be_is_refused_and_not_recorded(tmp_path: Path) -> None:
    with journal_in(tmp_path) as (journal, clock):
        record = TissueRecord(without(two_plates(), "left"), journal, clock)
        rows = journal.next_seq
        for wrong, why in (
            (lambda: record.place("bottle", count=1, diameter_mm=1.0, age_d=1.0, **PERSON), "name one of left, right"),
            (lambda: record.place("left", count=0, diameter_mm=1.0, age_d=1.0, **PERSON), "impossible"),
            (lambda: record.place("left", count=1, diameter_mm=float("nan"), age_d=1.0, **PERSON), "impossible"),
            (lambda: record.place("left", count=1, diameter_mm=1.0, age_d=1.0, user="ada", reason=" "), "a reason"),
            (lambda: record.move("left", "right", **PERSON), "no tissue in left"),
            (lambda: record.move("right", "right", **PERSON), "are in right"),
            (lambda: removed(record), "no tissue in left"),
        ):
            with pytest.raises(TissueError, match=why):
                wrong()
        assert journal.next_seq == rows


async def test_tissue_of_a_chamber_that_the_rig_no_longer_has_is_not_counted(tmp_path: Path) -> None:
    """Neither the row nor the new file describes the chamber; that is no agreement of the two."""
    rig = without(two_plates(), "left")
    with journal_in(tmp_path) as (journal, clock):
        TissueRecord(rig, journal, clock).move("right", "left", **PERSON)
        smaller = rig.model_copy(update={"vessels": {n: v for n, v in rig.vessels.items() if n != "left"}})
        record = TissueRecord(smaller, journal, clock)
        assert "left" not in record.cultures
