"""The estimate is that of the readings and not of the random numbers of the filter: other draws say nearly the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from protocols.interval import Interval
from protocols.tissue.estimate import TOO_WIDE, ViabilityEstimate
from protocols.tissue.evidence import FAINT, FAINT_FOLDS, PEAK, SIGNALS, log_likelihood
from protocols.tissue.look import TissueLook
from protocols.tissue.metabolism import F8
from protocols.tissue.particles import drawn
from protocols.tissue.priors import Axis
from protocols.tissue.tracks import COLUMNS, TRACKS, WIDTH, Track

DRAWS = range(6)
SETTLED_H = 24
CALM = (0.03, 0.06)
"""Largest differences between two draws in any hour: of the medians, and of the ends of the interval."""
LOSING = (0.15, 0.25)
"""The same while the tissue is lost: the hour in which a draw notices it counts fully."""
AGREE = 0.02
"""Standard deviation of medians and ends between draws, mean over the hours."""
EFFECTIVE = 0.1
"""Minimum of the effective share of the particles, before they are resampled."""


def around(value: float, sd: float) -> Interval:
    return Interval.around(value, sd, floor=0.0)


def readings(*, array: bool, loses_per_h: float, hours: int = 240) -> list[TissueLook]:
    """Return the readings of one culture that is well for five days and then loses this share of its viability each hour."""
    random = np.random.default_rng(3)
    looks, wander, alive = [], 0.0, 0.97
    for hour in range(hours):
        alive *= 1.0 - (loses_per_h if hour >= 120 else 0.0)
        wander = 0.99 * wander + random.normal(0.0, 0.2 * math.sqrt(1.0 - 0.99**2))
        firing = 5.0 * alive**2 * math.exp(wander + random.normal(0.0, 0.05))
        uptake = 14.0 * alive**0.5 * (1.0 + 0.0003 * hour) + random.normal(0.0, 0.4)
        looks.append(
            TissueLook(
                temperature_c=around(36.8, 0.15),
                oxygen_pct=around(96.0 if array else 84.0, 1.5),
                oxygen_at_tissue=not array,
                flow_share=around(1.0, 0.03),
                ph=around(7.42, 0.03),
                lactate_mm=around(3.0, 0.8),
                ammonia_mm=around(0.3, 0.1),
                glucose_mm=around(15.0, 0.8),
                firing_hz=around(firing, 0.05 * firing) if array else None,
                oxygen_uptake=None if array else around(uptake, 0.5),
            )
        )
    return looks


@pytest.mark.parametrize("loses_per_h", [0.0, 0.01], ids=["calm", "loss"])
@pytest.mark.parametrize("array", [True, False], ids=["array alone", "uptake alone"])
def test_other_random_numbers_give_the_same_estimate(*, array: bool, loses_per_h: float) -> None:
    looks = readings(array=array, loses_per_h=loses_per_h)
    every, effective = [], []
    for seed in DRAWS:
        estimate = ViabilityEstimate.begun(seed)
        for each in looks:
            estimate = estimate.after(each)
            effective.append(estimate.effective)
        every.append([(hour.value, hour.low, hour.high) for hour in estimate.past[SETTLED_H:]])
    courses = np.array(every)
    median, low, high = np.ptp(courses, axis=0).max(axis=0)
    medians_agree, ends_agree = CALM if loses_per_h == 0.0 else LOSING
    assert median <= medians_agree
    assert max(low, high) <= ends_agree
    assert courses.std(axis=0).mean(axis=0).max() <= AGREE
    assert min(effective) >= EFFECTIVE


def tracked(name: str, scales: tuple[float, ...], alive: tuple[float, ...]) -> F8:
    """Return particles of known scale and viability, without drift."""
    particles = drawn(np.random.default_rng(1), len(alive))
    particles[:, Axis.VIABILITY], particles[:, Axis.FIRING_POWER] = alive, 2.2
    first = TRACKS[name].first
    particles[:, first : first + COLUMNS] = 0.0
    particles[:, first] = scales
    return particles


def test_a_scale_that_is_far_too_large_does_not_explain_what_is_seen() -> None:
    """Below a tenth of its scale a signal is faint; faint signals of all sizes are as likely together as any other."""
    assert 2.2 * math.log(0.30) < FAINT
    scales = (math.log(5.0) - 2.2 * math.log(0.95), math.log(5.0) - FAINT + 1.0)
    particles = tracked("firing_hz", scales, (0.95, 0.30))
    found = log_likelihood(particles, TissueLook(), SIGNALS["firing_hz"], around(5.0, 0.25))
    assert found[0] > found[1] + 1.0


@pytest.mark.parametrize("alive", [0.95, 0.30, 0.01], ids=["well", "dying", "dead"])
def test_what_is_seen_is_a_density_for_each_particle(alive: float) -> None:
    """The probability of all values is the same whatever a particle expects, so that no particle gains by its scale alone."""
    signal = SIGNALS["oxygen_uptake"]
    step, found = 0.005, []
    for value in np.arange(FAINT - FAINT_FOLDS, 4.0, step):
        particles = tracked("oxygen_uptake", (0.0,), (alive,))
        likelihood = log_likelihood(particles, TissueLook(), signal, Interval.around(math.exp(value), 1e-9))
        found.append(float(np.exp(likelihood)[0]))
    assert float(np.sum(found)) * step == pytest.approx(signal.noise / PEAK, rel=0.03)


def test_the_track_of_a_signal_is_the_regression_on_all_its_values() -> None:
    """A scale and a constant drift, seen with normal noise: what the track knows is what least squares say."""
    track, noise, hours = Track(0, 0.02), 0.1, 24
    random = np.random.default_rng(4)
    values = 1.5 + 0.01 * np.arange(hours) + random.normal(0.0, noise, hours)
    particles = np.zeros((1, WIDTH))
    track.begin(particles)
    track.take_scale(particles, values[:1], noise)
    for value in values[1:]:
        track.pass_time(particles, 1.0)
        track.learn(particles, value - track.predicted(particles)[0], np.full(1, noise**2), np.ones(1))
    design = np.stack([np.ones(hours), np.arange(hours) - (hours - 1.0)], axis=1)
    precision = design.T @ design / noise**2 + np.diag([0.0, 0.02**-2])
    expected = np.linalg.solve(precision, design.T @ values / noise**2)
    known = particles[0, track.first :]
    assert known[:2] == pytest.approx(expected)
    error = np.linalg.inv(precision)
    assert known[2:COLUMNS] == pytest.approx([error[0, 0], error[0, 1], error[1, 1]])


def test_a_drift_that_returns_is_told_from_the_scale() -> None:
    """Many values far apart give the scale; the drift stays as uncertain as the last value leaves it."""
    track, random = Track(0, 0.3, 24.0), np.random.default_rng(4)
    particles = np.zeros((1, WIDTH))
    track.begin(particles)
    track.take_scale(particles, np.full(1, 1.0), 0.1)
    drift = 0.0
    for _ in range(2000):
        kept = math.exp(-1.0)
        drift = drift * kept + random.normal(0.0, 0.3 * math.sqrt(1.0 - kept * kept))
        track.pass_time(particles, 24.0)
        off = 2.0 + drift + random.normal(0.0, 0.1) - track.predicted(particles)[0]
        track.learn(particles, off, np.full(1, 0.01), np.ones(1))
    assert particles[0, track.first] == pytest.approx(2.0, abs=0.04)
    assert particles[0, track.first + 1] == pytest.approx(drift, abs=0.25)
    assert track.predicted(particles)[1][0] < 0.01


def test_a_wide_interval_hides_no_loss_that_is_seen() -> None:
    """While tissue dies fast the interval is wide; that is no want of data."""
    estimate, wide = ViabilityEstimate.begun(), 0
    for each in readings(array=True, loses_per_h=0.03):
        estimate = estimate.after(each)
        if estimate.suspected:
            wide += estimate.past[-1].width > TOO_WIDE
            assert estimate.finding().suspected
    assert wide
    for _ in range(24):
        estimate = estimate.after(TissueLook())
    assert estimate.informed
    for _ in range(24 * 28):
        estimate = estimate.after(TissueLook())
    assert not estimate.informed
    assert not estimate.finding().suspected
