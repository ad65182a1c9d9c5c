"""X7: the Ladder (Blum and Hardt 2015): many submissions do not fit the hidden data; exact scores would let them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from grid.grading.ladder import Ladder

TRIALS, ATTEMPTS, STEP = 500, 1000, 0.02


def boosting_attack(answer: Callable[[float], float], seed: int) -> float:
    """Return the score on the hidden labels of the majority of those random guesses that seemed better than chance.

    The attack of Blum and Hardt 2015, section 4: it needs no input, only answers.
    """
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, TRIALS)
    kept = np.zeros(TRIALS)
    first = answer(0.5)
    for _ in range(ATTEMPTS):
        guess = rng.integers(0, 2, TRIALS)
        if answer(float((guess == hidden).mean())) > first:
            kept += guess - 0.5
    ties = rng.integers(0, 2, TRIALS)
    final = np.where(kept == 0, ties, kept > 0)
    return float((final == hidden).mean())


def through_a_ladder(step: float) -> Callable[[float], float]:
    ladder = Ladder(step)

    def answer(score: float) -> float:
        nonlocal ladder
        ladder = ladder.after(score)
        assert ladder.best is not None
        return ladder.best

    return answer


def through_a_ladder_each_time_compared_with_the_last(step: float) -> Callable[[float], float]:
    """The same attacker, who notices each change of the published score instead of comparing with the first."""
    answer = through_a_ladder(step)
    last = 0.5

    def changed(score: float) -> float:
        nonlocal last
        before, last = last, answer(score)
        return 0.5 + (last > before)

    return changed


def test_X7_the_attack_gains_with_exact_scores_and_nothing_with_the_ladder() -> None:
    exact = [boosting_attack(lambda score: score, seed) for seed in range(5)]
    assert min(exact) > 0.75  # the judge works: without the Ladder the hidden labels are found
    protected = [boosting_attack(through_a_ladder(STEP), seed) for seed in range(5)]
    assert abs(float(np.mean(protected)) - 0.5) < 0.03
    assert max(protected) < 0.56


def test_X7_an_attacker_who_watches_for_changes_gains_no_more_than_the_luckiest_guess() -> None:
    for seed in range(5):
        luckiest = through_a_ladder_each_time_compared_with_the_last(STEP)
        rng = np.random.default_rng(seed)
        hidden = rng.integers(0, 2, TRIALS)
        best = max(float((rng.integers(0, 2, TRIALS) == hidden).mean()) for _ in range(ATTEMPTS))
        assert boosting_attack(luckiest, seed) <= best + STEP


def test_X7_a_ladder_with_a_step_of_almost_nothing_is_no_protection() -> None:
    """Spoil the Ladder: without a step, an answer for each submission, the attack gains again."""

    class Spoilt(Ladder):
        def published(self, score: float) -> float:
            return self.rounded(score)

    ladder = Spoilt(1e-6)
    assert boosting_attack(ladder.published, 1) > 0.75


def test_X7_a_score_is_published_rounded_and_only_when_it_improves_by_more_than_a_step() -> None:
    ladder = Ladder(0.05)
    published = []
    for score in (0.512, 0.53, 0.549, 0.551, 0.58, 0.49, 0.612):
        ladder = ladder.after(score)
        published.append(ladder.best)
    assert published == [0.5, 0.5, 0.5, 0.55, 0.55, 0.55, 0.6]


def test_X7_the_number_of_different_answers_is_bounded_by_range_over_step() -> None:
    rng = np.random.default_rng(1)
    answer = through_a_ladder(STEP)
    seen = {answer(score) for score in np.sort(rng.random(5000))}
    assert len(seen) <= 1 / STEP + 1
