"""Welfare gates: load, daily rest, age tiers and their review; each refusal says why (N9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nerves.bookings import Bookings
from nerves.cards.contract import ArrayInfo, Impedance, Phase
from nerves.envelope import Envelope
from nerves.governor import GovernorView, Request, StimulationDecision, book, decide
from nerves.permit import (
    CAREFUL,
    GENTLE,
    NONE,
    OPEN,
    TIER_2_AGE_D,
    Permit,
    PermitReview,
    Tissue,
    permit,
    tissue_at,
)
from tests.nerves.bench import PULSE, bench

RATE = 1000
"""Slow, so that a day is not many bins."""
INFO = ArrayInfo("test array", 4, float(RATE), 0.195, "Pt", 30.0, 25, 5, 20.0, 0.01, 7.0, True, skew_us=0.0)
SOFT = (Phase(100.0, -1.0), Phase(100.0, 1.0))
"""0.1 nC a phase: FinalSpark's default pulse."""
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def look(at_s: float, bookings: Bookings, allowed: Permit | None = None) -> GovernorView:
    base = GovernorView(
        next_frame=round(at_s * RATE) + 1,
        info=INFO,
        impedances=[Impedance(220.0, round(at_s * RATE))] * 4,
        lease_electrodes=frozenset(range(4)),
        bookings=bookings,
        pending=0,
        response_lost=False,
    )
    return base if allowed is None else replace(base, permit=allowed)


def ask(phases: tuple[Phase, ...] = PULSE) -> Request:
    return Request("agent", "lease", (0,), phases)


def limits(decision: StimulationDecision) -> set[str]:
    return {reason.limit for reason in decision.reasons}


def test_N9_a_day_without_eight_hours_of_rest_is_refused() -> None:
    bookings, envelope = Bookings(RATE, Envelope().rest_s), Envelope()
    accepted_h = []
    for stretch in range(36 * 6):
        seen = look(stretch * 600.0, bookings)
        bookings.forget_before(seen.next_frame)
        decision = decide(ask(), seen, envelope)
        if decision.accepted:
            accepted_h.append(stretch / 6)
            book(ask(), decision, bookings)
        else:
            assert limits(decision) == {"day"}
            assert "16 h" in decision.reasons[0].text
    assert sum(hour < 24 for hour in accepted_h) == 16 * 6
    for begin in range(12):
        assert sum(begin <= hour < begin + 24 for hour in accepted_h) <= 16 * 6


def test_N9_charge_of_an_hour_is_bounded() -> None:
    bookings, envelope = Bookings(RATE, Envelope().rest_s), Envelope(organoid_nc_h=4.0)
    decisions = []
    for second in range(12):
        decisions.append(decide(ask(), look(float(second), bookings), envelope))
        if decisions[-1].accepted:
            book(ask(), decisions[-1], bookings)
    assert [each.accepted for each in decisions] == [True] * 10 + [False] * 2  # 0.4 nC a pulse
    assert limits(decisions[-1]) == {"load"}


@pytest.mark.long
def test_N9_load_and_rest_survive_a_restart_of_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "stimulation.db"
    envelope = Envelope(rest_s=1.0)
    with bench(path, envelope=envelope) as first:
        lease = first.lease(5, ttl_s=10.0)
        for _ in range(3):
            assert first.ask(Request("agent", lease.id, (5,), PULSE)).decision.accepted
            first.run(0.5)
        first.run(70.0)
        assert first.core.load.share > 0.0
        before = first.core.load
    with bench(path, envelope=envelope) as again:
        again.run(1.2)
        assert again.core.load.rest_h == before.rest_h < 24.0
        assert again.core.load.share == pytest.approx(before.share)
        assert again.core._bookings.hour.total == pytest.approx(3 * 0.4)


@pytest.mark.parametrize(
    ("tissue", "tier", "level", "word"),
    [
        (Tissue(60.0), 1, OPEN, ""),
        (Tissue(TIER_2_AGE_D - 0.1), 1, OPEN, ""),
        (Tissue(150.0), 2, GENTLE, "no review is on record"),
        (Tissue(150.0, review=PermitReview("Ethics board", "2026-05-01", -31.0, 149.0)), 2, CAREFUL, "tier 2"),
        (Tissue(150.0, review=PermitReview("Ethics board", "2026-01-01", -151.0, -1.0)), 2, GENTLE, "ran out 1 d ago"),
        (Tissue(150.0, review=PermitReview("Ethics board", "2026-07-01", 30.0, 210.0)), 2, GENTLE, "has not come yet"),
        (Tissue(20.0, "advanced"), 3, NONE, "under “tissue”"),
        (Tissue(20.0, "advanced", PermitReview("Ethics board", "2026-05-01", -31.0, 149.0)), 3, CAREFUL, "advanced"),
    ],
)
def test_N9_tier_and_review_give_the_level(tissue: Tissue, tier: int, level: object, word: str) -> None:
    made = permit(tissue, 0.0)
    assert (made.tier, made.level) == (tier, level)
    assert word in made.reason
    assert bool(made.reason) == (tier > 1)


def test_N9_an_expired_review_refuses_all_beyond_the_gentle_level_with_the_reason() -> None:
    tissue = Tissue(150.0, review=PermitReview("Dr Abe", "2026-05-01", -31.0, 0.5))
    bookings = Bookings(RATE, Envelope().rest_s)
    assert decide(ask(), look(0.0, bookings, permit(tissue, 0.4)), Envelope()).accepted
    expired = permit(tissue, 0.6)
    refused = decide(ask(), look(0.0, bookings, expired), Envelope())
    assert limits(refused) == {"review"}
    assert "Dr Abe of 2026-05-01 ran out" in refused.reasons[0].text
    assert "under “tissue”" in refused.reasons[0].text
    for second in range(72):
        decision = decide(ask(SOFT), look(float(second), bookings, expired), Envelope())
        assert decision.accepted
        book(ask(SOFT), decision, bookings)
    late = decide(ask(SOFT), look(72.0, bookings, expired), Envelope())
    assert limits(late) == {"review"}
    assert "seconds with stimulation" in late.reasons[0].text


def test_N9_advanced_tissue_without_a_review_is_never_stimulated() -> None:
    allowed = permit(Tissue(20.0, "advanced"), 0.0)
    weakest = (Phase(20.0, -0.01), Phase(20.0, 0.01))
    refused = decide(ask(weakest), look(0.0, Bookings(RATE, Envelope().rest_s), allowed), Envelope())
    assert limits(refused) == {"review"}


@given(st.floats(0, 400), st.floats(0, 400), st.floats(-400, 400), st.floats(0, 366))
def test_N9_time_alone_never_widens_a_permit(age_d: float, later_d: float, begun_d: float, valid_d: float) -> None:
    review = PermitReview("a reviewer", "2026-05-01", min(begun_d, 0.0), min(begun_d, 0.0) + valid_d)
    tissue = Tissue(age_d, review=review)
    now, later = permit(tissue, 0.0), permit(tissue, later_d)
    assert later.tier >= now.tier
    assert later.level.charge_nc <= now.level.charge_nc
    assert later.level.duty <= now.level.duty


def test_age_counts_from_the_day_that_is_told_or_from_the_beginning_of_the_record() -> None:
    said = {"age_d": 60.0, "age_on": "2026-05-01", "capacity": "ordinary", "review": None}
    assert tissue_at(said, NOW, NOW).age_d == pytest.approx(60 + 31.5)
    assert tissue_at(said | {"age_on": None}, NOW, NOW - timedelta(days=10)).age_d == pytest.approx(70)
    review = tissue_at(said | {"review": {"by": "Dr Abe", "on": "2026-05-31", "valid_d": 10.0}}, NOW, NOW).review
    assert review is not None
    assert review.begins_d == pytest.approx(-1.5)
    assert review.ends_d == pytest.approx(8.5)


def test_N9_the_engine_grows_old_on_its_own_clock(tmp_path: Path) -> None:
    """A second of the array before tier 2: what was accepted is then refused, with no calendar asked."""
    with bench(tmp_path / "stimulation.db", tissue=Tissue(TIER_2_AGE_D - 1.5 / 86_400)) as lab:
        lease = lab.lease(5, ttl_s=10.0)
        assert lab.ask(Request("agent", lease.id, (5,), PULSE)).decision.accepted
        lab.run(2.5)
        decision = lab.ask(Request("agent", lease.id, (5,), PULSE)).decision
        assert limits(decision) == {"review"}
        assert "no review is on record" in decision.reasons[0].text
