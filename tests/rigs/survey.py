"""`python -m tests.rigs.survey`: check, plan and simulate the rigs here, or those named, and print a table.

    python -m tests.rigs.survey [RIG...] [--days 2] [--screenshots FOLDER] [--json FILE]

A row holds what `choroid check` says, whether the plan of a day is feasible, and what happens in the simulated days:
violations, active alarms, the true viability of the worst chamber and the error of the plant's own volume balance.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from choroid.simulation.plan import plan
from choroid.simulation.simulate import simulate
from controller.process.controller import Controller
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from sim.lab import SimulatedLab
from sim.plant.truth import PlantTruth
from tests.rigs.outcomes import RIGS, outcome

PLAN_H = 24.0
MAX_PROBLEMS = 5
"""Maximum number of problems of a rig that the table names."""


@dataclass(slots=True)
class Surveyed:
    """What becomes of one rig. A refused one has no plan and no simulated days."""

    rig: str
    refused: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    plan_feasible: bool = False
    plan_problems: tuple[str, ...] = ()
    days: float = 0.0
    violations: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    """Ids of the alarms that are active at the end."""
    viability: dict[str, float] = field(default_factory=dict)
    """True viability by chamber."""
    volume_error_ul: float = 0.0
    """Largest difference between the liquid in the plant and what its causes have added (µL)."""
    speed_per_cpu: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether it was not refused."""
        return not self.refused


class Volumes:
    """Compares the liquid of a plant with what its causes have added, at each hour."""

    def __init__(self) -> None:
        self._first_ul: float | None = None
        self.worst_ul = 0.0

    def update(self, _: float, lab: SimulatedLab, __: Controller) -> None:
        """Take the present balance."""
        now_ul = unexplained_ul(lab.plant.truth())
        if self._first_ul is None:
            self._first_ul = now_ul
        self.worst_ul = max(self.worst_ul, abs(now_ul - self._first_ul))


def unexplained_ul(truth: PlantTruth) -> float:
    """Return the liquid in vessels and lines less what the causes of the plant have added to it (µL)."""
    added = sum(by_species["liquid"] for by_species in truth.tally.values())
    return sum(truth.volumes_ul.values()) + sum(truth.held_ul.values()) - added


def survey(path: Path, *, days: float, plan_h: float = PLAN_H, seed: int = 1) -> Surveyed:
    """Check, plan and simulate one rig."""
    told = outcome(path)
    if "refused" in told:
        return Surveyed(path.stem, refused=tuple(told["refused"]))
    planned = plan(path, params={}, hours=plan_h, seed=seed)
    volumes = Volumes()
    tended = bool(load_rig(path, models=MODELS).upkeep.tasks)
    answer = simulate(path, days=days, seed=seed, watch=volumes.update, tended=tended)
    return Surveyed(
        path.stem,
        functions=tuple(told["functions"]),
        recipes=tuple(told["recipes"]),
        plan_feasible=planned["feasible"],
        plan_problems=tuple(map(str, [*planned["refusals"], *planned["violations"]])),
        days=days,
        violations=tuple(answer["violations"]),
        alarms=tuple(answer["alarms_active"]),
        viability={name: chamber["viability"] for name, chamber in answer["true_chambers"].items()},
        volume_error_ul=volumes.worst_ul,
        speed_per_cpu=answer["speed_per_cpu"],
    )


def lines(each: Surveyed) -> Iterator[str]:
    """Yield a row of the table, and below it what is wrong."""
    if not each.sound:
        yield f"{each.rig:<26} refused: {', '.join(each.refused)}"
        return
    worst = min(each.viability, key=lambda chamber: each.viability[chamber])
    feasible = "feasible" if each.plan_feasible else "INFEASIBLE"
    yield (
        f"{each.rig:<26} {feasible:<11} {each.days:g} d: {len(each.violations)} violations, viability"
        f" {each.viability[worst]:.4f} ({worst}), volumes ±{each.volume_error_ul:.2g} µL,"
        f" {each.speed_per_cpu:,.0f} × real time per CPU s"
    )
    yield f"{'':<26} functions: {', '.join(each.functions) or 'none'}; recipes: {', '.join(each.recipes)}"
    yield f"{'':<26} active alarms: {', '.join(each.alarms) or 'none'}"
    problems = list(dict.fromkeys([*each.plan_problems, *each.violations]))
    yield from (f"{'':<26} ! {problem}" for problem in problems[:MAX_PROBLEMS])
    if len(problems) > MAX_PROBLEMS:
        yield f"{'':<26} ! and {len(problems) - MAX_PROBLEMS} more"


def _draw(paths: list[Path], folder: Path) -> None:
    """Write pictures of the page and of the schematic of each rig. Needs the browser, which a survey alone does not."""
    from tests.browser.pages import chromium
    from tests.browser.stage import picture

    with chromium() as browser:
        for path in paths:
            picture(browser, load_rig(path), folder, path.stem)


def main() -> None:
    """Survey the rigs that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rigs", type=Path, nargs="*", default=RIGS)
    parser.add_argument("--days", type=float, default=2.0)
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found: list[dict[str, Any]] = []
    for path in chosen.rigs:
        each = survey(path, days=chosen.days)
        found.append(asdict(each))
        print("\n".join(lines(each)), flush=True)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if chosen.screenshots is not None:
        _draw(chosen.rigs, chosen.screenshots)


if __name__ == "__main__":
    main()
