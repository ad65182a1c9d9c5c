"""A probe that was lively and stands still is stuck; one that never moved its last digit is not judged."""

from __future__ import annotations

import numpy as np
import pytest

from controller.liveliness import CHANGES, FLAT_S, Liveliness
from tests.sim.faults.bench import RIG

PH = "ph_loop.ph"


def _live(digits: int, noise: float, every_s: float, until_s: float, seed: int = 1) -> tuple[Liveliness, list[str]]:
    judge, said = Liveliness(RIG), []
    noisy = np.random.default_rng(seed).normal(7.35, noise, int(until_s / every_s))
    for number, value in enumerate(noisy):
        text = judge.flat(PH, round(float(value), digits), number * every_s)
        said += [] if text is None else [text]
    return judge, said


@pytest.mark.parametrize(("digits", "noise"), [(3, 0.002), (3, 0.0005), (2, 0.004), (2, 0.002)])
def test_a_week_of_a_live_probe_is_never_flat(digits: int, noise: float) -> None:
    """The last is a probe whose noise seldom shows in its two digits."""
    for seed in range(3):
        assert _live(digits, noise, 5.0, 7 * 86_400.0, seed)[1] == []


def test_I2_a_probe_that_was_lively_and_stands_still_is_flat_and_lives_again_at_its_first_change() -> None:
    judge, _ = _live(3, 0.002, 5.0, 3600.0)
    stuck = [judge.flat(PH, 7.111, 3600.0 + n * 5.0) for n in range(200)]
    first = next(n for n, text in enumerate(stuck) if text is not None)
    assert first * 5.0 == pytest.approx(FLAT_S, abs=10.0)
    assert all(text is not None and "exactly 7.111" in text for text in stuck[first:])
    assert judge.flat(PH, 7.112, 4700.0) is None


def test_what_has_never_been_lively_is_not_judged() -> None:
    judge = Liveliness(RIG)
    assert [judge.flat(PH, 7.35, n * 60.0) for n in range(1000)] == [None] * 1000
    for n in range(CHANGES - 1):
        judge.flat(PH, 7.3 + n * 0.01, 60_000.0 + n)
    assert judge.flat(PH, 7.3, 90_000.0) is None
    assert judge.flat(PH, 7.3, 90_000.0 + 10 * FLAT_S) is None


def test_a_coarse_probe_is_given_longer() -> None:
    judge = Liveliness(RIG)
    for n in range(100):
        judge.flat(PH, (7.3, 7.4)[n % 2], n * 60.0)
    assert judge.flat(PH, 7.4, 99 * 60.0 + 1500.0) is None
    assert judge.flat(PH, 7.4, 99 * 60.0 + 1900.0) is not None


def test_balance_gas_and_temperature_are_judged_elsewhere() -> None:
    for point in ("balance.mass", "gas_co2.flow", "t_chamber.temperature", "relay.heater"):
        judge = Liveliness(RIG)
        for n in range(100):
            judge.flat(point, float(n), float(n))
        assert judge.flat(point, 99.0, 1e6) is None
