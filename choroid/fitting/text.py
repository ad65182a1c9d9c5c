"""The answer of `choroid fit` as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the figures of a fit as text."""
    return "\n".join(_lines(answer))


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    seen = ", ".join(f"{signal} {count}" for signal, count in answer["observations"].items())
    yield f"{answer['rig']}, {answer['from_utc'][:16]} to {answer['to_utc'][:16]} UTC ({answer['days']:.1f} d)"
    yield f"  values        {seen}"
    if answer["converged"]:
        yield from _parameters(answer)
    elif not answer["describes"]:
        yield "  NO PARAMETERS the model does not describe these data: no values are stated"
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


def _parameters(answer: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {'parameter':<22}{'median':>10}{'90 % interval':>24}  of prior"
    for name, each in answer["parameters"].items():
        interval = f"{each['low']:.4g} to {each['high']:.4g}"
        state = {"yes": "", "weakly": " weakly identified", "no": " NOT IDENTIFIABLE from these data"}
        needs = f": needs {each['needs']}" if each["needs"] else ""
        yield (
            f"  {name:<22}{each['median']:>10.4g}{interval:>24}  {each['of_prior']:.2f}"
            f" {each['unit']}{state[each['identifiable']]}{needs}"
        )
    for name, each in answer["rates"].items():
        interval = f"{each['low']:.4g} to {each['high']:.4g}"
        yield f"  {name:<22}{each['median']:>10.4g}{interval:>24}  {each['unit']}, on the last day"
    for pair in answer["correlated"]:
        yield f"  correlated    {pair['a']} and {pair['b']}: {pair['r']:+.2f}"
    yield (
        f"  convergence   R-hat {answer['rhat_max']:.3f}, {answer['ess_min']:.0f} effective draws of {answer['draws']};"
        f" misfit {answer['misfit']:.2f}"
    )


def _prediction(found: Mapping[str, Any] | None) -> Iterator[str]:
    if found is None:
        return
    if "why_not" in found:
        yield f"  out of sample not judged: {found['why_not']}"
        return
    yield f"  out of sample, from {found['from_utc'][:16]} UTC: RMSE of the twin, of the last value, of a straight line"
    for signal, each in found["signals"].items():
        naive = ["–" if each[name] is None else f"{each[name]:.3g}" for name in ("rmse_last_value", "rmse_linear")]
        yield (
            f"    {signal:<24}{each['rmse']:>9.3g}{naive[0]:>9}{naive[1]:>9}   90 % interval holds {each['coverage_90']:.0%}"
            f" of {each['n']}"
        )
    if found["predicts"] is None:
        yield "  no metabolite was measured in the part that was held out: the prediction is not judged"
    elif found["predicts"]:
        share = f"{found['coverage_90']:.0%} of {found['n']} held-out values"
        yield f"  the twin predicts: {share} are in their 90 % interval"
    else:
        yield (
            f"  WARNING       THE TWIN DOES NOT PREDICT: {found['coverage_90']:.0%} of {found['n']} held-out values are in"
            " their 90 % interval. Likely cause: something changed, wrong assays, another rig. Do not plan with this twin"
        )
