"""A culture that moves: what one rig wrote is what the other one begins with, or nothing is taken."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from choroid.common.failure import UserError
from choroid.operating.handover import _hash, as_text, taken, written
from controller.core.clock import Clock
from controller.core.state import StateStore
from controller.estimator.assays import AssayError, Assays
from controller.estimator.estimator import Estimator
from controller.journal.journal import Journal
from controller.journal.terms import Entry
from controller.ledger.ledger import Ledger
from controller.ledger.terms import Parcel
from controller.recipes.catalogue import shipped
from controller.rig.description import required
from controller.vitals.rolling_baseline import HOUR_US, RollingBaseline
from protocols.baseline import WARM_UP_H
from protocols.media_state import SPECIES, MediaState
from sim.virtual_time import run_virtual
from tests.execution.world import BENCH, EPOCH, RIG, Controller, World

LOOP = required(RIG.organs.lung, "organs.lung").vessel


LIVED_S = 6 * 3600.0
CARRIED = timedelta(hours=2)
LEFT = EPOCH + timedelta(seconds=LIVED_S)
CAME = LEFT + timedelta(hours=2)


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
        await asyncio.sleep(LIVED_S)
        await required(controller.runs.estimator, "a loop").estimate()
        await controller.gone()

    run_virtual(lived())
    return data


def read(data: Path, now: datetime = LEFT) -> tuple[dict[str, float], list[Entry], RollingBaseline]:
    """Volumes (µL), all rows, and what is usual, as the next controller in `data` will find them."""

    async def looked() -> tuple[dict[str, float], list[Entry], RollingBaseline]:
        clock = Clock(follow_system=False, epoch=now)
        journal = Journal(data / "journal.db", clock, durable=False)
        try:
            journal.verify()
            volumes = {name: volume.ul for name, volume in Ledger(RIG, journal, clock).volumes().items()}
            return volumes, list(journal.entries()), RollingBaseline(journal, clock)
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
    assert taken(BENCH, there, file, who="bert", now=CAME) == told
    volumes, rows, usual = read(there, CAME)
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
        taken(BENCH, there, file, who="bert", now=CAME)
    assert len(read(there)[1]) == len(rows)


def test_what_a_later_release_says_of_the_medium_is_refused_before_anything_is_booked(tmp_path: Path) -> None:
    here, there, file = culture(tmp_path), tmp_path / "there", tmp_path / "culture.json"
    told = written(BENCH, here, file)
    told["contents"]["chamber"]["parcel"]["selenium"] = (
        1.0  # the second vessel: the first one must not be booked either
    )
    file.write_text(json.dumps({**told, "sha256": _hash(told)}), encoding="utf-8")
    with pytest.raises(UserError, match="later release wrote it"):
        taken(BENCH, there, file, who="bert", now=CAME)
    assert {row.kind for row in read(there, CAME)[1]} == {"ledger.opened"}


Medium = tuple[Parcel, list[dict[str, Any]], MediaState]


def medium(data: Path, now: datetime) -> Medium:
    """What the next controller in `data` will know of the loop's medium at `now`."""

    async def looked() -> Medium:
        clock = Clock(follow_system=False, epoch=now)
        journal = Journal(data / "journal.db", clock, durable=False)
        try:
            ledger = Ledger(RIG, journal, clock)
            estimator = Estimator(RIG, ledger=ledger, journal=journal, clock=clock, store=StateStore())
            return ledger.parcels()[LOOP], ledger.whereabouts.vessel_json(LOOP), estimator.now()
        finally:
            journal.close()

    return asyncio.run(looked())


def test_the_medium_is_no_fresher_for_having_been_carried(tmp_path: Path) -> None:
    """Reuse, age, lots and what the estimator knows of it go along: else the new rig would grade it as out of the bottle."""
    here, there, file = culture(tmp_path), tmp_path / "there", tmp_path / "culture.json"
    left = datetime.fromisoformat(written(BENCH, here, file)["at"])
    taken(BENCH, there, file, who="bert", now=left + CARRIED)
    later = left + CARRIED + timedelta(minutes=10)
    before, lots_before, known_before = medium(here, later)
    parcel, lots, known = medium(there, later)
    assert parcel.age_s == pytest.approx(before.age_s, abs=1.0)
    assert parcel.age_s > LIVED_S / 2
    assert (parcel.passes, parcel.unused) == (before.passes, before.unused)
    for name in ("insulin", "factors", "glutamine"):
        assert getattr(parcel, name) == pytest.approx(getattr(before, name), rel=1e-4), name
        assert getattr(parcel, name) < 1.0
    assert sum(each["share"] for each in lots) == pytest.approx(1.0)
    assert [(each["uses"], each["share"]) for each in lots] == [(each["uses"], each["share"]) for each in lots_before]
    assert {each["lot"] for each in lots} == {f"{each['lot']}, bench" for each in lots_before}
    for species in SPECIES:
        was, now = known_before.interval("loop", species), known.interval("loop", species)
        assert (now.low, now.high) == pytest.approx((was.low, was.high), rel=0.01), species
    assert known.interval("loop", "lactate_mm").value > 0.2
    assert known.interval("spent", "lactate_mm").value < 0.1  # this rig's own spent vessel was filled from a bottle
    assert known.rate_umol_d == pytest.approx(known_before.rate_umol_d, rel=0.01)


def test_a_sample_counts_from_when_the_culture_came(tmp_path: Path) -> None:
    here, there, file = culture(tmp_path), tmp_path / "there", tmp_path / "culture.json"
    left = datetime.fromisoformat(written(BENCH, here, file)["at"])
    came = left + CARRIED
    taken(BENCH, there, file, who="bert", now=came)

    async def sampled() -> None:
        clock = Clock(follow_system=False, epoch=came + timedelta(hours=6))
        journal = Journal(there / "journal.db", clock, durable=False)
        try:
            ledger = Ledger(RIG, journal, clock)
            estimator = Estimator(RIG, ledger=ledger, journal=journal, clock=clock, store=StateStore())
            assays = Assays(RIG, estimator=estimator, ledger=ledger, journal=journal, clock=clock)
            sample = came + timedelta(hours=1)
            believed = estimator.at(sample).interval("loop", "lactate_mm").value
            with pytest.raises(AssayError, match="belongs to the rig that it came from"):
                enter(assays, believed + 0.5, came - timedelta(hours=1))
            enter(assays, believed + 0.5, sample)
            assert estimator.at(sample).interval("loop", "lactate_mm").value == pytest.approx(believed + 0.5, abs=0.3)
        finally:
            journal.close()

    asyncio.run(sampled())


def enter(assays: Assays, lactate_mm: float, at: datetime) -> None:
    assays.enter("lactate", f"{lactate_mm:.3f} mM", vessel=LOOP, taken=at.isoformat(), user="bert")


def test_an_old_file_is_refused(tmp_path: Path) -> None:
    here, file = culture(tmp_path), tmp_path / "culture.json"
    left = datetime.fromisoformat(written(BENCH, here, file)["at"])
    with pytest.raises(UserError, match="8 days ago; nothing was taken"):
        taken(BENCH, tmp_path / "there", file, who="bert", now=left + timedelta(days=8))
    assert not (tmp_path / "there" / "journal.db").exists()


def test_a_file_that_is_not_whole_or_does_not_fit_is_refused_and_nothing_is_taken(tmp_path: Path) -> None:
    here, file = culture(tmp_path), tmp_path / "culture.json"
    written(BENCH, here, file)
    whole = file.read_text()
    edited = json.loads(whole)
    edited["vessels"]["loop"]["ul"] += 1000.0
    for text in (json.dumps(edited), whole[: len(whole) // 2], "[]", "{}", ""):
        file.write_text(text)
        with pytest.raises(UserError, match="not a complete hand-over file"):
            taken(BENCH, tmp_path / "there", file, who="bert")
    assert not (tmp_path / "there").exists()

    file.write_text(whole)
    small = tmp_path / "small.yaml"
    line = "loop:      {contains: fresh, volume: 40 mL, capacity: 60 mL, floor: 15 mL, ceiling: 50 mL, kind: loop}"
    text = BENCH.read_text()
    assert line in text
    small.write_text(text.replace(line, line.replace("40 mL", "20 mL").replace("50 mL", "30 mL")))
    with pytest.raises(UserError, match=r"were handed over in the loop, “loop” of bench holds 30 mL"):
        taken(small, tmp_path / "there", file, who="bert", now=CAME)
    assert not [row for row in read(tmp_path / "there")[1] if row.kind in ("ledger.reconciled", "baseline")]

    with pytest.raises(UserError, match="there is no journal"):
        written(BENCH, tmp_path / "nowhere", file)
