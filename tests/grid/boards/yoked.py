"""The yoked control of the board `steering`: `python -m tests.grid.boards.yoked` prints what docs/boards.md says of it.

Each culture is trained by the baseline in the closed loop. Then the culture of the next seed gets the same training, whatever
it shows: with its own assignment of motor groups to sides as in the loop, and, for comparison, with the other one.
"""

from __future__ import annotations

import numpy as np

from grid.boards.loading import load_boards, newest
from grid.grading.interval import paired_interval
from grid.tasks.steering import STEERING, FeedbackAgent
from grid.tasks.task import Params, Policy, Values, play

SEEDS = range(1001, 1013)


def recorded(agent: Policy, into: list[Values]) -> Policy:
    """Return the policy, which notes what it does."""

    def policy(observation: Values) -> Values:
        into.append(agent(observation))
        return into[-1]

    return policy


def replayed(actions: list[Values]) -> Policy:
    """Return a policy that repeats actions, whatever it sees."""
    left = iter(actions)
    return lambda _: next(left)


def score(seed: int, policy: Policy, params: Params) -> float:
    """Return the score of an episode."""
    return play(STEERING.episode(seed, None, params), policy).value


def main() -> None:
    """Play the loops and the yoked cultures, and print their scores."""
    board = newest(load_boards(), "steering")
    loops: dict[tuple[int, bool], list[Values]] = {}
    closed, same, other = [], [], []
    for seed in SEEDS:
        scores = []
        for swapped in (False, True):
            into = loops.setdefault((seed, swapped), [])
            scores.append(score(seed, recorded(FeedbackAgent(), into), {**board.task.params, "swapped": swapped}))
        closed.append(float(np.mean(scores)))
    for number, seed in enumerate(SEEDS):
        master = SEEDS[number - 1]
        yoked = {}
        for swapped in (False, True):
            for of_loop in (False, True):
                params = {**board.task.params, "swapped": swapped}
                yoked[swapped, of_loop] = score(seed, replayed(loops[master, of_loop]), params)
        same.append(float(np.mean([yoked[False, False], yoked[True, True]])))
        other.append(float(np.mean([yoked[False, True], yoked[True, False]])))
        print(
            seed, "loop", round(closed[number], 3), "same", round(same[-1], 3), "other", round(other[-1], 3), flush=True
        )
    for name, scores in (("same assignment", same), ("other assignment", other)):
        found = paired_interval(closed, scores, board.controls.confidence)
        print(f"closed loop {np.mean(closed):.3f}; yoked, {name}: {np.mean(scores):.3f}, difference {found}")


if __name__ == "__main__":
    main()
