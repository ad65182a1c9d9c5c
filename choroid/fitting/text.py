"""The answer of `choroid fit` as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from choroid.fitting.prediction import MIN_VALUES

_MOVES: Mapping[bool | None, str] = {True: ", {0}", False: "", None: ", not known whether it {0}"}
"""What is said of an answer that does, does not, or may depend on the prior."""


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the figures of a fit as text."""
    return "\n".join(_lines(answer))


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    seen = ", ".join(f"{signal} {count}" for signal, count in answer["observations"].items())
    yield f"{answer['rig']}, {answer['from_utc'][:16]} to {answer['to_utc'][:16]} UTC ({answer['days']:.1f} d)"
    yield f"  values        {seen}"
    if not answer["describes"]:
        yield "  NO PARAMETERS the model does not describe these data: no values are stated"
    elif answer["converged"]:
        yield from _products(answer)
        yield from _parameters(answer)
    else:
        yield (
            f"  NOT CONVERGED R-hat {answer['rhat_max']:.3f}, {answer['ess_min']:.0f} effective draws: no values are stated."
            " Next: another --seed, fewer --parameters, or more data"
        )
    yield from _prediction(answer["out_of_sample"])
    for text in answer["warnings"]:
        yield f"  WARNING       {text}"
    for name in ("out", "svg"):
        if name in answer:
            yield f"  written       {answer[name]}"


def _products(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the whole culture does, which is what the data tell best."""
    yield f"  {'whole culture':<22}{'median':>10}{'90 % interval':>24}  on the last day; the change over the period"
    for name, each in answer["rates"].items():
        moves = _MOVES[each["moves_with_prior"]].format("depends on the prior")
        yield f"  {name:<22}{each['median']:>10.4g}{_interval(each):>24}  {each['unit']}{moves}"
    for each in answer["products"]:
        yield (
            f"  known together {each['a']} · {each['b']}^{each['power']:.2g} = {each['median']:.3g} ({_interval(each)}); each"
            " alone trades off against the other"
        )
    if answer["decline"]["declines"]:
        change = answer["rates"]["living_change"]
        yield (
            f"  THE CULTURE DECLINES: its living tissue changes by {change['median']:.1f} % a day ({_interval(change)})."
            " Next: look for the cause; do not plan with this twin"
        )


def _parameters(answer: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {'parameter':<22}{'median':>10}{'90 % interval':>24}  of prior"
    for name, each in answer["parameters"].items():
        state = {"yes": "identifiable", "weakly": "weakly identified", "no": "NOT IDENTIFIABLE from these data"}
        moves = "" if each["identifiable"] == "no" else _MOVES[each["moves_with_prior"]].format("moves with the prior")
        needs = f": needs {each['needs']}" if each["needs"] else ""
        yield (
            f"  {name:<22}{each['median']:>10.4g}{_interval(each):>24}  {each['of_prior']:.2f}"
            f" {each['unit']} {state[each['identifiable']]}{moves}{needs}"
        )
    for name, each in answer["parameters"].items():
        yield f"  profile       {name}: {_profile(each['profile'])}"
    for pair in answer["correlated"]:
        yield f"  correlated    {pair['a']} and {pair['b']}: {pair['r']:+.2f}"
    yield (
        f"  convergence   R-hat {answer['rhat_max']:.3f}, {answer['ess_min']:.0f} effective draws of {answer['draws']};"
        f" misfit {answer['misfit']:.2f}"
    )


def _profile(found: Mapping[str, Any]) -> str:
    """Return the range in which the data alone, without the prior of the parameters, allow one."""
    low, high = ("" if found[name] is None else f"{found[name]:.4g}" for name in ("low", "high"))
    if low and high:
        return f"{low} to {high}"
    if not low and not high:
        return "open above and below: these data do not bound it"
    return f"{low} or more, open above" if low else f"{high} or less, open below"


def _interval(each: Mapping[str, Any]) -> str:
    return f"{each['low']:.4g} to {each['high']:.4g}"


def _prediction(found: Mapping[str, Any] | None) -> Iterator[str]:
    if found is None:
        return
    if "why_not" in found:
        yield f"  out of sample not judged: {found['why_not']}"
        return
    yield f"  out of sample, from {found['from_utc'][:16]} UTC: RMSE of the twin, of the last value, of a straight line"
    for signal, each in found["signals"].items():
        naive = ["–" if each[name] is None else f"{each[name]:.3g}" for name in ("rmse_last_value", "rmse_linear")]
        skill = ["–" if each[name] is None else f"{each[name]:+.2f}" for name in ("skill_last_value", "skill_linear")]
        yield (
            f"    {signal:<24}{each['rmse']:>9.3g}{naive[0]:>9}{naive[1]:>9}   skill {skill[0]} over the last value,"
            f" {skill[1]} over the line; 90 % interval holds {each['coverage_90']:.0%} of {each['n']}"
        )
    if found["predicts"]:
        share = f"{found['coverage_90']:.0%} of {found['n']} held-out values"
        changed = _names(found["changed"])
        yield f"  the twin predicts: {share} are in their 90 % interval, and it beats the last value for {changed}"
    elif found["predicts"] is not None:
        yield f"  WARNING       THE TWIN DOES NOT PREDICT: {_why_not(found)}. Do not plan with this twin"
    elif 0 < found["n"] < MIN_VALUES:
        yield (
            f"  {found['n']} held-out values of metabolites: fewer than {MIN_VALUES}, and the prediction is not judged. Next:"
            " more assays in the part that is held out, or a greater --holdout"
        )
    elif found["n"]:
        yield "  no metabolite changed by more than its noise: the last value says as much, and the prediction is not judged"
    else:
        yield "  no metabolite was measured in the part that was held out: the prediction is not judged"


def _why_not(found: Mapping[str, Any]) -> str:
    if found.get("declines"):
        return "the culture declines, and the cause is not in the model"
    if found["not_beaten"]:
        return f"the last value is as near for {_names(found['not_beaten'])}. Likely cause: too few values before"
    return (
        f"{found['coverage_90']:.0%} of {found['n']} held-out values are in their 90 % interval. Likely cause: something"
        " changed, wrong assays, another rig"
    )


def _names(every: list[str]) -> str:
    return ", ".join(every)
