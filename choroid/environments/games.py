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


class Game(Protocol):
    """A game in steps with one of two inputs and one drive."""

    def begin(self, rng: np.random.Generator) -> None:
        """Begin a round."""
        ...

    def side(self) -> int:
        """Return what the tissue senses: 0, the drive should be negative, or 1, positive."""
        ...

    def play(self, drive: float) -> bool:
        """Do one step with a drive from −1 to 1; return whether the round is lost."""
        ...


class CartPoleGame:
    """Balance a pole on a cart (Barto, Sutton and Anderson 1983, with the constants of gymnasium's CartPole-v1)."""

    def begin(self, rng: np.random.Generator) -> None:
        """Begin with a cart near the middle and a tilted pole."""
        self.x_m, self.speed, self.turning = rng.uniform(-AT_START, AT_START, 3)
        self.angle = float(rng.choice([-1.0, 1.0]) * rng.uniform(*TILT_AT_START))

    def side(self) -> int:
        """Return to which side the pole falls: 0 left, 1 right."""
        return int(self.angle + RATE_SHARE * self.turning > 0.0)

    def play(self, drive: float) -> bool:
        """Push the cart with a share of the full force; return whether the pole or the cart is out of bounds."""
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
        return bool(abs(self.x_m) > MAX_X_M or abs(self.angle) > MAX_ANGLE)


class PongGame:
    """Return a ball with a paddle that one drive moves; the court is a square of side 1, and the round ends with a miss."""

    HALF_PADDLE = 0.15
    PADDLE_STEP = 0.06
    BALL_STEP = 0.05
    MAX_SLOPE = 1.0

    def begin(self, rng: np.random.Generator) -> None:
        """Begin with the ball in the middle of the court, on its way to the paddle."""
        self.paddle, self.ball_x = 0.5, 0.5
        self.ball_y = float(rng.uniform(0.2, 0.8))
        self.speed_x = -self.BALL_STEP
        self.speed_y = self.BALL_STEP * float(rng.uniform(-self.MAX_SLOPE, self.MAX_SLOPE))

    def side(self) -> int:
        """Return where the ball is: 0 below the middle of the paddle, 1 above."""
        return int(self.ball_y > self.paddle)

    def play(self, drive: float) -> bool:
        """Move the paddle by a share of its step, then the ball; return whether the ball was missed."""
        self.paddle = min(max(self.paddle + self.PADDLE_STEP * drive, self.HALF_PADDLE), 1.0 - self.HALF_PADDLE)
        self.ball_x += self.speed_x
        self.ball_y += self.speed_y
        if not 0.0 < self.ball_y < 1.0:
            self.ball_y = min(max(self.ball_y, 0.0), 1.0)
            self.speed_y = -self.speed_y
        if self.ball_x >= 1.0:
            self.speed_x = -self.BALL_STEP
        if self.ball_x > 0.0:
            return False
        self.speed_x = self.BALL_STEP
        return abs(self.ball_y - self.paddle) > self.HALF_PADDLE
