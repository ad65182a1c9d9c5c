"""The estimate of viability: it falls with harm, widens without data, tells what to measure, and is the same again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from protocols.interval import Interval
from protocols.tissue.estimate import ViabilityEstimate
from protocols.tissue.information import MEASUREMENTS, gains
from protocols.tissue.look import TissueLook
from protocols.tissue.metabolism import lactate_made, oxygen_uptake
from protocols.tissue.particles import drawn
from protocols.tissue.priors import Axis
from protocols.tissue.statement import Statement

SEED = 5


def around(value: float, sd: float) -> Interval:
    return Interval.around(value, sd, floor=0.0)


def look(**changes: Interval | bool | tuple[str, ...] | None) -> TissueLook:
    known: dict[str, Interval | bool | tuple[str, ...] | None] = {
        "temperature_c": around(37.0, 0.15),
        "oxygen_pct": around(84.0, 1.5),
        "oxygen_at_tissue": True,
        "flow_share": around(1.0, 0.03),
        "ph": around(7.35, 0.03),
        "lactate_mm": around(3.0, 0.4),
        "ammonia_mm": around(0.3, 0.05),
        "glucose_mm": around(15.0, 0.5),
        "oxygen_uptake": around(14.0, 0.4),
    }
    return TissueLook(**(known | changes))  # type: ignore[arg-type]


def lived(*stretches: tuple[int, TissueLook], seed: int = SEED) -> ViabilityEstimate:
    return ViabilityEstimate.of((each for hours, each in stretches for _ in range(hours)), seed=seed)


@pytest.fixture(scope="module")
def settled() -> ViabilityEstimate:
    return lived((72, look()))


def test_healthy_tissue_is_well_and_stable(settled: ViabilityEstimate) -> None:
    now = settled.past[-1]
    assert now.low > 0.7
    assert now.value > 0.85
    assert not settled.harmed
    assert settled.stable_h() >= 48


@pytest.mark.parametrize(
    "harm",
    [
        {"temperature_c": around(41.0, 0.15)},
        {"oxygen_pct": around(2.0, 1.0)},
        {"ph": around(6.6, 0.03)},
        {"ammonia_mm": around(6.0, 0.3)},
        {"glucose_mm": around(0.05, 0.02)},
    ],
    ids=["heat", "hypoxia", "acid", "ammonia", "starvation"],
)
def test_measured_harm_lowers_the_estimate_although_uptake_looks_well(
    settled: ViabilityEstimate, harm: dict[str, Interval]
) -> None:
    harmed = settled
    for _ in range(24):
        harmed = harmed.after(look(**harm))
    assert harmed.past[-1].value < settled.past[-1].value - 0.05
    assert harmed.past[-1].harmed > settled.past[-1].harmed + 0.3


def test_uptake_and_firing_that_vanish_are_a_loss_although_nothing_harmful_is_measured(
    settled: ViabilityEstimate,
) -> None:
    estimate = lived((48, look(firing_hz=around(3.0, 0.2))))
    for hour in range(48):
        share = 0.95**hour
        estimate = estimate.after(look(oxygen_uptake=around(14.0 * share, 0.4), firing_hz=around(3.0 * share, 0.1)))
    assert estimate.harmed
    assert estimate.past[-1].high < 0.7


def test_silence_of_the_array_alone_is_little_evidence() -> None:
    before = lived((48, look(firing_hz=around(3.0, 0.2))))
    after = before
    for _ in range(6):
        after = after.after(look(firing_hz=around(0.0, 0.01)))
    assert after.past[-1].high > 0.6


def test_an_hour_without_data_only_widens(settled: ViabilityEstimate) -> None:
    blind = settled
    for _ in range(72):
        blind = blind.after(TissueLook())
    assert blind.past[-1].width > settled.past[-1].width + 0.03
    at_once = settled.after(TissueLook(), hours=72.0)
    assert at_once.past[-1].width > settled.past[-1].width


HARMFUL = [
    {"temperature_c": around(42.0, 0.15)},
    {"ammonia_mm": around(6.0, 0.3)},
    {"oxygen_pct": around(1.0, 0.5)},
    {"oxygen_pct": around(1.0, 0.5), "oxygen_at_tissue": False},
]


@pytest.mark.parametrize("harm", HARMFUL, ids=["heat", "ammonia", "hypoxia", "hypoxia in the loop"])
@pytest.mark.parametrize("at_once", [False, True], ids=["hour by hour", "power cut"])
def test_harm_goes_on_when_its_probe_is_lost(
    settled: ViabilityEstimate, harm: dict[str, Interval | bool | tuple[str, ...] | None], at_once: bool
) -> None:
    """A probe that fails in the heat, an assay that becomes stale: that nothing measures the harm does not end it."""
    harmed = settled
    for _ in range(3):
        harmed = harmed.after(look(oxygen_uptake=None, **harm))
    blind = harmed
    for _ in range(1 if at_once else 12):
        blind = blind.after(TissueLook(), hours=12.0 if at_once else 1.0)
    assert blind.past[-1].value < harmed.past[-1].value
    assert blind.past[-1].lost > harmed.past[-1].lost + 0.02


def test_a_harm_that_nothing_measures_any_more_does_not_go_on_for_ever(settled: ViabilityEstimate) -> None:
    once = settled.after(look(ammonia_mm=around(3.0, 0.2), oxygen_uptake=None))
    for _ in range(24 * 6):
        once = once.after(look(ammonia_mm=None, oxygen_uptake=None))
    assert once.past[-1].high > 0.8
    assert once.past[-1].width > 0.3


def test_the_noise_of_a_signal_that_is_not_there_is_no_evidence() -> None:
    """Probes that show no difference, because they hang in the air or the tissue is small, must not narrow the estimate."""
    random = np.random.default_rng(2)
    noise, nothing = ViabilityEstimate.begun(SEED), ViabilityEstimate.begun(SEED)
    for _ in range(24 * 4):
        noise = noise.after(look(oxygen_uptake=around(max(random.normal(0.0, 0.4), 0.0), 0.4)))
        nothing = nothing.after(look(oxygen_uptake=None))
    assert noise.past[-1].width == pytest.approx(nothing.past[-1].width, abs=0.05)
    assert noise.past[-1].value == pytest.approx(nothing.past[-1].value, abs=0.05)


def test_a_rig_without_any_reading_claims_nothing() -> None:
    estimate = ViabilityEstimate.begun(SEED)
    for _ in range(24 * 8):
        estimate = estimate.after(TissueLook())
    assert estimate.past[-1].width > 0.9
    assert not estimate.harmed


def test_a_loss_is_reported_although_the_oxygen_probes_show_the_usual_uptake() -> None:
    """A probe that lies within its noise is not noticed as stuck; array, lactate and LDH outvote it, if not in the level."""
    estimate = lived((72, look(firing_hz=around(3.0, 0.2), lactate_umol_d=around(44.0, 6.0))))
    before, random = estimate.past[-1], np.random.default_rng(1)
    for hour in range(48):
        true = 0.96**hour
        estimate = estimate.after(
            look(
                oxygen_uptake=around(14.0 + random.normal(0.0, 0.1), 0.4),
                firing_hz=around(3.0 * true**2, 0.1),
                lactate_umol_d=around(44.0 * true, 5.0) if hour % 6 == 0 else None,
                ldh=around(1.0 + 12.0 * (1.0 - true), 0.5) if hour == 40 else None,
            )
        )
    assert estimate.harmed
    assert estimate.past[-1].value < before.value - 0.1


def test_more_kinds_of_evidence_make_it_narrower_never_fewer() -> None:
    few = lived((96, look(oxygen_uptake=None)))
    more = lived((96, look()))
    assert more.past[-1].width <= few.past[-1].width + 0.02


def test_the_same_looks_give_the_same_estimate_again_also_from_json() -> None:
    looks = [look(oxygen_uptake=around(14.0 + number % 3, 0.4)) for number in range(30)]
    again = [TissueLook.from_json(each.to_json()) for each in looks]
    one, other = ViabilityEstimate.of(looks), ViabilityEstimate.of(again)
    assert one.past == other.past
    assert np.array_equal(one.particles, other.particles, equal_nan=True)


def test_a_scale_does_not_matter() -> None:
    one = lived((48, look()))
    other = lived((48, look(oxygen_uptake=around(1400.0, 40.0))))
    assert one.past[-1].value == pytest.approx(other.past[-1].value, abs=0.02)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_another_probe_is_no_change_of_the_tissue(settled: ViabilityEstimate, factor: float) -> None:
    """A signal that a replacement or recalibration shifts: without the note it is a loss, with it nothing."""
    shifted = look(oxygen_uptake=around(14.0 * factor, 0.4))
    told, untold = settled.after(replace(shifted, rescaled=("oxygen_uptake",))), settled
    for _ in range(48):
        told, untold = told.after(shifted), untold.after(shifted)
    assert told.past[-1].value == pytest.approx(settled.past[-1].value, abs=0.04)
    assert not told.harmed
    if factor < 1.0:
        assert untold.past[-1].value < told.past[-1].value - 0.05


def test_a_loss_after_a_recalibration_is_seen(settled: ViabilityEstimate) -> None:
    estimate = settled.after(look(oxygen_uptake=around(28.0, 0.4), rescaled=("oxygen_uptake",)))
    for hour in range(72):
        estimate = estimate.after(look(oxygen_uptake=around(28.0 * 0.97**hour, 0.4)))
    assert estimate.harmed


def test_the_steady_drift_of_a_probe_is_no_loss(settled: ViabilityEstimate) -> None:
    estimate = settled
    for hour in range(24 * 5):
        estimate = estimate.after(look(oxygen_uptake=around(14.0 * (1.0 - 0.006 * hour / 24.0), 0.4)))
    assert not estimate.harmed
    assert estimate.past[-1].value > 0.8


def test_less_lactate_at_equal_uptake_is_a_loss() -> None:
    estimate = lived((48, look(lactate_umol_d=around(44.0, 6.0))))
    for hour in range(24 * 4):
        rate = 44.0 * (1.0 - 0.15 * hour / 24.0)
        seen = around(rate, 6.0) if hour % 6 == 0 else None
        estimate = estimate.after(look(oxygen_uptake=around(14.0 - 0.02 * hour, 0.4), lactate_umol_d=seen))
    assert estimate.past[-1].value < 0.75
    assert estimate.harmed


def test_oxygen_uptake_falls_little_at_first_and_lactate_more() -> None:
    particles = drawn(np.random.default_rng(1), 3)
    particles[:, Axis.VIABILITY] = (1.0, 0.8, 0.02)
    for column, value in ((Axis.FILM, 0.7), (Axis.EXCESS, 4.0), (Axis.GLUCOSE_SHARE, 2.9), (Axis.LOG_VOLUME, 0.0)):
        particles[:, column] = value
    oxygen = np.full(3, 85.0)
    here = np.ones(len(particles)), np.full(len(particles), True)
    taken, made = oxygen_uptake(particles, 37.0, oxygen, *here), lactate_made(particles, 37.0, oxygen, *here)
    assert taken[1] / taken[0] > 0.9
    assert taken[2] / taken[0] < 0.1
    assert made[1] / made[0] < 0.8


def test_other_tissue_begins_again() -> None:
    dead = lived((48, look()), (48, look(temperature_c=around(45.0, 0.1), oxygen_uptake=around(0.3, 0.4))))
    assert dead.past[-1].high < 0.3
    assert dead.after(look(rescaled=("tissue",))).past[-1].value > 0.8


def test_the_measurement_to_make_next_is_one_that_is_not_made(settled: ViabilityEstimate) -> None:
    found = gains(settled, look())
    assert {gain.measurement.signal for gain in found} == {each.signal for each in MEASUREMENTS} - {"oxygen_uptake"}
    assert [gain.width for gain in found] == sorted(gain.width for gain in found)
    assert found[0].width < found[0].without


def test_the_statement_names_harm_what_is_missing_and_what_to_do_next(settled: ViabilityEstimate) -> None:
    recent = frozenset({"temperature_c", "oxygen_pct", "ph", "oxygen_uptake"})
    well = Statement(settled, look(), recent)
    said = well.to_json()
    assert said["status"] == "normal"
    possible = said["baseline"] - said["low"]
    assert 0.05 < possible < 0.5
    assert said["sentences"][0] == f"No harm or loss seen (4 of 11 measured); up to {possible:.2f} may be lost."
    assert "Not measured: glucose, lactate, ammonia, osmolality, electrical activity, LDH, size." in said["sentences"]
    assert said["low"] <= said["value"] <= said["high"]
    hot = settled.after(look(temperature_c=around(41.0, 0.1)))
    said = Statement(hot, look(temperature_c=around(41.0, 0.1)), recent).to_json()
    assert said["status"] == "harmful"
    assert said["sentences"][0].startswith("Harmful now: heat")


def test_want_of_data_is_no_harm(settled: ViabilityEstimate) -> None:
    blind = look(
        **dict.fromkeys(look().to_json().keys() - {"temperature_c", "oxygen_at_tissue"}), oxygen_at_tissue=False
    )
    estimate = settled
    for _ in range(120):
        estimate = estimate.after(blind)
    said = Statement(estimate, blind, frozenset({"temperature_c"})).to_json()
    assert said["status"] == "normal"
    assert said["causes"] == {}
    assert said["sentences"][:2] == [
        "No harm or loss seen, but too little is measured (1 of 11) to judge the tissue.",
        f"Viability {said['low']:.2f}–{said['high']:.2f}, too wide to show a trend.",
    ]


def test_a_loss_without_a_measured_cause_says_so(settled: ViabilityEstimate) -> None:
    estimate = settled
    for hour in range(48):
        estimate = estimate.after(look(oxygen_uptake=around(14.0 * 0.96**hour, 0.4)))
    said = Statement(estimate, look(oxygen_uptake=around(2.0, 0.4)), frozenset({"oxygen_uptake"})).to_json()
    assert said["status"] == "harmful"
    assert said["sentences"][0] == "The tissue is losing viability. No cause is measured."


def test_a_slow_loss_is_suspected_before_it_is_certain() -> None:
    estimate, suspected, harmed = lived((48, look(lactate_umol_d=around(44.0, 6.0)))), None, None
    for hour in range(24 * 8):
        rate = 44.0 * (1.0 - 0.07 * hour / 24.0)
        seen = around(rate, 6.0) if hour % 6 == 0 else None
        estimate = estimate.after(
            look(oxygen_uptake=around(14.0 * (1.0 - 0.012 * hour / 24.0), 0.4), lactate_umol_d=seen)
        )
        if estimate.suspected and suspected is None:
            suspected = hour
            said = Statement(estimate, look(), frozenset({"oxygen_uptake"})).to_json()
        if estimate.harmed and harmed is None:
            harmed = hour
    assert suspected is not None
    assert harmed is None or suspected < harmed
    assert said["suspected"]
    assert said["sentences"][0].startswith("A loss of viability is suspected")
