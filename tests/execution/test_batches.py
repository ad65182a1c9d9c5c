"""Perfect mixing keeps every share: nothing is lost by pruning, and where a lot went can be asked (F1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.ledger.batches import PRUNE, Batch, BatchMixture
from controller.ledger.books import Books
from controller.ledger.ledger import LOADED, Ledger, LedgerError
from controller.ledger.witnesses import DENSITY_UL_PER_G, Weight
from tests.execution.test_ledger import opened
from tests.execution.world import World

SHARES = st.floats(1e-9, 1.0)


def bottle(lot: str, **more: str) -> Batch:
    return Batch(lot, "fresh", "2026-01-01T00:00:00.000Z", "reservoir", **more)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), SHARES, st.booleans()), max_size=200))
def test_F1_shares_add_up_to_one_whatever_is_mixed_and_pruned(pours: list[tuple[str, float, bool]]) -> None:
    mixture = BatchMixture.of("start", 1)
    for lot, share, circled in pours:
        mixture = mixture.with_(mixture.entered_loop() if circled else BatchMixture.of(lot), share)
    assert sum(share for _, share in mixture) == pytest.approx(1.0)
    assert sum(mixture.by_batch.values()) == pytest.approx(1.0)
    lots = {lot for (lot, _), _ in mixture}
    small = [key for key, share in mixture if share < PRUNE]
    assert len(small) <= len(lots), "at most one parcel a lot stays below the bound"


def test_F1_a_hundred_turns_of_recycling_keep_few_parcels_and_their_mean() -> None:
    loop, uses = BatchMixture.of("A", 1), 1.0
    for _ in range(100):
        loop = loop.with_(loop.entered_loop(), 0.45)
        uses += 0.45
    assert sum(uses * share for (_, uses), share in loop) == pytest.approx(uses, rel=0.01)
    assert len(list(loop)) < 60


def load(
    ledger: Ledger, lot: str, ml: float, *, replaces: bool = True, made_utc: str = "", expires_utc: str = ""
) -> None:
    ledger.load(
        bottle(lot, made_utc=made_utc, expires_utc=expires_utc),
        ml * 1000,
        1000.0,
        replaces=replaces,
        user="anna",
        reason="a new bottle",
    )


@pytest.mark.virtual_time
async def test_F1_where_did_that_lot_go(tmp_path: Path) -> None:
    world = World()
    ledger, journal = opened(tmp_path / "j.db", world)
    load(ledger, "NB-7", 500.0, made_utc="2025-12-01", expires_utc="2026-06-01")
    ledger.moved("feed", 6_000.0, 30.0, "balance")
    ledger.moved("return", 9_000.0, 30.0, "balance")
    await asyncio.sleep(3600.0)
    where = ledger.whereabouts
    volumes = {name: volume.ul for name, volume in ledger.volumes().items()}
    told = where.batch_json("NB-7", volumes)
    assert told["passed_ul"] == {"feed": 6_000.0, "return": pytest.approx(6_000.0)}
    assert told["now_ul"]["loop"] == pytest.approx(6_000.0, rel=0.01)
    assert told["now_ul"]["reservoir"] == pytest.approx(494_000.0)
    assert told["first_use_utc"] == "2026-01-01T00:00:00.000Z"
    assert [parcel["uses"] for parcel in where.vessel_json("loop") if parcel["lot"] == "NB-7"] == [1]
    load(ledger, "NB-8", 20.0, replaces=False)
    assert where.mixtures["reservoir"].by_batch == {
        "NB-7": pytest.approx(494 / 514),
        "NB-8": pytest.approx(20 / 514),
    }
    assert ledger.totals.unaccounted_ul == pytest.approx(0.0), "what has a lot number is no mystery"
    journal.close()
    again, journal = opened(tmp_path / "j.db", world)
    for name in volumes:
        assert again.whereabouts.vessel_json(name) == where.vessel_json(name)
    assert again.whereabouts.batches == where.batches
    assert again.whereabouts.flows_ul == where.flows_ul
    journal.close()


@pytest.mark.virtual_time
async def test_a_row_of_an_impossible_date_or_of_another_release_stops_no_start(tmp_path: Path) -> None:
    world, alarms = World(), list[str]()
    ledger, journal = opened(tmp_path / "j.db", world)
    load(ledger, "NB-7", 500.0)
    row = next(journal.entries(kinds=(LOADED,)))
    journal.append(LOADED, {**row.body, "lot": "typed", "ul": 400_000.0, "made_utc": "2026-02-30"})
    journal.close()
    again, journal = opened(tmp_path / "j.db", world, alarms)
    assert again.volumes()["reservoir"].ul == pytest.approx(400_000.0)
    assert (again.unread, alarms) == ({}, []), "as good as a label without the date"
    odd = journal.append(LOADED, {**row.body, "ul": "much"})
    journal.close()
    again, journal = opened(tmp_path / "j.db", world, alarms)
    assert again.volumes()["reservoir"].ul == pytest.approx(400_000.0)
    assert list(again.unread) == [odd]
    assert alarms == ["balance_drift ledger"]
    journal.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("row", "concerned"),
    [
        ({"line": "feed", "ul": "much", "sd_ul": 1.0, "source": "pump"}, {"reservoir", "spent"}),
        ({"line": "a line of another rig", "ul": 5.0, "sd_ul": 1.0, "source": "pump"}, None),
    ],
)
async def test_a_volume_that_a_row_may_have_changed_is_unknown_until_its_level_is_read(
    tmp_path: Path, row: dict[str, object], concerned: set[str] | None
) -> None:
    world = World()
    ledger, journal = opened(tmp_path / "j.db", world)
    before = ledger.volumes()
    journal.append("moved", row)
    journal.close()
    again, journal = opened(tmp_path / "j.db", world)
    for name, volume in again.volumes().items():
        capacity_ul = world.rig.vessels[name].capacity_ul
        doubted = concerned is None or name in concerned
        assert volume.ul == pytest.approx(before[name].ul)
        assert (volume.sd_ul >= capacity_ul) is doubted, f"{name}: the gate may not fill or empty it"
        if name == "spent":
            again.weighed(Weight(volume.ul / DENSITY_UL_PER_G, 0.01))
            assert again.volumes()[name].sd_ul < 200.0, "its balance reads it"
        elif doubted:
            residual = again.level(name, 0.4 * capacity_ul, 100.0, user="anna", reason="read")
            assert not residual.gross
            assert again.volumes()[name].sd_ul <= 110.0
            assert again.volumes()[name].ul == pytest.approx(0.4 * capacity_ul, abs=10.0)
    unexplained = again.unexplained()
    assert abs(unexplained.ul) < 3.0 * unexplained.sd_ul, "a row that was left out is no leak"
    journal.close()


@pytest.mark.virtual_time
async def test_a_dose_is_booked_also_if_the_age_of_its_bottle_cannot_be_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, journal = opened(tmp_path / "j.db", World())

    def fails(*_: object) -> float:
        raise OverflowError("too old")

    monkeypatch.setattr(Books, "glutamine_left", fails)
    before = ledger.volumes()["reservoir"].ul
    ledger.moved("feed", 6_000.0, 30.0, "balance")
    assert ledger.volumes()["reservoir"].ul == pytest.approx(before - 6_000.0)
    assert [row.body["ul"] for row in journal.entries(kinds=("moved",))] == [6_000.0]
    journal.close()


@pytest.mark.virtual_time
async def test_a_bottle_that_a_person_filled_by_hand_holds_fresh_medium_of_no_known_lot(tmp_path: Path) -> None:
    world = World()
    ledger, journal = opened(tmp_path / "j.db", world)
    load(ledger, "NB-7", 100.0)
    await asyncio.sleep(20 * 86_400.0)
    old = ledger.parcels()["reservoir"]

    def changed(ml: float) -> None:
        ledger.reconcile("reservoir", ml * 1000.0, 1000.0, user="anna", reason="changed")

    for ml in (101.0, 20.0):
        changed(ml)
        assert ledger.parcels()["reservoir"].age_s == pytest.approx(old.age_s), "what was taken out makes it no fresher"
    assert list(ledger.whereabouts.mixtures["reservoir"].by_batch) == ["NB-7"]
    changed(500.0)
    lots = ledger.whereabouts.mixtures["reservoir"].by_batch
    assert lots == {"reservoir filled by hand on 2026-01-21": pytest.approx(0.96), "NB-7": pytest.approx(0.04)}
    parcel = ledger.parcels()["reservoir"]
    assert parcel.age_s == pytest.approx(0.04 * old.age_s)
    assert parcel.factors > 0.95
    ledger.moved("feed", 510_000.0, 30.0, "balance")
    changed(0.0)
    changed(100.0)
    parcel = ledger.parcels()["reservoir"]
    assert parcel.age_s == 0.0, "also after one that was emptier than empty by the books"
    journal.close()
    again, journal = opened(tmp_path / "j.db", world)
    assert again.parcels()["reservoir"].age_s == pytest.approx(parcel.age_s)
    journal.close()


@pytest.mark.virtual_time
async def test_a_bottle_that_cannot_be_is_refused_and_nothing_is_booked(tmp_path: Path) -> None:
    ledger, journal = opened(tmp_path / "j.db", World())
    rows = journal.next_seq
    for lot, ml, expires_utc, reason in (
        ("old", 500.0, "2025-12-31", "expired on 2025-12-31"),
        ("big", 5000.0, "", "do not go into 520 mL"),
        (" ", 500.0, "", "without a lot number"),
        ("none", 0.0, "", "is impossible"),
        ("nan", float("nan"), "", "is impossible"),
    ):
        with pytest.raises(LedgerError, match=reason):
            load(ledger, lot, ml, expires_utc=expires_utc)
    for made_utc, expires_utc in (("2026-02-30", ""), ("2026-13-01", ""), ("", "2026-06-31"), ("2026-02-28, noon", "")):
        with pytest.raises(LedgerError, match="is no date"):
            load(ledger, "typed", 500.0, made_utc=made_utc, expires_utc=expires_utc)
    with pytest.raises(LedgerError, match="do not go into"):
        load(ledger, "twice", 100.0, replaces=False)
    wrong = Batch("G-1", "glucose_stock", "", "reservoir")
    with pytest.raises(LedgerError, match="the wrong bottle"):
        ledger.load(wrong, 1e5, 100.0, replaces=True, user="anna", reason="")
    with pytest.raises(LedgerError, match="there is no vessel"):
        ledger.load(Batch("X", "fresh", "", "nowhere"), 1e5, 100.0, replaces=True, user="anna", reason="")
    with pytest.raises(LedgerError, match="there is no vessel"):
        ledger.level("nowhere", 1.0, 1.0, user="anna", reason="")
    with pytest.raises(LedgerError, match="is impossible"):
        ledger.level("loop", -1.0, 1.0, user="anna", reason="")
    assert journal.next_seq == rows
    journal.close()
