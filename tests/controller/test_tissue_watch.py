"""The estimate on a running rig: hours are kept in the journal and restored from it alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller.journal.journal import Journal
from controller.rig.description import Rig
from controller.vitals.tissue import ROW, ROWS_AT_ONCE, TissueWatch
from controller.vitals.tissue_inputs import Instruments
from protocols.interval import Interval
from protocols.tissue.look import EVIDENCE, TISSUE, TissueLook
from tests.execution.world import RIG

BEGIN = datetime(2026, 5, 1, 7, 30, tzinfo=UTC)


class SetClock:
    def __init__(self) -> None:
        self.now = BEGIN

    def utc(self) -> datetime:
        return self.now

    def utc_text(self) -> str:
        return self.now.isoformat(timespec="milliseconds")

    def now_s(self) -> float:
        return (self.now - BEGIN).total_seconds()

    def utc_us(self) -> int:
        return round(self.now.timestamp() * 1e6)


def minute(number: int) -> TissueLook:
    return TissueLook(
        temperature_c=Interval.around(37.0, 0.15),
        oxygen_pct=Interval.around(85.0, 1.0),
        ph=Interval.around(7.35, 0.03),
        oxygen_uptake=Interval.around(14.0 + number % 5 / 10, 0.4),
        ldh=Interval.around(1.0, 0.1) if number == 90 else None,
    )


def lived(watch: TissueWatch, clock: SetClock, minutes: int, first: int = 0) -> None:
    for number in range(first, first + minutes):
        watch.note(minute(number))
        clock.now += timedelta(minutes=1)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    kept = Journal(tmp_path / "journal.db", SetClock(), durable=False)  # type: ignore[arg-type]
    yield kept
    kept.close()


def test_an_hour_is_one_row_with_its_means(journal: Journal) -> None:
    clock = SetClock()
    watch = TissueWatch(journal, clock)  # type: ignore[arg-type]
    lived(watch, clock, 200)
    rows = list(journal.entries(kinds=(ROW,)))
    assert [row.body["hour"] - rows[0].body["hour"] for row in rows] == [0, 1, 2]
    looks = [TissueLook.from_json(row.body["look"]) for row in rows]
    assert looks[1].oxygen_uptake is not None
    assert looks[1].oxygen_uptake.value == pytest.approx(14.2, abs=0.01)
    assert [each.ldh is not None for each in looks] == [False, False, True], "a result is evidence once"


def test_a_restart_restores_the_same_estimate_a_few_hours_at_a_time(journal: Journal) -> None:
    clock = SetClock()
    watch = TissueWatch(journal, clock)  # type: ignore[arg-type]
    lived(watch, clock, 60 * 12)
    before = watch.statement()
    again = TissueWatch(journal, clock)  # type: ignore[arg-type]
    lived(again, clock, 1, first=60 * 12)
    assert again.statement() is None, "not restored yet"
    rows = len(list(journal.entries(kinds=(ROW,))))
    for _ in range(-(-rows // ROWS_AT_ONCE)):
        again.restore_some()
    after = again.statement()
    assert before is not None
    assert after is not None
    assert after.estimate.past[:rows] == before.estimate.past[:rows]


def test_hours_without_a_controller_widen_the_interval(journal: Journal) -> None:
    clock = SetClock()
    watch = TissueWatch(journal, clock)  # type: ignore[arg-type]
    lived(watch, clock, 60 * 12)
    before = watch.statement()
    clock.now += timedelta(days=5)
    again = TissueWatch(journal, clock)  # type: ignore[arg-type]
    for _ in range(10):
        again.restore_some()
    lived(again, clock, 1)
    after = again.statement()
    assert before is not None
    assert after is not None
    assert after.estimate.past[-1].width > before.estimate.past[-1].width


def test_a_calibration_makes_the_scale_new_once_and_a_restart_knows_it(journal: Journal) -> None:
    """Hours before and after it are not mixed, and a rig file with another probe is noticed at the next start."""
    clock = SetClock()

    def sources(rig: Rig = RIG) -> Instruments:
        return Instruments(rig, journal, oxygen=("do_loop.oxygen",), pumps=("reglo.heart",))

    watch, instruments = TissueWatch(journal, clock), sources()  # type: ignore[arg-type]
    for number in range(180):
        if number == 60:
            journal.append("calibration.set", {"point": "do_loop.oxygen"})
            journal.append("calibration.set", {"point": "ph_loop.ph"})
        watch.note(minute(0 if number < 60 else 20), instruments.now())
        clock.now += timedelta(minutes=1)
    rows = [TissueLook.from_json(row.body["look"]) for row in journal.entries(kinds=(ROW,))]
    assert [row.rescaled for row in rows] == [(), ("oxygen_uptake",), ()]
    devices = RIG.devices | {"do_loop": RIG.devices["do_loop"].model_copy(update={"link": "sim:other"})}
    for rig, changed in ((RIG, ()), (RIG.model_copy(update={"devices": devices}), ("oxygen_uptake",))):
        again = TissueWatch(journal, clock)  # type: ignore[arg-type]
        again.restore_some()
        again.restore_some()
        again.note(minute(0), sources(rig).now())
        found = again.statement()
        assert found is not None
        assert found.look.rescaled == changed
    journal.append("tissue.placed", {"chamber": "dish"})
    watch.note(minute(0), instruments.now())
    placed = watch.statement()
    assert placed is not None
    assert set(placed.look.rescaled) == {*EVIDENCE, TISSUE}


def test_a_certain_loss_is_a_cause_of_the_alarm_and_a_sound_culture_is_not(journal: Journal) -> None:
    """Recycling once killed sensitive tissue over days, and only the card showed it."""
    clock = SetClock()
    watch = TissueWatch(journal, clock)  # type: ignore[arg-type]
    lived(watch, clock, 60 * 24)
    assert watch.lost == 0.0
    for _ in range(60 * 24):
        watch.note(replace(minute(0), oxygen_uptake=Interval.around(3.0, 0.3), ldh=Interval.around(6.0, 0.5)))
        clock.now += timedelta(minutes=1)
    assert watch.lost > 0.1
    again = TissueWatch(journal, clock)  # type: ignore[arg-type]
    assert again.lost == 0.0, "nothing is said before the journal is read again"
    while again.statement() is None:
        again.restore_some()
        again.note(minute(0))
    assert again.lost == pytest.approx(watch.lost, abs=0.05)
