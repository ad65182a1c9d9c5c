"""Data types of the ledger: losses, nominal volumes, movements, medium history, totals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from controller.ledger.reconcile import Residual
from protocols.medium_ageing import MediumRates

EVAPORATION_UL_D, EVAPORATION_SD_UL_D = 100.0, 60.0
"""Daily loss of the loop: some 2 m of silicone tubing in a humid housing lose 36–150 µL (biology.md §1.3)."""
SPENT_EVAPORATION_UL_D, SPENT_EVAPORATION_SD_UL_D = 20.0, 20.0
"""Daily loss of the spent vessel through its shorter tubing [P]: a fifth of the loop's, equally uncertain."""
SURFACE_EVAPORATION_REL_SD = 0.7
"""Relative uncertainty of the loss of an open surface [P]: lid and humidity decide, the same for all chambers of a rig."""
STRAW_REL_SD = 0.02
"""Relative uncertainty of the volume below a straw or a skimmer: its height, and how the vessel stands [P]."""
PUSHED_REL_SD = 0.3
"""Relative uncertainty of what air pushes out of tubes: their length, and what stays on the wall [P]."""
FILL_REL_SD = 0.005
"""Relative uncertainty of the initial filling of a vessel by a person with a pipette."""
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Loss:
    """Evaporation of a vessel. Its rate, in standard deviations from the expected rate, is one unknown: the error grows
    linearly, not as a random walk.
    """

    unknown: str
    ul_d: float
    sd_ul_d: float

    def in_time(self, seconds: float) -> tuple[float, float]:
        """Return the expected loss and its standard deviation (µL)."""
        days = max(seconds, 0.0) / DAY_S
        return self.ul_d * days, self.sd_ul_d * days


@dataclass(frozen=True, slots=True)
class Nominal:
    """The volume that a pump should have moved in a dose that it ended itself: the prior of the real volume.

    `ul` is by the calibration named `calibration`, whose uncertainty is `rel_sd`; `dose_sd_ul` is the scatter of doses.
    """

    ul: float
    rel_sd: float
    dose_sd_ul: float
    calibration: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {f"nominal_{name}": value for name, value in asdict(self).items()}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Nominal | None:
        """Return what a row of the journal has of it; None if the pump did not end the dose itself."""
        if "nominal_ul" not in body:
            return None
        return cls(**{name: body[f"nominal_{name}"] for name in cls.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class Movement:
    """One booked transfer: its line, source, target and volume (µL)."""

    line: str
    source: str
    target: str
    ul: float
    glutamine: float = 1.0
    """Share of its label's glutamine that a bottle still had (0..1)."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """History of medium, as the mixing average of a vessel."""

    passes: float = 0.0
    """Number of times it was given back to the loop."""
    age_s: float = 0.0
    """Time since its bottle was thawed, made, or else put in (s)."""
    unused: float = 1.0
    """Share that was never in the loop (0..1)."""
    insulin: float = 1.0
    """Share of fresh medium's insulin (0..1): stocks have none, a dialyser loses it, and so does time."""
    factors: float = 1.0
    """Share of fresh medium's labile factors that time has left (0..1); what tissue secretes is not counted."""
    glutamine: float = 1.0
    """Share of fresh medium's glutamine that has not decayed (0..1); what tissue takes is not counted."""

    def older(self, seconds: float, rates: MediumRates) -> Parcel:
        """Return the medium after some time (s), which takes from it at these rates."""
        days = seconds / DAY_S
        return replace(
            self,
            age_s=self.age_s + seconds,
            insulin=self.insulin * math.exp(-rates.insulin * days),
            factors=self.factors * math.exp(-rates.factors * days),
            glutamine=self.glutamine * math.exp(-rates.glutamine * days),
        )

    def mixed(self, other: Parcel, share: float) -> Parcel:
        """Return the mixture with a `share` (0..1) of `other`."""
        return Parcel(
            self.passes + (other.passes - self.passes) * share,
            self.age_s + (other.age_s - self.age_s) * share,
            self.unused + (other.unused - self.unused) * share,
            self.insulin + (other.insulin - self.insulin) * share,
            self.factors + (other.factors - self.factors) * share,
            self.glutamine + (other.glutamine - self.glutamine) * share,
        )


@dataclass(slots=True)
class Totals:
    """Totals since the journal began (µL). `recycled_ul` is used medium that went back to the loop."""

    drawn_ul: float = 0.0
    given_back_ul: float = 0.0
    recycled_ul: float = 0.0
    discarded_ul: float = 0.0
    fresh_ul: float = 0.0
    glucose_ul: float = 0.0
    base_ul: float = 0.0
    dialysate_ul: float = 0.0
    evaporated_ul: float = 0.0
    loaded_ul: float = 0.0
    """What people put in with a lot number."""
    sampled_ul: float = 0.0
    """Samples for assays."""
    unaccounted_ul: float = 0.0
    """Corrections by the balance or a person that no transfer explains (gain > 0)."""
    reconciled_ul: float = 0.0
    """The part of them that a person set with name and reason."""

    def poured(self, purpose: str | None, ul: float, medium: Parcel) -> None:
        """Add a volume that has left along a line of some purpose, with what it was."""
        match purpose:
            case "draw":
                self.drawn_ul += ul
            case "return":
                self.given_back_ul += ul
                self.recycled_ul += ul * (1.0 - medium.unused)
            case "discard":
                self.discarded_ul += ul
            case "feed":
                self.fresh_ul += ul
            case "glucose":
                self.glucose_ul += ul
            case "base":
                self.base_ul += ul
            case "dialyse":
                self.dialysate_ul += ul


@dataclass(slots=True)
class Tests:
    """Residual tests of weighed doses and read levels. With sound pumps the mean square of the sigmas is about 1."""

    count: int = 0
    gross: int = 0
    square_sigmas: float = 0.0

    def note(self, residual: Residual) -> None:
        """Count one residual."""
        self.count += 1
        self.gross += residual.gross
        if not residual.gross:
            self.square_sigmas += residual.sigmas**2
