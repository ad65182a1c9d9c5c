"""`choroid validate`: compare what papers report with what the simulated plant makes of it, V1 to V23, failures included."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

from choroid.common.examples import bench_rig
from choroid.common.extras import load_extra
from choroid.common.progress import counted
from controller.hazards.loading import load_checked_rig
from drivers.registry import MODELS
from sim.plant.validation import validations
from sim.plant.verdicts import Validation

WIDTH = 118


def validate(plots: Path | None = None, *, progress: bool = False) -> dict[str, Any]:
    """Run all tests; with `plots`, also write a figure of each that has one there.

    Returns `{tests: [{id, title, published, simulated, tolerance, verdict, kind, source, note, parts}], passed, failed,
    figures}`. Raises UserError when figures are wanted and matplotlib is not installed; before anything is computed.
    """
    if plots is not None:
        _matplotlib()
    tests = tuple(enumerate(validations(load_checked_rig(bench_rig(), models=MODELS)), 1))
    found = [test() for _, test in (counted(tests, lambda each: f"V{each[0]}") if progress else tests)]
    figures = [] if plots is None else draw(found, plots)
    rows = []
    for each in found:
        row = asdict(each)
        del row["axes"], row["curves"]
        row["parts"] = list(row["parts"])
        rows.append(row)
    passed = sum(each.verdict == "pass" for each in found)
    return {"tests": rows, "passed": passed, "failed": len(found) - passed, "figures": figures}


def as_text(answer: dict[str, Any]) -> str:
    """Return a table for people, each test with its parts, its source and its reservations."""
    lines = [f"{'':4} {'':7} {'kind':12} test"]
    for test in answer["tests"]:
        lines += ["", f"{test['id']:4} {test['verdict']:7} {test['kind']:12} {test['title']}"]
        for name in ("published", "simulated", "tolerance"):
            lines.append(f"     {name:10} {test[name]}")
        for part in test["parts"]:
            mark = "✓" if part["ok"] else "✗"
            lines.append(f"       {mark} {part['what']}: {part['simulated']:g}  (published: {part['published']})")
        lines += textwrap.wrap(test["note"], WIDTH, initial_indent=" " * 5, subsequent_indent=" " * 5)
        lines.append(f"     source: {test['source']}")
    lines += ["", f"{answer['passed']} pass, {answer['failed']} fail."]
    lines += [f"figure: {name}" for name in answer["figures"]]
    return "\n".join(lines)


def draw(tests: list[Validation], directory: Path) -> list[str]:
    """Write a figure (PNG) of each test that has curves; returns the files. The directory is made if need be."""
    figure_of = _matplotlib()
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for test in tests:
        if not test.curves:
            continue
        figure = figure_of(figsize=(7.0, 4.5), layout="constrained")
        axes = figure.add_subplot()
        for label, (x, y) in test.curves.items():
            axes.plot(x, y, label=label, marker="o" if len(x) < 20 else None)
        if test.id in ("V3", "V5"):
            axes.set_xscale("log")
        axes.set_xlabel(test.axes[0])
        axes.set_ylabel(test.axes[1])
        axes.set_title(f"{test.id} ({test.kind}, {test.verdict}): {test.title}", fontsize=9)
        axes.legend(fontsize=8)
        path = directory / f"{test.id}.png"
        figure.savefig(path, dpi=120)
        written.append(str(path))
    return written


def _matplotlib() -> Any:
    return load_extra("matplotlib.figure", "plots", needed_for="--plots", otherwise="leave --plots out").Figure
