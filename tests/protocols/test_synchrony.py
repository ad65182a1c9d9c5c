"""Togetherness of electrodes, against cases that can be reckoned by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.synchrony import Array, sttc, together

TRAINS = st.lists(st.floats(0.0, 5.0), min_size=1, max_size=40).map(lambda found: np.array(sorted(found)))


def test_the_same_train_is_together_and_unrelated_trains_are_not() -> None:
    train = np.arange(0.5, 5.0, 0.5)
    assert sttc(train, train, 0.0, 5.0, 0.02) == pytest.approx(1.0)
    assert sttc(train, train + 0.25, 0.0, 5.0, 0.02) == pytest.approx(-9 * 0.04 / 5.0)
    generator = np.random.default_rng(1)
    drawn = np.sort(generator.uniform(0, 5, (300, 2, 25)))
    alone = [sttc(a, b, 0.0, 5.0, 0.02) for a, b in drawn]
    assert abs(float(np.mean(alone))) < 0.02


def test_half_of_the_spikes_shared() -> None:
    """PA = ½, PB = 1, TA = 8·0.04/5, TB = 4·0.04/5: the definition, worked out."""
    a = np.arange(0.5, 4.5, 0.5)
    b = a[::2]
    ta, tb = 8 * 0.04 / 5, 4 * 0.04 / 5
    wanted = 0.5 * ((0.5 - tb) / (1 - 0.5 * tb) + (1 - ta) / (1 - ta))
    assert sttc(a, b, 0.0, 5.0, 0.02) == pytest.approx(wanted)


@given(TRAINS, TRAINS)
def test_it_is_symmetric_and_bounded(a: Array, b: Array) -> None:
    found = sttc(a, b, 0.0, 5.0, 0.02)
    assert -1.0 - 1e-9 <= found <= 1.0 + 1e-9
    assert found == pytest.approx(sttc(b, a, 0.0, 5.0, 0.02))


def test_bursts_take_their_share_of_the_spikes() -> None:
    generator = np.random.default_rng(2)
    burst = [(2.0 + float(at), electrode) for electrode in range(12) for at in generator.uniform(0, 0.05, 8)]
    lone = [
        (float(at), int(e)) for at, e in zip(generator.uniform(0, 5, 100), generator.integers(0, 12, 100), strict=True)
    ]
    mixed = together(sorted([*burst, *lone, (5.0, 0)]), 5.0)
    assert mixed.spikes == 197
    assert 90 <= mixed.in_bursts <= 110
    wild = together(sorted([*burst, (5.0, 0)]), 5.0)
    assert wild.in_bursts / wild.spikes > 0.9
    quiet = together(sorted([*lone, (5.0, 0)]), 5.0)
    assert quiet.in_bursts == 0
    assert wild.sttc is not None
    assert quiet.sttc is not None
    assert wild.sttc > 0.5 > quiet.sttc


def test_silence_and_a_single_electrode_tell_nothing() -> None:
    assert together([], 5.0).sttc is None
    assert together([(0.1 * k, 3) for k in range(20)], 5.0).sttc is None
