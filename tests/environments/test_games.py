"""The games: the physics of the cart-pole is that of gymnasium's, and each game is lost and kept as it should be."""

from __future__ import annotations

import gymnasium
import numpy as np

from choroid.environments.games import MAX_STEPS, PROBES, CartPoleGame, Game, PongGame, SteeringGame


def test_the_cart_pole_moves_as_that_of_gymnasium() -> None:
    theirs, own = gymnasium.make("CartPole-v1").unwrapped, CartPoleGame()
    rng = np.random.default_rng(3)
    for _ in range(5):
        state, _ = theirs.reset(seed=int(rng.integers(1000)))
        own.begin(rng)
        own.x_m, own.speed, own.angle, own.turning = (float(value) for value in state)
        over, step = False, 0
        while not over and step < MAX_STEPS - 1:
            step += 1
            push = int(rng.integers(2))
            state, _, over, _, _ = theirs.step(push)
            own_over = own.play(2.0 * push - 1.0)
            np.testing.assert_allclose([own.x_m, own.speed, own.angle, own.turning], state, rtol=1e-4, atol=1e-5)
            assert own_over == over


def scored(game: Game, sign: float, rng: np.random.Generator) -> float:
    game.begin(rng)
    over = False
    while not over:
        over = game.play(sign * (2.0 * game.side() - 1.0))
    return game.score()


def test_the_right_drive_keeps_a_round_and_the_wrong_one_loses_it() -> None:
    rng = np.random.default_rng(1)
    for game in (CartPoleGame(), PongGame()):
        right = np.mean([scored(game, 1.0, rng) for _ in range(20)])
        wrong = np.mean([scored(game, -1.0, rng) for _ in range(20)])
        assert right > 0.95
        assert wrong < 0.5


def test_a_kept_round_ends_after_its_full_length() -> None:
    game, rng = CartPoleGame(), np.random.default_rng(2)
    game.begin(rng)
    steps = 1
    while not game.play(2.0 * game.side() - 1.0):
        steps += 1
    assert (steps, game.score()) == (MAX_STEPS, 1.0)


def test_steering_scores_the_mean_drive_to_the_side_of_each_probe() -> None:
    rng = np.random.default_rng(1)
    assert [scored(SteeringGame(), sign, rng) for sign in (1.0, 0.0, -0.5)] == [1.0, 0.5, 0.25]
    game = SteeringGame()
    game.begin(rng)
    sides, over = [], False
    while not over:
        sides.append(game.side())
        over = game.play(1.0)
    assert len(sides) == PROBES
    assert sum(sides) == PROBES / 2
    assert game.score() == 0.5, "a drive that does not depend on the side gains nothing"
