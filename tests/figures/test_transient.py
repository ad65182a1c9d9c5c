"""kLa from a transient: found where there is one, with a true error, and nowhere else."""

from __future__ import annotations

import math
import random

import pytest

from controller.figures.transient import approach

TIMES = [5.0 * i for i in range(720)]


def response(rate_h: float, noise: float, seed: int, amplitude: float = 20.0) -> list[float]:
    rng = random.Random(seed)
    return [90.0 - amplitude * math.exp(-rate_h * at / 3600.0) + rng.gauss(0.0, noise) for at in TIMES]


@pytest.mark.parametrize("rate_h", [3.0, 12.0, 40.0])
def test_the_rate_is_found_and_its_error_covers_it(rate_h: float) -> None:
    hits = 0
    for seed in range(40):
        found = approach(TIMES, response(rate_h, 0.3, seed))
        assert found is not None
        assert found.level == pytest.approx(90.0, abs=0.5)
        hits += abs(found.rate_h - rate_h) <= 1.96 * found.sd_h
    assert 33 <= hits <= 40  # 38 are expected; fewer than 33 of 40 come once in 200 times


@pytest.mark.parametrize(
    "values",
    [
        [90.0] * 720,
        [90.0 + 0.01 * at for at in TIMES],
        [90.0 + math.sin(at / 100.0) for at in TIMES],
        response(0.5, 0.0, 1),
        response(6.0, 20.0, 2),
        response(6.0, 0.1, 3)[:10],
    ],
    ids=["level", "ramp", "wave", "slower than the window", "drowned in noise", "too few"],
)
def test_what_is_no_approach_gives_no_rate(values: list[float]) -> None:
    assert approach(TIMES[: len(values)], values) is None
