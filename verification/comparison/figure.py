"""Figure of a comparison: fresh medium, true viability and lactate over the days, one colour per arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from choroid.common.extras import load_extra

PANELS = (
    ("fresh_ml", "fresh medium, mL"),
    ("viability_true", "true viability"),
    ("lactate_mm", "lactate in the loop, mM"),
)


def plotting() -> Any:
    """Return matplotlib; raises :class:`~choroid.common.failure.UserError` where it is not installed."""
    return load_extra("matplotlib", "plots", needed_for="--svg", otherwise="leave --svg out")


def draw(path: Path, results: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> None:
    """Write an SVG; raises :class:`~choroid.common.failure.UserError` where matplotlib is not installed."""
    matplotlib = plotting()
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "choroid"  # the same data gives the same bytes
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(PANELS), 1, figsize=(7.0, 7.5), sharex=True, layout="constrained")
    for axis, (name, label) in zip(axes, PANELS, strict=True):
        for number, arm in enumerate(arms):
            for seed, result in enumerate(each for each in results if each["arm"] == arm):
                days = [sample["day"] for sample in result["samples"]]
                values = [sample[name] for sample in result["samples"]]
                axis.plot(days, values, color=f"C{number}", alpha=0.7, label=arm if seed == 0 else None)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[0].legend()
    axes[-1].set_xlabel("days")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
