"""What may be stated of a posterior: products that the data tell, parameters that depend on the prior or on one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from choroid.fitting.model import LightTwin
from choroid.fitting.posterior import Posterior
from choroid.fitting.prediction import DRAWS
from choroid.fitting.priors import Parameter
from choroid.fitting.series import DAY_S, F8

LEVEL = (0.05, 0.5, 0.95)
UNIDENTIFIED = 0.9
"""Standard deviation over that of the prior from which a parameter counts as not identifiable."""
WEAK = 0.6
MOVED = 0.5
"""Change of the median with a prior twice as wide, in standard deviations of the posterior, from which it is reported."""
WIDENED = 1.15
"""Width of the interval with a prior twice as wide, over that with the prior, from which it is reported."""
NARROW = 0.1
"""Standard deviation of the logarithm below which it does not matter that an interval widens."""
IMPLAUSIBLE = 2.5
"""Standard deviations of the prior from which a value is reported as one to doubt."""
CORRELATED = 0.7
KNOWN_PRODUCT = 0.5
"""A product of two parameters is stated if its interval is narrower than this times that of either."""
Profiles = Mapping[int, tuple[float | None, float | None]]


def parameter_findings(
    twin: LightTwin, posterior: Posterior, wider: Posterior, profiles: Profiles
) -> dict[str, dict[str, Any]]:
    """Return what is known of each parameter.

    Args:
        twin: The model.
        posterior: The fit.
        wider: The same with a prior twice as wide. If it did not converge, it is not known whether the answer moves with it.
        profiles: Ranges of the profile likelihoods (z), by number of the parameter.
    """
    found: dict[str, dict[str, Any]] = {}
    values, values_wider = twin.values(posterior.draws), twin.values(wider.draws)
    for number in range(posterior.draws.shape[1]):
        each, z = twin.chosen[number], posterior.draws[:, number]
        of_prior = float(z.std())
        moves = _moves(z, wider.draws[:, number], each.spread) if wider.converged else None
        profile = profiles.get(number)
        state = _state(of_prior, moves, profile)
        edges = [each.median * float(np.exp(each.spread * at)) for at in (-1.645, 1.645)]
        found[each.name] = {
            **_interval(values[:, number]), "unit": each.unit,
            "prior": {"median": each.median, "low": edges[0], "high": edges[1], "source": each.source},
            "of_prior": of_prior, "shift": float(np.median(z)), "identifiable": state,
            "needs": each.needs if state != "yes" else "",
            "moves_with_prior": moves, "prior_doubled": None if moves is None else _interval(values_wider[:, number]),
            "prior_dominated": of_prior > UNIDENTIFIED or bool(moves),
            "profile": None if profile is None else _profile(each, profile),
            "rhat": float(min(posterior.rhat[number], 99.0)), "ess": float(posterior.ess[number]),
        }  # fmt: skip
    # What trades off against a parameter that the data do not tell is known as badly.
    for pair in correlated(twin, posterior.draws):
        for name, against in ((pair["a"], found[pair["b"]]), (pair["b"], found[pair["a"]])):
            if found[name]["identifiable"] == "yes" and against["needs"] and against["identifiable"] == "no":
                found[name] |= {"identifiable": "weakly", "needs": against["needs"]}
    return found


def _state(of_prior: float, moves: bool | None, profile: tuple[float | None, float | None] | None) -> str:
    """Return whether the data tell a parameter: `yes`, `weakly` or `no`."""
    if of_prior > UNIDENTIFIED or profile == (None, None):
        return "no"
    return "weakly" if of_prior > WEAK or moves is not False or (profile is not None and None in profile) else "yes"


def _moves(first: F8, second: F8, spread: float = 1.0) -> bool:
    """Return whether the prior's width decides the answer; `spread` makes a logarithm of the values."""
    sd = max(float(first.std()), 1e-12)
    moved = abs(float(np.median(second) - np.median(first))) / sd
    return moved > MOVED or (spread * sd > NARROW and float(second.std()) / sd > WIDENED)


def _interval(values: F8) -> dict[str, float]:
    return dict(zip(("low", "median", "high"), np.quantile(values, LEVEL).tolist(), strict=True))


def _profile(each: Parameter, profile: tuple[float | None, float | None]) -> dict[str, float | bool | None]:
    low, high = (None if z is None else each.median * float(np.exp(each.spread * z)) for z in profile)
    return {"low": low, "high": high, "open_below": low is None, "open_above": high is None}


def correlated(twin: LightTwin, draws: F8) -> list[dict[str, Any]]:
    """Return the pairs of parameters that the data tell apart badly, the strongest first."""
    names, r = [each.name for each in twin.chosen], np.atleast_2d(np.corrcoef(draws.T))
    pairs = [
        {"a": names[i], "b": names[j], "r": float(r[i, j])}
        for i in range(draws.shape[1])
        for j in range(i)
        if abs(r[i, j]) > CORRELATED
    ]
    return sorted(pairs, key=lambda pair: -abs(pair["r"]))


def products(twin: LightTwin, draws: F8, known: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the products a · b^power of two parameters of the plant that the data tell much better than each alone.

    `known` is what :func:`parameter_findings` returned: what is identifiable by itself needs no product.
    """
    logs, found = np.log(twin.values(draws)[:, : draws.shape[1]]), []
    numbers = [
        number
        for number, each in enumerate(twin.chosen[: draws.shape[1]])
        if not each.nuisance and known[each.name]["identifiable"] != "yes"
    ]
    for i in numbers:
        for j in (j for j in numbers if j > i):
            covariance = np.cov(logs[:, [i, j]].T)
            power = -round(float(covariance[0, 1] / covariance[1, 1]), 2)
            both = logs[:, i] + power * logs[:, j]
            if both.std() < KNOWN_PRODUCT * logs[:, i].std():
                interval = _interval(np.exp(both))
                found.append({"a": twin.chosen[i].name, "b": twin.chosen[j].name, "power": power} | interval)
    return found


def rates(twin: LightTwin, posterior: Posterior, wider: Posterior) -> dict[str, dict[str, Any]]:
    """Return what all tissue takes up and makes on the last day, the lactate yield, and the change of its living part.

    These are the products that metabolites tell: `moves_with_prior` says where they do not (None: not known).
    """
    found = {}
    second = _rates(twin, wider) if wider.converged else {}
    for name, (values, unit) in _rates(twin, posterior).items():
        moves = _moves(*_as_logs(values, second[name][0])) if second else None
        found[name] = _interval(values) | {"unit": unit, "moves_with_prior": moves}
    return found


def _as_logs(first: F8, second: F8) -> tuple[F8, F8]:
    """Return the logarithms of both; where one has a value that has none, both as they are."""
    return (np.log(first), np.log(second)) if min(first.min(), second.min()) > 0.0 else (first, second)


def _rates(twin: LightTwin, posterior: Posterior) -> dict[str, tuple[F8, str]]:
    picked = np.linspace(0, len(posterior.draws) - 1, DRAWS).astype(int)
    _, nmol_s = twin.course(posterior.draws[picked])
    dt_s = twin.recorded.steps[:, 0]
    ends = np.cumsum(dt_s)
    last = ends > ends[-1] - DAY_S
    per_day = (nmol_s[:, last] * dt_s[last, None]).sum(axis=1) / dt_s[last].sum() * DAY_S / 1000.0
    return {
        "oxygen_uptake": (per_day[:, 0], "µmol/d"),
        "glucose_uptake": (per_day[:, 1], "µmol/d"),
        "lactate_production": (per_day[:, 2], "µmol/d"),
        "ammonia_production": (per_day[:, 3], "µmol/d"),
        "lactate_yield": (per_day[:, 2] / np.maximum(per_day[:, 1], 1e-9), "mol/mol glucose"),
        "living_change": (twin.living_change(posterior.draws[picked]), "% a day"),
    }
