"""Figure of a fit: each signal in the part that was held out, with the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from choroid.common.extras import load_extra


def plotting() -> Any:
    """Return matplotlib; raises :class:`~choroid.common.failure.UserError` where it is not installed."""
    return load_extra("matplotlib", "plots", needed_for="--svg", otherwise="leave --svg out")


def draw(path: Path, answer: Mapping[str, Any]) -> None:
    """Write an SVG of what was held out; raises :class:`~choroid.common.failure.UserError` as :func:`plotting`."""
    found = answer["out_of_sample"]
    matplotlib = plotting()
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "choroid"  # the same data gives the same bytes
    from matplotlib import pyplot

    signals = found["signals"]
    figure, axes = pyplot.subplots(
        len(signals), 1, figsize=(7.0, 1.0 + 1.9 * len(signals)), sharex=True, layout="constrained", squeeze=False
    )
    for axis, (signal, each) in zip(axes[:, 0], signals.items(), strict=True):
        days = [point["day"] for point in each["points"]]
        bounds = [[point[name] for point in each["points"]] for name in ("low", "high")]
        axis.fill_between(days, *bounds, alpha=0.3, label="90 % interval")
        axis.plot(days, [point["predicted"] for point in each["points"]], label="predicted")
        axis.plot(days, [point["measured"] for point in each["points"]], "k.", label="measured")
        axis.set_ylabel(signal)
        axis.grid(alpha=0.3)
    axes[0, 0].legend()
    axes[-1, 0].set_xlabel("days")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
