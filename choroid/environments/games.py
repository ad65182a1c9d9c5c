"""The games that tissue plays: what it senses, and what its drive does. They know nothing of electrodes."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

STEP_S = 0.02
GRAVITY, CART_KG, POLE_KG, HALF_POLE_M, FORCE_N = 9.8, 1.0, 0.1, 0.5, 10.0
MAX_ANGLE, MAX_X_M = math.radians(12.0), 2.4
AT_START = 0.05
TILT_AT_START = (0.05, 0.1)
"""Angle (rad) to either side with which a round begins. A pole that is nearly upright would stand long without a drive."""
RATE_SHARE = 0.3
"""How much of its angular velocity (rad/s) counts for the side to which the pole is said to fall."""


MAX_STEPS = 50
"""Full length of a round of a game that is lost by a wrong drive."""
PROBES = 30
"""Probes of a round of steering: as many to each side."""


class Game(Protocol):
    """A game in steps with one of two inputs and one drive."""

    def begin(self, rng: np.random.Generator) -> None:
        """Begin a round."""
        ...

    def side(self) -> int:
        """Return what the tissue senses: 0, the drive should be negative, or 1, positive."""
        ...

    def play(self, drive: float) -> bool:
        """Do one step with a drive from −1 to 1; return whether the round is over."""
        ...

    def score(self) -> float:
        """Return the score of the round that is over, 0 to 1."""
        ...


class SteeringGame:
    """Drive to the side of each probe. The sides come in an order of chance, each as often."""

    def begin(self, rng: np.random.Generator) -> None:
        """Draw the order of the sides."""
        self._sides = rng.permutation(np.repeat([0, 1], PROBES // 2))
        self._right: list[float] = []

    def side(self) -> int:
        """Return the side of this probe: 0 left, 1 right."""
        return int(self._sides[len(self._right)])

    def play(self, drive: float) -> bool:
        """Note how right the drive was; return whether this was the last probe."""
        self._right.append(drive if self.side() else -drive)
        return len(self._right) == PROBES

    def score(self) -> float:
        """Return 1 for the full drive to the right side at each probe, 0.5 for none, 0 for the wrong side."""
        return 0.5 + 0.5 * float(np.mean(self._right))


class _LostByMistake:
    """A game whose round ends with a loss or after its full length. The score is the share of steps without loss."""

    _steps: int

    def _over(self, lost: bool) -> bool:
        self._steps += 1
        return lost or self._steps == MAX_STEPS

    def score(self) -> float:
        """Return the share of the full length for which the round lasted."""
        return self._steps / MAX_STEPS


class CartPoleGame(_LostByMistake):
    """Balance a pole on a cart (Barto, Sutton and Anderson 1983, with the constants of gymnasium's CartPole-v1)."""

    def begin(self, rng: np.random.Generator) -> None:
        """Begin with a cart near the middle and a tilted pole."""
        self._steps = 0
        self.x_m, self.speed, self.turning = rng.uniform(-AT_START, AT_START, 3)
        self.angle = float(rng.choice([-1.0, 1.0]) * rng.uniform(*TILT_AT_START))

    def side(self) -> int:
        """Return to which side the pole falls: 0 left, 1 right."""
        return int(self.angle + RATE_SHARE * self.turning > 0.0)

    def play(self, drive: float) -> bool:
        """Push the cart with a share of the full force. The round is over when the pole or the cart is out of bounds."""
        force = FORCE_N * drive
        sine, cosine = math.sin(self.angle), math.cos(self.angle)
        total_kg = CART_KG + POLE_KG
        pushed = (force + POLE_KG * HALF_POLE_M * self.turning**2 * sine) / total_kg
        inertia = HALF_POLE_M * (4.0 / 3.0 - POLE_KG * cosine**2 / total_kg)
        turn = (GRAVITY * sine - cosine * pushed) / inertia
        acceleration = pushed - POLE_KG * HALF_POLE_M * turn * cosine / total_kg
        self.x_m += STEP_S * self.speed
        self.speed += STEP_S * acceleration
        self.angle += STEP_S * self.turning
        self.turning += STEP_S * turn
        return self._over(abs(self.x_m) > MAX_X_M or abs(self.angle) > MAX_ANGLE)


class PongGame(_LostByMistake):
    """Return a ball with a paddle that one drive moves; the court is a square of side 1, and the round ends with a miss."""

    HALF_PADDLE = 0.15
    PADDLE_STEP = 0.06
    BALL_STEP = 0.05
    MAX_SLOPE = 1.0

    def begin(self, rng: np.random.Generator) -> None:
        """Begin with the ball in the middle of the court, on its way to the paddle."""
        self._steps = 0
        self.paddle, self.ball_x = 0.5, 0.5
        self.ball_y = float(rng.uniform(0.2, 0.8))
        self.speed_x = -self.BALL_STEP
        self.speed_y = self.BALL_STEP * float(rng.uniform(-self.MAX_SLOPE, self.MAX_SLOPE))

    def side(self) -> int:
        """Return where the ball is: 0 below the middle of the paddle, 1 above."""
        return int(self.ball_y > self.paddle)

    def play(self, drive: float) -> bool:
        """Move the paddle by a share of its step, then the ball. The round is over when the ball is missed."""
        self.paddle = min(max(self.paddle + self.PADDLE_STEP * drive, self.HALF_PADDLE), 1.0 - self.HALF_PADDLE)
        self.ball_x += self.speed_x
        self.ball_y += self.speed_y
        if not 0.0 < self.ball_y < 1.0:
            self.ball_y = min(max(self.ball_y, 0.0), 1.0)
            self.speed_y = -self.speed_y
        if self.ball_x >= 1.0:
            self.speed_x = -self.BALL_STEP
        if self.ball_x > 0.0:
            return self._over(lost=False)
        self.speed_x = self.BALL_STEP
        return self._over(abs(self.ball_y - self.paddle) > self.HALF_PADDLE)
