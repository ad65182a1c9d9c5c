"""When recycling has to end: what is a loss, what is accepted, and how long it may go on without an estimate."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from protocols.interval import Interval
from protocols.tissue.estimate import HARM_PROBABILITY, SUSPECTED_LOSS, TOO_WIDE, Range, ViabilityEstimate
from protocols.tissue_loss import BLIND_S, STALE_H, UNKNOWN, LossWatch, TissueLoss

LOOK_S = 8 * 3600.0
WELL = TissueLoss(Interval(0.96, 0.9, 0.99), 0.01, suspected=False, certain=False, age_h=0.0)
SUSPECTED = TissueLoss(Interval(0.87, 0.8, 0.95), 0.09, suspected=True, certain=False, age_h=0.0)
CERTAIN = replace(SUSPECTED, lost=0.2, certain=True)


def estimated(value: float, low: float, high: float, *, harmed: float, lost: float) -> TissueLoss:
    estimate = replace(ViabilityEstimate.begun(), past=(Range(value, low, high, harmed, lost),))
    return estimate.finding()


@pytest.mark.parametrize("accepted_pct", [0.0, 50.0, 100.0])
def test_tissue_that_is_well_and_a_host_without_estimate_end_nothing(accepted_pct: float) -> None:
    for seen in (WELL, None):
        watch = LossWatch(accepted_pct)
        assert [watch.reason(seen, look * LOOK_S) for look in range(20)] == [""] * 20


def test_a_suspected_and_a_certain_loss_end_it_with_the_figures() -> None:
    assert LossWatch(0.0).reason(SUSPECTED, 0.0) == (
        "the estimate suspects a loss of 9% of the viability, which is 0.80 to 0.95 now"
    )
    assert "shows a loss of 20%" in LossWatch(0.0).reason(CERTAIN, 0.0)
    assert LossWatch(0.0).reason(replace(CERTAIN, suspected=False), 0.0)


def test_a_known_loss_may_be_accepted_and_a_larger_one_still_ends_it() -> None:
    assert LossWatch(9.0).reason(SUSPECTED, 0.0) == ""
    assert LossWatch(8.9).reason(SUSPECTED, 0.0)
    assert LossWatch(9.0).reason(CERTAIN, 0.0)
    assert LossWatch(100.0).reason(replace(CERTAIN, lost=1.0), 0.0) == ""


@pytest.mark.parametrize("blind", [UNKNOWN, replace(SUSPECTED, age_h=STALE_H + 1.0)])
def test_without_an_estimate_it_goes_on_for_a_day(blind: TissueLoss) -> None:
    watch = LossWatch(0.0)
    reasons = [watch.reason(blind, look * LOOK_S) for look in range(5)]
    assert [bool(reason) for reason in reasons] == [look * LOOK_S >= BLIND_S for look in range(5)]
    assert reasons[3].endswith("was of no use for 24 h")
    assert LossWatch(100.0).reason(blind, 9 * BLIND_S) == ""
    mostly = LossWatch(0.0)
    for look in range(30):
        assert mostly.reason(WELL if look % 3 == 0 else blind, look * LOOK_S) == ""
    weekly = LossWatch(0.0)
    assert weekly.reason(blind, 7 * BLIND_S) == ""
    assert weekly.reason(blind, 14 * BLIND_S)


def test_the_finding_is_that_of_the_last_hour_and_a_want_of_data_is_no_suspicion() -> None:
    assert ViabilityEstimate.begun().finding() is UNKNOWN
    well = estimated(0.95, 0.9, 0.99, harmed=0.1, lost=SUSPECTED_LOSS - 0.001)
    assert (well.known, well.suspected, well.certain) == (True, False, False)
    suspected = estimated(0.9, 0.8, 0.95, harmed=0.7, lost=SUSPECTED_LOSS)
    assert (suspected.suspected, suspected.certain) == (True, False)
    certain = estimated(0.9, 0.8, 0.95, harmed=HARM_PROBABILITY, lost=0.06)
    assert (certain.suspected, certain.certain, certain.lost) == (True, True, 0.06)
    wide = estimated(0.7, 0.9 - TOO_WIDE - 0.01, 0.9, harmed=0.5, lost=0.2)
    assert not wide.suspected


@pytest.mark.parametrize("finding", [UNKNOWN, WELL, CERTAIN])
def test_the_journal_has_all_of_it(finding: TissueLoss) -> None:
    assert TissueLoss.from_json(json.loads(json.dumps(finding.to_json()))) == finding
