"""The unscented filter against what is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from protocols import unscented

MEAN = np.array([1.0, -2.0, 0.5])
COVARIANCE = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])
LEAST = np.full(3, 1e-9)


def test_points_carry_mean_and_covariance() -> None:
    mean, covariance = unscented.moments(unscented.points(MEAN, COVARIANCE, LEAST))
    np.testing.assert_allclose(mean, MEAN, atol=1e-12)
    np.testing.assert_allclose(covariance, COVARIANCE, atol=1e-12)


def test_a_linear_step_is_exact() -> None:
    matrix = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 0.1]])
    got = unscented.predicted((MEAN, COVARIANCE), LEAST, lambda cloud: cloud @ matrix.T)
    want = unscented.linear_map((MEAN, COVARIANCE), matrix)
    np.testing.assert_allclose(got[0], want[0], atol=1e-12)
    np.testing.assert_allclose(got[1], want[1], atol=1e-12)


def test_a_square_has_the_mean_that_a_linearised_filter_misses() -> None:
    belief = unscented.predicted((MEAN, COVARIANCE), LEAST, lambda cloud: cloud**2)
    np.testing.assert_allclose(belief[0], MEAN**2 + np.diag(COVARIANCE), atol=1e-9)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_linear_look_is_kalmans_update(index: int) -> None:
    (mean, covariance), off = unscented.observed(
        (MEAN, COVARIANCE), LEAST, lambda cloud: cloud[:, index], 1.3, 0.4, gate=100.0
    )
    want_mean, want_covariance = unscented.measured((MEAN, COVARIANCE), np.eye(3)[index], 1.3, 0.4)
    np.testing.assert_allclose(mean, want_mean, atol=1e-9)
    np.testing.assert_allclose(covariance, want_covariance, atol=1e-9)
    assert off == pytest.approx(abs(1.3 - MEAN[index]) / np.sqrt(COVARIANCE[index, index] + 0.16))


def test_beyond_the_gate_a_reading_pulls_less_the_further_it_is() -> None:
    def pull(seen: float) -> float:
        (mean, _), _ = unscented.observed((MEAN, COVARIANCE), LEAST, lambda cloud: cloud[:, 0], seen, 0.4, gate=3.0)
        return float(mean[0] - MEAN[0])

    at_gate = 3.0 * np.sqrt(COVARIANCE[0, 0] + 0.16)
    assert pull(1.0 + at_gate) > pull(1.0 + 2 * at_gate) > pull(1.0 + 10 * at_gate) > 0
