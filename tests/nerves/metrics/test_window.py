"""The rolling window: what it keeps, masks and refuses, and the figures of the array on top of those of the electrodes."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nerves.detections import Spikes
from nerves.metrics import rolling
from nerves.metrics.figures import MIN_SPIKES, SpikeWindow, measure
from nerves.metrics.intervals import cv, cv2, fano, lv, lvr
from nerves.metrics.rolling import MIN_WINDOW_S, WINDOW_S, RollingSpikes
from nerves.metrics.terms import METRICS, ArrayMetrics, ElectrodeMetrics
from tests.nerves import make_metrics_page

RATE = 1000.0
ELECTRODES = 6


def spikes(frames: list[int], electrodes: list[int] | None = None, uv: float = -50.0) -> Spikes:
    who = electrodes if electrodes is not None else [0] * len(frames)
    return Spikes(np.array(frames, np.int64), np.array(who, np.int32), np.full(len(frames), uv, np.float32))


def poisson(seconds: float, seed: int, hz: float = 5.0) -> Spikes:
    rng = np.random.default_rng(seed)
    count = round(seconds * hz * ELECTRODES)
    frames = np.sort(rng.integers(0, round(seconds * RATE), count))
    who = rng.integers(0, ELECTRODES, count).astype(np.int32)
    return Spikes(frames, who, -rng.uniform(30.0, 200.0, count).astype(np.float32))


def cut(all_of_it: Spikes, begin: int, end: int) -> Spikes:
    inside = (all_of_it.frames >= begin) & (all_of_it.frames < end)
    return Spikes(all_of_it.frames[inside], all_of_it.electrodes[inside], all_of_it.uv[inside])


def whole_minute(found: Spikes) -> SpikeWindow:
    return SpikeWindow.of(0, 60_000, found.frames, found.electrodes, found.uv, ELECTRODES)


EVERYWHERE = np.ones(ELECTRODES, np.bool_)


def same(one: ArrayMetrics, other: ArrayMetrics) -> None:
    assert dict(one.figures) == pytest.approx(dict(other.figures), nan_ok=True)
    assert replace(one, figures={}) == replace(other, figures={})


def test_the_page_of_the_figures_is_of_these_declarations() -> None:
    assert make_metrics_page.PAGE.read_text(encoding="utf-8") == make_metrics_page.text(), (
        "next: python -m tests.nerves.make_metrics_page"
    )


def test_N8_each_figure_that_is_declared_is_computed_and_no_other() -> None:
    of_array, _ = measure(whole_minute(poisson(60.0, 4)), RATE, EVERYWHERE)
    assert set(of_array.figures) == {each.name for each in METRICS}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(200, 4000), min_size=30, max_size=60), st.integers(0, 2**16))
def test_N8_a_rolling_window_gives_the_figures_of_its_last_minute_whatever_the_pieces(
    steps: list[int], seed: int
) -> None:
    end = sum(steps)
    everything = poisson(end / RATE, seed)
    window, at = RollingSpikes(ELECTRODES, RATE), 0
    window.begin(0)
    for step in steps:
        window.add(cut(everything, at, at + step), at + step)
        at += step
    kept = window.window()
    assert kept.end == end
    assert WINDOW_S * RATE <= end - kept.begin < WINDOW_S * RATE + 4000 or kept.begin == 0
    last = cut(everything, kept.begin, kept.end)
    direct = SpikeWindow.of(kept.begin, kept.end, last.frames, last.electrodes, last.uv, ELECTRODES)
    found = window.measure(EVERYWHERE)
    if window.seconds < MIN_WINDOW_S:
        assert found is None
    else:
        assert found is not None
        same(found[0], measure(direct, RATE, EVERYWHERE)[0])


def test_N8_the_figures_of_an_electrode_are_those_of_its_train() -> None:
    everything = poisson(60.0, 1)
    window = whole_minute(everything)
    of_array, of_each = measure(window, RATE, EVERYWHERE)
    for k in range(ELECTRODES):
        own = everything.frames[everything.electrodes == k]
        assert window.train(k).tolist() == own.tolist()
        mine = [of_each.cv[k], of_each.cv2[k], of_each.lv[k], of_each.lvr[k], of_each.fano[k]]
        assert mine == pytest.approx([cv(own), cv2(own), lv(own), lvr(own, 5.0), fano(own, 0, 60_000, 1000)])
        assert of_each.rate_hz[k] == pytest.approx(len(own) / 60.0)
        assert of_each.amplitude_uv[k] == pytest.approx(np.median(-everything.uv[everything.electrodes == k]))
    assert of_array.figures["cv2"] == pytest.approx(np.median(of_each.cv2))
    assert of_array.active == ELECTRODES
    assert abs(of_array.figures["sttc"]) < 0.1
    assert of_array.figures["cv"] == pytest.approx(1.0, abs=0.15)


def test_N8_muted_electrodes_and_those_with_few_spikes_have_no_figures_and_count_for_none() -> None:
    everything = poisson(60.0, 2)
    few = np.flatnonzero(everything.electrodes == 4)[MIN_SPIKES - 1 :]
    kept = np.setdiff1d(np.arange(len(everything)), few)
    fewer = Spikes(everything.frames[kept], everything.electrodes[kept], everything.uv[kept])
    window = whole_minute(fewer)
    observed = EVERYWHERE.copy()
    observed[2] = False
    of_array, of_each = measure(window, RATE, observed)
    assert math.isnan(of_each.cv[4])
    assert of_each.rate_hz[4] == pytest.approx((MIN_SPIKES - 1) / 60.0)
    assert all(math.isnan(getattr(of_each, each.name)[2]) for each in fields(ElectrodeMetrics))
    assert of_array.active == ELECTRODES - 2
    rest = fewer.electrodes != 2
    alone = Spikes(fewer.frames[rest], fewer.electrodes[rest], fewer.uv[rest])
    same(measure(whole_minute(alone), RATE, observed)[0], of_array)


def test_N8_an_array_without_spikes_has_figures_where_they_mean_something() -> None:
    nothing = whole_minute(spikes([]))
    of_array, of_each = measure(nothing, RATE, EVERYWHERE)
    assert (of_array.spikes, of_array.active, of_array.figures["network_bursts_min"]) == (0, 0, 0.0)
    assert math.isnan(of_array.figures["sttc"])
    assert math.isnan(of_array.figures["in_network_bursts"])
    assert of_each.rate_hz.tolist() == [0.0] * ELECTRODES
    muted = measure(nothing, RATE, np.zeros(ELECTRODES, np.bool_))[0]
    assert muted.active == 0


def test_N6_a_loss_begins_a_new_window_and_a_short_one_gives_no_figures() -> None:
    window = RollingSpikes(ELECTRODES, RATE)
    assert window.measure(EVERYWHERE) is None
    window.begin(0)
    window.add(poisson(40.0, 3), 40_000, pulses=2)
    found = window.measure(EVERYWHERE)
    assert found is not None
    assert found[0].pulses == 2
    window.begin(50_000)
    assert window.measure(EVERYWHERE) is None
    window.add(spikes([51_000]), 50_000 + round(MIN_WINDOW_S * RATE))
    again = window.measure(EVERYWHERE)
    assert again is not None
    assert (again[0].spikes, again[0].pulses) == (1, 0)


def test_N6_a_storm_of_spikes_shortens_the_window_instead_of_filling_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "MAX_SPIKES", 1000)
    window = RollingSpikes(ELECTRODES, RATE)
    window.begin(0)
    for second in range(50):
        at = second * 1000
        window.add(spikes(list(range(at, at + 400))), at + 1000)
    assert window.seconds == 2.0
    assert len(window.window().frames) == 800
