"""The stimulation governor: says of every request whether the tissue may receive it, and why not.

`decide` is pure: no clock, no input or output, nothing remembered. Each check may only refuse; a refusal
lists every reason that was found and names the most limiting. Who has no permission, or asks for a time beyond
the next seconds, receives no reasons about budgets: so no request costs more than looking a few seconds ahead. What is
accepted keeps the whole envelope even if each pulse comes as late as its tolerance allows (N1). All times are
frames of the array.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from nerves.bookings import STRETCH_S, Booking, Bookings, SlidingBudget
from nerves.cards.contract import ArrayInfo, Impedance, Phase, apart
from nerves.envelope import (
    MAX_PHASES,
    MAX_REVERSALS,
    UNLIMITED,
    AgentBudget,
    Envelope,
    disc_area_cm2,
    one_sided_nc,
    shannon_k,
)
from nerves.permit import OPEN, ORDINARY, Permit

TOLERANCE_S = 0.001
"""How late a pulse may come when its asker names a frame but no latest one."""

SOON_TOLERANCE_S = 0.005
"""The same when it is to come as soon as possible."""

_GRID_TOLERANCE = 1e-6
_MAX_FRAME = 1 << 53
_ABSURD = 1e6

LoopTier = Literal["engine", "uploaded", "remote"]
"""Where a decision to stimulate was made: in the engine itself, in an uploaded reflex, or by an agent over gRPC."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a client requests: the same pulse on each of `electrodes`, `pulses` times, every `period_frames`.

    `at_frame` 0 means as soon as possible. `not_after` is the latest frame at which the first pulse may
    begin (0: 1 ms after `at_frame`, more on a card without deadlines); later pulses have the same tolerance.
    """

    requester: str
    lease: str
    electrodes: tuple[int, ...]
    phases: tuple[Phase, ...]
    at_frame: int = 0
    not_after: int = 0
    pulses: int = 1
    period_frames: int = 0
    purpose: str = ""
    fence: int = 0
    """The lease's fencing token; 0 leaves it out of account."""
    idempotency_key: str = ""
    """The requester's name for this request (see :mod:`nerves.repeats`)."""
    budget: AgentBudget = UNLIMITED
    """The requester's own budget; its credential says it, never the request on the wire."""
    tier: LoopTier = "remote"
    """Which loop it closes; kept in the ledger."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Explains a refusal: the limit's name, a sentence for people, and how far beyond the limit the request is (1 = at it,
    inf = forbidden).
    """

    limit: str
    text: str
    excess: float = math.inf


@dataclass(frozen=True, slots=True)
class StimulationDecision:
    """Accepted with a plan, or refused with reasons."""

    accepted: bool
    reasons: tuple[Reason, ...] = ()
    starts: tuple[int, ...] = ()
    """The frames at which the pulses are to begin."""
    tolerance: int = 0
    """How many frames later than its start each pulse may begin."""
    length: int = 0
    """Frames that one pulse lasts."""
    charge_nc: float = 0.0
    """Charge that one pulse moves: the sum of the magnitudes of its phases."""

    @property
    def limiting(self) -> str | None:
        """The name of the most limiting reason."""
        return max(self.reasons, key=lambda reason: reason.excess).limit if self.reasons else None


@dataclass(frozen=True, slots=True)
class GovernorView:
    """Holds everything on which the governor decides, as of one instant: `next_frame` is the first not yet read."""

    next_frame: int
    info: ArrayInfo
    impedances: Sequence[Impedance | None]
    lease_electrodes: frozenset[int] | None
    """The electrodes of the requester's living lease of that name; None when there is none."""
    bookings: Bookings
    pending: int
    response_lost: bool
    inhibited: str = ""
    """Why no stimulation is possible at all at this moment, such as a ledger that cannot be written."""
    permit: Permit = ORDINARY
    """What age and review of the organoid allow."""
    fence: int = 0
    """The fencing token of that lease."""
    ahead_s: float = math.inf
    """How far ahead a pulse may lie, if less than the envelope allows: nothing would tell that the requester has died."""


def decide(request: Request, view: GovernorView, envelope: Envelope) -> StimulationDecision:
    """Accept or refuse `request`. Refusals of malformed numbers end the examination; without permission, or at
    an impossible time, other pulses and budgets are not looked at; all other reasons are gathered.
    """
    malformed = tuple(_malformed(request, view, envelope))
    if malformed:
        return StimulationDecision(False, malformed)
    rate = view.info.sample_rate_hz
    length = max(1, math.ceil(math.fsum(phase.duration_us for phase in request.phases) * 1e-6 * rate))
    charge_nc = math.fsum(abs(phase.charge_nc) for phase in request.phases)
    earliest = view.next_frame + view.info.lead_frames
    at_frame = request.at_frame or earliest
    tolerance = _tolerance(request, at_frame, view.info)
    starts = tuple(at_frame + k * request.period_frames for k in range(request.pulses))
    permission = tuple(_permission(request, view))
    time = tuple(_time(starts, tolerance, earliest, view, envelope))
    reasons = [
        *permission,
        *_together(request, view.info),
        *_waveform(request.phases, view.info, envelope),
        *_electrodes(request, starts[-1] + tolerance, view, envelope),
        *time,
    ]
    if not (permission or time):  # now every start lies within `ahead_s`, and the work is bounded
        reasons += _neighbours(request, starts, tolerance, length, view, envelope)
        reasons += _budgets(request, starts, charge_nc, view, envelope)
        reasons += _welfare(starts, tolerance, len(request.electrodes) * charge_nc, view, envelope)
        reasons += _permitted(request, starts, tolerance, view)
    if reasons:
        return StimulationDecision(False, tuple(reasons))
    return StimulationDecision(True, (), starts, tolerance, length, charge_nc)


def _tolerance(request: Request, at_frame: int, info: ArrayInfo) -> int:
    """Return how many frames late the first pulse may begin."""
    if request.not_after:
        return request.not_after - at_frame
    usual = round((TOLERANCE_S if request.at_frame else SOON_TOLERANCE_S) * info.sample_rate_hz)
    return max(usual, _jitter(info))


def _jitter(info: ArrayInfo) -> int:
    """Return how many frames late the card may begin a pulse."""
    return math.ceil(info.jitter_us * 1e-6 * info.sample_rate_hz)


def book(request: Request, decision: StimulationDecision, bookings: Bookings) -> None:
    """Enter an accepted request, so that the next decision counts it."""
    pulses = [
        Booking(start, start + decision.tolerance + decision.length, electrode, decision.charge_nc)
        for start in decision.starts
        for electrode in request.electrodes
    ]
    bookings.add(request.requester, pulses, decision.tolerance)


def _malformed(request: Request, view: GovernorView, envelope: Envelope) -> Iterator[Reason]:
    """Yield what makes a request meaningless: values that are no numbers, counts that would cost unbounded work."""
    yield from _malformed_electrodes(request, view.info)
    yield from _malformed_phases(request.phases)
    yield from _malformed_times(request)
    limit = envelope.pulses_per_request
    if not _whole(request.pulses, 1, limit) or request.pulses * len(request.electrodes) > limit:
        yield Reason("request", f"pulses times electrodes must be 1 to {limit} in one request; ask for less at a time")
    if not _whole(request.period_frames, 0, _MAX_FRAME):
        yield Reason("request", f"period is {request.period_frames!r} frames; give a whole number")
    elif request.pulses != 1 and request.period_frames == 0:
        yield Reason("request", "several pulses need a period; give the frames from one to the next")
    if view.inhibited:
        yield Reason("engine", view.inhibited)


def _malformed_electrodes(request: Request, info: ArrayInfo) -> Iterator[Reason]:
    if not request.electrodes:
        yield Reason("request", "no electrode is named; name at least one")
    if len(set(request.electrodes)) != len(request.electrodes):
        yield Reason("request", "an electrode is named twice; name each once")
    for electrode in request.electrodes[: info.electrodes + 1]:
        if not _whole(electrode, 0, info.electrodes - 1):
            yield Reason(
                "request",
                f"there is no electrode {electrode!r}; this array has 0 to {info.electrodes - 1}",
            )
            return


def _malformed_phases(phases: Sequence[Phase]) -> Iterator[Reason]:
    if not 2 <= len(phases) <= MAX_PHASES:
        yield Reason("waveform", f"{len(phases)} phases; give 2 to {MAX_PHASES}, pauses (0 µA) included")
    for phase in phases[:MAX_PHASES]:
        if not (_finite(phase.duration_us) and _finite(phase.current_ua)):
            yield Reason("waveform", "a duration or current is not a finite number")
            return
        if abs(phase.duration_us) > _ABSURD or abs(phase.current_ua) > _ABSURD:
            yield Reason("waveform", f"{phase.duration_us:g} µs at {phase.current_ua:g} µA is beyond any stimulator")
            return


def _malformed_times(request: Request) -> Iterator[Reason]:
    for name, value in (("at_frame", request.at_frame), ("not_after", request.not_after)):
        if not _whole(value, 0, _MAX_FRAME):
            yield Reason("request", f"{name} is {value!r}; give a frame number, or 0")


def _permission(request: Request, view: GovernorView) -> Iterator[Reason]:
    if view.lease_electrodes is None:
        yield Reason("lease", f"“{request.lease}” is no living lease of {request.requester}; acquire one and renew it")
        return
    foreign = sorted(set(request.electrodes) - view.lease_electrodes)
    if foreign:
        yield Reason("lease", f"the lease does not hold electrode {_names(foreign)}; acquire one that does")
    if request.fence and request.fence != view.fence:
        yield Reason(
            "fence", f"fence {request.fence} is not that of the lease, {view.fence}; an earlier holder's request?"
        )


def _together(request: Request, info: ArrayInfo) -> Iterator[Reason]:
    """Yield why the card cannot begin the pulses of several electrodes in one frame."""
    why = apart(info) if len(request.electrodes) > 1 else ""
    if why:
        yield Reason("together", f"{why}; ask for one electrode at a time")


def _waveform(phases: Sequence[Phase], info: ArrayInfo, envelope: Envelope) -> Iterator[Reason]:
    """Yield what is wrong with one pulse: polarity, balance, charge, density, Shannon's k, current and timing."""
    active = [phase for phase in phases if phase.current_ua != 0.0]
    if len(active) < 2 or phases[0].current_ua == 0.0 or phases[-1].current_ua == 0.0:
        yield Reason("waveform", "a pulse begins and ends with a phase with current; pauses are between two of them")
        return
    if any(first.current_ua == second.current_ua == 0.0 for first, second in pairwise(phases)):
        yield Reason("waveform", "two pauses follow each other; make them one")
    if len(active) > info.max_phases:
        text = f"{len(active)} phases with current; {info.name} drives at most {info.max_phases} in a pulse"
        yield Reason("waveform", text, len(active) / info.max_phases)
    first = active[0]
    reversals = sum((a.current_ua < 0) != (b.current_ua < 0) for a, b in pairwise(active))
    if not reversals:
        yield Reason("polarity", "all phases have the same sign; others must take back what the first gave")
    if reversals > MAX_REVERSALS:
        text = f"the current changes its sign {reversals} times; at most {MAX_REVERSALS} times in a pulse: ask for two pulses"
        yield Reason("waveform", text, reversals / MAX_REVERSALS)
    if envelope.negative_first and first.current_ua > 0:
        yield Reason("polarity", f"the first phase is {first.current_ua:+g} µA; on {info.material} it must be negative")
    for phase in phases:
        yield from _phase(phase, info, envelope)
    lasts_us = math.fsum(phase.duration_us for phase in phases)
    yield from _over("pulse_duration", "the pulse lasts", lasts_us, envelope.pulse_us_max, "µs")
    yield from _charges(phases, active, info, envelope)


def _phase(phase: Phase, info: ArrayInfo, envelope: Envelope) -> Iterator[Reason]:
    """Yield what is wrong with the duration of a phase, and with its place on the array's grid."""
    shortest = envelope.phase_us_min
    longest = envelope.phase_us_max if phase.current_ua else envelope.pause_us_max
    if phase.duration_us < shortest:
        excess = shortest / phase.duration_us if phase.duration_us > 0 else math.inf
        yield Reason("phase_duration", f"a phase of {phase.duration_us:g} µs; at least {shortest:g} µs", excess)
    yield from _over("phase_duration", "a phase lasts", phase.duration_us, longest, "µs")
    if not _on_grid(phase.duration_us, info.time_step_us):
        yield Reason(
            "grid",
            f"{phase.duration_us:g} µs is no multiple of the array's step of {info.time_step_us:g} µs",
        )
    if not _on_grid(phase.current_ua, info.current_step_ua):
        yield Reason(
            "grid",
            f"{phase.current_ua:g} µA is no multiple of the array's step of {info.current_step_ua:g} µA",
        )


def _charges(phases: Sequence[Phase], active: Sequence[Phase], info: ArrayInfo, envelope: Envelope) -> Iterator[Reason]:
    """Yield what is wrong with current, charge, charge density, net charge and Shannon's k of a pulse."""
    area = disc_area_cm2(info.diameter_um)
    current = max(abs(phase.current_ua) for phase in active)
    charge = one_sided_nc([phase.charge_nc for phase in phases])
    net_pc = abs(math.fsum(phase.charge_nc for phase in phases)) * 1000.0
    allowed_pc = max(envelope.net_share * charge * 1000.0, envelope.net_pc)
    yield from _over("current", "the current is", current, envelope.current_ua, "µA")
    yield from _over("charge", "the charge before it is taken back is", charge, envelope.charge_nc, "nC")
    yield from _over("density", "the charge density is", charge * 1e-3 / area, envelope.density_uc_cm2, "µC/cm²")
    yield from _over("net_charge", "what stays in the tissue is", net_pc, allowed_pc, "pC")
    k = shannon_k(charge, area)
    if not k <= envelope.shannon_k:
        yield Reason(
            "shannon_k",
            f"Shannon's k is {k:.2f}, the limit {envelope.shannon_k:g}",
            10 ** (k - envelope.shannon_k),
        )


def _electrodes(request: Request, last: int, view: GovernorView, envelope: Envelope) -> Iterator[Reason]:
    """Yield a reason for each electrode whose impedance is unknown, out of range, or old by the frame of the `last` pulse,
    or that would need too high a voltage (N2).
    """
    ahead_s = min(max(0.0, (last - view.next_frame) / view.info.sample_rate_hz), envelope.ahead_s)
    current = max(abs(phase.current_ua) for phase in request.phases)
    limit_v = min(envelope.voltage_v, view.info.compliance_v)
    for electrode in request.electrodes:
        impedance = view.impedances[electrode] if electrode < len(view.impedances) else None
        if impedance is None or not math.isfinite(impedance.kohm):
            yield Reason("impedance", f"the impedance of electrode {electrode} is not known; measure it")
            continue
        age_s = (view.next_frame - impedance.at_frame) / view.info.sample_rate_hz
        if not 0 <= age_s <= envelope.impedance_age_s - ahead_s:
            yield Reason(
                "impedance",
                f"electrode {electrode} was last measured {age_s:.0f} s ago; measure again",
            )
        low, high = envelope.impedance_kohm_min, envelope.impedance_kohm_max
        if not low <= impedance.kohm <= high:
            yield Reason(
                "impedance",
                f"electrode {electrode} has {impedance.kohm:g} kΩ, outside {low:g} to {high:g} kΩ",
            )
            continue
        volts = current * impedance.kohm * 1e-3
        yield from _over("voltage", f"electrode {electrode} would need", volts, limit_v, "V")


def _time(
    starts: Sequence[int], tolerance: int, earliest: int, view: GovernorView, envelope: Envelope
) -> Iterator[Reason]:
    rate = view.info.sample_rate_hz
    if starts[0] < earliest:
        yield Reason("time", f"frame {starts[0]} is past or too near; the earliest possible is {earliest}")
    if tolerance < 0:
        yield Reason("time", f"not_after lies before frame {starts[0]}; the pulse could never be in time")
    elif tolerance < _jitter(view.info):
        yield Reason(
            "jitter",
            f"{view.info.name} has no deadlines and may begin a pulse {_jitter(view.info)} frames late; this one may be"
            f" late by {tolerance}; allow more (not_after), or use a card with deadlines",
        )
    yield from _over("tolerance", "the pulse may be late by", tolerance / rate, envelope.tolerance_s, "s")
    ahead_s = (starts[-1] - view.next_frame) / rate
    yield from _over("ahead", "the last pulse lies ahead by", ahead_s, envelope.ahead_s, "s")
    if envelope.ahead_s >= ahead_s > view.ahead_s:
        yield Reason(
            "ahead",
            f"the last pulse lies ahead by {ahead_s:.4g} s, the limit without a heartbeat {view.ahead_s:g} s; hold the lease"
            " (HoldLease), or wait for the outcome",
            ahead_s / view.ahead_s,
        )


def _neighbours(
    request: Request, starts: Sequence[int], tolerance: int, length: int, view: GovernorView, envelope: Envelope
) -> Iterator[Reason]:
    """Yield what is too close: pulses of one electrode, electrodes at once, pulses pending."""
    yield from _rate(request, starts, tolerance, view, envelope)
    mine = set(request.electrodes)
    at_once = max(len(mine | view.bookings.together(start, start + tolerance + length)) for start in starts)
    if at_once > envelope.at_once:
        yield Reason(
            "at_once",
            f"{at_once} electrodes might be stimulated together; at most {envelope.at_once}",
            at_once / envelope.at_once,
        )
    pending = view.pending + len(starts) * len(request.electrodes)
    yield from _over("pending", "pulses pending would be", pending, envelope.pending, "")


def _rate(
    request: Request, starts: Sequence[int], tolerance: int, view: GovernorView, envelope: Envelope
) -> Iterator[Reason]:
    """Yield pulses that come too soon after another one on the same electrode."""
    apart = math.ceil(view.info.sample_rate_hz / envelope.rate_hz)
    own = request.period_frames - tolerance
    if request.pulses > 1 and own < apart:
        yield Reason(
            "rate",
            f"pulses may come {max(own, 0)} frames apart (period less tolerance); at least {apart}",
            apart / own if own > 0 else math.inf,
        )
    for electrode in request.electrodes:
        found = [view.bookings.distance(electrode, start, start + tolerance) for start in starts]
        nearest = min((distance for distance in found if distance is not None), default=apart)
        if nearest < apart:
            yield Reason(
                "rate",
                f"electrode {electrode} has another pulse {max(nearest, 0)} frames away; at least {apart}",
                apart / nearest if nearest > 0 else math.inf,
            )


def _budgets(
    request: Request, starts: Sequence[int], charge_nc: float, view: GovernorView, envelope: Envelope
) -> Iterator[Reason]:
    """Yield a reason for each budget that is exceeded: charge a second and pulses a minute, of an electrode, the requester
    or the organoid.
    """
    count = len(request.electrodes)
    bookings = view.bookings
    scopes = [
        (
            f"electrode {electrode}",
            bookings.of_electrode(electrode),
            1,
            envelope.electrode_nc_s,
            envelope.electrode_pulses_min,
        )
        for electrode in request.electrodes
    ]
    mine = bookings.of_requester(request.requester)
    own = request.budget
    max_nc_s, max_pulses_min = (
        min(envelope.requester_nc_s, own.nc_s),
        min(envelope.requester_pulses_min, own.pulses_min),
    )
    scopes.append((request.requester, mine, count, max_nc_s, max_pulses_min))
    scopes.append(("the organoid", bookings.organoid, count, envelope.organoid_nc_s, envelope.organoid_pulses_min))
    for who, scope, times, max_nc, max_pulses in scopes:
        charge: defaultdict[int, float] = defaultdict(float)
        pulses: defaultdict[int, float] = defaultdict(float)
        for start in starts:
            charge[scope.charge.bin_of(start)] += charge_nc * times
            pulses[scope.pulses.bin_of(start)] += times
        fullest = scope.charge.fullest(charge, max_nc)
        yield from _over("charge_budget", f"{who} would receive in one second", fullest, max_nc, "nC")
        fullest = scope.pulses.fullest(pulses, max_pulses)
        yield from _over("pulse_budget", f"{who} would receive in one minute", fullest, max_pulses, "pulses")


def _new_bins(starts: Sequence[int], tolerance: int, budget: SlidingBudget) -> dict[int, float]:
    """Return the bins, not stimulated so far, in which pulses may begin, be they in time or as late as they may come."""
    bins = {budget.bin_of(frame) for start in starts for frame in (start, start + tolerance)}
    return {b: 1.0 for b in sorted(bins) if not budget.holds(b)}


def _welfare(
    starts: Sequence[int], tolerance: int, charge_nc: float, view: GovernorView, envelope: Envelope
) -> Iterator[Reason]:
    """Rest, duty, load and loss of response (N9); `charge_nc` is that of all electrodes at one start."""
    seconds = view.bookings.seconds
    new = _new_bins(starts, tolerance, seconds)
    limit_s = envelope.duty * 3600.0
    yield from _over("duty", "seconds with stimulation in an hour would be", seconds.fullest(new, limit_s), limit_s, "")
    mine = {seconds.bin_of(frame) for start in starts for frame in (start, start + tolerance)}
    first, last = view.bookings.session_with(mine)
    length_s = last - first + 1
    if length_s > envelope.session_s:
        yield Reason(
            "rest",
            f"{length_s} s of stimulation without a rest of {envelope.rest_s:g} s; let the tissue rest",
            length_s / envelope.session_s,
        )
    hour = view.bookings.hour
    charge: defaultdict[int, float] = defaultdict(float)
    for start in starts:
        charge[hour.bin_of(start)] += charge_nc
    fullest = hour.fullest(charge, envelope.organoid_nc_h)
    yield from _over("load", "the organoid would receive in one hour", fullest, envelope.organoid_nc_h, "nC")
    day = view.bookings.day
    stretches = _new_bins(starts, tolerance, day)
    most = envelope.day_h * 3600.0 / STRETCH_S
    fullest = day.fullest(stretches, most) * STRETCH_S / 3600.0
    yield from _over("day", "hours of 24 with stimulation would be", fullest, envelope.day_h, "h")
    if view.response_lost:
        yield Reason("response", f"the tissue hardly answers any more; let it rest for {envelope.rest_s:g} s")


def _permitted(request: Request, starts: Sequence[int], tolerance: int, view: GovernorView) -> Iterator[Reason]:
    """Yield a reason for each limit of the tissue's permit that is exceeded (N9), with why it permits no more."""
    level, why = view.permit.level, view.permit.reason
    if level is OPEN:
        return
    if level.duty <= 0.0:
        yield Reason("review", f"no stimulation is allowed: {why}")
        return
    charge = one_sided_nc([phase.charge_nc for phase in request.phases])
    text = f"at the {level.name} level the charge before it is taken back is"
    for reason in _over("review", text, charge, level.charge_nc, "nC"):
        yield Reason(reason.limit, f"{reason.text}: {why}", reason.excess)
    seconds = view.bookings.seconds
    new = _new_bins(starts, tolerance, seconds)
    most = level.duty * 3600.0
    fullest = seconds.fullest(new, most)
    text = f"at the {level.name} level seconds with stimulation in an hour would be"
    for reason in _over("review", text, fullest, most, ""):
        yield Reason(reason.limit, f"{reason.text}: {why}", reason.excess)


def _over(limit: str, what: str, value: float, most: float, unit: str) -> Iterator[Reason]:
    if not value <= most:  # also true for NaN
        yield Reason(
            limit,
            f"{what} {value:.4g} {unit}, the limit {most:g} {unit}".replace(" ,", ",").rstrip(),
            value / most,
        )


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _on_grid(value: float, step: float) -> bool:
    """Return whether the array can make `value` exactly; a value that would be rounded to zero is not on the grid, unless
    it is zero.
    """
    ratio = value / step
    return abs(ratio - round(ratio)) <= _GRID_TOLERANCE * max(1.0, abs(ratio)) and (value == 0 or round(ratio) != 0)


def _names(electrodes: Sequence[int]) -> str:
    return ", ".join(str(electrode) for electrode in electrodes)
