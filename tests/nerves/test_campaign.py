"""A short sample of the campaign of random requests, and proof that its judge notices a spoilt governor (N1, N9, J1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from nerves import governor
from nerves.bookings import Bookings
from nerves.ledger import StimulationLedger
from nerves.past import Past
from tests.nerves import campaign as campaigns
from tests.nerves.campaign import Campaign, dense, heavy, long, many, run, whole_day, wild

past = StimulationLedger.past


@pytest.mark.long
def test_N1_random_requests_reach_every_ceiling_and_break_none() -> None:
    campaign = Campaign(seed=1)
    for _ in run(campaign, 1):
        pass
    assert campaign.oracle.violations == {}
    assert campaign.reached() == (set(), set())


def test_N1_requests_out_of_the_order_of_delivery_break_no_ceiling_over_restarts(tmp_path: Path) -> None:
    campaign = Campaign(1, tmp_path)
    for scene, ahead_s in ((wild, 5.0), (dense, 0.5), (long, 60.0), (whole_day, 5.0)):
        campaign.begin(ahead_s)
        scene(campaign)
    campaign.wait(100.0)
    assert campaign.oracle.violations == {}
    assert campaign.restarts >= 3
    assert campaign.cancelled > 1000
    assert all(campaign.oracle.fullest[name] > 0.9 for name in ("rest", "session", "at once", "rate"))


@pytest.mark.long
def test_N1_requests_out_of_the_order_of_delivery_reach_every_ceiling_over_restarts(tmp_path: Path) -> None:
    campaign = Campaign(2, tmp_path)
    for _ in run(campaign, 100_000):
        pass
    assert campaign.oracle.violations == {}
    reasons, ceilings = campaign.reached()
    assert reasons <= {"pending"}, "so many wait in a million requests only; the test in order has them"
    assert ceilings == set()
    assert campaign.restarts > 40


def nothing(*_: object) -> Iterator[governor.Reason]:
    yield from ()


@pytest.mark.parametrize(
    ("check", "scene", "noticed"),
    [
        ("_waveform", wild, {"shape", "density"}),
        ("_electrodes", wild, {"impedance"}),
        ("_permission", wild, {"lease"}),
        ("_permitted", wild, {"review"}),
        ("_neighbours", dense, {"rate", "at once"}),
        ("_budgets", dense, {"electrode second", "requester second", "organoid second"}),
        ("_budgets", many, {"electrode minute", "requester minute", "organoid minute"}),
        ("_welfare", heavy, {"organoid hour"}),
        ("_welfare", long, {"session", "duty"}),
        ("_welfare", whole_day, {"organoid day"}),
    ],
)
def test_J1_the_judge_notices_a_governor_without_one_of_its_checks(check, scene, noticed) -> None:  # type: ignore[no-untyped-def]
    campaign = Campaign(seed=1)
    with patch.object(governor, check, nothing):
        scene(campaign)
        campaign.wait(100.0)
    assert noticed <= set(campaign.oracle.violations)


def newest_only(bookings: Bookings, sessions: list[tuple[int, int]], second: int) -> list[tuple[int, int]]:
    """Know the newest session alone, as if requests came in the order of delivery."""
    if sessions and second - sessions[-1][1] < bookings._rest_s + 1:
        return [(min(second, sessions[-1][0]), max(second, sessions[-1][1]))]
    return [(second, second)]


@pytest.mark.long
def test_J1_the_judge_notices_a_governor_that_knows_the_newest_session_only(tmp_path: Path) -> None:
    campaign = Campaign(1, tmp_path)
    with patch.object(Bookings, "_joined", newest_only), patch.object(campaigns, "RESTARTS", 0.0):
        campaign.begin(60.0)
        long(campaign)
        campaign.wait(100.0)
    assert campaign.oracle.violations.keys() == {"session"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("known", "noticed"),
    [
        (lambda *_: Past([], [], {}, []), "duty"),
        (lambda *of: replace(past(*of), restarts=[]), "session"),
    ],
    ids=["nothing", "no restarts"],
)
def test_J1_the_judge_notices_an_engine_that_forgets_what_was_before_it(known, noticed: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    campaign = Campaign(1, tmp_path)
    often = patch.multiple(campaigns, RESTARTS=0.002, AWAY_S=(290.0,))
    with patch.object(StimulationLedger, "past", known), often:
        campaign.begin(5.0)
        long(campaign)
        campaign.wait(100.0)
    assert noticed in campaign.oracle.violations
