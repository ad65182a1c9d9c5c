"""The words of the ledger: what is lost unseen, what a pump was to move, what moved, what medium has been through, sums."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from controller.ledger.reconcile import Residual

EVAPORATION_UL_D, EVAPORATION_SD_UL_D = 100.0, 60.0
"""Lost by the loop in a day: some 2 m of silicone tubing in a humid housing lose 36–150 µL (biology.md §1.3)."""
SPENT_EVAPORATION_UL_D, SPENT_EVAPORATION_SD_UL_D = 20.0, 20.0
"""Lost by the spent vessel through the shorter tubing that ends in it [P]: a fifth of the loop's, known no better."""
FILL_REL_SD = 0.005
"""How well a vessel was filled to what the rig file says; a person with a pipette."""
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Loss:
    """Water that leaves a vessel unseen. How fast, in standard deviations from what is expected, is one unknown number:
    its error adds up along a line and not as a random walk.
    """

    unknown: str
    ul_d: float
    sd_ul_d: float

    def in_time(self, seconds: float) -> tuple[float, float]:
        """Expected loss and its standard deviation (µL)."""
        days = max(seconds, 0.0) / DAY_S
        return self.ul_d * days, self.sd_ul_d * days


@dataclass(frozen=True, slots=True)
class Nominal:
    """What a pump was to move in a dose that it ended by itself: the prior of what it did move.

    `ul` by its calibration, whose claim is `rel_sd` and whose name is `calibration`; `dose_sd_ul` is the scatter from dose
    to dose.
    """

    ul: float
    rel_sd: float
    dose_sd_ul: float
    calibration: str

    def to_json(self) -> dict[str, Any]:
        """Plain data for the journal."""
        return {f"nominal_{name}": value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Movement:
    """One transfer as booked: along which line, from and to which vessel, how much (µL)."""

    line: str
    source: str
    target: str
    ul: float


@dataclass(frozen=True, slots=True)
class Parcel:
    """What medium has been through, as the mixing average of a vessel."""

    passes: float = 0.0
    """How often it was given back to the loop."""
    age_s: float = 0.0
    """Since it left its bottle."""
    unused: float = 1.0
    """Share that was never in the loop."""
    insulin: float = 1.0
    """Share of the insulin of fresh medium: stocks have none, and a dialyser leaks it."""

    def mixed(self, other: Parcel, share: float) -> Parcel:
        """With a `share` (0..1) of `other` in the mixture."""
        return Parcel(
            self.passes + (other.passes - self.passes) * share,
            self.age_s + (other.age_s - self.age_s) * share,
            self.unused + (other.unused - self.unused) * share,
            self.insulin + (other.insulin - self.insulin) * share,
        )


@dataclass(slots=True)
class Totals:
    """Since the journal began (µL). `recycled_ul` is used medium that went back to the loop."""

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
    """What people put in, with its lot number."""
    unaccounted_ul: float = 0.0
    """Corrections: what the balance or a person found that no transfer explains (gain > 0)."""
    reconciled_ul: float = 0.0
    """Of it, what a person set with name and reason."""

    @property
    def recycled_fraction(self) -> float:
        """Recycled over recycled and fresh (0..1): how much of what entered the loop had been there before."""
        entered = self.recycled_ul + self.fresh_ul
        return self.recycled_ul / entered if entered else 0.0


@dataclass(slots=True)
class Tests:
    """How the residuals of weighed doses and read levels came out: of well pumps, the mean square of sigmas is about 1."""

    count: int = 0
    gross: int = 0
    square_sigmas: float = 0.0

    def note(self, residual: Residual) -> None:
        """One more."""
        self.count += 1
        self.gross += residual.gross
        if not residual.gross:
            self.square_sigmas += residual.sigmas**2
