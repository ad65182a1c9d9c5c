"""Bottles: how long what is in them may be used, and what the ledger expects of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from controller.alarms.definitions import DEFINITIONS
from controller.ledger.batches import Batch, Whereabouts
from controller.ledger.medium_ageing import MediumAgeing
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.upkeep.bottles import bottle_causes, limit_d
from protocols.medium_ageing import COLD_C, FACTORS_Q10, USE_WITHIN_D, kept, use_within_d

BENCH = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")
LOADED = "2026-01-01T08:00:00.000Z"
DAY_S = 86_400.0


def rig_with(*, zone: str | None = "fridge", **medium: object) -> Rig:
    vessels = dict(BENCH.vessels) | {"reservoir": BENCH.vessels["reservoir"].model_copy(update={"zone": zone})}
    media = dict(BENCH.media) | {"fresh": BENCH.media["fresh"].model_copy(update=medium)}
    return BENCH.model_copy(update={"vessels": vessels, "media": media})


def causes(rig: Rig, days: float, *more: tuple[str, float, float]) -> dict[tuple[str, str], str]:
    """Return the causes some days after a bottle was put in, and after other lots: name, day and share."""
    medium = Whereabouts()
    for lot, day, share in (("A", 0.0, 1.0), *more):
        utc = (datetime.fromisoformat(LOADED) + timedelta(days=day)).isoformat()
        medium.loaded(Batch(lot, "fresh", utc, "reservoir"), share=share)
        medium.loaded(Batch(f"g{lot}", "glucose_stock", utc, "glucose"), share=share)
    now = datetime.fromisoformat(LOADED) + timedelta(days=days)
    return bottle_causes(rig, medium, now.isoformat())


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


def test_the_ledger_expects_less_of_an_old_bottle() -> None:
    ageing = MediumAgeing(BENCH)
    fresh = ageing.of_medium("fresh")
    old = ageing.older("reservoir", fresh, 60 * DAY_S)
    warm = MediumAgeing(rig_with(zone=None)).older("reservoir", fresh, 60 * DAY_S)
    assert old.age_s == warm.age_s == 60 * DAY_S
    assert 0.2 < old.factors < 0.35
    assert 0.75 < old.glutamine < 0.95
    assert old.insulin > 0.9
    assert warm.factors < 0.01
    assert warm.glutamine < 0.5
    stable = MediumAgeing(rig_with(zone=None, stable_glutamine=True)).older("reservoir", fresh, 60 * DAY_S)
    assert stable.glutamine > 0.95
    assert (ageing.of_medium("glucose_stock").insulin, ageing.of_medium("glucose_stock").factors) == (0.0, 0.0)


def test_a_bottle_that_was_made_earlier_is_older() -> None:
    ageing = MediumAgeing(BENCH)
    bought = ageing.of_batch(Batch("A", "fresh", LOADED, "reservoir", made_utc="2025-12-22"))
    assert bought.age_s == 10 * DAY_S
    assert bought.factors == pytest.approx(ageing.older("reservoir", ageing.of_medium("fresh"), 10 * DAY_S).factors)


def test_what_is_left_has_bounds_that_widen_with_the_loss() -> None:
    some, much = kept(0.9), kept(0.3)
    assert some.low < 0.9 < some.high
    assert much.high - much.low > some.high - some.low
    assert kept(1.0).low == kept(1.0).high == 1.0
