"""The judge of results: effect sizes, intervals, and the notice that a result is void."""

from __future__ import annotations

import numpy as np
import pytest

from choroid.environments.comparison import ControlComparison, compare_with_controls
from choroid.environments.effect import effect_size
from choroid.environments.environment import ControlArm, Observation


def test_effect_sizes_are_those_of_a_worked_example() -> None:
    found = effect_size([3.0, 5.0, 7.0, 9.0], [1.0, 4.0, 4.0, 7.0])
    assert found.difference == pytest.approx(2.0)
    # variances 20/3 and 6; pooled deviation sqrt(6.3333); correction 1 - 3 / (4 * 6 - 1)
    assert found.hedges_g == pytest.approx(2.0 / np.sqrt(19.0 / 3.0) * (1.0 - 3.0 / 23.0))
    # of the 16 pairs the first is above in 11 and below in 4
    assert found.cliffs_delta == pytest.approx(7.0 / 16.0)
    assert found.low < 2.0 < found.high
    assert found.is_beaten


def test_the_interval_holds_the_true_difference_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    inside = 0
    for _ in range(200):
        ones = rng.normal(1.0, 1.0, 20)
        found = effect_size(list(ones), list(ones - rng.normal(0.5, 1.0, 20)))
        inside += found.low <= 0.5 <= found.high
    assert 0.88 <= inside / 200 <= 0.98


def test_equal_groups_have_no_effect() -> None:
    found = effect_size([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert (found.difference, found.hedges_g, found.cliffs_delta, found.is_beaten) == (0.0, 0.0, 0.0, False)


def test_too_few_or_unpaired_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two"):
        effect_size([1.0], [1.0])
    with pytest.raises(ValueError, match="at least two"):
        effect_size([1.0, 2.0], [1.0])


def test_a_control_that_reaches_the_score_makes_the_result_void() -> None:
    scores = {ControlArm.NONE: (0.5, 0.6, 0.7), ControlArm.ZERO: (0.1, 0.2, 0.1), ControlArm.RANDOM: (0.5, 0.5, 0.8)}
    effects = {
        control: effect_size(scores[ControlArm.NONE], scores[control])
        for control in (ControlArm.ZERO, ControlArm.RANDOM)
    }
    void = ControlComparison("x", (1, 2, 3), scores, effects, (ControlArm.ZERO, ControlArm.RANDOM))
    assert void.is_void
    assert void.reached_by == (ControlArm.RANDOM,)
    assert "void: random" in void.as_text()
    assert not ControlComparison("x", (1, 2, 3), scores, effects, (ControlArm.ZERO,)).is_void


class Coin:
    """An agent that learns nothing."""

    def __init__(self, actions: int, seed: int) -> None:
        self._rng, self._actions = np.random.default_rng(seed), actions

    def act(self, observation: Observation) -> int:
        return int(self._rng.integers(self._actions))

    def learn(self, action: int, reward: float, observation: Observation) -> None:
        pass


@pytest.mark.long
def test_an_agent_that_learns_nothing_is_void() -> None:
    found = compare_with_controls("choroid/ReservoirVowels-v0", Coin, (301, 302))
    assert found.is_void
    assert ControlArm.RANDOM in found.reached_by


def test_a_mandatory_control_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="mandatory"):
        compare_with_controls("choroid/TargetRate-v0", Coin, (1, 2), controls=(ControlArm.FROZEN,))
