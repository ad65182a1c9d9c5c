"""The estimate in words: what is abnormal, where viability lies, since when, what is not measured, what to measure next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from protocols.tissue.estimate import HARM_SHARE, LEVEL, TOO_WIDE, VERSION, Range, ViabilityEstimate
from protocols.tissue.information import Gain, best_measurement
from protocols.tissue.look import TissueLook
from protocols.tissue.particles import harms_per_h
from protocols.tissue.priors import Axis
from protocols.tissue.sources import Knowing, KnownBy
from protocols.tissue.wording import DAY_H, LossFound, TissueWording, Trend, trend_of

MEANING = f"Viability: share of the tissue that lives and works ({100 * LEVEL:.0f} % interval)"
LABEL = "estimate of the tissue's condition for its care, not evidence of feeling"
MEASURED = {
    "temperature": "temperature_c",
    "oxygen": "oxygen_pct",
    "pH": "ph",
    "glucose": "glucose_mm",
    "lactate": "lactate_mm",
    "ammonia": "ammonia_mm",
    "osmolality": "osmolality_mosm",
    "oxygen uptake": "oxygen_uptake",
    "electrical activity": "firing_hz",
    "LDH": "ldh",
    "size": "volume",
}
"""What can be known of a tissue, with its field of a look."""
OF_MEDIUM = frozenset({"glucose_mm", "lactate_mm", "ammonia_mm", "osmolality_mosm"})
"""Fields that hold the estimate of the medium, whether or not anything measured them."""
EXPOSURE_OF = {
    "heat": "temperature_c",
    "cold": "temperature_c",
    "lack of oxygen": "oxygen_pct",
    "pH": "ph",
    "lack of glucose": "glucose_mm",
    "lactate": "lactate_mm",
    "ammonia": "ammonia_mm",
    "osmolality": "osmolality_mosm",
}
"""The field of a look that shows a harm."""
HARMFUL_PER_H = 0.002
"""Harm of one cause that is worth a word (1/h): a tenth of the viability in two days."""
TREND_STEP_H = 6
"""Hours between two points of the trend that is shown."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Words what page, report and API say of the tissue."""

    estimate: ViabilityEstimate
    look: TissueLook
    """The present hour."""
    recent: frozenset[str]
    """Fields of a look that were measured within their time (an image counts for a week)."""
    alarms: tuple[str, ...] = ()
    """Failures of the care that act now."""
    sources: Mapping[str, KnownBy] = field(default_factory=dict)
    """By field of a look, how it is known; one of the medium that is not in it is estimated at best."""

    @property
    def quantities(self) -> dict[str, KnownBy]:
        """How each quantity is known."""
        return {name: self._known_by(each) for name, each in MEASURED.items()}

    def of(self, how: Knowing) -> tuple[str, ...]:
        """Return the quantities that are known in one way."""
        return tuple(name for name, each in self.quantities.items() if each.how is how)

    def _known_by(self, name: str) -> KnownBy:
        told = self.sources.get(name, KnownBy(Knowing.MEASURED if name not in OF_MEDIUM else Knowing.ESTIMATED))
        return told if name in self.recent else replace(told, how=Knowing.NEITHER)

    def causes(self) -> dict[str, float]:
        """Return the harms that act now, with the expected loss an hour (1/h)."""
        shares = self.estimate.shares
        found = {name: float(shares @ harm) for name, harm in harms_per_h(self.estimate.particles, self.look).items()}
        acting = [(harm, name) for name, harm in found.items() if harm > HARMFUL_PER_H and self._shown(name)]
        return {name: harm for harm, name in sorted(acting, reverse=True)}

    def _shown(self, cause: str) -> bool:
        """Return whether a harm was measured; one that nothing measures counts after a loss only, never for want of data."""
        exposure = EXPOSURE_OF.get(cause)
        return self.estimate.harmed if exposure is None else getattr(self.look, exposure) is not None

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal, the API and the page."""
        now, causes, best = self.estimate.past[-1], self.causes(), self.next()
        return {
            "version": VERSION,
            "label": LABEL,
            "value": round(now.value, 4),
            "low": round(now.low, 4),
            "high": round(now.high, 4),
            "level": LEVEL,
            "harmed": round(now.harmed, 4),
            "lost": round(self._lost(), 4),
            "baseline": round(self._baseline(), 4),
            "trend": self._trend().value,
            "wide": now.width > TOO_WIDE,
            "suspected": self._suspected(),
            "stable_h": self.estimate.stable_h(),
            "past": [_ends(each) for each in self.estimate.past[-7 * DAY_H :][::-TREND_STEP_H][::-1]],
            "past_step_h": TREND_STEP_H,
            "alarms": list(self.alarms),
            "causes": {name: round(harm, 5) for name, harm in causes.items()},
            "measured": list(self.of(Knowing.MEASURED)),
            "unmeasured": [name for name, each in self.quantities.items() if each.how is not Knowing.MEASURED],
            "quantities": {name: each.to_json() for name, each in self.quantities.items()},
            "next": None if best is None else best.to_json(),
            "status": self.status(causes),
            "sentences": self.sentences(causes, best),
            "basis": self.basis(causes, best),
            "meaning": MEANING,
        }

    def next(self) -> Gain | None:
        """Return the measurement that would narrow the interval most."""
        return best_measurement(self.estimate, self.look)

    def status(self, causes: dict[str, float]) -> str:
        """Return `harmful` while something harms the tissue or its care fails, `loss` after a certain loss, else `normal`."""
        if causes or self.alarms:
            return "harmful"
        return "loss" if self.estimate.harmed else "normal"

    def condition(self, causes: dict[str, float]) -> TissueWording:
        """Return what the first two sentences depend on."""
        now = self.estimate.past[-1]
        measured = any(name in EXPOSURE_OF for name in causes)
        suspected = LossFound.SUSPECTED if self._suspected() else LossFound.NONE
        return TissueWording(
            low=now.low,
            high=now.high,
            baseline=self._baseline(),
            loss=LossFound.CERTAIN if self.estimate.harmed else suspected,
            harms=tuple(causes) if measured else (),
            hidden=bool(causes) and not measured,
            trend=self._trend(),
            stable_h=self.estimate.stable_h(),
            wide=now.width > TOO_WIDE,
            counted=f"{len(self.of(Knowing.MEASURED))} of {len(MEASURED)}",
            alarms=self.alarms,
        )

    def sentences(self, causes: dict[str, float], best: Gain | None) -> list[str]:
        """Return what is abnormal, where viability lies and goes, what is not measured, what to measure next."""
        sentences = self.condition(causes).sentences()
        if estimated := self.of(Knowing.ESTIMATED):
            sentences.append(f"Estimated, not measured: {', '.join(estimated)}.")
        if unknown := self.of(Knowing.NEITHER):
            sentences.append(f"Not measured: {', '.join(unknown)}.")
        if best is not None:
            sentences.append(f"Most informative next: {best.measurement.name} ({best.measurement.cost}).")
        elif self._suspected() and not self.estimate.harmed:
            sentences.append("An assay or an image would show whether it is a loss.")
        return sentences

    def basis(self, causes: dict[str, float], best: Gain | None) -> list[str]:
        """Return what the estimate rests on: signals, baseline and loss, rates of harm, what a measurement would do."""
        told = {name: f"{name} ({each.text})" if each.text else name for name, each in self.quantities.items()}
        basis = [f"Measured: {', '.join(told[name] for name in self.of(Knowing.MEASURED)) or 'nothing'}."]
        if estimated := self.of(Knowing.ESTIMATED):
            basis.append(f"Estimated by the balance of the medium: {', '.join(told[name] for name in estimated)}.")
        if unknown := self.of(Knowing.NEITHER):
            basis.append(f"Neither measured nor estimated now: {', '.join(told[name] for name in unknown)}.")
        lost, harmed = self._lost(), self.estimate.past[-1].harmed
        basis.append(
            f"Baseline, what this culture reached in the last weeks: {self._baseline():.2f}. Expected loss from it:"
            f" {lost:.2f}; probability of a loss of more than {HARM_SHARE}: {100.0 * harmed:.0f} %."
        )
        if causes:
            rates = ", ".join(f"{name} {100.0 * harm:.2g} %" for name, harm in causes.items())
            basis.append(f"Share of the living tissue that is lost in an hour: {rates}.")
        if best is not None:
            basis.append(
                f"Expected width of the range in a week: {best.without:.2f}; with {best.measurement.name}: {best.width:.2f}."
            )
        return basis

    def _trend(self) -> Trend:
        return trend_of([each.value for each in self.estimate.past], self.estimate.stable_h())

    def _suspected(self) -> bool:
        """Return whether a loss is suspected; a want of data alone makes losses possible and is no suspicion."""
        return self.estimate.suspected and self.estimate.informed

    def _lost(self) -> float:
        particles = self.estimate.particles
        return float(np.sum(self.estimate.shares * (particles[:, Axis.PEAK] - particles[:, Axis.VIABILITY])))

    def _baseline(self) -> float:
        """Return what this culture is expected to have reached; it fades within weeks, as the loss from it does."""
        return float(self.estimate.shares @ self.estimate.particles[:, Axis.PEAK])


def _ends(each: Range) -> list[float]:
    return [round(each.low, 3), round(each.value, 3), round(each.high, 3)]
