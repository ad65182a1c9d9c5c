"""The ledger conserves volume, says how sure it is, and is the same after a restart (F1)."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger, LedgerError
from controller.ledger.terms import EVAPORATION_UL_D, SPENT_EVAPORATION_UL_D
from controller.ledger.witnesses import Weight
from sim.virtual_time import run_virtual
from tests.execution.world import RIG, StepClock, World

LINES = [name for name, line in RIG.lines.items() if line.pump and name != "heart"]
MOVES = st.lists(
    st.tuples(st.sampled_from(LINES), st.floats(0.0, 20_000.0), st.floats(0.0, 300.0), st.floats(0.0, 7200.0)),
    max_size=30,
)


def opened(path: Path, world: World, alarms: list[str] | None = None) -> tuple[Ledger, Journal]:
    clock = StepClock(world)
    journal = Journal(path, clock, durable=False)

    def alarm(kind: str, source: str, detail: str) -> None:
        if alarms is not None:
            alarms.append(f"{kind} {source}")

    return Ledger(RIG, journal, clock, alarm=alarm), journal


def in_a_folder(check: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder))


@settings(max_examples=60, deadline=None)
@given(MOVES)
def test_F1_what_leaves_one_vessel_enters_another(moves: list[tuple[str, float, float, float]]) -> None:
    async def check(path: Path) -> None:
        ledger, journal = opened(path, World())
        start = {name: volume.ul for name, volume in ledger.volumes().items()}
        flow = dict.fromkeys(start, 0.0)
        for line, ul, sd_ul, wait_s in moves:
            await asyncio.sleep(wait_s)
            ledger.moved(line, ul, sd_ul, "balance")
            flow[RIG.lines[line].from_] -= ul
            flow[RIG.lines[line].to] += ul
        end = ledger.volumes()
        for name, volume in end.items():
            days = sum(wait for *_, wait in moves) / 86_400
            evaporated = days * {"loop": EVAPORATION_UL_D, "spent": SPENT_EVAPORATION_UL_D}.get(name, 0.0)
            assert volume.ul == pytest.approx(start[name] + flow[name] - evaporated, abs=1e-3)
            assert math.isfinite(volume.sd_ul)
        everything = sum(volume.ul for volume in end.values())
        assert everything + ledger.totals.evaporated_ul == pytest.approx(sum(start.values()), abs=1e-2 + 0.3)
        for parcel in ledger.parcels().values():
            assert 0.0 <= parcel.unused <= 1.0
            assert parcel.passes >= 0.0
        assert ledger.totals.recycled_ul <= ledger.totals.given_back_ul + 1e-6
        journal.close()

    in_a_folder(lambda folder: run_virtual(check(folder / "j.db")))


@settings(max_examples=30, deadline=None)
@given(MOVES, st.floats(0.0, 30_000.0))
def test_F1_rebuilt_from_the_journal_it_is_the_same(
    moves: list[tuple[str, float, float, float]], gone_s: float
) -> None:
    async def check(path: Path) -> None:
        world = World()
        ledger, journal = opened(path, world)
        for line, ul, sd_ul, wait_s in moves:
            await asyncio.sleep(wait_s)
            ledger.moved(line, ul, sd_ul, "balance")
        journal.close()
        await asyncio.sleep(gone_s)
        again, journal = opened(path, world)
        for name, volume in ledger.volumes().items():
            assert again.volumes()[name].ul == pytest.approx(volume.ul, abs=0.01), name
            assert again.volumes()[name].sd_ul == pytest.approx(volume.sd_ul, rel=1e-3, abs=0.01), name
        for name, parcel in ledger.parcels().items():
            assert again.parcels()[name].passes == pytest.approx(parcel.passes, abs=1e-6)
            assert again.parcels()[name].age_s == pytest.approx(parcel.age_s, abs=1.0)
        assert again.totals.recycled_ul == pytest.approx(ledger.totals.recycled_ul)
        journal.close()

    in_a_folder(lambda folder: run_virtual(check(folder / "j.db")))


@pytest.mark.virtual_time
async def test_the_doubt_about_the_loop_grows_with_time_and_ends_when_it_is_read(tmp_path: Path) -> None:
    ledger, journal = opened(tmp_path / "j.db", World())
    before = ledger.volumes()["loop"]
    await asyncio.sleep(7 * 86_400)
    after = ledger.volumes()["loop"]
    assert after.ul == pytest.approx(before.ul - 700.0, abs=1.0)
    assert 400.0 < after.sd_ul < 600.0
    assert 100.0 < ledger.volumes()["spent"].sd_ul < 200.0, "it was not weighed for a week"
    ledger.reconcile("loop", 38_900.0, 100.0, user="anna", reason="read off the scale")
    assert ledger.volumes()["loop"].sd_ul == pytest.approx(100.0)
    row = journal.last("ledger.reconciled")
    assert row is not None
    assert (row.body["user"], row.body["reason"]) == ("anna", "read off the scale")
    journal.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("vessel", "ul", "reason", "told"),
    [
        ("nowhere", 1.0, "emptied", "there is no vessel"),
        ("waste", -1.0, "emptied", "is impossible"),
        ("waste", float("nan"), "emptied", "is impossible"),
        ("waste", 3e6, "emptied", "which holds 2000 mL"),
        ("waste", 0.0, " ", "needs a reason"),
    ],
)
async def test_D4_what_was_changed_by_hand_has_to_be_possible_and_to_have_a_reason(
    vessel: str, ul: float, reason: str, told: str, tmp_path: Path
) -> None:
    ledger, journal = opened(tmp_path / "j.db", World())
    before = journal.next_seq
    with pytest.raises(LedgerError, match=told):
        ledger.reconcile(vessel, ul, 500.0, user="anna", reason=reason)
    assert journal.next_seq == before
    journal.close()


@pytest.mark.virtual_time
async def test_F4_the_balance_beyond_k_sigma_is_an_alarm_within_it_is_not(tmp_path: Path) -> None:
    alarms: list[str] = []
    ledger, journal = opened(tmp_path / "j.db", World(), alarms)
    ledger.weighed(Weight(3.03, 0.015))
    assert alarms == []
    assert ledger.volumes()["spent"].ul == pytest.approx(3030.0)
    ledger.weighed(Weight(3.6, 0.015))
    assert alarms == ["balance_drift spent"]
    volume = ledger.volumes()["spent"]
    assert volume.ul == pytest.approx(3600.0)
    assert volume.sd_ul >= 570.0 / 3
    assert ledger.totals.unaccounted_ul == pytest.approx(600.0)
    journal.close()


@pytest.mark.virtual_time
async def test_F4_a_balance_that_is_off_stays_in_doubt_over_later_doses(tmp_path: Path) -> None:
    """A drifting balance said 7.5 mL too much; after the next weighed dose all was trusted again, and a pump ran dry."""
    world = World()
    ledger, journal = opened(tmp_path / "j.db", world)
    ledger.weighed(Weight(3.0, 0.015))
    ledger.weighed(Weight(10.5, 0.015))
    ledger.moved("draw", 16_000.0, 40.0, "balance", weight=Weight(26.5, 0.015))
    ledger.weighed(Weight(26.5, 0.015))
    volume = ledger.volumes()["spent"]
    assert volume.ul == pytest.approx(26_500.0, abs=20.0)
    assert volume.sd_ul == pytest.approx(2_500.0, rel=0.02)
    journal.close()
    ledger, journal = opened(tmp_path / "j.db", world)
    assert ledger.volumes()["spent"].sd_ul == pytest.approx(2_500.0, rel=0.02), "a restart remembers it"
    ledger.reconcile("spent", 19_000.0, 100.0, user="ada", reason="read off the scale")
    assert ledger.volumes()["spent"].sd_ul == pytest.approx(100.0, rel=0.02)
    journal.close()


@pytest.mark.virtual_time
async def test_F4_a_level_that_is_read_tells_by_how_much_the_balance_is_off(tmp_path: Path) -> None:
    alarms: list[str] = []
    ledger, journal = opened(tmp_path / "j.db", World(), alarms)
    ledger.weighed(Weight(3.0, 0.015))
    ledger.weighed(Weight(10.0, 0.015))
    ledger.level("spent", 3_200.0, 50.0, user="ada", reason="read off the scale")
    ledger.moved("draw", 16_000.0, 40.0, "balance", weight=Weight(26.0, 0.015))
    assert ledger.volumes()["spent"].ul == pytest.approx(19_200.0, abs=60.0)
    assert ledger.volumes()["spent"].sd_ul < 100.0
    assert alarms == ["balance_drift spent"]
    ledger.weighed(Weight(19.2, 0.015))  # the balance is right again: which of the two has changed, nothing tells
    assert alarms == 2 * ["balance_drift spent"]
    volume = ledger.volumes()["spent"]
    assert abs(volume.ul - 19_200.0) == pytest.approx(3.0 * volume.sd_ul, rel=0.05), "the doubt covers both"
    journal.close()


@pytest.mark.virtual_time
async def test_F4_a_vessel_that_is_put_back_on_its_balance_is_in_no_doubt(tmp_path: Path) -> None:
    alarms: list[str] = []
    ledger, journal = opened(tmp_path / "j.db", World(), alarms)
    ledger.weighed(Weight(3.0, 0.015))
    ledger.weighed(Weight(0.0, 0.015))
    assert ledger.volumes()["spent"].sd_ul >= 1_000.0
    ledger.weighed(Weight(3.0, 0.015))
    assert ledger.volumes()["spent"].sd_ul < 50.0
    assert alarms == 2 * ["balance_drift spent"]
    journal.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize(("gone_ul", "alarm"), [(80.0, []), (400.0, ["balance_drift spent"])])
async def test_F4_what_evaporates_between_two_bookings_is_no_alarm_and_a_leak_is(
    gone_ul: float, alarm: list[str], tmp_path: Path
) -> None:
    """The first draw of a run came after 3.7 days without a booking, and 20 ± 20 µL a day had gone meanwhile: it once was
    held against what the vessel had held when the journal began.
    """
    alarms: list[str] = []
    ledger, journal = opened(tmp_path / "j.db", World(), alarms)
    ledger.weighed(Weight(3.0, 0.015))
    await asyncio.sleep(3.667 * 86_400)
    expected = ledger.volumes()["spent"]
    ledger.weighed(Weight(3.0 - gone_ul / 1000, 0.015))
    assert alarms == alarm
    row = journal.last("ledger.weighed")
    assert (row is not None) == bool(alarm), "as much as was expected to go is not worth a row"
    if row is None:
        assert ledger.volumes()["spent"] == expected
    else:
        assert row.body["change_ul"] == pytest.approx(3000.0 - gone_ul - expected.ul, abs=0.1)
    journal.close()


@pytest.mark.virtual_time
async def test_reused_medium_is_told_from_fresh(tmp_path: Path) -> None:
    ledger, journal = opened(tmp_path / "j.db", World())
    for _ in range(3):
        ledger.moved("draw", 18_000.0, 20.0, "balance")
        ledger.moved("return", 18_000.0, 20.0, "balance")
    parcels = ledger.parcels()
    assert 0.9 < parcels["loop"].passes < 1.3
    assert parcels["loop"].unused == 0.0
    assert parcels["reservoir"].unused == 1.0
    recycled_ul = ledger.totals.recycled_ul
    assert 54_000.0 - 3000.0 <= recycled_ul <= 54_000.0, "the residue of fresh medium in the vessel is not recycled"
    ledger.moved("discard", 2800.0, 20.0, "balance")
    ledger.moved("feed", 18_000.0, 20.0, "balance")
    ledger.moved("return", 18_000.0, 20.0, "balance")
    assert ledger.totals.recycled_ul - recycled_ul < 300.0
    assert ledger.totals.fresh_ul == 18_000.0
    assert ledger.parcels()["loop"].passes < parcels["loop"].passes
    journal.close()
