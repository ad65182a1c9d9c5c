"""LDH leaves with the medium that is exchanged: the estimate does not take that for tissue that is well again."""

from __future__ import annotations

import numpy as np
import pytest

from protocols.interval import Interval
from protocols.tissue.estimate import ViabilityEstimate
from protocols.tissue.evidence import SIGNALS
from protocols.tissue.look import TissueLook
from protocols.tissue.particles import drawn, passed
from protocols.tissue.priors import Axis
from protocols.tissue.tracks import BACKGROUND


def expected(particles: np.ndarray, renewed: float, hours: float = 1.0) -> np.ndarray:
    after = passed(particles, TissueLook(renewed=renewed), hours, np.random.default_rng(1))
    found: np.ndarray = np.exp(SIGNALS["ldh"].expected(after, TissueLook()))
    return found


def test_exchanged_medium_carries_off_its_share_of_ldh() -> None:
    particles = drawn(np.random.default_rng(0), 500)
    particles[:, Axis.POOL] = 0.2
    assert np.median(expected(particles, 0.5) / expected(particles, 0.0)) == pytest.approx(0.5, rel=0.01)
    assert passed(particles, TissueLook(), 1.0, np.random.default_rng(1))[:, BACKGROUND] == pytest.approx(1.0)


def test_healthy_tissue_restores_its_level_in_the_new_medium() -> None:
    particles = drawn(np.random.default_rng(0), 500)
    after = passed(particles, TissueLook(renewed=0.5), 1.0, np.random.default_rng(1))
    later = passed(after, TissueLook(), 24.0 * 14, np.random.default_rng(2))
    assert after[:, BACKGROUND] == pytest.approx(0.5)
    assert later[:, BACKGROUND] == pytest.approx(1.0, abs=0.01)


def test_a_level_that_exchange_explains_is_no_sign_of_health() -> None:
    """After a loss LDH is fivefold; half of the medium is exchanged, and LDH is halved."""

    def estimate(renewed: float) -> float:
        ldh = [Interval.around(value, 0.05 * value) for value in (10.0, 50.0, 25.0)]
        look = TissueLook(temperature_c=Interval.around(37.0, 0.2))
        found = ViabilityEstimate.of([TissueLook(ldh=ldh[0]), *[look] * 71], seed=3)
        found = found.after(TissueLook(ldh=ldh[1])).after(look)
        found = found.after(TissueLook(renewed=renewed)).after(TissueLook(ldh=ldh[2]))
        return found.range().value

    assert estimate(0.5) < estimate(0.0)


def test_a_look_keeps_what_was_renewed() -> None:
    assert TissueLook.from_json(TissueLook(renewed=0.25).to_json()) == TissueLook(renewed=0.25)
    assert TissueLook().to_json() == {}
