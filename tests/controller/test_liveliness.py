"""A probe that was lively and stands still is stuck; one that never moved its last digit is not judged."""

from __future__ import annotations

import numpy as np
import pytest

from controller.readings.liveliness import CHANGES, FLAT_S, Liveliness
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


def _held(judge: Liveliness, value: float, from_s: float, until_s: float) -> list[str | None]:
    """The same value, read every five seconds after `from_s`, up to `until_s`."""
    return [judge.flat(PH, value, from_s + n * 5.0) for n in range(1, int((until_s - from_s) / 5.0) + 1)]


def test_what_has_never_been_lively_is_not_judged() -> None:
    judge = Liveliness(RIG)
    assert set(_held(judge, 7.35, 0.0, 60_000.0)) == {None}
    for n in range(CHANGES - 1):
        judge.flat(PH, 7.3 + n * 0.01, 60_000.0 + n)
    assert set(_held(judge, 7.3, 60_100.0, 90_000.0 + 10 * FLAT_S)) == {None}


def test_a_coarse_probe_is_given_longer() -> None:
    judge = Liveliness(RIG)
    for n in range(100):
        _held(judge, (7.3, 7.4)[n % 2], n * 60.0, (n + 1) * 60.0)
    assert set(_held(judge, 7.4, 6000.0, 5940.0 + 1780.0)) == {None}
    assert _held(judge, 7.4, 5940.0 + 1780.0, 5940.0 + 1900.0)[-1] is not None


@pytest.mark.parametrize("silent_s", [60.0, 3600.0, 12 * 3600.0])
def test_I2_after_an_outage_a_stuck_probe_is_noticed_as_soon_as_ever(silent_s: float) -> None:
    """The outage was once counted as one long interval between two changes: after twelve hours it took nine."""
    judge, _ = _live(3, 0.002, 5.0, 3600.0)
    back_s = 3595.0 + silent_s
    assert judge.flat(PH, 7.111, back_s) is None
    stuck = _held(judge, 7.111, back_s, back_s + 400.0)
    first = next(n for n, text in enumerate(stuck, 1) if text is not None)
    assert first * 5.0 == pytest.approx(FLAT_S, abs=10.0)


def test_an_outage_alone_makes_no_probe_flat() -> None:
    """The same value before it and after it is chance where a probe has few digits."""
    judge, _ = _live(2, 0.004, 5.0, 3600.0)
    assert judge.flat(PH, 7.35, 3600.0) is None
    assert judge.flat(PH, 7.35, 3600.0 + 3600.0) is None


def test_balance_gas_and_temperature_are_judged_elsewhere() -> None:
    for point in ("balance.mass", "gas_co2.flow", "t_chamber.temperature", "relay.heater"):
        judge = Liveliness(RIG)
        for n in range(100):
            judge.flat(point, float(n), float(n))
        assert judge.flat(point, 99.0, 1e6) is None
