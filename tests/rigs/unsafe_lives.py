"""Simulated hours of a mutant that the check calls sound, and its judges: does the tissue live as in the shipped rig?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from choroid.simulation.simulate import EPOCH, StartPoint, simulate
from controller.hazards import bounds
from controller.hazards.fluids import SOLUTES, largest_share
from controller.hazards.loading import load_checked_rig
from controller.process.controller import Controller
from controller.recipes.on_rig import preferred
from controller.rig.description import Medium, Rig
from controller.rig.organ_lines import fresh_medium
from drivers.registry import MODELS
from sim.lab import SimulatedLab

HOURS = 3.0
"""Medium of 900 mOsm/kg costs half of the viability in that time, gas in the wrong vessel a fifth."""
MAX_LOSS = 0.02
"""Loss of true viability against the shipped rig that is within the noise of another course."""
PH = (6.9, 7.8)
TEMPERATURE_C = (34.0, 39.5)
"""Hard limits, as of the campaign (:mod:`verification.campaign.surroundings`)."""
INFECTED_PER_ML = 1000.0
"""Microbes in the spent vessel after an hour, where a filter is judged (CFU/mL)."""
STERILE_PER_ML = 1.0
MIN_OXYGEN_SHARE = 0.5
"""Oxygen in a chamber, over that in the shipped rig."""
RECYCLING = {"every": "1 h", "batch": "8 mL", "min_batch": "8 mL"}
"""A batch each hour, so that whatever a rig gives its medium is given within the simulated time."""


@dataclass(frozen=True, slots=True)
class Course:
    """What the judges saw. `beyond` are the limits that a chamber was beyond, `chamber: what`."""

    viability: float
    oxygen_mm: float
    beyond: frozenset[str]
    violations: tuple[str, ...]

    def harms_against(self, shipped: Course) -> str:
        """Return what is worse than in the shipped rig; nothing where it is harmless."""
        found = sorted(self.beyond - shipped.beyond)
        if shipped.viability - self.viability > MAX_LOSS:
            found.append(f"viability {self.viability:.3f} (shipped {shipped.viability:.3f})")
        if self.oxygen_mm < MIN_OXYGEN_SHARE * shipped.oxygen_mm:
            found.append(f"oxygen {self.oxygen_mm:.3f} mM (shipped {shipped.oxygen_mm:.3f})")
        if len(self.violations) > len(shipped.violations):
            found += self.violations
        return "; ".join(found)


def course_of(file: Path, shipped: Path, real: Rig, hours: float, *, infected: bool = False) -> Course:
    """Simulate the controller by a rig file on the laboratory of `real`, with the protocol of the shipped rig.

    With `infected` there are microbes in the spent vessel, which the sterile filter has to keep there.
    """
    rig = load_checked_rig(file, models=MODELS)
    protocol = preferred(load_checked_rig(shipped, models=MODELS))
    beyond: set[str] = set()
    oxygen_mm: list[float] = []

    def update(_: float, lab: SimulatedLab, __: Controller) -> None:
        if infected and rig.organs.kidney is not None:
            lab.plant.faults.contamination[rig.organs.kidney.vessel] = INFECTED_PER_ML
        truth = lab.plant.truth()
        for name, tissue in truth.tissue.items():
            found = truth.concentrations[name]
            oxygen_mm.append(found["oxygen"])
            seen = {
                "osmolality": (found["osmoles"], bounds.BORNE_MOSM),
                "microbes": (found["microbes"], (0.0, STERILE_PER_ML)),
                "pH": (truth.ph[name], PH),
                "temperature": (tissue.temperature_c, TEMPERATURE_C),
            }
            beyond.update(f"{name}: {what}" for what, (value, (low, high)) in seen.items() if not low <= value <= high)

    with TemporaryDirectory() as folder:
        answer = simulate(
            file, start=StartPoint(Path(folder), EPOCH, rig, real), days=hours / 24.0, watch=update, protocol=protocol,
            params=RECYCLING if protocol == "recycle" else {},
        )  # fmt: skip
    return Course(answer["viability_true"], min(oxygen_mm), frozenset(beyond), tuple(answer["violations"]))


def real_rig(kind: str, file: Path, shipped: Path) -> Rig:
    """Return what stands in the laboratory: the rig of the file, but for two kinds of mutants.

    A tare of the file is wrong for the glass on the balance, which is that of the shipped rig. A stock does harm by its
    doses: the medium begins as one that lacked its solute and to which the largest dose has been given.
    """
    rig, before = load_checked_rig(file, models=MODELS), load_checked_rig(shipped, models=MODELS)
    return before if kind == "tare" else _dosed(rig, before)


def _dosed(rig: Rig, before: Rig) -> Rig:
    """Return the rig whose medium has the largest doses of those stocks in it that are others than in the shipped rig."""
    liver = rig.organs.liver
    fresh = rig.media.get(fresh_medium(rig))
    if liver is None or fresh is None:
        return rig
    mixed = fresh
    for key in SOLUTES:
        stock = _content(rig, getattr(liver, key))
        if stock is not None and stock != _content(before, getattr(liver, key)):
            lacking = mixed.model_copy(update={SOLUTES[key]: 0.0})
            mixed = _mixed(lacking, stock, largest_share(key, fresh, stock))
    if mixed is fresh:
        return rig
    bathed = {
        name: vessel.model_copy(update={"contains": "dosed"})
        if vessel.kind in ("loop", "chamber", "process")
        else vessel
        for name, vessel in rig.vessels.items()
    }
    return rig.model_copy(update={"media": {**rig.media, "dosed": mixed}, "vessels": bathed})


def _content(rig: Rig, line: str) -> Medium | None:
    return rig.media.get(rig.vessels[rig.lines[line].from_].contains or "")


def _mixed(medium: Medium, stock: Medium, share: float) -> Medium:
    """Return a medium with `share` of a stock in it."""
    names = [name for name in Medium.model_fields if isinstance(getattr(medium, name), float)]
    return medium.model_copy(
        update={
            name: (getattr(medium, name) + share * getattr(stock, name)) / (1.0 + share)
            for name in names
            if isinstance(getattr(stock, name), float)
        }
    )
