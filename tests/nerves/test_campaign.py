"""A short sample of the campaign of random requests, and proof that its judge notices a spoilt governor (N1, N9, J1)."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from nerves import governor
from tests.nerves.campaign import Campaign, dense, heavy, long, many, run, whole_day, wild


def test_N1_random_requests_reach_every_ceiling_and_break_none() -> None:
    campaign = Campaign(seed=1)
    for _ in run(campaign, 1):
        pass
    assert campaign.oracle.violations == {}
    assert campaign.reached() == (set(), set())


def nothing(*_: object) -> Iterator[governor.Reason]:
    yield from ()


@pytest.mark.parametrize(
    ("check", "scene", "noticed"),
    [
        ("_waveform", wild, {"shape"}),
        ("_electrodes", wild, {"impedance"}),
        ("_permission", wild, {"lease"}),
        ("_permitted", wild, {"review"}),
        ("_neighbours", dense, {"rate", "at once"}),
        ("_budgets", dense, {"electrode second", "requester second", "organoid second"}),
        ("_budgets", many, {"electrode minute", "requester minute", "organoid minute"}),
        ("_welfare", heavy, {"organoid hour"}),
        ("_welfare", long, {"rest", "duty"}),
        ("_welfare", whole_day, {"organoid day"}),
    ],
)
def test_J1_the_judge_notices_a_governor_without_one_of_its_checks(check, scene, noticed) -> None:  # type: ignore[no-untyped-def]
    campaign = Campaign(seed=1)
    with patch.object(governor, check, nothing):
        scene(campaign)
        campaign.wait(100.0)
    assert noticed <= set(campaign.oracle.violations)
