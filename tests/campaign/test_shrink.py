"""From twenty faults to the one that is to blame, and from a long one to a short one."""

from __future__ import annotations

import pytest

from sim.faults.schedule import Fault
from verification.campaign.shrink import Shrinker
from verification.campaign.world import Trial

TWENTY = tuple(Fault("unplug", "sim:balance", round(60.0 + 97.3 * n, 3), 333.0) for n in range(20))


def _trial(faults: tuple[Fault, ...]) -> Trial:
    return Trial(
        1, 6.0, "recycle", {"batch": "8 mL", "min_batch": "8 mL", "every": "2 h"},
        rig={"tissue.chamber.count": 5, "organs.gut.flow": "5 mL/min"},
        faults=faults,
    )  # fmt: skip


@pytest.mark.parametrize("guilty", range(20))
def test_the_one_guilty_fault_among_twenty_is_found(guilty: int) -> None:
    begun = TWENTY[guilty].at_s
    shrinker = Shrinker(lambda trial: any(abs(fault.at_s - begun) <= 5.0 for fault in trial.faults))
    shrunk = shrinker.shrink(_trial(TWENTY))
    assert [round(fault.at_s, -1) for fault in shrunk.faults] == [round(begun, -1)]
    assert shrunk.faults[0].for_s == 1.0, "it need not last"
    assert shrunk.hours < 0.2
    assert shrunk.rig == {}, "nor does the rig matter"
    assert shrinker.tries <= 60


def test_two_faults_that_only_harm_together_are_both_kept() -> None:
    pair = {TWENTY[3], TWENTY[17]}

    def fails(trial: Trial) -> bool:
        return sum(any(abs(fault.at_s - each.at_s) <= 5.0 for fault in trial.faults) for each in pair) == 2

    shrunk = Shrinker(fails, max_tries=200).shrink(_trial(TWENTY))
    assert len(shrunk.faults) == 2
    assert fails(shrunk)


def test_how_long_a_fault_must_last_is_found() -> None:
    def fails(trial: Trial) -> bool:
        return any(fault.for_s >= 60.0 for fault in trial.faults)

    (fault,) = Shrinker(fails).shrink(_trial(TWENTY)).faults
    assert 60.0 <= fault.for_s < 120.0


def test_a_failure_without_any_fault_says_so() -> None:
    assert Shrinker(lambda trial: True).shrink(_trial(TWENTY)).faults == ()


def test_what_comes_out_fails_however_few_tries_there_are() -> None:
    for most in range(12):

        def fails(trial: Trial) -> bool:
            return TWENTY[11] in trial.faults

        assert fails(Shrinker(fails, max_tries=most).shrink(_trial(TWENTY)))
