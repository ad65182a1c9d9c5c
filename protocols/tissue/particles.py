"""The particles of the estimate and how they pass an hour: exposure harms them as their parameters say, and they heal."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from protocols.interval import Interval
from protocols.tissue import priors
from protocols.tissue.look import NOTHING_KNOWN, LastKnown, TissueLook
from protocols.tissue.metabolism import F8, MIN_SHARE, USUAL_OXYGEN_PCT, lactate_made, living_depth
from protocols.tissue.priors import Axis, LogNormal
from protocols.tissue.tracks import BACKGROUND, TRACKS, WIDTH

COUNT = 2048
SALT_MIN = 250.0
ANOXIA = "lack of oxygen"
SMALLEST = 1e-3
CALM_HARM_PER_H = 0.001
"""Tissue heals while the harm is smaller."""


def drawn(random: np.random.Generator, count: int = COUNT) -> F8:
    """Return particles from the priors, shape (count, columns). Scales are unknown (NaN) until they are first measured."""
    particles: F8 = np.zeros((count, WIDTH), order="F")
    particles[:, Axis.VIABILITY] = random.uniform(*priors.START, count)
    particles[:, Axis.PEAK] = particles[:, Axis.VIABILITY]
    particles[:, Axis.DEPTH] = particles[:, Axis.DELIVERED] = 1.0
    for column, prior in priors.SENSITIVITIES.items():
        particles[:, column] = _lognormal(random, prior, count)
    particles[:, Axis.FIRING_POWER] = _lognormal(random, priors.FIRING_POWER, count)
    particles[:, Axis.GROWTH] = random.normal(*priors.GROWTH, count) / 24.0
    particles[:, Axis.HOLD_H] = random.exponential(priors.HOLD_H, count) + SMALLEST
    particles[:, Axis.LACTATE_LAG_H] = _lognormal(random, priors.LACTATE_LAG_H, count)
    for column, (mean, sd) in priors.HARMLESS.items():
        particles[:, column] = random.normal(mean, sd, count)
    for column, (low, high) in priors.RANGES.items():
        particles[:, column] = random.uniform(low, high, count)
    usual = np.full(count, USUAL_OXYGEN_PCT)
    particles[:, Axis.LACTATE_SEEN] = lactate_made(particles, 37.0, usual, np.ones(count), np.full(count, True))
    particles[:, Axis.HARM_FACTOR] = random.normal(0.0, priors.HARM_FACTOR_SD, count)
    particles[:, Axis.HEALING_FACTOR] = random.normal(0.0, priors.HEALING_FACTOR_SD, count)
    particles[:, Axis.LACTATE_BIAS : len(Axis)] = random.normal(0.0, 1.0, (count, len(Axis) - Axis.LACTATE_BIAS))
    particles[:, BACKGROUND] = 1.0
    for track in TRACKS.values():
        track.begin(particles)
    return particles


def _lognormal(random: np.random.Generator, prior: LogNormal, count: int) -> F8:
    return prior.median * np.exp(random.normal(0.0, prior.sd, count))


def passed(
    particles: F8, look: TissueLook, hours: float, random: np.random.Generator, last: LastKnown = NOTHING_KNOWN
) -> F8:
    """Return the particles `hours` later, after what the tissue lived in; `last` is what was known before."""
    after = particles.copy(order="F")
    count = len(after)
    _change_hidden_harm(after, hours, random, look.sterility_failed)
    _change_flow(after, hours, random)
    recent = last.after(look, 0.5 * hours)
    harms = harms_per_h(after, look, recent)
    anoxia = harms.pop(ANOXIA) * np.exp(after[:, Axis.HARM_FACTOR])
    harm: F8 = sum(harms.values(), np.zeros(count)) * np.exp(after[:, Axis.HARM_FACTOR])
    viability, depth = after[:, Axis.VIABILITY], after[:, Axis.DEPTH]
    healing = -np.expm1(-after[:, Axis.HEALING] * np.exp(after[:, Axis.HEALING_FACTOR]) * hours)
    healing *= harm < CALM_HARM_PER_H
    reached = living_depth(after, temperature_c(look), *oxygen_seen(after, look, recent))
    left = np.maximum(viability / np.maximum(depth, MIN_SHARE), MIN_SHARE)
    deeper = depth * np.exp(-anoxia * hours)
    deeper += np.maximum(reached - deeper, 0.0) * healing * deeper
    cells = left * np.exp(-harm * hours)
    cells += np.maximum(after[:, Axis.BEST] - cells, 0.0) * healing * cells
    after[:, Axis.DEPTH] = deeper
    lost = np.maximum(viability - cells * deeper, 0.0)
    after[:, Axis.BEST] *= np.exp(-after[:, Axis.AGEING] * hours)
    now = _wandered(cells * deeper, hours, random)
    after[:, Axis.VIABILITY] = now
    decay = np.exp(-hours / priors.PEAK_DECAY_H)
    after[:, Axis.PEAK] = np.maximum(now, now + (after[:, Axis.PEAK] - now) * decay)
    ldh_kept = np.exp(-hours / priors.LDH_DECAY_H)
    after[:, Axis.POOL] = after[:, Axis.POOL] * ldh_kept * (1.0 - look.renewed) + lost
    after[:, BACKGROUND] = (1.0 + (after[:, BACKGROUND] - 1.0) * ldh_kept) * (1.0 - look.renewed)
    after[:, Axis.LOG_VOLUME] += after[:, Axis.GROWTH] * now * hours
    for track in TRACKS.values():
        track.pass_time(after, hours)
    made = lactate_made(after, temperature_c(look), *oxygen_seen(after, look))
    after[:, Axis.LACTATE_SEEN] += (made - after[:, Axis.LACTATE_SEEN]) * -np.expm1(
        -hours / after[:, Axis.LACTATE_LAG_H]
    )
    for column, sd, constant_h in (
        (Axis.HARM_FACTOR, priors.HARM_FACTOR_SD, priors.HARM_FACTOR_H),
        (Axis.HEALING_FACTOR, priors.HEALING_FACTOR_SD, priors.HEALING_FACTOR_H),
    ):
        kept = np.exp(-hours / constant_h)
        after[:, column] = after[:, column] * kept + random.normal(0.0, sd * np.sqrt(1.0 - kept * kept), count)
    return after


def _wandered(viability: F8, hours: float, random: np.random.Generator) -> F8:
    """Return viability after what the model does not describe: a random walk of its logit."""
    within = np.clip(viability, SMALLEST, 1.0 - SMALLEST)
    logit = np.log(within / (1.0 - within)) + random.normal(0.0, priors.VIABILITY_NOISE * np.sqrt(hours), len(within))
    found: F8 = 1.0 / (1.0 + np.exp(-logit))
    return found


def _change_hidden_harm(particles: F8, hours: float, random: np.random.Generator, sterility_failed: bool) -> None:
    """Let harm of an unknown cause begin in some particles and end in others."""
    count = len(particles)
    hidden = particles[:, Axis.HIDDEN]
    begin_per_h = priors.UNKNOWN_BEGIN_PER_H * (20.0 if sterility_failed else 1.0)
    chance, size = random.random(count), random.random(count)
    low, high = np.log(priors.UNKNOWN_HARM)
    begins = (hidden == 0.0) & (chance < begin_per_h * hours)
    ends = (hidden > 0.0) & (chance < priors.UNKNOWN_END_PER_H * hours)
    hidden[begins] = np.exp(low + (high - low) * size[begins])
    hidden[ends] = 0.0


def _change_flow(particles: F8, hours: float, random: np.random.Generator) -> None:
    """Let the flow that reaches the tissue fall unseen in some particles, and be restored in others."""
    count = len(particles)
    delivered = particles[:, Axis.DELIVERED]
    chance, size = random.random(count), random.random(count)
    low, high = np.log(priors.UNKNOWN_FLOW)
    begins = (delivered == 1.0) & (chance < priors.UNKNOWN_FLOW_BEGIN_PER_H * hours)
    ends = (delivered < 1.0) & (chance < priors.UNKNOWN_FLOW_END_PER_H * hours)
    delivered[begins] = np.exp(low + (high - low) * size[begins])
    delivered[ends] = 1.0


def harm_per_h(particles: F8, look: TissueLook, last: LastKnown = NOTHING_KNOWN) -> F8:
    """Return the share of viability that each particle loses in an hour (1/h)."""
    found: F8 = sum(harms_per_h(particles, look, last).values(), np.zeros(len(particles)))
    return found


def harms_per_h(particles: F8, look: TissueLook, last: LastKnown = NOTHING_KNOWN) -> dict[str, F8]:
    """Return what each cause takes of the viability in an hour (1/h), by `last` for a while where nothing measures it."""
    temperature = _exposure(particles, look, last, "temperature_c", Axis.TEMPERATURE_BIAS)
    ph = _exposure(particles, look, last, "ph", Axis.PH_BIAS)
    glucose = _exposure(particles, look, last, "glucose_mm", Axis.GLUCOSE_BIAS)
    lactate = _exposure(particles, look, last, "lactate_mm", Axis.LACTATE_BIAS)
    ammonia = _exposure(particles, look, last, "ammonia_mm", Axis.AMMONIA_BIAS)
    salt = _exposure(particles, look, last, "osmolality_mosm", None)
    reached = living_depth(particles, temperature_c(look), *oxygen_seen(particles, look, last))
    anoxic = np.clip(1.0 - reached / np.maximum(particles[:, Axis.DEPTH], MIN_SHARE), 0.0, 1.0)
    return {
        "heat": particles[:, Axis.HEAT] * np.maximum(temperature - particles[:, Axis.HEAT_FROM_C], 0.0) ** 2,
        "cold": particles[:, Axis.COLD] * np.maximum(particles[:, Axis.COLD_FROM_C] - temperature, 0.0),
        ANOXIA: particles[:, Axis.HYPOXIA] * anoxic,
        "pH": particles[:, Axis.ACID] * _outside(ph, particles[:, Axis.PH_MIN], particles[:, Axis.PH_MAX]),
        "lack of glucose": particles[:, Axis.HUNGER] * np.maximum(particles[:, Axis.HUNGER_FROM] - glucose, 0.0),
        "lactate": particles[:, Axis.LACTATE] * np.maximum(lactate - particles[:, Axis.LACTATE_MIN], 0.0),
        "ammonia": particles[:, Axis.AMMONIA] * np.maximum(ammonia - particles[:, Axis.AMMONIA_MIN], 0.0),
        "osmolality": particles[:, Axis.SALT] * _outside(salt, SALT_MIN, particles[:, Axis.SALT_MAX]),
        "age": particles[:, Axis.AGEING],
        "an unknown cause": particles[:, Axis.HIDDEN],
    }


def temperature_c(look: TissueLook) -> float:
    """Return the temperature of the tissue (°C); the usual one if none is measured."""
    return priors.UNMEASURED["temperature_c"][0] if look.temperature_c is None else look.temperature_c.value


def oxygen_seen(
    particles: F8, look: TissueLook, last: LastKnown = NOTHING_KNOWN
) -> tuple[F8, F8, NDArray[np.bool_]]:  # fmt: skip
    """Return oxygen of the medium (% of air saturation), flow over the usual one, whether that oxygen is at the tissue."""
    oxygen, flow = (_exposure(particles, look, last, name, None) for name in ("oxygen_pct", "flow_share"))
    known = _held(particles, last, "oxygen_pct") if look.oxygen_pct is None else np.full(len(particles), True)
    at_tissue = known & (last.oxygen_at_tissue if look.oxygen_pct is None else look.oxygen_at_tissue)
    return oxygen, flow * particles[:, Axis.DELIVERED], at_tissue


def _exposure(particles: F8, look: TissueLook, last: LastKnown, name: str, bias: Axis | None) -> F8:
    """Return what each particle lived in: its own place within the interval of the reading, or of the prior.

    Where nothing measures it, a particle goes on with the last reading for a time of its own, and then with the prior.
    """
    place: F8 | float = 0.0 if bias is None else particles[:, bias]
    seen: Interval | None = getattr(look, name)
    if seen is not None:
        return np.full(len(particles), seen.value) + seen.sd * place
    mean, sd = priors.UNMEASURED[name]
    usual: F8 = np.full(len(particles), mean) + sd * place
    if name in last.readings:
        before = last.readings[name][0]
        return np.where(_held(particles, last, name), before.value + before.sd * place, usual)
    return usual


def _held(particles: F8, last: LastKnown, name: str) -> NDArray[np.bool_]:
    """Return in which particles an exposure is still as it was last seen."""
    age_h = last.readings[name][1] if name in last.readings else math.inf
    found: NDArray[np.bool_] = particles[:, Axis.HOLD_H] > age_h
    return found


def _outside(value: F8, low: F8 | float, high: F8) -> F8:
    found: F8 = np.maximum(low - value, 0.0) + np.maximum(value - high, 0.0)
    return found
