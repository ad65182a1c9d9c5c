"""LDH is asked for as a baseline, then when a loss is expected and not yet suspected, as often as the laboratory allows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from protocols.interval import Interval
from protocols.ldh_requests import AGAIN_H, CONCERN, SETTLED_D, LdhRequests
from protocols.tissue.estimate import SUSPECTED_LOSS
from protocols.tissue_loss import STALE_H, UNKNOWN, LdhSeen, TissueLoss

NEVER = LdhSeen(None, None)
WELL = TissueLoss(Interval(0.96, 0.9, 0.99), 0.01, suspected=False, certain=False, age_h=0.0, ldh=NEVER)


def concerned(age_h: float, lost: float = CONCERN) -> TissueLoss:
    return replace(WELL, lost=lost, ldh=LdhSeen(None, age_h))


def asked(requests: LdhRequests, seen: TissueLoss | None, now_d: float) -> bool:
    if requests.request(seen, now_d) is None:
        return False
    requests.made(now_d)
    return True


def test_it_comes_before_the_suspicion() -> None:
    assert CONCERN < SUSPECTED_LOSS


def test_the_first_one_is_the_baseline() -> None:
    assert not asked(LdhRequests(3), WELL, SETTLED_D - 0.1), "a short run asks for nothing"
    found = LdhRequests(3).request(WELL, SETTLED_D)
    assert found is not None
    assert (found["analytes"], found["where"], found["purpose"]) == (["ldh"], "loop", "tissue")
    assert "baseline" in found["text"]


@pytest.mark.parametrize(
    ("seen", "is_asked"),
    [
        (concerned(AGAIN_H), True),
        (concerned(AGAIN_H - 0.1), False),
        (concerned(200.0, lost=CONCERN - 0.001), False),
        (replace(concerned(AGAIN_H), suspected=True, lost=0.2), True),
        (replace(concerned(AGAIN_H), age_h=STALE_H + 1.0), False),
        (replace(WELL, lost=0.2, ldh=None), False),
        (UNKNOWN, False),
        (None, False),
    ],
)
def test_a_concern_asks_for_a_new_one(seen: TissueLoss | None, is_asked: bool) -> None:
    assert asked(LdhRequests(3), seen, 1.0) is is_asked


def test_it_is_asked_once_a_day_and_as_often_as_allowed() -> None:
    requests = LdhRequests(3)
    days = [looks / 3.0 for looks in range(3 * 21)]
    found = [day for day in days if asked(requests, concerned(AGAIN_H), day)]
    assert all(later - day >= AGAIN_H / 24.0 for day, later in pairwise(found))
    assert all(sum(day <= each < day + 7.0 for each in found) <= 3 for day in days)
    assert len(found) == 9
    assert not asked(LdhRequests(0), WELL, 2.0)
