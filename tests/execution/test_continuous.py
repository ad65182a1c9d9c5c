"""What is booked without a dose: the open flow of a heart, and vessels that stand on a balance."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.core.state import ActuatorView, Reading, State
from controller.journal.terms import JournalUnwritten
from controller.rig.description import Rig
from controller.transfers.continuous import BOOK_EVERY_S, ContinuousBookings
from controller.transfers.strays import OpenLines
from drivers.commands import Guarantee, PumpStatus, Quality, Run
from tests.composed_rigs import single_pass, two_plates
from tests.execution.ledger_bench import LedgerBench
from tests.execution.world import RIG

pytestmark = pytest.mark.virtual_time
DAY_S = 86_400.0


class Bench(LedgerBench):
    """Ledger and continuous bookings of a rig; `process` begins again, as after a restart."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        super().__init__(rig, folder)
        self.open_lines = OpenLines()
        self.process()

    def process(self) -> None:
        self.ledger = self.opened()
        self.bookings = ContinuousBookings(
            self.rig, ledger=self.ledger, journal=self.journal, trust=None, open_lines=self.open_lines
        )

    def update(self, *, total_ul: float = 0.0, readings: Mapping[str, float] | None = None) -> None:
        now_s = self.clock.now_s()
        status = PumpStatus(True, 2000.0, total_ul, 1000.0)
        run = Run(2000.0)
        view = ActuatorView(status, now_s, run, run, Guarantee.DEVICE)
        pumps = {line.pump: view for line in self.rig.lines.values() if line.pump is not None}
        seen = {point: Reading(value, "g", Quality.GOOD, now_s) for point, value in (readings or {}).items()}
        self.bookings.update(State(now_s, self.clock.utc_text(), seen, pumps, {}, (), {}))

    async def weighed(self, g: float) -> None:
        """Let the balance show `g` until it is booked."""
        await asyncio.sleep(BOOK_EVERY_S - 20.0)
        for _ in range(5):
            await asyncio.sleep(5.0)
            self.update(readings={"balance.mass": g})

    def rows(self, kind: str) -> int:
        return sum(1 for _ in self.journal.entries(kinds=(kind,)))


@contextmanager
def bench(folder: Path, rig: Rig) -> Iterator[Bench]:
    made = Bench(rig, folder)
    try:
        yield made
    finally:
        made.journal.close()


async def test_a_bottle_that_a_heart_empties_is_booked_and_a_restart_loses_nothing(tmp_path: Path) -> None:
    with bench(tmp_path, single_pass()) as made:
        made.update(total_ul=70.0)  # what the pump had moved before this journal began is not the bottle's
        await asyncio.sleep(BOOK_EVERY_S)
        made.update(total_ul=20_070.0)
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(180_000.0)
        assert made.ledger.volumes()["waste"].ul == pytest.approx(20_000.0)
        await asyncio.sleep(60.0)
        made.update(total_ul=22_070.0)
        assert made.rows("moved") == 2, "not due yet"
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(178_000.0), "and known in between"
        assert made.ledger.volumes()["waste"].ul == pytest.approx(22_000.0)
        made.update(total_ul=22_570.0)
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(177_500.0)  # a hundredth of the bottle
        made.process()
        made.update(total_ul=24_070.0)
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(176_000.0)
        await asyncio.sleep(BOOK_EVERY_S)
        made.update(total_ul=1_000.0)  # the pump lost its power and began at zero
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(175_000.0)
        assert made.ledger.volumes()["chip"].ul == pytest.approx(12_000.0)


async def test_a_counter_of_whole_millilitres_leaves_no_gap_between_two_of_its_values(tmp_path: Path) -> None:
    """The pump's total stays for minutes while its flow goes on (2 mL/min here); a counter that is stuck adds no more."""
    with bench(tmp_path, single_pass()) as made:
        made.update()
        for seconds, bottle_ul in ((20.0, 199_333.3), (9.0, 199_033.3), (600.0, 199_000.0)):
            await asyncio.sleep(seconds)
            made.update()
            assert made.ledger.volumes()["bottle"].ul == pytest.approx(bottle_ul, abs=0.1)
        made.update(total_ul=1_000.0)
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(199_000.0)
        assert made.ledger.volumes()["chip"].ul == pytest.approx(12_000.0)


async def test_a_volume_that_a_person_enters_is_that_of_now(tmp_path: Path) -> None:
    """What flowed before the entry is booked before it: neither the new volume nor the next row contains it."""
    with bench(tmp_path, single_pass()) as made:
        made.update()
        await asyncio.sleep(60.0)
        made.update(total_ul=2_000.0)
        made.ledger.reconcile("waste", 0.0, 100.0, user="ada", reason="emptied")
        assert made.ledger.volumes()["waste"].ul == pytest.approx(0.0)
        (row,) = made.journal.entries(kinds=("ledger.reconciled",))
        assert row.body["change_ul"] == pytest.approx(-2_000.0)
        await asyncio.sleep(BOOK_EVERY_S)
        made.update(total_ul=22_000.0)
        assert made.ledger.volumes()["waste"].ul == pytest.approx(20_000.0)
        residual = made.ledger.level("waste", 20_000.0, 100.0, user="ada", reason="")
        assert residual.value == pytest.approx(0.0, abs=1.0)


async def test_the_doubt_about_the_flow_adds_up_as_one_gain(tmp_path: Path) -> None:
    with bench(tmp_path, single_pass()) as made:
        made.update()
        for count in range(1, 7):
            await asyncio.sleep(BOOK_EVERY_S)
            made.update(total_ul=10_000.0 * count)
        assert made.ledger.gain("pump.pump") is not None
        gain, sd = made.ledger.gain("pump.pump") or (0.0, 0.0)
        assert gain == pytest.approx(1.0)
        assert made.ledger.volumes()["waste"].sd_ul == pytest.approx(60_000.0 * sd, rel=0.1)


async def test_medium_that_comes_back_has_no_rows(tmp_path: Path) -> None:
    for name, rig in (("plates", two_plates()), ("bench", RIG)):
        (tmp_path / name).mkdir()
        with bench(tmp_path / name, rig) as made:
            made.update()
            await asyncio.sleep(DAY_S)
            made.update(total_ul=1e6)
            assert made.rows("moved") == 0


async def test_a_balance_under_the_loop_needs_no_tare_and_keeps_the_volume_known(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as made:
        await made.weighed(412.3)  # 200 mL in a bottle of 212.3 g
        assert made.rows("ledger.tared") == 1
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(200_000.0, abs=10.0)
        for day in range(1, 41):
            await asyncio.sleep(DAY_S)
            await made.weighed(412.3 - 0.16 * day)  # 60 µL/d more than expected
        held = made.ledger.volumes()["bottle"]
        assert held.ul == pytest.approx(200_000.0 - 40 * 160.0, abs=400.0)
        assert held.sd_ul < 1_100.0  # that of the filling: the loss is known
        assert not made.alarms
        made.process()
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(held.ul, abs=1.0)


async def test_a_leak_raises_an_alarm_and_is_booked(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as made:
        await made.weighed(400.0)
        before_ul = made.ledger.volumes()["bottle"].sd_ul
        await made.weighed(398.0)
        ((kind, source, detail),) = made.alarms
        assert (kind, source) == ("balance_drift", "bottle")
        assert "enter what was changed by hand" in detail
        held = made.ledger.volumes()["bottle"]
        assert held.ul == pytest.approx(198_000.0, abs=50.0)
        assert made.ledger.totals.unaccounted_ul == pytest.approx(-2_000.0, abs=50.0)
        await made.weighed(398.0)
        assert len(made.alarms) == 1
        doubt_ul = math.hypot(before_ul, 2_000.0 / 3)
        assert made.ledger.volumes()["bottle"].sd_ul == pytest.approx(doubt_ul, rel=0.02), (
            "a leak, or the balance is off"
        )


async def test_a_bottle_that_is_lifted_off_its_balance_is_not_booked(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as made:
        await made.weighed(412.3)
        await made.weighed(0.0)
        await made.weighed(0.0)
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(200_000.0, abs=10.0)
        assert len(made.alarms) == 1
        await made.weighed(412.2)
        assert len(made.alarms) == 1


async def test_after_a_change_by_hand_the_tare_is_taken_again(tmp_path: Path) -> None:
    with bench(tmp_path, two_plates()) as made:
        await made.weighed(412.3)
        made.ledger.reconcile("bottle", 180_000.0, 500.0, user="ada", reason="another bottle")
        await made.weighed(350.0)
        assert made.rows("ledger.tared") == 2
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(180_000.0, abs=10.0)
        assert not made.alarms


async def test_what_the_disk_does_not_take_is_booked_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench(tmp_path, single_pass()) as made:
        made.update()
        await asyncio.sleep(BOOK_EVERY_S)

        def full(*_: object, **__: object) -> int:
            raise JournalUnwritten("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(made.journal, "append", full)
            with pytest.raises(JournalUnwritten):
                made.update(total_ul=20_000.0)
        made.update(total_ul=20_100.0)
        assert made.ledger.volumes()["bottle"].ul == pytest.approx(200_000.0 - 20_100.0)
