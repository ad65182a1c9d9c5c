"""Bottles: how long what is in them may be used, and what the ledger expects of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from controller.alarms.definitions import DEFINITIONS
from controller.core.state import Volume
from controller.ledger.batches import Batch, Whereabouts
from controller.ledger.medium_ageing import MediumAgeing
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.upkeep.bottles import bottle_causes, limit_d
from protocols.medium_ageing import COLD_C, FACTORS_Q10, USE_WITHIN_D, use_within_d

BENCH = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")
LOADED = "2026-01-01T08:00:00.000Z"
DAY_S = 86_400.0


def rig_with(*, zone: str | None = "fridge", **medium: object) -> Rig:
    zones = dict(BENCH.zones) | {"bench_top": BENCH.zones["fridge"].model_copy(update={"temperature_c": 24.0})}
    vessels = dict(BENCH.vessels) | {"reservoir": BENCH.vessels["reservoir"].model_copy(update={"zone": zone})}
    media = dict(BENCH.media) | {"fresh": BENCH.media["fresh"].model_copy(update=medium)}
    return BENCH.model_copy(update={"zones": zones, "vessels": vessels, "media": media})


def causes(rig: Rig, days: float, *more: tuple[str, float, float]) -> dict[tuple[str, str], str]:
    """Return the causes some days after a bottle was put in, and after other lots: name, day and share."""
    medium = Whereabouts()
    for lot, day, share in (("A", 0.0, 1.0), *more):
        utc = (datetime.fromisoformat(LOADED) + timedelta(days=day)).isoformat()
        medium.loaded(Batch(lot, "fresh", utc, "reservoir"), share=share)
        medium.loaded(Batch(f"g{lot}", "glucose_stock", utc, "glucose"), share=share)
    now = datetime.fromisoformat(LOADED) + timedelta(days=days)
    return bottle_causes(rig, medium, {}, now.isoformat())


def test_complete_medium_has_a_limit_by_its_temperature_and_stocks_have_none() -> None:
    assert limit_d(BENCH, "reservoir") == USE_WITHIN_D
    assert limit_d(BENCH, "glucose") is None
    assert limit_d(BENCH, "loop") is None
    room = limit_d(rig_with(zone=None), "reservoir")
    assert room is not None
    assert 1.0 < room < 5.0, "in the room"
    assert limit_d(rig_with(use_within_d=30.0), "reservoir") == 30.0
    assert use_within_d(COLD_C + 10.0) == pytest.approx(USE_WITHIN_D / FACTORS_Q10)


def test_a_bottle_is_due_before_its_limit_and_over_after_it() -> None:
    assert causes(BENCH, 10.0) == {}
    assert set(causes(BENCH, 11.5)) == {("bottle_due", "reservoir")}
    over = causes(BENCH, 14.0)
    assert set(over) == {("bottle_over", "reservoir")}
    assert "kept at 4 °C" in over["bottle_over", "reservoir"]
    assert DEFINITIONS["bottle_over"].priority == "medium"
    assert DEFINITIONS["bottle_due"].priority == "low"


def test_a_new_bottle_ends_it_and_a_refill_does_not() -> None:
    assert causes(BENCH, 15.0, ("B", 14.5, 1.0)) == {}
    assert set(causes(BENCH, 15.0, ("B", 14.5, 0.5))) == {("bottle_over", "reservoir")}
    assert causes(BENCH, 15.0, ("B", 14.5, 0.97)) == {}, "a remainder that no longer counts"


def test_more_of_the_same_lot_is_no_new_bottle_and_each_bottle_of_a_lot_has_its_own_day() -> None:
    assert set(causes(BENCH, 19.0, ("A", 13.0, 0.5))) == {("bottle_over", "reservoir")}
    assert causes(BENCH, 19.0, ("A", 13.0, 1.0)) == {}, "the bottle was changed for another one of the lot"
    assert causes(BENCH, 19.0, ("A", 13.0, 0.97)) == {}
    medium = Whereabouts()
    for vessel, day in (("reservoir", 0), ("glucose", 13)):
        utc = (datetime.fromisoformat(LOADED) + timedelta(days=day)).isoformat()
        medium.loaded(Batch("A", "fresh", utc, vessel))
    now = datetime.fromisoformat(LOADED) + timedelta(days=19)
    assert set(bottle_causes(BENCH, medium, {}, now.isoformat())) == {("bottle_over", "reservoir")}


def test_a_bottle_that_is_empty_and_a_stock_without_supplements_have_no_limit() -> None:
    medium = Whereabouts()
    medium.loaded(Batch("A", "fresh", LOADED, "reservoir"))
    now = (datetime.fromisoformat(LOADED) + timedelta(days=20)).isoformat()
    for ul, found in ((0.0, set()), (BENCH.vessels["reservoir"].floor_ul + 1.0, {("bottle_over", "reservoir")})):
        assert set(bottle_causes(BENCH, medium, {"reservoir": Volume(ul, 10.0)}, now)) == found
    media = dict(BENCH.media) | {"glucose_stock": BENCH.media["glucose_stock"].model_copy(update={"glutamine_mm": 2.0})}
    assert limit_d(BENCH.model_copy(update={"media": media}), "glucose") is None


def test_the_ledger_expects_less_of_an_old_bottle() -> None:
    ageing = MediumAgeing(BENCH)
    fresh = ageing.of_medium("fresh")
    old = ageing.older("reservoir", fresh, 60 * DAY_S)
    warm = MediumAgeing(rig_with(zone="bench_top")).older("reservoir", fresh, 60 * DAY_S)
    assert old.age_s == warm.age_s == 60 * DAY_S
    assert 0.2 < old.factors < 0.35
    assert 0.75 < old.glutamine < 0.95
    assert old.insulin > 0.9
    assert warm.factors < 0.01
    assert warm.glutamine < 0.5
    stable = MediumAgeing(rig_with(zone="bench_top", stable_glutamine=True)).older("reservoir", fresh, 60 * DAY_S)
    assert stable.glutamine > 0.95
    assert (ageing.of_medium("glucose_stock").insulin, ageing.of_medium("glucose_stock").factors) == (0.0, 0.0)


def test_a_bottle_without_a_zone_ages_as_in_a_refrigerator_and_has_the_limit_of_the_room() -> None:
    """Rig files of release 0.2.0 have no zone for the bottle in their refrigerator: its medium is as good as it was."""
    unzoned, fresh = rig_with(zone=None), MediumAgeing(BENCH).of_medium("fresh")
    assert MediumAgeing(unzoned).older("reservoir", fresh, 30 * DAY_S) == MediumAgeing(BENCH).older(
        "reservoir", fresh, 30 * DAY_S
    )
    assert "kept at 24 °C (the room: it has no zone" in causes(unzoned, 5.0)["bottle_over", "reservoir"]


def test_a_bottle_that_was_made_earlier_is_older() -> None:
    ageing = MediumAgeing(BENCH)
    bought = ageing.of_batch(Batch("A", "fresh", LOADED, "reservoir", made_utc="2025-12-22"))
    assert bought.age_s == 10 * DAY_S
    assert bought.factors == pytest.approx(ageing.older("reservoir", ageing.of_medium("fresh"), 10 * DAY_S).factors)
    frozen = Batch("A", "fresh", LOADED, "reservoir", made_utc="2025-06-01", thawed_utc="2025-12-30")
    assert ageing.of_batch(frozen).age_s == 2 * DAY_S, "nothing fades in the freezer"
    typed = Batch("A", "fresh", LOADED, "reservoir", made_utc="2026-02-30")
    assert ageing.of_batch(typed) == ageing.of_medium("fresh")


def test_a_stock_with_glutamine_keeps_it_as_long_as_any_bottle() -> None:
    """Dialysate has no supplements; what its label says of glutamine is there."""
    ageing = MediumAgeing(BENCH)
    stock = ageing.of_medium("glucose_stock")
    assert (stock.insulin, stock.factors, stock.glutamine) == (0.0, 0.0, 1.0)
