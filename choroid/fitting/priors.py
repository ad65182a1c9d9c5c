"""What is fitted: each parameter with its prior and the prior's source, and the errors of instruments.

A parameter is *median · e^(spread · z)* with z standard normal: all are positive, and a fit works with z. Errors that enter a
measured value linearly (offset and drift of a probe, the calibrator of an analyser) are no parameters; they are integrated
out exactly (:mod:`choroid.fitting.errors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from choroid.common.failure import UserError
from choroid.fitting.records import FitRecords
from sim.plant import chemistry, organoid


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a fit."""

    name: str
    unit: str
    median: float
    spread: float
    """Standard deviation of the logarithm."""
    source: str
    """Of the prior."""
    needs: str
    """What data would tell it."""
    nuisance: bool = False


TISSUE = ("glucose_uptake", "demand", "ammonia_per_glucose", "growth_per_day", "ageing_per_h")
"""Those that are fields of :class:`sim.plant.tissue_models.TissueKind`."""
PLANT = (
    Parameter(
        "glucose_uptake", "mol/(m³·s)", 0.00414, 0.806,
        "0.0011 immature (0.006 O2 at 5.5 a glucose [D]) to 0.0156 mouse brain; adult human 0.0054 (biology.md §1.1 [V S4])",
        "assays of glucose and lactate over several days, and a probe of oxygen at the chamber",
    ),
    Parameter(
        "demand", "× 0.024 mol/(m³·s) O2", 0.692, 0.619,
        "0.006 young forebrain to 0.046 mol/(m³·s) adult grey matter (sim/plant/tissue_models.py)",
        "a probe of oxygen before and behind the chamber, or more days of lactate together with glucose",
    ),
    Parameter(
        "ammonia_per_glucose", "mol/mol", organoid.AMMONIA_PER_GLUCOSE, 0.4,
        "no organoid figure was found (biology.md §7) [P]", "assays of ammonia",
    ),
    Parameter(
        "growth_per_day", "1/d (Gompertz)", organoid.GROWTH_PER_DAY, 0.5,
        "4 mm at last (biology.md §1.2 [P])", "assays over three weeks or more, or the volume from images",
    ),
    Parameter(
        "water_loss", "× the plant's", 1.0, 0.4,
        "permeability of silicone 20,000 to 40,000 Barrer (biology.md §1.3 [V S27, R]), humidity of the housing [P]",
        "assays of osmolality, or level readings of the loop, over a week or more",
    ),
    Parameter(
        "buffer_mm_per_ph", "mM/pH", chemistry.BUFFER_MM_PER_PH, 0.6,
        "0.7 (phosphate only) to 9 (15 mM HEPES) where the medium declares none (docs/estimation.md)",
        "pH at different CO2 or with known titrant, together with assays of lactate; or declare hepes: and phosphate:",
    ),
)  # fmt: skip
LOSS = Parameter(
    "ageing_per_h", "1/h", 0.002, 1.2,
    "0.0003 to 0.014/h: a life of months to days [P]; fitted only where the data ask for it",
    "assays of glucose and lactate over several days",
)  # fmt: skip
"""Living tissue that is lost for good: the last parameter of a model with decline. Without it the model has no loss."""
NUISANCE = tuple(
    Parameter(name, "×", median, spread, source, "", nuisance=True)
    for name, median, spread, source in (
        ("gas_transfer", 1.0, 0.3, "kLa of the loop and the tubes [P]"),
        ("flow", 0.95, 0.06, "pumps ± 3 %, tubing loses to 10 % (biology.md §2)"),
        ("label_glucose", 1.0, 0.02, "bottles against their labels [P]"),
        ("label_bicarbonate", 1.0, 0.015, "bottles against their labels [P]"),
        ("label_glutamine", 1.0, 0.06, "bottles against their labels [P]"),
        ("label_ammonia", 1.0, 0.4, "0.02 mM, ± 0.01 mM [P]"),
        ("label_osmolality", 1.0, 0.005, "bottles against their labels [P]"),
    )
)
DECLARED_SPREAD = 0.25
"""Spread of the buffer capacity where media declare their buffers (docs/estimation.md)."""
STARTS = ("glucose_mm", "lactate_mm", "ammonia_mm", "bicarbonate_mm", "osmolality_mosm")
"""Media that a period begins with, where it begins later than the journal."""


def parameters(recorded: FitRecords, names: Sequence[str] = ()) -> list[Parameter]:
    """Return the parameters of a fit; with `names` those of the plant that are fitted, the others keep the published value.

    The last one is :data:`LOSS`.

    Raises:
        UserError: A name is unknown.
    """
    known = [each.name for each in PLANT]
    if unknown := [name for name in names if name not in known]:
        raise UserError(f"--parameters: {', '.join(unknown)} cannot be fitted. Next: choose among {', '.join(known)}")
    chosen = [each for each in PLANT if not names or each.name in names]
    if declared_buffer(recorded):
        chosen = [
            replace(each, median=1.0, spread=DECLARED_SPREAD, unit="× declared", source="declared buffers ± 25 %")
            if each.name == "buffer_mm_per_ph"
            else each
            for each in chosen
        ]
    chosen += NUISANCE
    for name, (value, sd) in (recorded.start or {}).items():
        if name in STARTS:
            median = max(value, sd, 1e-3)
            spread = float(np.sqrt(np.log1p((sd / median) ** 2)))
            chosen.append(
                Parameter(f"start_{name}", "", median, spread, "the first estimate in the period", "", nuisance=True)
            )
    return [*chosen, LOSS]


def declared_buffer(recorded: FitRecords) -> bool:
    """Return whether the loop's medium declares its buffers; the parameter is then a factor on them."""
    rig = recorded.rig
    contains = rig.vessels[rig.loop or ""].contains
    return contains is not None and rig.media[contains].buffer_mm_per_ph(-1.0) >= 0.0
