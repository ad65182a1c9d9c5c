"""The unscented filter against what is known in closed form."""

from __future__ import annotations

import numpy as np

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
