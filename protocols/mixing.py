"""Calculation of mixed media: the effect of pouring, dialysis and time on a volume of medium, with bounds. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from protocols.interval import Interval
from protocols.results import VesselVolume
from protocols.soft_sensor import CO2_SOLUBILITY_MM_MMHG, PK_CARBONIC, Composition, MediaValues, pco2_mmhg
from protocols.targets import Targets

AMMONIA_PER_LACTATE = 0.1
"""Ammonia per lactate, mol/mol: 0.05 of the tissue, and about as much from glutamine's decay [P]."""
STANDARD_PCO2 = pco2_mmhg(5.0, 100.0)
"""5 % CO2: with the bicarbonate for the set-point pH under it, the pH regulator can move in both directions."""


@dataclass(frozen=True, slots=True)
class MediumState:
    """Estimated state of a volume of medium: µL, mM, mOsm/kg, number of returns, remaining share of insulin."""

    ul: float
    lactate_mm: Interval
    ammonia_mm: Interval
    glucose_mm: Interval
    bicarbonate_mm: Interval
    osmolality_mosm: Interval
    passes: float
    insulin: float = 1.0

    @classmethod
    def of(cls, media: MediaValues, volume: VesselVolume) -> MediumState:
        """Return the state from the estimate of a vessel and its volume."""
        values = {field.name: getattr(media, field.name) for field in fields(MediaValues)}
        return cls(volume.ul, **values, passes=volume.passes, insulin=volume.insulin)

    @classmethod
    def stock(cls, ul: float, composition: Composition, *, complete: bool = False) -> MediumState:
        """Return the state of a bottle's content; `complete` medium has its supplements."""
        values = {field.name: Interval.exact(getattr(composition, field.name)) for field in fields(MediaValues)}
        return cls(ul, **values, passes=0.0, insulin=float(complete))

    def poured(self, other: MediumState) -> MediumState:
        """Return the mixture. Bounds add up as for a common cause, since a probe's error is the same in all
        vessels.
        """
        total = self.ul + other.ul
        return self.nearer(other, other.ul / total, ul=total) if total > 0 else self

    def nearer(self, other: MediumState, share: float, *, ul: float, small: bool = False) -> MediumState:
        """Return the state moved by `share` (0..1) towards `other`; with `small` only small solutes, not passes and
        insulin.
        """
        mixed = {
            name: _between(getattr(self, name), getattr(other, name), share)
            for name in (field.name for field in fields(MediaValues))
        }
        large = 0.0 if small else share
        return MediumState(
            ul,
            **mixed,
            passes=self.passes + (other.passes - self.passes) * large,
            insulin=self.insulin + (other.insulin - self.insulin) * large,
        )

    def taken(self, ul: float) -> MediumState:
        """Return the same medium with another volume (µL)."""
        return replace(self, ul=ul)

    def later(self, lactate_umol: Interval) -> MediumState:
        """Return the state after the tissue has made this lactate in it (µmol), with its uptake of glucose and
        bicarbonate. The uncertainty of what it made is added to that of the content.
        """
        made = lactate_umol.scaled(1000.0 / max(self.ul, 1.0))
        return replace(
            self,
            lactate_mm=_risen(self.lactate_mm, made),
            ammonia_mm=_risen(self.ammonia_mm, made.scaled(AMMONIA_PER_LACTATE)),
            glucose_mm=_fallen(self.glucose_mm, made),
            bicarbonate_mm=_fallen(self.bicarbonate_mm, made),
        )

    def variables(self, targets: Targets) -> dict[str, Interval]:
        """Return the variables that the rules judge."""
        osmolality, change = self.osmolality_mosm, 100.0 / targets.osmolality_mosm
        return {
            "lactate_mm": self.lactate_mm,
            "ammonia_mm": self.ammonia_mm,
            "glucose_mm": self.glucose_mm,
            "glucose_share": self.glucose_mm.scaled(1.0 / targets.glucose_mm),
            "osmolality_change_pct": Interval(
                osmolality.value * change - 100.0, osmolality.low * change - 100.0, osmolality.high * change - 100.0
            ),
            "ph": Interval(*(standard_ph(getattr(self.bicarbonate_mm, end)) for end in ("value", "low", "high"))),
            "passes": Interval.exact(self.passes),
            "insulin_share": retained(self.insulin),
        }


def retained(insulin: float) -> Interval:
    """Return the remaining insulin with bounds: a third of the loss may be more or less, as no leak or decay was measured
    [P].
    """
    doubt = (1.0 - insulin) / 3.0
    return Interval(insulin, max(0.0, insulin - doubt), min(1.0, insulin + doubt))


def _between(a: Interval, b: Interval, share: float) -> Interval:
    return Interval(*(x + (y - x) * share for x, y in ((a.value, b.value), (a.low, b.low), (a.high, b.high))))


def _risen(interval: Interval, by: Interval) -> Interval:
    return Interval(interval.value + by.value, interval.low + by.low, interval.high + by.high)


def _fallen(interval: Interval, by: Interval) -> Interval:
    ends = (interval.value - by.value, interval.low - by.high, interval.high - by.low)
    return Interval(*(max(0.0, end) for end in ends))


def standard_ph(bicarbonate_mm: float) -> float:
    """Return the pH under 5 % CO2: the starting point of the lung, which varies CO2."""
    return PK_CARBONIC + math.log10(max(bicarbonate_mm, 0.01) / (CO2_SOLUBILITY_MM_MMHG * STANDARD_PCO2))
