"""What is assumed before anything is measured: priors of the tissue's parameters, with their sources.

No harm curve of a brain organoid is published. Each sensitivity therefore has a prior of a factor of two and more to either
side, and the data narrow it. [P] marks a proposal; the others are from the literature that biology.md collects.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Axis(IntEnum):
    """The columns of the particles: first the states, then the parameters that are constant in a tissue.

    After these each particle has the columns of its tracks (:mod:`protocols.tissue.tracks`).
    """

    VIABILITY = 0
    PEAK = 1
    """Highest viability of the last weeks: what a loss is measured from."""
    LOG_VOLUME = 2
    """Volume over that at the start (natural logarithm)."""
    POOL = 3
    """Recently lost tissue whose LDH is still in the medium."""
    HIDDEN = 4
    """Harm of an unknown cause (1/h); 0 in most particles."""
    LACTATE_SEEN = 5
    """Lactate production that the estimator of the medium can know by now: it follows with a lag."""
    HARM_FACTOR = 6
    """Logarithm of the harm over what the parameters say: no curve of harm is exact."""
    HEALING_FACTOR = 7
    """Logarithm of the recovery over what the parameter says: tissue may recover at first and not later, or not at all."""
    HEAT = 8
    COLD = 9
    HYPOXIA = 10
    ACID = 11
    HUNGER = 12
    LACTATE = 13
    AMMONIA = 14
    SALT = 15
    LACTATE_MIN = 16
    AMMONIA_MIN = 17
    AGEING = 18
    HEALING = 19
    BEST = 20
    GROWTH = 21
    FILM = 22
    """Share of the drop of oxygen that is across the film of medium around the tissue."""
    EXCESS = 23
    """Oxygen that healthy tissue would use if all of it were reached, over what it uses."""
    GLUCOSE_SHARE = 24
    """Glucose uptake over what the oxygen uptake could burn."""
    SHELL_GROWTH = 25
    """Living tissue grows with this power of the volume."""
    LACTATE_LAG_H = 26
    FIRING_POWER = 27
    LDH_GAIN = 28
    DROP = 29
    """Loss of saturation from the loop to the tissue at the usual flow (%)."""
    HOLD_H = 30
    """Time for which an exposure stays as it was last seen when nothing measures it any more."""
    LACTATE_BIAS = 31
    """Where in its interval an exposure truly lies, in standard deviations; constant for long."""
    AMMONIA_BIAS = 32
    PH_BIAS = 33
    GLUCOSE_BIAS = 34
    TEMPERATURE_BIAS = 35


FIRST_PARAMETER = Axis.HEAT


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A positive parameter: its median, and the standard deviation of its natural logarithm."""

    median: float
    sd: float


START = (0.80, 1.0)
"""Viability of tissue that a laboratory puts on a rig: it was selected [P]. Uniform."""

SENSITIVITIES = {
    Axis.HEAT: LogNormal(0.05, 0.6),  # 1/h/K²: loss above 38.5 °C
    Axis.COLD: LogNormal(0.004, 0.6),  # 1/h/K below 34 °C
    Axis.HYPOXIA: LogNormal(0.30, 0.6),  # 1/h without oxygen; neurons die within hours
    Axis.ACID: LogNormal(0.25, 0.6),  # 1/h for each pH outside 7.1 to 7.65
    Axis.HUNGER: LogNormal(0.08, 0.6),  # 1/h for each mM of glucose below 1 mM
    Axis.LACTATE: LogNormal(0.0006, 0.8),  # 1/h/mM above LACTATE_MIN
    Axis.AMMONIA: LogNormal(0.01, 0.7),  # 1/h/mM above AMMONIA_MIN
    Axis.SALT: LogNormal(0.0005, 0.6),  # 1/h/(mOsm/kg) outside 250 to 330
    Axis.LACTATE_MIN: LogNormal(10.0, 0.5),  # mM; hESC arrest at 25 mM with low pH (S43)
    Axis.AMMONIA_MIN: LogNormal(0.6, 0.5),  # mM; rat neurons lose survival from 1 mM (S44)
    Axis.AGEING: LogNormal(0.0001, 1.2),  # 1/h, lost for good; activity declines over weeks (FinalSpark)
    Axis.HEALING: LogNormal(0.006, 0.8),  # 1/h of what is missing
    Axis.LDH_GAIN: LogNormal(15.0, 0.7),  # rise of LDH over its usual value for each share of tissue lost
    Axis.DROP: LogNormal(12.0, 0.6),  # %
}
"""All [P] but where a source is named."""

BEST = (0.93, 1.0)
"""Viability to which tissue comes back [P]. Uniform."""
GROWTH = (0.04, 0.025)
"""Mean and standard deviation of the growth in volume (1/day): Gompertz growth of 2 to 3 mm organoids (biology.md §1.2)."""
FILM = (0.0, 0.85)
"""From stirred medium to slow flow past large organoids [P]. Uniform."""
EXCESS = (1.0, 5.0)
"""1: oxygen reaches all tissue; 4 to 5: a shell of 0.3 mm of organoids of 2.5 mm (biology.md §1.1). Uniform."""
GLUCOSE_SHARE = (1.6, 4.0)
"""Uniform; a lactate yield of 0.75 to 1.5 mol/mol (biology.md §1.1)."""
SHELL_GROWTH = (0.5, 1.0)
"""1 in small tissue; ½ where growth adds to the core. Uniform."""
RANGES = {
    Axis.BEST: BEST,
    Axis.FILM: FILM,
    Axis.EXCESS: EXCESS,
    Axis.GLUCOSE_SHARE: GLUCOSE_SHARE,
    Axis.SHELL_GROWTH: SHELL_GROWTH,
}
"""The uniform priors."""
HOLD_H = 24.0
"""Mean time (h) for which an exposure stays as it was last seen when its probe is lost, exponential: what harmed the tissue
goes on for a while, and what destroyed the probe may be what harms [P]."""
LACTATE_LAG_H = LogNormal(50.0, 0.4)
"""Time in which the estimator of the medium follows a change of the production: its own prior is a drift of 7 % a day."""
FIRING_POWER = LogNormal(2.2, 0.45)
"""Firing goes with this power of the share of living tissue [P]: a network loses drive with each cell, and on arrays activity
falls before tests of cell death show anything."""

UNKNOWN_BEGIN_PER_H = 1.0 / (24 * 20)
"""Rate at which harm of an unknown cause begins: once in twenty days [P]."""
UNKNOWN_END_PER_H = 1.0 / 240
UNKNOWN_HARM = (0.0005, 0.12)
"""Its size (1/h), uniform in the logarithm: from slow decline to an infection that kills within a day [P]."""

UPTAKE_SLOPE_PER_H = 0.08 / (24 * 7)
"""Standard deviation of the steady drift of what changes oxygen uptake at equal viability: bleaching of two optodes, fouling,
other than modelled growth [P]."""
UPTAKE_DRIFT_SQRT_H = 0.012 / 24**0.5
"""Its random walk, growing with the square root of time [P]."""
LACTATE_DRIFT_SD, LACTATE_DRIFT_H = 0.08, 24 * 5.0
"""The same of the lactate production: drift of the pH probe, error of volumes and of assays [P]."""
FIRING_DRIFT_SD, FIRING_DRIFT_H = 0.35, 24 * 4.0
"""The same of firing: rates wander by a quarter over days at equal health (electrodes.md §5) [P]."""
UPTAKE_NOISE, FIRING_NOISE, LACTATE_NOISE, LDH_NOISE, VOLUME_NOISE = 0.03, 0.25, 0.10, 0.15, 0.06
"""Noise of one hour's value beyond its own interval (standard deviation of the logarithm) [P]."""
VIABILITY_NOISE = 0.03
"""What viability does by itself in an hour (standard deviation of the logit) [P]."""
HARM_FACTOR_SD, HARM_FACTOR_H = 0.8, 24.0
HEALING_FACTOR_SD, HEALING_FACTOR_H = 0.8, 48.0
LDH_DRIFT_SQRT_H = 0.10 / (24 * 7) ** 0.5
"""The same of LDH: a tenth in a week, by growth and reagents [P]. What exchanged medium carries away is known."""
LDH_DECAY_H = 72.0
"""LDH loses half in two days at 23 to 37 °C."""
PEAK_DECAY_H = 24 * 21.0
FAILED_ARRAY = 0.05
"""Probability that firing tells nothing of the tissue in an hour: silent tissue need not be dead."""
FAILED_LACTATE = 0.05
"""The same of lactate production: without oxygen living tissue makes more, and microbes make it too."""

UNMEASURED = {
    "temperature_c": (37.0, 0.7),
    "ph": (7.35, 0.08),
    "glucose_mm": (12.0, 4.0),
    "lactate_mm": (4.0, 2.5),
    "ammonia_mm": (0.3, 0.2),
    "osmolality_mosm": (290.0, 8.0),
    "oxygen_pct": (85.0, 6.0),
    "flow_share": (1.0, 0.1),
}
"""Mean and standard deviation of an exposure that is not measured, in a rig whose interlocks stand [P]."""
