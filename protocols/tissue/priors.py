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
    """Living tissue over what lives of it in its usual care: the share of its cells times :attr:`DEPTH`."""
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
    DEPTH = 8
    """Depth of the living tissue over its usual depth: what the lack of oxygen has not killed from within."""
    DELIVERED = 9
    """Flow that reaches the tissue over what its heart is taken to deliver; 1 in most particles."""
    HEAT = 10
    COLD = 11
    HYPOXIA = 12
    ACID = 13
    HUNGER = 14
    LACTATE = 15
    AMMONIA = 16
    SALT = 17
    LACTATE_MIN = 18
    AMMONIA_MIN = 19
    HEAT_FROM_C = 20
    COLD_FROM_C = 21
    PH_MIN = 22
    PH_MAX = 23
    HUNGER_FROM = 24
    SALT_MAX = 25
    AGEING = 26
    HEALING = 27
    BEST = 28
    GROWTH = 29
    FILM = 30
    """Share of the drop of oxygen that is across the film of medium around the tissue."""
    EXCESS = 31
    """Oxygen that healthy living tissue would use with plenty of it, over what it uses."""
    GLUCOSE_SHARE = 32
    """Glucose uptake over what the oxygen uptake could burn."""
    SHELL_GROWTH = 33
    """Living tissue grows with this power of the volume."""
    LACTATE_LAG_H = 34
    FIRING_POWER = 35
    LDH_GAIN = 36
    DROP = 37
    """Loss of saturation from the loop to the tissue at the usual flow (%)."""
    HOLD_H = 38
    """Time for which an exposure stays as it was last seen when nothing measures it any more."""
    LACTATE_BIAS = 39
    """Where in its interval an exposure truly lies, in standard deviations; constant for long."""
    AMMONIA_BIAS = 40
    PH_BIAS = 41
    GLUCOSE_BIAS = 42
    TEMPERATURE_BIAS = 43


FIRST_PARAMETER = Axis.HEAT


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A positive parameter: its median, and the standard deviation of its natural logarithm."""

    median: float
    sd: float


START = (0.82, 1.0)
"""Viability of tissue that a laboratory puts on a rig: it was selected [P]. Uniform."""

SENSITIVITIES = {
    Axis.HEAT: LogNormal(0.05, 0.6),  # 1/h/K²: loss above 38.5 °C
    Axis.COLD: LogNormal(0.004, 0.6),  # 1/h/K below 34 °C
    Axis.HYPOXIA: LogNormal(0.08, 0.8),  # 1/h without oxygen; half of cortical neurons in 4 to 13 h (biology.md §1.5)
    Axis.ACID: LogNormal(0.25, 0.6),  # 1/h for each pH outside 7.1 to 7.65
    Axis.HUNGER: LogNormal(0.08, 0.6),  # 1/h for each mM of glucose below 1 mM
    Axis.LACTATE: LogNormal(0.0006, 0.8),  # 1/h/mM above LACTATE_MIN
    Axis.AMMONIA: LogNormal(0.01, 0.7),  # 1/h/mM above AMMONIA_MIN
    Axis.SALT: LogNormal(0.0005, 0.6),  # 1/h/(mOsm/kg) outside 250 to 330
    Axis.LACTATE_MIN: LogNormal(10.0, 0.5),  # mM; hESC arrest at 25 mM with low pH (S43)
    Axis.AMMONIA_MIN: LogNormal(0.6, 0.5),  # mM; rat neurons lose survival from 1 mM (S44)
    Axis.AGEING: LogNormal(0.0001, 1.2),  # 1/h, lost for good; activity declines over weeks (FinalSpark)
    Axis.HEALING: LogNormal(0.008, 0.7),  # 1/h, of what lives and what is missing: a doubling in 1 to 10 days
    Axis.LDH_GAIN: LogNormal(15.0, 0.7),  # rise of LDH over its usual value for each share of tissue lost
    Axis.DROP: LogNormal(12.0, 0.6),  # %
}
"""All [P] but where a source is named."""

HARMLESS = {
    Axis.HEAT_FROM_C: (38.7, 0.4),  # °C
    Axis.COLD_FROM_C: (33.0, 2.0),  # °C
    Axis.PH_MIN: (7.02, 0.10),
    Axis.PH_MAX: (7.68, 0.06),
    Axis.HUNGER_FROM: (1.0, 0.4),  # mM of glucose
    Axis.SALT_MAX: (330.0, 12.0),  # mOsm/kg
}
"""Mean and standard deviation of the bounds of what is harmless [P]; biology.md §3.1 has what is published."""
BEST = (0.93, 1.0)
"""Viability to which tissue comes back [P]. Uniform."""
GROWTH = (0.04, 0.025)
"""Mean and standard deviation of the growth in volume (1/day): Gompertz growth of 2 to 3 mm organoids (biology.md §1.2)."""
FILM = (0.0, 0.85)
"""From stirred medium to slow flow past large organoids [P]. Uniform."""
EXCESS = (1.0, 2.0)
"""1: all living tissue has plenty of oxygen; 1.5 to 2: the inner half of a living rim has little. Uniform."""
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
UNKNOWN_FLOW_BEGIN_PER_H = 1.0 / (24 * 60)
"""Rate at which a line begins to deliver less than its pump turns, unseen: once in two months [P]."""
UNKNOWN_FLOW_END_PER_H = 1.0 / (24 * 20)
UNKNOWN_FLOW = (0.03, 0.8)
"""What is delivered then over what should be, uniform in the logarithm: from a pinched to a blocked tube [P]."""

UPTAKE_SLOPE_PER_H = 0.08 / (24 * 7)
"""Standard deviation of the steady drift of what changes oxygen uptake at equal viability: bleaching of two optodes, fouling,
other than modelled growth [P]."""
UPTAKE_DRIFT_SQRT_H = 0.04 / 24**0.5
"""Its random walk, growing with the square root of time [P]: probes, and what the model of uptake leaves out. With less,
tissues whose form of harm it does not know are outside the interval (`choroid verify bench viability`, tissues `drawn`)."""
LACTATE_DRIFT_SD, LACTATE_DRIFT_H = 0.08, 24 * 5.0
"""The same of the lactate production: drift of the pH probe, error of volumes and of assays [P]."""
FIRING_DRIFT_SD, FIRING_DRIFT_H = 0.35, 24 * 4.0
"""The same of firing: rates wander by a quarter over days at equal health (electrodes.md §5) [P]."""
UPTAKE_NOISE, FIRING_NOISE, LACTATE_NOISE, LDH_NOISE, VOLUME_NOISE = 0.06, 0.25, 0.10, 0.15, 0.06
"""Noise of one hour's value beyond its own interval (standard deviation of the logarithm) [P]."""
VIABILITY_NOISE = 0.04
"""What viability does by itself in an hour (standard deviation of the logit) [P]."""
HARM_FACTOR_SD, HARM_FACTOR_H = 1.0, 24.0
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
