"""Bursts against a plain reading of the maximum-interval rule, and network bursts against placed ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nerves.metrics.bursts import BIN_S, BurstRule, burst_rule, bursts, network_bursts, network_rule
from nerves.metrics.intervals import Train
from tests.nerves.metrics.test_elephant import train

RATE = 1000.0
RULE = BurstRule(begin=10, end=25, apart=80, length=5, spikes=4)
clustered = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 9)), max_size=12).map(
    lambda groups: train([start + 8 * k for start, size in groups for k in range(size)])
)
dense = st.lists(st.integers(0, 400), max_size=60).map(train)
"""With spikes in the same frame."""


def reference(frames: Train, rule: BurstRule) -> list[tuple[int, int]]:
    """The same rule on sets of spike numbers: chains of short intervals, then merging, then sieving."""
    numbers, intervals = list(range(len(frames))), np.diff(frames).tolist()
    chains = []
    while numbers:
        first = numbers[0]
        chain = [first]
        if first < len(intervals) and intervals[first] <= rule.begin:
            chain.append(first + 1)
            while chain[-1] < len(intervals) and intervals[chain[-1]] <= rule.end:
                chain.append(chain[-1] + 1)
            chains.append(chain)
        numbers = [number for number in numbers if number > chain[-1] - (len(chain) > 1)]
        if len(chain) > 1:
            numbers = [number for number in numbers if number >= chain[-1]]
    merged: list[list[int]] = []
    for chain in chains:
        if merged and frames[chain[0]] - frames[merged[-1][-1]] < rule.apart:
            merged[-1] = list(range(merged[-1][0], chain[-1] + 1))
        else:
            merged.append(chain)
    return [
        (each[0], each[-1] + 1)
        for each in merged
        if len(each) >= rule.spikes and frames[each[-1]] - frames[each[0]] >= rule.length
    ]


@settings(max_examples=300, deadline=None)
@example(train([]))
@example(train([5]))
@example(train([5, 5, 5, 5, 5]))
@example(train([0, 10, 20, 30, 55, 80, 106, 116]))
@given(clustered | dense)
def test_N8_bursts_follow_the_maximum_interval_rule(frames: Train) -> None:
    assert [tuple(each) for each in bursts(frames, RULE).tolist()] == reference(frames, RULE)


def test_N8_each_parameter_of_the_rule_counts() -> None:
    one = train([0, 8, 16, 24])
    assert bursts(one, RULE).tolist() == [[0, 4]]
    assert bursts(one, RULE._replace(spikes=5)).tolist() == []
    assert bursts(one, RULE._replace(length=25)).tolist() == []
    assert bursts(one, RULE._replace(begin=7)).tolist() == []
    assert bursts(train([0, 8, 16, 40]), RULE).tolist() == [[0, 4]], "a longer interval may follow the beginning"
    assert bursts(train([0, 8, 16, 42]), RULE).tolist() == []
    two = train([0, 8, 16, 24, 103, 111, 119, 127])
    assert bursts(two, RULE).tolist() == [[0, 8]], "one burst: the pause is shorter than 80"
    assert bursts(two, RULE._replace(apart=79)).tolist() == [[0, 4], [4, 8]]
    assert burst_rule(25_000.0) == BurstRule(2500, 6250, 20_000, 1250, 6)


def placed(seconds: float, begins: list[float], seed: int, share: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Background of 1 Hz on 32 electrodes, and bursts of 0.3 s in which a share of them fires at 60 Hz."""
    rng = np.random.default_rng(seed)
    at, electrode = [rng.random(round(32 * seconds)) * seconds], [rng.integers(0, 32, round(32 * seconds))]
    firing = round(32 * share)
    for begin in begins:
        at.append(begin + 0.3 * rng.random(firing * 18))
        electrode.append(rng.permutation(np.arange(firing * 18) % firing))
    times, who = np.concatenate(at), np.concatenate(electrode)
    order = np.argsort(times)
    return (times[order] / BIN_S).astype(np.int64), who[order].astype(np.int32)


def found_in(seconds: float, begins: list[float], seed: int, share: float = 1.0) -> np.ndarray:
    place, electrode = placed(seconds, begins, seed, share)
    bins = round(seconds / BIN_S)
    counts = np.bincount(place, minlength=bins)
    return network_bursts(place, electrode, counts, network_rule(len(place) / bins, 32), 32)


@pytest.mark.parametrize("seed", range(5))
def test_N8_placed_network_bursts_are_found_with_their_length_and_spikes(seed: int) -> None:
    begins = [4.0, 11.0, 19.5, 30.0, 44.0, 55.0]
    found = found_in(60.0, begins, seed)
    assert (found[:, 0] * BIN_S).tolist() == pytest.approx(begins, abs=0.05)
    assert ((found[:, 1] - found[:, 0]) * BIN_S).tolist() == pytest.approx([0.3] * 6, abs=0.06)
    assert found[:, 2].tolist() == pytest.approx([32 * 18 + 10] * 6, rel=0.05)


def test_N8_bursts_of_few_electrodes_and_cut_ones_are_no_network_bursts() -> None:
    assert len(found_in(60.0, [4.0, 11.0], 1, share=0.1)) == 0
    assert len(found_in(60.0, [0.0, 20.0, 59.9], 1)) == 1
    both = found_in(60.0, [20.0, 20.35], 1)
    assert len(both) == 1, "two that are 50 ms apart are one"


def test_N8_independent_trains_give_hardly_any_network_burst() -> None:
    rng = np.random.default_rng(7)
    seconds, total = 600.0, 0
    for rate in (0.5, 2.0, 5.0, 20.0):
        spikes = round(32 * rate * seconds)
        place = np.sort((rng.random(spikes) * seconds / BIN_S).astype(np.int64))
        counts = np.bincount(place, minlength=round(seconds / BIN_S))
        who = rng.integers(0, 32, spikes).astype(np.int32)
        total += len(network_bursts(place, who, counts, network_rule(len(place) / len(counts), 32), 32))
    assert total <= 4
