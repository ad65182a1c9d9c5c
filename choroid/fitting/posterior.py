"""Posterior of the parameters: multi-start least squares, then an ensemble sampler (emcee), and whether it converged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choroid.common.extras import load_extra

F8 = NDArray[np.float64]
STARTS = 4
WALKERS_PER_DIMENSION = 2.5
ENSEMBLES = 2
BURN_IN, ROUND, MAX_ROUNDS = 30, 60, 5
"""Steps of each ensemble: discarded; then added until it has converged, at most so many times."""
MAX_RHAT, MIN_ESS = 1.03, 400.0
PROPOSAL_DF, PROPOSAL_WIDTH = 5.0, 1.15
"""Independent proposals are drawn from a Student distribution around the best fit, a little wider than the curvature says."""
DIFFERENCE = 0.02
LM = {"xtol": 1e-4, "ftol": 1e-5, "maxiter": 40}
BOUND = 6.0
"""No parameter is farther from the prior's median, in its standard deviations."""
GROSS = 20.0
"""Misfit at the best fit from which nothing is sampled: the model does not describe such data anyway."""


@dataclass(slots=True)
class FitProblem:
    """A normal likelihood of whitened residuals, and a normal prior of the parameters z around 0."""

    predict: Callable[[F8], F8]
    """(sets, dimensions) → (sets, observations)."""
    measured: F8
    whitener: F8
    precision: F8
    """Of the prior, by parameter: 1 by definition of z, a quarter where its width is doubled, 0 for none."""

    @property
    def dimensions(self) -> int:
        """The number of parameters."""
        return len(self.precision)

    def residuals(self, z: F8) -> F8:
        """Return the whitened residuals, shape (sets, observations)."""
        found: F8 = (self.predict(z) - self.measured) @ self.whitener.T
        return found

    def costs(self, z: F8) -> F8:
        """Return the squares that a fit minimizes, of residuals and prior, shape (sets,)."""
        found: F8 = (self.residuals(z) ** 2).sum(axis=1) + (z**2) @ self.precision
        return found

    def log_probability(self, z: F8) -> F8:
        """Return the log posterior without its constant, shape (sets,)."""
        z = np.atleast_2d(z)
        possible = np.abs(z).max(axis=1) < BOUND
        found = np.full(len(z), -np.inf)
        if possible.any():
            inside = z[possible]
            found[possible] = -0.5 * self.costs(inside)
        return np.where(np.isfinite(found), found, -np.inf)


@dataclass(slots=True)
class Posterior:
    """Draws of the posterior, and their convergence."""

    best: F8
    draws: F8
    """Shape (draws, dimensions)."""
    rhat: F8
    ess: F8
    misfit: float
    """Mean square of the whitened residuals at the best fit: 1 if model and errors are as assumed."""
    acceptance: float

    @property
    def converged(self) -> bool:
        """Whether intervals may be stated."""
        return bool(np.all(self.rhat < MAX_RHAT) and np.all(self.ess > MIN_ESS))


def fitted(problem: FitProblem, *, seed: int, progress: Callable[[str], None], near: F8 | None = None) -> Posterior:
    """Return the posterior; with `near`, a good fit of a similar problem, least squares begin there only.

    Raises:
        UserError: emcee or scipy is not installed.
    """
    emcee = load_extra("emcee", "fit", needed_for="choroid fit", otherwise="keep the published parameters")
    load_extra("scipy", "fit", needed_for="choroid fit", otherwise="keep the published parameters")
    random = np.random.default_rng([seed, 0xF17])
    best, spread = best_fit(problem, random, progress, near)
    misfit = float((problem.residuals(best[None])[0] ** 2).mean())
    if not misfit <= GROSS:  # or no number
        progress(f"the misfit is {misfit:.0f} times what the errors explain: nothing is sampled")
        unknown = np.full(problem.dimensions, np.inf)
        return Posterior(best, best[None].copy(), unknown, np.zeros(problem.dimensions), misfit, 0.0)
    width = _wide(spread)
    walkers = 2 * (int(np.ceil(WALKERS_PER_DIMENSION * problem.dimensions)) // 2 + 1)
    samplers = [_sampler(emcee, problem, walkers, best, width) for _ in range(ENSEMBLES)]
    states: list[Any] = []
    for _ in samplers:
        begun = best + _student(random, (walkers, problem.dimensions)) @ width.T
        coordinates = np.clip(begun, -5.0, 5.0)
        generator = np.random.RandomState(int(random.integers(2**31)))
        states.append(emcee.State(coordinates, random_state=generator.get_state()))
    for number, each in enumerate(samplers):
        states[number] = each.run_mcmc(states[number], BURN_IN)
    # What was found so far is a better proposal than the curvature at one point.
    settled = np.concatenate([each.get_chain(discard=BURN_IN // 2, flat=True) for each in samplers])
    middle = settled.mean(axis=0)
    width = _wide(np.cov(settled.T) + 1e-6 * np.eye(problem.dimensions))
    samplers = [_sampler(emcee, problem, walkers, middle, width) for _ in range(ENSEMBLES)]
    for turn in range(MAX_ROUNDS):
        for number, each in enumerate(samplers):
            states[number] = each.run_mcmc(states[number], ROUND)
        chains = np.stack([sampler.get_chain() for sampler in samplers])
        rhat, ess = convergence(emcee, chains)
        progress(f"sampling, round {turn + 1}: R-hat {rhat.max():.3f}, effective draws {ess.min():.0f}")
        if np.all(rhat < MAX_RHAT) and np.all(ess > MIN_ESS):
            break
    draws = chains.reshape(-1, problem.dimensions)
    return Posterior(best, draws, rhat, ess, misfit, float(np.mean([each.acceptance_fraction for each in samplers])))


def convergence(emcee: Any, chains: F8) -> tuple[F8, F8]:
    """Return split R-hat and the effective number of draws of each parameter.

    Args:
        emcee: The module.
        chains: Shape (ensembles, steps, walkers, dimensions). Each half of each ensemble counts as a chain for R-hat.
    """
    ensembles, steps, walkers, dimensions = chains.shape
    half = steps // 2
    parts = np.concatenate([chains[:, :half], chains[:, half : 2 * half]]).reshape(2 * ensembles, -1, dimensions)
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    rhat: F8 = np.sqrt((within + between) / np.maximum(within, 1e-30))
    tau = np.zeros(dimensions)
    for each in chains:
        with np.errstate(invalid="ignore", divide="ignore"):  # a walker that never moved has no autocorrelation
            found = emcee.autocorr.integrated_time(each, tol=0, quiet=True)
        tau += np.where(np.isfinite(found), found, steps) / ensembles
    ess: F8 = ensembles * steps * walkers / np.maximum(tau, 1.0)
    return rhat, ess


def best_fit(
    problem: FitProblem, random: np.random.Generator, progress: Callable[[str], None], near: F8 | None = None
) -> tuple[F8, F8]:
    """Return the best fit of several starts, or of the one `near` it, and the covariance by its curvature."""
    from scipy.optimize import root

    d, roots = problem.dimensions, np.sqrt(problem.precision)

    def residuals(z: F8) -> F8:
        z = np.clip(z, -BOUND, BOUND)
        found: F8 = np.concatenate([problem.residuals(z[None])[0], roots * z])
        return found

    def slope(z: F8) -> F8:
        return np.vstack([jacobian(problem, np.clip(z, -BOUND, BOUND)), np.diag(roots)])

    starts = [near] if near is not None else [
        np.zeros(d), *(np.clip(0.8 * random.standard_normal(d), -2.0, 2.0) for _ in range(STARTS - 1))
    ]  # fmt: skip
    best, lowest = np.zeros(d), np.inf
    for number, start in enumerate(starts):
        # Levenberg–Marquardt: with more residuals than parameters it minimizes their squares.
        found = np.clip(root(residuals, start, jac=slope, method="lm", options=LM).x, -5.5, 5.5)
        cost = 0.5 * float((residuals(found) ** 2).sum())
        progress(f"least squares, start {number + 1} of {len(starts)}: cost {cost:.2f}")
        if cost < lowest:
            best, lowest = found, cost
    curvature = slope(best)
    spread: F8 = np.asarray(np.linalg.inv(curvature.T @ curvature), dtype=np.float64)
    return best, spread


def jacobian(problem: FitProblem, z: F8) -> F8:
    """Return how the whitened residuals change with each parameter, shape (observations, parameters)."""
    d = len(z)
    moved = np.concatenate([z + DIFFERENCE * np.eye(d), z - DIFFERENCE * np.eye(d)])
    found = problem.residuals(moved)
    slope: F8 = ((found[:d] - found[d:]) / (2.0 * DIFFERENCE)).T
    return slope


def _wide(covariance: Any) -> F8:
    """Return the factor of a covariance, a little wider."""
    found: F8 = np.linalg.cholesky(covariance) * PROPOSAL_WIDTH
    return found


def _student(random: Any, shape: tuple[int, int]) -> F8:
    """Return draws of the Student distribution, independent in each coordinate's direction but of one scale each row."""
    normal = random.standard_normal(shape)
    scale = np.sqrt(PROPOSAL_DF / random.chisquare(PROPOSAL_DF, shape[0]))
    found: F8 = normal * scale[:, None]
    return found


def _sampler(emcee: Any, problem: FitProblem, walkers: int, best: F8, width: F8) -> Any:
    """Return a sampler: most steps are independent proposals, the others differential evolution among the walkers."""
    inverse, d = np.linalg.inv(width), problem.dimensions

    def log_density(z: F8) -> F8:
        squares = (((z - best) @ inverse.T) ** 2).sum(axis=1)
        found: F8 = -0.5 * (PROPOSAL_DF + d) * np.log1p(squares / PROPOSAL_DF)
        return found

    def proposal(coordinates: F8, random: Any) -> tuple[F8, F8]:
        normal = random.randn(*coordinates.shape)
        scale = np.sqrt(PROPOSAL_DF / random.chisquare(PROPOSAL_DF, len(coordinates)))
        proposed = best + (normal * scale[:, None]) @ width.T
        return proposed, log_density(coordinates) - log_density(proposed)

    moves = [(emcee.moves.MHMove(proposal, ndim=d), 0.7), (emcee.moves.DEMove(), 0.3)]
    return emcee.EnsembleSampler(walkers, d, problem.log_probability, moves=moves, vectorize=True)
