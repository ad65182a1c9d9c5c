"""The compiled part of the spike detector: filter, mains comb, noise level, troughs and channel states, frame after frame.

Every quantity is recursive in the absolute frame index, so the same samples give the same spikes whatever the block size
(N7). :mod:`nerves.detector` describes the method and owns the state; this module has the loops. All compiled
functions are in one file, because numba's cache does not notice a change in another one.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import extending
from numba.core import types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.np.numpy_support import carray
from numpy import float32 as f32
from numpy import int32 as i32

CHUNK = 100
"""Frames that have room behind the history, and are copied at once."""

TILE = 64
"""Electrodes that share one test for events."""

EVERY = 4
"""Neighbouring samples are correlated by the filter: the noise level, the rails and the mains take every fourth frame."""

MIN_USED = 12
"""Minimum number of samples of a window for a noise level."""

THRESHOLD_SIGMA = 4.75
QUICK_SIGMA = 0.7
"""Share of the noise level of the last window that the threshold is never below (in σ): a noise step raises it at once."""

GATE_SIGMA = 3.0
COMB_LIMIT = 0.1
"""Beyond its gate a sample teaches the comb no more than this share of the gate, so that a spike leaves no echo."""

COMB_GAIN = 0.05
FLOOR_UV = 1.0
"""Minimum noise level; the thermal noise of an electrode is above it."""

DEAD_UV = 0.3
"""Changes of raw samples below this are no signal of an electrode: an open input has more noise, not less."""

SHADOW_SHARE = 0.25
MAX_SPIKE_UV = 1500.0
"""Larger deflections are artefacts: extracellular spikes of organoids have 30 to 200 µV."""

SETTLED_WINDOWS = 25
DEAD_WINDOWS = 32
GAIN = 1.0 / 64.0
QUICK_GAIN = 0.25
QUICK_WINDOWS = 12
UP, DOWN = 1.6, 0.6
"""Ratios of a window's power to the noise power; this number of windows in a row beyond one is a step of the noise, which is
followed quickly until a window is on the other side."""

MAX_RATIO = 4.0
NOISY_RATIO, CALM_RATIO = 5.0, 4.0
NOISY_UV = 15.0
NOISY_HZ = 250
"""A channel is noisy with this multiple of the array's median noise level, or more crossings a second than neurons make."""

NOISY_S, CALM_S = 2, 3
MAX_ERROR_CYCLES = 0.1
LOCK_UV = 0.5
"""Minimum amplitude of the mains in the mean of all channels (times a half) for its phase to be followed."""

OK, DEAD, NOISY, SATURATED, BLANKED = range(5)
"""States of a channel, as numbers."""

CAUSES = 6
BY_STIMULATION, BY_ARTEFACT, BY_RAIL, BY_FLAT, BY_NOISE, BY_START = range(CAUSES)
"""Causes for which nothing is detected on a channel: rows of `counts`."""

LANES = 9
Y, THRESHOLD, GATE, POWER, MOVES, USED, LEVEL, CANDIDATE_UV, LAST_UV = range(LANES)
SUMS = 4
TOTAL, RAMP, TRIANGLE, HOLD = range(SUMS)
MARKS = 13
(
    CANDIDATE,
    LAST,
    BELOW,
    MUTE_UNTIL,
    BLANK_UNTIL,
    RAIL,
    RUN,
    FLAT,
    SEEN,
    IS_NOISY,
    CROSSINGS,
    BAD,
    WHY,
) = range(MARKS)
"""Rows of the state: float32 `lanes`, int32 `sums` and int64 `marks`, each with one column a channel."""

CLOCKS = 10
HORIZON, BLANK_HORIZON, NEXT, MANY, COMMON, ARTEFACTS, NOISY_COUNT, SEARCHING, ENOUGH, FILLED = range(CLOCKS)
"""Entries of `clock`: end of the last muting and of the last blanking, next end of a window or second, last frame in which
many channels were beyond their thresholds, end of the muting of the last artefact; numbers of rejected crossings, noisy
channels and open searches; more channels than this beyond their thresholds may be an artefact; rows of `work` that are used.
"""

MANY_FRAMES = 8
"""Frames after such a frame in which the end of a trough is judged."""

REST = 0.015
"""Share of the energy of an artefact that its common wave may leave. Spikes that arrive 0.03 ms apart leave more."""

SURE = 2.0
"""Standard deviations of the noise by which this must be certain: what may be spikes or an artefact is taken for spikes."""

WIDE_REST, LOUD, MAX_REST = 0.05, 60.0, 0.25
"""The share for what reaches more channels than one neuron can; the mean size (σ) from which on the usual share grows with
the power, because amplifiers sample their channels one after the other within a frame; and its maximum."""

TURNS = 8
"""Steps of the power iteration; with fewer the common wave is found too small, and less is rejected."""

NEAR_CYCLES, FAR_CYCLES = 0.005, 0.02
FOLLOWED_WINDOWS, FRESH_WINDOWS = 25, 62
"""The phase is followed when its error is near for this number of windows, and no more when the error of a strong hum is far.
When it is followed, the comb begins again, and for the second number of windows it learns without a gate.
"""

PULSE = 9
FIRST, HELD, CHECK, END, SLOT, LEARNS, SUBTRACTS, OTHERS_END, OWN_END = range(PULSE)
"""Entries of the present `pulse`, and of a row of `pulses` to come: first frame, end of the held samples, frame in which the
template is judged, end of its wave, and its place; whether the wave is learned and subtracted (of a row: whether the place is
new, and nothing); ends of the blanking of the other electrodes and of the stimulated ones where it cannot be subtracted."""

FITS = 5
SCALE, CROSS, SQUARE, LEFT, VALID = range(FITS)
"""Rows of `fits`, one column a channel: size of this artefact over the template's, sums over the wave up to the check (of the
rest times the template, of the template's square and of the rest's, in units of the noise), whether it is subtracted."""

LEARNED_PULSES = 8
"""Pulses of one kind after which their template is subtracted."""

LESSON = 1.0 / 16.0
FIRST_CLIP, CLIP = 3.0, 2.0
"""Share of a new wave in the template, and the most (σ) that one adds at first and later: evoked spikes, which do not come at
each pulse to a sample, add little."""

SCALE_SD = 0.1
"""Standard deviation of the size of artefacts of one kind that is expected before anything is seen."""

MAX_LEFT, MAX_SPREAD, LARGE = 4.0, 1.75, 8.0
"""Power of what the template leaves (σ²) up to the check, above which a channel is blanked, as its artefacts differ; and
the same at each frame over the last pulses, where the template is large (σ). Where it is small, spikes are what varies.
"""

DIP, DIP_FRAMES, SMOOTH = 2.0, 8, 4
"""A template that lies this much (σ) lower than both sides of it so many frames away may hold a spike that comes with each
pulse: around it the channel is blanked."""

MAINS = 6
THETA, HZ, IN_PHASE, QUADRATURE, SLOW, NEAR = range(MAINS)
"""Entries of `mains`: phase in cycles, frequency, lock-in amplifier (µV), slow mean of the reference (µV), number of windows
since the phase is near."""

SETUP = np.dtype(
    [
        ("short", np.int64),  # frames of each of the two short running means (M)
        ("long", np.int64),  # frames of the long running mean (N), odd
        ("lag", np.int64),  # age of the newest sample of the short means
        ("delay", np.int64),  # age of the middle of the short means
        ("clear", np.int64),  # frames after a disturbance until the filter holds nothing of it
        ("look", np.int64),  # frames without a lower value that end the search for a trough
        ("refractory", np.int64),
        ("shadow", np.int64),  # frames after a trough in which much smaller ones are its own lobes
        ("exclude", np.int64),  # frames after a crossing that the noise level leaves out
        ("past", np.int64),  # age of the samples of which the noise level is taken
        ("recover", np.int64),  # frames after the last sample at a rail
        ("artefact", np.int64),
        ("settle", np.int64),
        ("window", np.int64),  # frames of a window of the noise level
        ("second", np.int64),
        ("rail", np.int64),
        ("many", np.int64),  # with no more channels than these beyond their thresholds no artefact is looked for
        ("share", np.float64),  # share of the live channels that an artefact reaches
        ("reach", np.float64),  # channels that one neuron may reach
        ("rate_hz", np.float64),
        ("mains_hz", np.float64),  # 0: no comb
        ("uv", np.float64),  # µV of one unit of a sample
        ("reference", np.bool_),  # subtract the median of the live channels
    ]
)


FOUND = np.dtype([("frame", np.int64), ("electrode", np.int32), ("uv", np.float32)])
"""A spike as the compiled functions report it."""

STATE = 16
(
    CHANNELS,
    BINS,
    OLD,
    SETUP_AT,
    LANES_AT,
    SUMS_AT,
    MARKS_AT,
    CLOCK_AT,
    MAINS_AT,
    COMB_AT,
    TILES_AT,
    BLANKED_AT,
    COUNTS_AT,
    UNOBSERVED_AT,
    PAST_AT,
    WORK_AT,
) = range(STATE)
"""Entries of `state`: numbers of channels and of rows of `comb` and `past`, and the addresses of the arrays. To pass an array
from Python takes 0.1 µs; all of them would take longer than the filter does for 1 ms of 32 channels."""


intrinsic: Any = extending.intrinsic  # its type has the first argument, which callers leave out


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _pointer(_, address):  # type: ignore[no-untyped-def]
    """Return an address as a pointer."""

    def build(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(address), build


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _times(_, a, b):  # type: ignore[no-untyped-def]
    """Return the product of two integers in 32 bits, where numba takes 64, for which processors have no fast one."""
    return types.int32(types.int32, types.int32), lambda _, builder, __, factors: builder.mul(*factors)


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def _plus(_, a, b):  # type: ignore[no-untyped-def]
    """Return the sum of two integers in 32 bits."""
    return types.int32(types.int32, types.int32), lambda _, builder, __, terms: builder.add(*terms)


class Apart(CompilerBase):  # type: ignore[misc,unused-ignore]
    """Compile on the promise that no two arrays among the arguments overlap.

    Without it the compiler compares the bounds of all arrays before each loop, which with 32 channels takes longer than the
    loop. A function compiled so must get different arrays, or different rows of one.
    """

    def define_pipelines(self) -> list[Any]:
        """Return numba's usual passes, with the promise as their setting."""
        self.state.flags.noalias = True
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]  # type: ignore[no-untyped-call,unused-ignore]


@numba.njit(pipeline_class=Apart)  # type: ignore[untyped-decorator,unused-ignore]
def _filter(work, row, setup, total, ramp, triangle, y):  # type: ignore[no-untyped-def]
    """Filter one frame: exact integer sums, one rounding."""
    long, square = i32(setup.long), i32(setup.short * setup.short)
    scale = f32(setup.uv / (setup.long * setup.short * setup.short))
    oldest = row - setup.long
    first = row - setup.lag
    second = first - setup.short
    third = second - setup.short
    for c in range(len(y)):
        t = i32(total[c] + i32(work[row, c]) - i32(work[oldest, c]))
        r = i32(ramp[c] + i32(work[first, c]) - i32(2) * i32(work[second, c]) + i32(work[third, c]))
        s = i32(triangle[c] + r)
        total[c], ramp[c], triangle[c] = t, r, s
        y[c] = f32(i32(_times(long, s) - _times(square, t))) * scale


@numba.njit(pipeline_class=Apart)  # type: ignore[untyped-decorator,unused-ignore]
def _subtract_mains(y, comb, gate, fresh):  # type: ignore[no-untyped-def]
    """Subtract the learned wave of the mains at this phase, and learn from what is left."""
    gain, limit, wide = f32(COMB_GAIN), f32(COMB_LIMIT), f32(1e6 if fresh else 1.0)
    for c in range(len(y)):
        learned = comb[c]
        left = y[c] - learned
        slow = limit * gate[c]
        lesson = left if abs(left) < wide * gate[c] else (slow if left > f32(0.0) else -slow)
        comb[c] = learned + gain * lesson
        y[c] = left


@numba.njit(pipeline_class=Apart)  # type: ignore[untyped-decorator,unused-ignore]
def _filter_and_count(work, row, setup, total, ramp, triangle, y, comb, gate, fresh, threshold):  # type: ignore[no-untyped-def]
    """Do what `_filter`, `_subtract_mains` with the row `comb`, and `_count_below` do, in one pass."""
    long, square = i32(setup.long), i32(setup.short * setup.short)
    scale = f32(setup.uv / (setup.long * setup.short * setup.short))
    oldest = row - setup.long
    first = row - setup.lag
    second = first - setup.short
    third = second - setup.short
    gain, limit, wide = f32(COMB_GAIN), f32(COMB_LIMIT), f32(1e6 if fresh else 1.0)
    below = i32(0)
    for c in range(len(y)):
        t = i32(total[c] + i32(work[row, c]) - i32(work[oldest, c]))
        r = i32(ramp[c] + i32(work[first, c]) - i32(2) * i32(work[second, c]) + i32(work[third, c]))
        s = i32(triangle[c] + r)
        total[c], ramp[c], triangle[c] = t, r, s
        learned = comb[c]
        left = f32(i32(_times(long, s) - _times(square, t))) * scale - learned
        slow = limit * gate[c]
        lesson = left if abs(left) < wide * gate[c] else (slow if left > f32(0.0) else -slow)
        comb[c] = learned + gain * lesson
        y[c] = left
        below = _plus(below, i32(left < threshold[c]))
    return below


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _subtract_median(y, marks):  # type: ignore[no-untyped-def]
    """Subtract the median of the channels that are neither flat nor noisy."""
    live = np.empty(len(y), np.float32)
    count = 0
    for c in range(len(y)):
        if marks[IS_NOISY, c] == 0 and marks[FLAT, c] == 0:
            live[count] = y[c]
            count += 1
    if count > 0:
        median = np.median(live[:count])
        for c in range(len(y)):
            y[c] -= median


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _copy(source, first, target, at, rows):  # type: ignore[no-untyped-def]
    """Copy rows, the first one first. An assignment of slices takes several times as long."""
    for k in range(rows):
        for c in range(target.shape[1]):
            target[at + k, c] = source[first + k, c]


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _count_below(y, threshold, low, high):  # type: ignore[no-untyped-def]
    below = i32(0)
    for c in range(low, high):
        below += i32(y[c] < threshold[c])
    return below


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _search(frame, row, work, setup, lanes, sums, marks, clock, low, high, found, out):  # type: ignore[no-untyped-def]
    """Follow crossings to their troughs and append the spikes. Return their number and that of the open searches."""
    delay = setup.delay
    searching = 0
    for c in range(low, high):
        value = lanes[Y, c]
        below = value < lanes[THRESHOLD, c]
        at = marks[CANDIDATE, c]
        if at >= 0:
            if value < lanes[CANDIDATE_UV, c] and frame >= marks[BLANK_UNTIL, c]:
                marks[CANDIDATE, c] = frame
                lanes[CANDIDATE_UV, c] = value
                searching += 1
            elif frame - at < setup.look:
                searching += 1
            else:
                marks[CANDIDATE, c] = -1
                if _is_spike(frame, row, at, work, setup, lanes, marks, clock, c):
                    out[found].frame = at - delay
                    out[found].electrode = c
                    out[found].uv = lanes[CANDIDATE_UV, c]
                    found += 1
        elif below and marks[BELOW, c] == 0:
            sums[HOLD, c] = max(sums[HOLD, c], i32(setup.exclude + setup.past))
            if frame >= marks[MUTE_UNTIL, c] and frame - marks[LAST, c] >= setup.refractory:
                marks[CANDIDATE, c] = frame
                lanes[CANDIDATE_UV, c] = value
                marks[CROSSINGS, c] += 1
                searching += 1
        marks[BELOW, c] = below
    return found, searching


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _is_spike(frame, row, at, work, setup, lanes, marks, clock, c):  # type: ignore[no-untyped-def]
    """Judge a trough: not in the shadow of a larger one, not larger than any spike, not at a rail, not of a noisy channel."""
    if at - marks[LAST, c] < setup.shadow and lanes[CANDIDATE_UV, c] > SHADOW_SHARE * lanes[LAST_UV, c]:
        return False
    marks[LAST, c] = at
    lanes[LAST_UV, c] = lanes[CANDIDATE_UV, c]
    if lanes[CANDIDATE_UV, c] < -f32(MAX_SPIKE_UV):
        _mute(marks, clock, c, frame + setup.clear + setup.artefact, BY_ARTEFACT)
        clock[ARTEFACTS] += 1
        return False
    for k in range(row - (frame - at) - setup.long + 1, row + 1):
        if work[k, c] >= setup.rail or work[k, c] < -setup.rail:
            _at_rail(frame, setup, marks, clock, c)
            return False
    return marks[IS_NOISY, c] == 0


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _mute(marks, clock, c, until, why):  # type: ignore[no-untyped-def]
    """Mute a channel; the cause that mutes it for longest is the one that is counted."""
    if until > marks[MUTE_UNTIL, c]:
        marks[MUTE_UNTIL, c] = until
        marks[WHY, c] = why
        clock[HORIZON] = max(clock[HORIZON], until)


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _at_rail(frame, setup, marks, clock, c):  # type: ignore[no-untyped-def]
    marks[RAIL, c] = frame
    _mute(marks, clock, c, frame + setup.clear + setup.recover, BY_RAIL)


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _trough_ends(frame, setup, lanes, marks):  # type: ignore[no-untyped-def]
    """Return whether a trough ends in this frame, so that its spike is about to be reported."""
    for c in range(marks.shape[1]):
        at = marks[CANDIDATE, c]
        if at >= 0 and frame - at >= setup.look and lanes[Y, c] >= lanes[CANDIDATE_UV, c]:
            return True
    return False


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _is_common(frame, setup, lanes, marks, past):  # type: ignore[no-untyped-def]
    """Return whether the live channels have one wave over the last millisecond, with another gain on each: an artefact.

    The wave is the first principal component of this frame and of those in `past`, in units of the noise. Spikes of several
    neurons, and those of one that arrive at different times, leave energy. Its gains say how many channels it
    reaches (the square of the sum of their squares over the sum of their fourth powers). What reaches no more channels than
    one neuron may, or fewer than the share of them, must have one wave beyond doubt. While a channel is at a rail, as the
    electrode of an unannounced pulse is, it reaches those on which it is beyond the threshold, whatever its gains.
    """
    rows, channels = past.shape[0] + 1, marks.shape[1]
    wave, weights = np.empty((rows, channels)), np.zeros(channels)
    live = 0
    pulse = False
    for c in range(channels):
        pulse |= frame - marks[RAIL, c] < setup.clear + setup.recover
        if frame >= marks[MUTE_UNTIL, c] and marks[IS_NOISY, c] == 0 and lanes[THRESHOLD, c] > -np.inf:
            weights[c] = THRESHOLD_SIGMA / lanes[THRESHOLD, c]
            live += 1
    for row in range(rows):
        for c in range(channels):
            wave[row, c] = weights[c] * (lanes[Y, c] if row == 0 else past[row - 1, c])
    gram = np.zeros((rows, rows))
    total, first = 0.0, 0
    for i in range(rows):
        for j in range(i + 1):
            product = 0.0
            for c in range(channels):
                product += wave[i, c] * wave[j, c]
            gram[i, j] = gram[j, i] = product
        total += gram[i, i]
        if gram[i, i] > gram[first, first]:
            first = i
    if gram[first, first] == 0.0:
        return False
    axis = gram[first].copy()
    for _ in range(TURNS):
        axis /= math.sqrt((axis * axis).sum())
        turned = np.zeros(rows)
        for i in range(rows):
            turned += gram[i] * axis[i]
        common = (axis * turned).sum()
        axis = turned
    axis /= math.sqrt((axis * axis).sum())
    second = fourth = 0.0
    reach = 0
    for c in range(channels):
        gain = 0.0
        for i in range(rows):
            gain += axis[i] * wave[i, c]
        power = max(gain * gain - 1.0, 0.0)
        second += power
        fourth += power * power
        reach += power > THRESHOLD_SIGMA * THRESHOLD_SIGMA
    reached = second * second / fourth if fourth > 0.0 else 0.0
    if pulse:
        reached = float(reach)
    beyond = reached > setup.reach
    if reached < setup.share * live * (0.5 if beyond else 1.0):
        return False
    wide = beyond and reached >= setup.share * live
    limit = max(REST * max(1.0, common / (live * LOUD * LOUD)), WIDE_REST if wide else 0.0)
    rest = total - common - (rows - 1) * live + (0.0 if wide else SURE * math.sqrt(2.0 * rows * live))
    return rest <= min(limit, MAX_REST) * (common - live)


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _reject_artefact(frame, setup, sums, marks, clock):  # type: ignore[no-untyped-def]
    """Mute all channels: an artefact is on most of them."""
    clock[COMMON] = until = frame + setup.clear + setup.artefact
    for c in range(marks.shape[1]):
        if marks[CANDIDATE, c] >= 0:
            marks[CANDIDATE, c] = -1
            clock[ARTEFACTS] += 1
        _mute(marks, clock, c, until, BY_ARTEFACT)
        sums[HOLD, c] = max(sums[HOLD, c], i32(until - frame + setup.past))


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _find_rails(frame, row, setup, sums, marks, clock):  # type: ignore[no-untyped-def]
    """Mute the channels that are at a rail in this frame; the noise level leaves them out."""
    for c in range(len(row)):
        if row[c] >= setup.rail or row[c] < -setup.rail:
            _at_rail(frame, setup, marks, clock, c)
            sums[HOLD, c] = max(sums[HOLD, c], i32(setup.clear + setup.recover + setup.past))


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _any_at_rail(work, row, rail):  # type: ignore[no-untyped-def]
    high, low = np.int16(rail), np.int16(-rail)
    found = i32(0)
    for c in range(work.shape[1]):
        found = _plus(found, i32((work[row, c] >= high) | (work[row, c] < low)))
    return found != 0


@numba.njit(pipeline_class=Apart)  # type: ignore[untyped-decorator,unused-ignore]
def _add_power(work, row, uv, y, past, slot, threshold, power, moves, used, hold):  # type: ignore[no-untyped-def]
    """Add the power of a past sample of each channel, and of the present raw change, unless a spike or an artefact is near.

    The sample is as old as the lobe before a trough is long, so that it is known whether it belongs to one.
    """
    before = row - EVERY
    for c in range(len(y)):
        old = past[slot, c]
        past[slot, c] = y[c]
        free = (hold[c] <= i32(0)) & (old < -threshold[c])
        change = f32(i32(work[row, c]) - i32(work[before, c])) * uv
        power[c] += old * old if free else f32(0.0)
        moves[c] += change * change if free else f32(0.0)
        used[c] += f32(1.0) if free else f32(0.0)
        hold[c] = max(i32(hold[c] - i32(EVERY)), i32(0))


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _end_window(frame, setup, lanes, marks, clock):  # type: ignore[no-untyped-def]
    """Take the window's power into the noise levels, set the thresholds, find flat channels, and count the others."""
    live = 0
    for c in range(lanes.shape[1]):
        live += marks[FLAT, c] < DEAD_WINDOWS and marks[IS_NOISY, c] == 0
        if lanes[USED, c] < MIN_USED:
            continue
        power, change = lanes[POWER, c] / lanes[USED, c], lanes[MOVES, c] / lanes[USED, c]
        lanes[POWER, c] = lanes[MOVES, c] = lanes[USED, c] = 0.0
        if change < DEAD_UV * DEAD_UV:
            marks[FLAT, c] += 1
            _mute(marks, clock, c, frame + setup.window + setup.long + 1, BY_FLAT)
            continue
        flat, marks[FLAT, c] = marks[FLAT, c], 0
        if flat > 0:
            if flat >= DEAD_WINDOWS:
                marks[SEEN, c] = 0
                _mute(marks, clock, c, frame + setup.settle, BY_START)
            continue
        level = _level(power, lanes[LEVEL, c], marks, c)
        lanes[LEVEL, c] = level
        sigma = math.sqrt(max(level, QUICK_SIGMA * QUICK_SIGMA * power))
        lanes[THRESHOLD, c] = -THRESHOLD_SIGMA * sigma
        lanes[GATE, c] = GATE_SIGMA * sigma
    clock[ENOUGH] = max(setup.many, int(0.5 * setup.share * live))


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _level(power, level, marks, c):  # type: ignore[no-untyped-def]
    """Return the noise power after a window: a mean at first, then a slow average that follows a lasting step quickly."""
    seen = marks[SEEN, c]
    if seen < SETTLED_WINDOWS:
        marks[SEEN, c] = seen + 1
        level = power if seen == 0 else level + (min(power, MAX_RATIO * level) - level) / (seen + 1)
        return max(level, FLOOR_UV * FLOOR_UV)
    run = marks[RUN, c]
    if power > (UP if run < QUICK_WINDOWS else 1.0) * level:
        run = max(run, 0) + 1
    elif power < (DOWN if run > -QUICK_WINDOWS else 1.0) * level:
        run = min(run, 0) - 1
    else:
        run = 0
    marks[RUN, c] = run
    gain = QUICK_GAIN if abs(run) >= QUICK_WINDOWS else GAIN
    return max(level + gain * (min(power, MAX_RATIO * level) - level), FLOOR_UV * FLOOR_UV)


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _judge_noise(lanes, marks, clock):  # type: ignore[no-untyped-def]
    """Mark, once a second, channels that are much louder than the array, or fire faster than neurons do."""
    channels = lanes.shape[1]
    live = np.empty(channels, np.float32)
    count = 0
    for c in range(channels):
        if marks[FLAT, c] == 0 and marks[SEEN, c] > 0:
            live[count] = lanes[LEVEL, c]
            count += 1
    median = np.median(live[:count]) if count else 0.0
    for c in range(channels):
        ratio = CALM_RATIO if marks[IS_NOISY, c] else NOISY_RATIO
        loud = lanes[LEVEL, c] > max(ratio * ratio * median, NOISY_UV * NOISY_UV)
        bad = loud or marks[CROSSINGS, c] > NOISY_HZ
        marks[CROSSINGS, c] = 0
        marks[BAD, c] = max(marks[BAD, c], 0) + 1 if bad else min(marks[BAD, c], 0) - 1
        if marks[BAD, c] >= NOISY_S:
            marks[IS_NOISY, c] = 1
        elif marks[BAD, c] <= -CALM_S:
            marks[IS_NOISY, c] = 0
    clock[NOISY_COUNT] = marks[IS_NOISY].sum()


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _count_muted(frame, marks, clock, counts, unobserved):  # type: ignore[no-untyped-def]
    """Count the frames since the last call of channels that are muted, by cause; blanked ones are counted elsewhere."""
    horizon = np.int64(-1)
    for c in range(marks.shape[1]):
        until = marks[MUTE_UNTIL, c]
        horizon = max(horizon, until)
        if frame >= marks[BLANK_UNTIL, c] and (marks[IS_NOISY, c] or frame < until):
            counts[BY_NOISE if marks[IS_NOISY, c] else marks[WHY, c], c] += EVERY
            unobserved[c] += EVERY
    clock[HORIZON] = horizon


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _follow_mains(work, row, setup, mains):  # type: ignore[no-untyped-def]
    """Mix the mean of all channels with the mains' phase (lock-in amplifier)."""
    total = i32(0)
    for c in range(work.shape[1]):
        total = _plus(total, i32(work[row, c]))
    reference = total * setup.uv / work.shape[1]
    mains[SLOW] += (reference - mains[SLOW]) * (EVERY / (0.05 * setup.rate_hz))
    share = EVERY / (0.1 * setup.rate_hz)
    turn = 2.0 * math.pi * mains[THETA]
    mains[IN_PHASE] += share * ((reference - mains[SLOW]) * math.sin(turn) - mains[IN_PHASE])
    mains[QUADRATURE] += share * ((reference - mains[SLOW]) * math.cos(turn) - mains[QUADRATURE])


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _begin_comb_again(error, size, mains, comb):  # type: ignore[no-untyped-def]
    """Clear the comb once the phase is followed: what it has learned while the phase came closer belongs to other phases."""
    followed = mains[NEAR] >= FOLLOWED_WINDOWS
    if abs(error) < NEAR_CYCLES or followed:
        mains[NEAR] += 1.0
    if (followed and size > 4.0 * LOCK_UV and abs(error) > FAR_CYCLES) or (not followed and abs(error) >= NEAR_CYCLES):
        mains[NEAR] = 0.0
    if mains[NEAR] == FOLLOWED_WINDOWS:
        comb[:] = 0.0


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _lock_mains(setup, mains, comb):  # type: ignore[no-untyped-def]
    """Correct phase and frequency by the phase error (phase-locked loop of second order, 2 rad/s).

    A phase that is far off is set, and the comb begins again: what it has learned belongs to other phases.
    """
    size = math.hypot(mains[IN_PHASE], mains[QUADRATURE])
    if size < LOCK_UV:
        return
    error = math.atan2(mains[QUADRATURE], mains[IN_PHASE]) / (2.0 * math.pi)
    if abs(error) > MAX_ERROR_CYCLES:
        mains[THETA] += error
        mains[IN_PHASE], mains[QUADRATURE], mains[NEAR] = size, 0.0, 0.0
        comb[:] = 0.0
        return
    _begin_comb_again(error, size, mains, comb)
    seconds = setup.window / setup.rate_hz
    mains[THETA] += 2.8 * error * seconds
    change = 4.0 * error * seconds
    mains[HZ] = min(max(mains[HZ] + change, 0.99 * setup.mains_hz), 1.01 * setup.mains_hz)


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _take_blanks(frame, next_blank, setup, sums, marks, clock, blanks):  # type: ignore[no-untyped-def]
    """Apply the blanks (electrode, first, end) that begin by `frame`. Return the number of the next one."""
    while next_blank < len(blanks) and blanks[next_blank, 1] <= frame:
        electrode, end = blanks[next_blank, 0], blanks[next_blank, 2]
        low, high = (0, marks.shape[1]) if electrode < 0 else (electrode, electrode + 1)
        for c in range(low, high):
            marks[BLANK_UNTIL, c] = max(marks[BLANK_UNTIL, c], end)
            _mute(marks, clock, c, end + setup.clear, BY_STIMULATION)
            sums[HOLD, c] = max(sums[HOLD, c], i32(max(end + setup.clear - frame, 0) + setup.past))
        clock[BLANK_HORIZON] = max(clock[BLANK_HORIZON], end)
        next_blank += 1
    return next_blank


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _begin_pulse(frame, row, setup, sums, marks, clock, pulse, stim):  # type: ignore[no-untyped-def]
    """Begin the wave of an artefact: hold the samples until it is in the range of the converter, and blank as much as needed.

    Within the wave of another pulse it is neither learned nor subtracted, and both are blanked; nor is one that comes late.
    """
    _, _, _, mine, counts, fits = stim
    overlaps = frame < pulse[END]
    if overlaps:
        _blank_rest(setup, marks, clock, pulse, mine[pulse[SLOT]], fits, True)
    if row[LEARNS]:
        counts[row[SLOT]] = 0
    end = max(row[END], pulse[END])
    pulse[:] = row
    pulse[END] = end
    pulse[LEARNS] = not overlaps and frame == row[FIRST]
    pulse[SUBTRACTS] = pulse[LEARNS] and counts[row[SLOT]] >= LEARNED_PULSES
    fits[SCALE], fits[VALID] = 1.0, 1.0
    fits[CROSS] = fits[SQUARE] = fits[LEFT] = 0.0
    for c in range(marks.shape[1]):
        marks[BLANK_UNTIL, c] = max(marks[BLANK_UNTIL, c], row[HELD])
        _mute(marks, clock, c, row[CHECK] + 1, BY_STIMULATION)
        sums[HOLD, c] = max(sums[HOLD, c], i32(end - frame + setup.past))
    clock[BLANK_HORIZON] = max(clock[BLANK_HORIZON], row[HELD])
    if not pulse[SUBTRACTS]:
        _blank_rest(setup, marks, clock, pulse, mine[row[SLOT]], fits, True)


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _blank_rest(setup, marks, clock, pulse, mine, fits, every):  # type: ignore[no-untyped-def]
    """Blank the channels on which the artefact is not subtracted, or all, as long as without subtraction."""
    for c in range(marks.shape[1]):
        if every or fits[VALID, c] == 0.0:
            end = pulse[OWN_END] if mine[c] else pulse[OTHERS_END]
            _mute(marks, clock, c, end + setup.clear, BY_STIMULATION)


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _subtract_artefact(frame, y, pulse, stim):  # type: ignore[no-untyped-def]
    learned, _, _, _, _, fits = stim
    wave = learned[pulse[SLOT], frame - pulse[FIRST]]
    for c in range(len(y)):
        y[c] -= fits[SCALE, c] * wave[c]


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _learn_artefact(frame, setup, lanes, marks, clock, pulse, stim):  # type: ignore[no-untyped-def]
    """Learn from one frame of a wave what was left of it, judge the template at the check, blank where it may hold a spike.

    The template's dips are looked for where it is known on both sides of them, and heeded from the next pulse on. Where
    nothing is blanked without subtraction, nothing is subtracted.
    """
    learned, spread, doubts, mine, counts, fits = stim
    slot, k = pulse[SLOT], frame - pulse[FIRST]
    y, wave, spreads, doubt = lanes[Y], learned[slot], spread[slot], doubts[slot]
    count = counts[slot]
    gain = f32(max(1.0 / (count + 1.0), LESSON))
    clip = f32(CLIP if count >= LEARNED_PULSES else FIRST_CLIP)
    near, last = k - DIP_FRAMES, k - 2 * DIP_FRAMES
    for c in range(len(y)):
        level = lanes[LEVEL, c]
        if level <= f32(0.0) or marks[RAIL, c] >= pulse[FIRST] or marks[IS_NOISY, c] != 0:
            fits[VALID, c] = 0.0
            continue
        sigma = math.sqrt(level)
        rest, old = y[c], wave[k, c]
        whole = rest + (fits[SCALE, c] * old if pulse[SUBTRACTS] else f32(0.0))
        if pulse[SUBTRACTS] and frame <= pulse[CHECK]:
            fits[CROSS, c] += rest * old / level
            fits[SQUARE, c] += old * old / level
            fits[LEFT, c] += rest * rest / level
        if not pulse[LEARNS]:
            continue
        if count == 0:
            wave[k, c], spreads[k, c], doubt[k, c] = whole, level, False
            continue
        more = whole - old
        if not pulse[SUBTRACTS]:
            rest = more
        wave[k, c] = old + gain * min(max(more, -clip * sigma), clip * sigma)
        if rest > 0.0:
            spreads[k, c] += gain * (min(rest * rest, f32(16.0) * level) - spreads[k, c])
        if last >= pulse[HELD] - pulse[FIRST]:
            dip = min(wave[last, c], wave[k, c]) - wave[near, c]
            power, size = f32(0.0), f32(0.0)
            for j in range(near - SMOOTH, near + SMOOTH + 1):
                power += spreads[j, c]
                size = max(size, abs(wave[j, c]))
            varies = size > LARGE * sigma and power > MAX_SPREAD * (2 * SMOOTH + 1) * level
            doubt[near, c] = varies or dip > DIP * sigma
    if pulse[SUBTRACTS]:
        if frame == pulse[CHECK]:
            _judge_template(frame, pulse, fits)
            _blank_rest(setup, marks, clock, pulse, mine[slot], fits, False)
        ahead = min(k + DIP_FRAMES, wave.shape[0] - 1)
        for c in range(len(y)):
            end = (pulse[OWN_END] if mine[slot, c] else pulse[OTHERS_END]) + setup.clear
            if frame + 1 >= end:
                fits[SCALE, c] = fits[VALID, c] = 0.0
            elif doubt[ahead, c] and fits[VALID, c] != 0.0:
                _mute(marks, clock, c, min(frame + 2 * DIP_FRAMES + 1, end), BY_STIMULATION)
    if frame == pulse[END] - 1 and pulse[LEARNS]:
        counts[slot] += 1


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _judge_template(frame, pulse, fits):  # type: ignore[no-untyped-def]
    """Find the size of this artefact by what the template has left so far; where much is left nothing is subtracted."""
    frames = frame - pulse[HELD] + 1
    for c in range(fits.shape[1]):
        more = fits[CROSS, c] / (fits[SQUARE, c] + f32(1.0 / (SCALE_SD * SCALE_SD)))
        fits[SCALE, c] = f32(1.0) + more
        rest = fits[LEFT, c] - f32(2.0) * more * fits[CROSS, c] + more * more * fits[SQUARE, c]
        if rest > MAX_LEFT * frames or abs(more) > f32(3.0 * SCALE_SD):
            fits[VALID, c] = 0.0
        fits[SCALE, c] *= fits[VALID, c]


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _hold(frame, row, before, marks, blanked, unobserved):  # type: ignore[no-untyped-def]
    """Repeat the samples of the frame before on blanked channels, so that an artefact does not enter the filter."""
    for c in range(len(row)):
        if frame < marks[BLANK_UNTIL, c]:
            row[c] = before[c]
            blanked[c] += 1
            unobserved[c] += 1


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _end_windows(frame, setup, lanes, marks, clock, mains, comb):  # type: ignore[no-untyped-def]
    """Do what ends a window, and a second. The next end is a multiple of the window, whatever the block size."""
    if frame % setup.window == 0:
        _end_window(frame, setup, lanes, marks, clock)
        if setup.mains_hz > 0.0:
            _lock_mains(setup, mains, comb)
    if frame % setup.second == 0:
        _judge_noise(lanes, marks, clock)
    clock[NEXT] = min(
        frame - frame % setup.window + setup.window,
        frame - frame % setup.second + setup.second,
    )


@numba.njit  # type: ignore[untyped-decorator,unused-ignore]
def _search_tiles(frame, row, work, setup, lanes, sums, marks, clock, tiles, y, threshold, found, out):  # type: ignore[no-untyped-def]
    """Search the spikes of one frame in the tiles that have any. Return their number so far."""
    channels = len(y)
    clock[SEARCHING] = 0
    for tile in range(len(tiles)):
        low = tile * TILE
        high = min(low + TILE, channels)
        count = _count_below(y, threshold, low, high)
        if count > 0 or tiles[tile] > 0:
            found, searching = _search(frame, row, work, setup, lanes, sums, marks, clock, low, high, found, out)
            tiles[tile] = searching + count
            clock[SEARCHING] += tiles[tile]
    return found


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator,unused-ignore]
def detect(samples, first_frame, blanks, state, stimulation, out):  # type: ignore[no-untyped-def]
    """Filter a block and append its spikes to `out`. Return their number.

    `state` has the addresses of the detector's arrays. Of these `work` holds the samples before this block, `blanked` the
    blanked frames of each channel, `counts` the muted ones by cause, `unobserved` both. `stimulation` has pulses to come, the
    present one and the templates; with None, which compiles to a function of its own, nothing is subtracted.
    """
    channels = state[CHANNELS]
    if samples.shape[1] != channels:
        raise ValueError("the block has another number of channels than the detector")
    setup = carray(_pointer(state[SETUP_AT]), (1,), SETUP)[0]
    lanes = carray(_pointer(state[LANES_AT]), (LANES, channels), np.float32)
    sums = carray(_pointer(state[SUMS_AT]), (SUMS, channels), np.int32)
    marks = carray(_pointer(state[MARKS_AT]), (MARKS, channels), np.int64)
    clock = carray(_pointer(state[CLOCK_AT]), (CLOCKS,), np.int64)
    mains = carray(_pointer(state[MAINS_AT]), (MAINS,), np.float64)
    comb = carray(_pointer(state[COMB_AT]), (state[BINS], channels), np.float32)
    tiles = carray(_pointer(state[TILES_AT]), ((channels + TILE - 1) // TILE,), np.int64)
    blanked = carray(_pointer(state[BLANKED_AT]), (channels,), np.int64)
    counts = carray(_pointer(state[COUNTS_AT]), (CAUSES, channels), np.int64)
    unobserved = carray(_pointer(state[UNOBSERVED_AT]), (channels,), np.int64)
    past = carray(_pointer(state[PAST_AT]), (state[OLD], channels), np.float32)
    history = setup.long + setup.look + 1
    work = carray(_pointer(state[WORK_AT]), (history + CHUNK, channels), np.int16)
    total, ramp, triangle, hold = sums[TOTAL], sums[RAMP], sums[TRIANGLE], sums[HOLD]
    y, threshold, gate = lanes[Y], lanes[THRESHOLD], lanes[GATE]
    power, moves, used = lanes[POWER], lanes[MOVES], lanes[USED]
    plain = setup.mains_hz > 0.0 and not setup.reference
    turn = 1.0 / setup.rate_hz
    found = 0
    next_blank = next_pulse = 0
    for start in range(0, samples.shape[0], CHUNK):
        size = min(CHUNK, samples.shape[0] - start)
        filled = clock[FILLED]
        if filled + size > len(work):
            _copy(work, filled - history, work, 0, history)
            filled = history
        _copy(samples, start, work, filled, size)
        clock[FILLED] = filled + size
        for k in range(size):
            frame = first_frame + start + k
            row = filled + k
            if next_blank < len(blanks):
                taken = _take_blanks(frame, next_blank, setup, sums, marks, clock, blanks)
                if stimulation is not None and taken > next_blank:
                    stimulation[1][LEARNS] = 0
                next_blank = taken
            if stimulation is not None:
                pulses, pulse, stim = stimulation
                while next_pulse < len(pulses) and pulses[next_pulse, FIRST] <= frame:
                    _begin_pulse(frame, pulses[next_pulse], setup, sums, marks, clock, pulse, stim)
                    next_pulse += 1
            if frame < clock[BLANK_HORIZON]:
                _hold(frame, work[row], work[row - 1], marks, blanked, unobserved)
            fresh = FOLLOWED_WINDOWS <= mains[NEAR] < FOLLOWED_WINDOWS + FRESH_WINDOWS
            wave = comb[min(int(mains[THETA] * len(comb)), len(comb) - 1)]
            if plain and (stimulation is None or frame >= stimulation[1][END]):
                below = _filter_and_count(work, row, setup, total, ramp, triangle, y, wave, gate, fresh, threshold)
            else:
                _filter(work, row, setup, total, ramp, triangle, y)
                if setup.reference:
                    _subtract_median(y, marks)
                if stimulation is not None:
                    _, pulse, stim = stimulation
                    if frame < pulse[END] and pulse[SUBTRACTS] and frame >= pulse[HELD]:
                        _subtract_artefact(frame, y, pulse, stim)
                if setup.mains_hz > 0.0:
                    _subtract_mains(y, wave, gate, fresh)
                if stimulation is not None and frame < stimulation[1][END] and frame >= stimulation[1][HELD]:
                    _, pulse, stim = stimulation
                    _learn_artefact(frame, setup, lanes, marks, clock, pulse, stim)
                below = _count_below(y, threshold, 0, len(y))
            if below > clock[ENOUGH]:
                clock[MANY] = frame
                if frame < clock[COMMON]:
                    _reject_artefact(frame, setup, sums, marks, clock)
            if below > 0 or clock[SEARCHING] > 0:
                many = frame - clock[MANY] <= MANY_FRAMES and _trough_ends(frame, setup, lanes, marks)
                if many and _is_common(frame, setup, lanes, marks, past):
                    _reject_artefact(frame, setup, sums, marks, clock)
                found = _search_tiles(
                    frame, row, work, setup, lanes, sums, marks, clock, tiles, y, threshold, found, out
                )
            if frame % EVERY == 0:
                if _any_at_rail(work, row, setup.rail):
                    _find_rails(frame, work[row], setup, sums, marks, clock)
                if setup.mains_hz > 0.0:
                    _follow_mains(work, row, setup, mains)
                slot = (frame // EVERY) % len(past)
                _add_power(work, row, f32(setup.uv), y, past, slot, threshold, power, moves, used, hold)
                if frame < clock[HORIZON] or clock[NOISY_COUNT] > 0:
                    _count_muted(frame, marks, clock, counts, unobserved)
                if frame >= clock[NEXT]:
                    _end_windows(frame, setup, lanes, marks, clock, mains, comb)
            mains[THETA] += mains[HZ] * turn
            mains[THETA] -= math.floor(mains[THETA])
    return found
