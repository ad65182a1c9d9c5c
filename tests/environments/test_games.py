"""The games: the physics of the cart-pole is that of gymnasium's, and each game is lost and kept as it should be."""

from __future__ import annotations

import gymnasium
import numpy as np

from choroid.environments.games import CartPoleGame, Game, PongGame


def test_the_cart_pole_moves_as_that_of_gymnasium() -> None:
    theirs, own = gymnasium.make("CartPole-v1").unwrapped, CartPoleGame()
    rng = np.random.default_rng(3)
    for _ in range(5):
        state, _ = theirs.reset(seed=int(rng.integers(1000)))
        own.begin(rng)
        own.x_m, own.speed, own.angle, own.turning = (float(value) for value in state)
        over = False
        while not over:
            push = int(rng.integers(2))
            state, _, over, _, _ = theirs.step(push)
            lost = own.play(2.0 * push - 1.0)
            np.testing.assert_allclose([own.x_m, own.speed, own.angle, own.turning], state, rtol=1e-4, atol=1e-5)
            assert lost == over


def kept(game: Game, sign: float, rng: np.random.Generator) -> int:
    game.begin(rng)
    for step in range(200):
        if game.play(sign * (2.0 * game.side() - 1.0)):
            return step
    return 200


def test_the_right_drive_keeps_a_round_and_the_wrong_one_loses_it() -> None:
    rng = np.random.default_rng(1)
    for game in (CartPoleGame(), PongGame()):
        right = np.mean([kept(game, 1.0, rng) for _ in range(20)])
        wrong = np.mean([kept(game, -1.0, rng) for _ in range(20)])
        assert right > 100.0
        assert wrong < 0.4 * right
