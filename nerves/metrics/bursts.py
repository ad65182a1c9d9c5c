"""Bursts of one electrode by the maximum-interval method, and network bursts of the array.

Maximum-interval method (Legéndy and Salcman 1985, as in NeuroExplorer; best of eight methods on cultures in Cotterill 2016):
a burst begins with an interval of at most `begin`, goes on while intervals are at most `end`, joins its neighbour across less
than `apart`, and counts with at least `length` and `spikes`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nerves.metrics.compiled import compiled
from nerves.metrics.intervals import Train

Bursts = NDArray[np.int64]
"""Shape (bursts, 2): number of the first spike of each burst in its train, and of the spike after its last one."""


class BurstRule(NamedTuple):
    """Parameters of the maximum-interval method, in frames."""

    begin: int
    end: int
    apart: int
    length: int
    spikes: int


BURST_BEGINS_S, BURST_ENDS_S, BURSTS_APART_S, BURST_LENGTH_S, BURST_SPIKES = 0.1, 0.25, 0.8, 0.05, 6
"""Usual parameters for cultures; five or six spikes and 0.1 s are a common minimum on arrays [P]."""


def burst_rule(sample_rate_hz: float) -> BurstRule:
    """Return the usual parameters at a sample rate."""
    begin, end, apart, length = (
        round(seconds * sample_rate_hz) for seconds in (BURST_BEGINS_S, BURST_ENDS_S, BURSTS_APART_S, BURST_LENGTH_S)
    )
    return BurstRule(begin, end, apart, length, BURST_SPIKES)


@compiled
def bursts(train: Train, rule: BurstRule) -> Bursts:
    """Return the bursts of a train, in order."""
    found = np.empty((len(train), 2), np.int64)
    count, k = 0, 0
    while k < len(train) - 1:
        if train[k + 1] - train[k] > rule.begin:
            k += 1
            continue
        last = k + 1
        while last < len(train) - 1 and train[last + 1] - train[last] <= rule.end:
            last += 1
        if count > 0 and train[k] - train[found[count - 1, 1] - 1] < rule.apart:
            found[count - 1, 1] = last + 1
        else:
            found[count, 0], found[count, 1] = k, last + 1
            count += 1
        k = last
    kept = 0
    for number in range(count):
        begin, end = found[number, 0], found[number, 1]
        if end - begin >= rule.spikes and train[end - 1] - train[begin] >= rule.length:
            found[kept, 0], found[kept, 1] = begin, end
            kept += 1
    return found[:kept].copy()


BIN_S = 0.025
NETWORK_BEGINS_TIMES, NETWORK_BEGINS_SDS, NETWORK_MIN_SPIKES = 3.0, 6.0, 5.0
NETWORK_ENDS_TIMES = 1.5
NETWORK_APART_S = 0.1
NETWORK_SHARE = 0.2
NETWORK_TIMES_OWN = 4.0
"""A network burst begins with a bin of 25 ms that holds three times the mean count, and six standard deviations of a Poisson
count more than the mean, and five spikes; goes on while bins hold 1.5 times the mean; joins its neighbour across less than
0.1 s; and counts if at least a fifth of the active electrodes, and two of them, fire in it at four times their own mean rate.
Onset and offset by summed rate, and a minimum of electrodes, are usual; the numbers are a proposal [P]: independent Poisson
trains give about one false network burst in ten minutes or less."""


class NetworkRule(NamedTuple):
    """Limits of network bursts: counts in a bin, bins, electrodes."""

    begin: float
    end: float
    apart: int
    electrodes: int


def network_rule(mean: float, active: int) -> NetworkRule:
    """Return the limits for a mean count in a bin and a number of active electrodes."""
    begin = max(NETWORK_BEGINS_TIMES * mean, mean + NETWORK_BEGINS_SDS * math.sqrt(mean), NETWORK_MIN_SPIKES)
    return NetworkRule(
        begin, NETWORK_ENDS_TIMES * mean, round(NETWORK_APART_S / BIN_S), max(2, math.ceil(NETWORK_SHARE * active))
    )


@compiled
def network_bursts(
    place: NDArray[np.int64],
    electrode: NDArray[np.int32],
    counts: NDArray[np.int64],
    rule: NetworkRule,
    electrodes: int,
) -> NDArray[np.int64]:
    """Return the network bursts of an array.

    Args:
        place: Bin of each spike, sorted.
        electrode: Electrode of each spike.
        counts: Spikes in each bin.
        rule: Limits.
        electrodes: Number of electrodes.

    Returns:
        Shape (bursts, 3): first bin, the bin after the last one, spikes. One that is open at either end of the window is
        not whole and is left out.
    """
    found = np.empty((len(counts), 3), np.int64)
    count, k = 0, 0
    while k < len(counts):
        if counts[k] < rule.begin:
            k += 1
            continue
        first = k
        while first > 0 and counts[first - 1] > rule.end:
            first -= 1
        while k < len(counts) and counts[k] > rule.end:
            k += 1
        if count > 0 and first - found[count - 1, 1] < rule.apart:
            found[count - 1, 1] = k
        else:
            found[count, 0], found[count, 1] = first, k
            count += 1
    kept = 0
    for number in range(count):
        first, last = found[number, 0], found[number, 1]
        begin, end = np.searchsorted(place, first), np.searchsorted(place, last)
        firing = _firing(electrode, begin, end, (last - first) / len(counts), electrodes)
        if firing >= rule.electrodes and first > 0 and last < len(counts):
            found[kept, 0], found[kept, 1], found[kept, 2] = first, last, end - begin
            kept += 1
    return found[:kept].copy()


@compiled
def _firing(electrode: NDArray[np.int32], begin: int, end: int, share: float, electrodes: int) -> int:
    """Return how many electrodes fire faster than usual in the spikes from `begin` to `end`, a share of the whole time."""
    whole, own = np.zeros(electrodes), np.zeros(electrodes)
    for each in electrode:
        whole[each] += 1.0
    for spike in range(begin, end):
        own[electrode[spike]] += 1.0
    return int(((own > 0.0) & (own >= NETWORK_TIMES_OWN * share * whole)).sum())
