"""The governor: nothing it accepts breaks the envelope, for any requester and any request (N1, N2, N9)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nerves.bookings import Bookings, SlidingBudget
from nerves.cards.contract import ArrayInfo, Impedance, Phase, apart
from nerves.envelope import HARD, Envelope, one_sided_nc, shannon_k
from nerves.governor import GovernorView, Request, StimulationDecision, book, decide
from nerves.permit import GENTLE, Permit

RATE = 25_000
INFO = ArrayInfo(
    name="test array",
    electrodes=8,
    sample_rate_hz=float(RATE),
    uv_per_unit=0.195,
    material="Pt",
    diameter_um=30.0,
    block_frames=25,
    lead_frames=5,
    time_step_us=20.0,
    current_step_ua=0.01,
    compliance_v=7.0,
    simulated=True,
    skew_us=0.0,
    max_phases=5,
)
GOOD = (Phase(200.0, -1.0), Phase(200.0, 1.0))
TIGHT = Envelope(
    rate_hz=100.0,
    at_once=3,
    electrode_nc_s=3.0,
    requester_nc_s=6.0,
    organoid_nc_s=8.0,
    electrode_pulses_min=30.0,
    requester_pulses_min=50.0,
    organoid_pulses_min=70.0,
    session_s=6.0,
    rest_s=4.5,
    duty=0.003,
    pending=40,
)


def view(next_frame: int = 1_000, bookings: Bookings | None = None, **changes: object) -> GovernorView:
    base = GovernorView(
        next_frame=next_frame,
        info=INFO,
        impedances=[Impedance(220.0, 0)] * 8,
        lease_electrodes=frozenset(range(8)),
        bookings=bookings or Bookings(RATE, Envelope().rest_s),
        pending=0,
        response_lost=False,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def ask(phases: tuple[Phase, ...] = GOOD, electrodes: tuple[int, ...] = (0,), **changes: object) -> Request:
    return replace(Request("agent", "lease-1", electrodes, phases), **changes)  # type: ignore[arg-type]


def limits(decision: StimulationDecision) -> set[str]:
    return {reason.limit for reason in decision.reasons}


def test_a_modest_balanced_pulse_is_accepted() -> None:
    decision = decide(ask(), view(), Envelope())
    assert decision.accepted
    assert decision.reasons == ()
    assert decision.starts == (1_005,)
    assert decision.charge_nc == pytest.approx(0.4)


TRIPHASIC = (Phase(100, -1.0), Phase(200, 1.0), Phase(100, -1.0))
STEPS = (Phase(60, -1.0), Phase(60, -0.5), Phase(40, 0.0), Phase(60, 0.75), Phase(60, 0.5), Phase(60, 0.25))


PAUSED = (Phase(60, -1.0), Phase(40, 0.0), Phase(60, -1.0), Phase(40, 0.0), Phase(120, 1.0))


@pytest.mark.parametrize("phases", [TRIPHASIC, STEPS, PAUSED])
def test_waveforms_of_several_phases_are_accepted_where_the_card_drives_them(phases: tuple[Phase, ...]) -> None:
    decision = decide(ask(phases), view(), Envelope())
    assert decision.accepted, decision.reasons
    assert decision.charge_nc == pytest.approx(sum(abs(phase.charge_nc) for phase in phases))
    assert decision.length == math.ceil(sum(phase.duration_us for phase in phases) * 1e-6 * RATE)
    of_two = decide(ask(phases), view(info=replace(INFO, max_phases=2)), Envelope())
    assert [reason.limit for reason in of_two.reasons] == ["waveform"]
    assert "drives at most 2" in of_two.reasons[0].text


@pytest.mark.parametrize(
    ("phases", "limit"),
    [
        ((Phase(200, -1.0), Phase(200, 0.5)), "net_charge"),
        ((Phase(200, -1.0), Phase(220, 1.0)), "net_charge"),
        ((Phase(200, -1.0), Phase(200, -1.0)), "polarity"),
        ((Phase(200, 1.0), Phase(200, -1.0)), "polarity"),
        ((Phase(200, -1.0),), "waveform"),
        ((Phase(200, -1.0), Phase(200, 0.0)), "waveform"),
        ((Phase(200, 0.0), Phase(200, -1.0), Phase(200, 1.0)), "waveform"),
        ((Phase(200, -1.0), Phase(200, 1.0), Phase(200, 0.0)), "waveform"),
        ((Phase(200, -1.0), Phase(400, 1.0), Phase(200, -1.0)), "density"),
        ((Phase(200, -1.0), Phase(60, 0.0), Phase(200, -1.0), Phase(400, 1.0)), "density"),
        ((Phase(300, -1.0), Phase(20, 0.1), Phase(300, -1.0), Phase(300, 1.99), Phase(20, 0.05)), "density"),
        ((Phase(300, -1.0), Phase(300, 1.0), Phase(60, 0.0), Phase(300, 1.0), Phase(300, -1.0)), "density"),
        ((Phase(100, -1.0), Phase(100, 1.0)) * 2, "waveform"),
        ((Phase(100, -1.0), Phase(60, 0.0), Phase(60, 0.0), Phase(100, 1.0)), "waveform"),
        ((Phase(20, -0.5), Phase(20, 0.5)) * 4, "waveform"),
        ((Phase(400, -0.2), Phase(400, -0.2), Phase(360, 0.2), Phase(440, 0.2)), "pulse_duration"),
        (
            (Phase(100, -1.0), *(Phase(500, 0.0), Phase(20, -0.1)) * 2, Phase(500, 0.0), Phase(104, 1.0)),
            "pulse_duration",
        ),
        ((Phase(100, -1.0), Phase(200, 1.5), Phase(100, -1.0)), "net_charge"),
        ((Phase(200, 0.0), Phase(200, 0.0)), "waveform"),
        ((Phase(500, -3.0), Phase(500, 3.0)), "charge"),
        ((Phase(500, -1.0), Phase(500, 1.0)), "density"),
        ((Phase(60, -4.0), Phase(60, 4.0)), "current"),
        ((Phase(60, -1.0), Phase(60, -1.0), Phase(40, 3.2)), "current"),
        ((Phase(60, -1.0), Phase(60, -0.5), Phase(60, 0.5), Phase(520, 0.1)), "phase_duration"),
        ((Phase(60, -1.0), Phase(60, -1.0), Phase(60, 1.0), Phase(40, 1.0)), "net_charge"),
        ((Phase(60, -1.0), Phase(60, -1.0), Phase(60, 1.0), Phase(math.nan, 1.0)), "waveform"),
        ((Phase(10, -1.0), Phase(10, 1.0)), "phase_duration"),
        ((Phase(520, -0.1), Phase(520, 0.1)), "phase_duration"),
        ((Phase(200, -1.0), Phase(520, 0.0), Phase(200, 1.0)), "phase_duration"),
        ((Phase(-200, -1.0), Phase(-200, 1.0)), "phase_duration"),
        ((Phase(0, -1.0), Phase(0, 1.0)), "phase_duration"),
        ((Phase(210, -1.0), Phase(210, 1.0)), "grid"),
        ((Phase(200, -0.005), Phase(200, 0.005)), "grid"),
        ((Phase(math.nan, -1.0), Phase(200, 1.0)), "waveform"),
        ((Phase(200, -math.inf), Phase(200, math.inf)), "waveform"),
        ((Phase(200, math.nan), Phase(200, math.nan)), "waveform"),
        ((Phase(1e308, -1e308), Phase(1e308, 1e308)), "waveform"),
        ((Phase(200, -5e-324), Phase(200, 5e-324)), "grid"),
        ((), "waveform"),
    ],
)
def test_N1_each_bad_waveform_is_refused_with_its_reason(phases: tuple[Phase, ...], limit: str) -> None:
    decision = decide(ask(phases), view(), Envelope())
    assert not decision.accepted
    assert limit in limits(decision)
    assert decision.limiting in limits(decision)
    assert all(reason.text for reason in decision.reasons)


@pytest.mark.parametrize(
    ("charges_nc", "largest_nc"),
    [
        ((), 0.0),
        ((-3.0, 3.0), 3.0),
        ((-2.0, 3.0), 3.0),
        ((2.0, -3.0), 3.0),
        ((-1.0, 0.0, -2.0, 3.0), 3.0),
        ((-2.0, 2.0, 0.0, 2.0, -2.0), 4.0),
        ((2.0, -2.0, -2.0, 2.0), 4.0),
        ((-3.0, 1.0, -3.0), 5.0),
        ((3.0, -1.0, 3.0), 5.0),
        ((-2.0, 2.0, 0.0, -1.0), 2.0),
    ],
)
def test_N1_charge_counts_until_it_is_taken_back(charges_nc: tuple[float, ...], largest_nc: float) -> None:
    assert one_sided_nc(charges_nc) == largest_nc


def test_N9_a_review_limits_the_charge_of_all_phases_of_one_side_together() -> None:
    phases = (Phase(60, -1.0), Phase(60, 1.0), Phase(60, 1.0), Phase(60, -1.0))
    gentle = view(permit=Permit(2, GENTLE, "it is old"))
    assert limits(decide(ask(phases), gentle, Envelope())) == {"review"}
    assert decide(ask(phases), view(), Envelope()).accepted


@pytest.mark.parametrize(
    ("request_", "limit"),
    [
        (ask(electrodes=()), "request"),
        (ask(electrodes=(0, 0)), "request"),
        (ask(electrodes=(8,)), "request"),
        (ask(electrodes=(-1,)), "request"),
        (ask(pulses=0), "request"),
        (ask(pulses=10**9, period_frames=250), "request"),
        (ask(pulses=2), "request"),
        (ask(at_frame=-5), "request"),
        (ask(at_frame=2**70), "request"),
        (ask(at_frame=900), "time"),
        (ask(at_frame=2_000, not_after=1_999), "time"),
        (ask(at_frame=2_000, not_after=2_000 + 251), "tolerance"),
        (ask(at_frame=1_000 + 5 * RATE + 1), "ahead"),
        (ask(pulses=100, period_frames=2_500), "ahead"),
        (ask(pulses=2, period_frames=125, at_frame=2_000, not_after=2_001), "rate"),
    ],
)
def test_N1_each_bad_request_is_refused_with_its_reason(request_: Request, limit: str) -> None:
    decision = decide(request_, view(), Envelope())
    assert not decision.accepted
    assert limit in limits(decision)


def test_N1_every_reason_is_given_and_the_limiting_one_named() -> None:
    decision = decide(ask((Phase(500, -30.0), Phase(500, 30.0))), view(), Envelope())
    assert {"current", "charge", "density", "voltage", "charge_budget"} <= limits(decision)
    assert decision.limiting == "density"  # 2122 of 50 µC/cm²: 42 times, more than any other


@pytest.mark.parametrize(
    ("impedance", "accepted"),
    [
        (None, False),
        (Impedance(math.nan, 0), False),
        (Impedance(8_000.0, 0), False),
        (Impedance(2.0, 0), False),
        (Impedance(220.0, -86_401 * RATE), False),
        (Impedance(220.0, 10**9), False),
        (Impedance(220.0, 0), True),
    ],
)
def test_N2_unknown_stale_or_strange_impedance_refuses(impedance: Impedance | None, accepted: bool) -> None:
    impedances = [Impedance(220.0, 0)] * 7 + [impedance]
    seen = view(impedances=impedances)
    assert decide(ask(electrodes=(7,)), seen, Envelope()).accepted is accepted
    assert decide(ask(electrodes=(6,)), seen, Envelope()).accepted
    if not accepted:
        assert limits(decide(ask(electrodes=(7,)), seen, Envelope())) == {"impedance"}


def test_N2_an_impedance_is_recent_when_the_pulse_comes_not_only_when_it_is_asked_for() -> None:
    seen = view(impedances=[Impedance(220.0, 1_000 - 86_398 * RATE)] * 8)
    assert decide(ask(), seen, Envelope()).accepted
    assert limits(decide(ask(at_frame=1_000 + 3 * RATE), seen, Envelope())) == {"impedance"}


@pytest.mark.parametrize(("skew_us", "why"), [(None, "takes single pulses only"), (41.0, "may begin 41 µs apart")])
def test_a_card_that_cannot_begin_pulses_together_gets_single_ones(skew_us: float | None, why: str) -> None:
    seen = view(info=replace(INFO, skew_us=skew_us))
    refused = decide(ask(electrodes=(0, 1)), seen, Envelope())
    assert limits(refused) == {"together"}
    assert why in refused.reasons[0].text
    assert decide(ask(electrodes=(0,)), seen, Envelope()).accepted
    assert decide(ask(electrodes=(0, 1)), view(info=replace(INFO, skew_us=40.0)), Envelope()).accepted


@pytest.mark.parametrize("rate_hz", [12_500.0, 20_000.0, 25_000.0, 30_000.0, 40_000.0, 1_080.0, 1_091.0, 1_141.0])
def test_a_skew_of_one_frame_is_together_at_every_sample_rate(rate_hz: float) -> None:
    info = replace(INFO, sample_rate_hz=rate_hz, skew_us=1e6 / rate_hz)
    assert not apart(info)
    assert apart(replace(info, skew_us=1.001e6 / rate_hz))


def test_N1_a_card_without_deadlines_gets_no_pulse_that_must_come_sooner_than_it_can() -> None:
    seen = view(info=replace(INFO, jitter_us=5_620.0))  # 140.5 frames
    exact = decide(ask(at_frame=2_000, not_after=2_000), seen, Envelope())
    assert limits(exact) == {"jitter"}
    assert "141 frames late" in exact.reasons[0].text
    assert limits(decide(ask(at_frame=2_000, not_after=2_140), seen, Envelope())) == {"jitter"}
    assert decide(ask(at_frame=2_000, not_after=2_141), seen, Envelope()).tolerance == 141
    assert decide(ask(at_frame=2_000), seen, Envelope()).tolerance == 141
    assert decide(ask(), seen, Envelope()).tolerance == 141
    assert decide(ask(at_frame=2_000, not_after=2_000), view(), Envelope()).accepted


def test_N1_what_a_card_without_deadlines_may_begin_late_is_booked() -> None:
    bookings = Bookings(RATE, Envelope().rest_s)
    seen = view(info=replace(INFO, jitter_us=5_000.0), bookings=bookings)
    first = ask(at_frame=2_000)
    book(first, decide(first, seen, Envelope()), bookings)
    assert limits(decide(ask(at_frame=2_200), seen, Envelope())) == {"rate"}
    assert limits(decide(ask(at_frame=2_249), seen, Envelope())) == {"rate"}
    assert decide(ask(at_frame=2_250), seen, Envelope()).accepted


def test_N2_compliance_follows_from_impedance() -> None:
    seen = view(impedances=[Impedance(460.0, 0)] * 8)
    for phases in ((Phase(100, -2.0), Phase(100, 2.0)), (Phase(60, -1.0), Phase(60, -1.0), Phase(40, 3.0))):
        assert limits(decide(ask(phases), seen, Envelope())) == {"voltage"}


def test_without_a_lease_or_beyond_it_nothing_is_accepted() -> None:
    assert limits(decide(ask(), view(lease_electrodes=None), Envelope())) == {"lease"}
    assert limits(decide(ask(electrodes=(0, 5)), view(lease_electrodes=frozenset({0})), Envelope())) == {"lease"}


def test_N9_lost_response_and_missing_rest_refuse_with_the_reason() -> None:
    assert limits(decide(ask(), view(response_lost=True), Envelope())) == {"response"}
    bookings = Bookings(RATE, 10.0)
    envelope = Envelope(session_s=30.0, rest_s=10.0)
    refused = []
    for second in range(0, 60):
        seen = view(second * RATE + 1, bookings)
        decision = decide(ask(), seen, envelope)
        if decision.accepted:
            book(ask(), decision, bookings)
        else:
            refused.append(second)
            assert limits(decision) == {"rest"}
    assert refused == list(range(30, 40))  # ten seconds without a pulse, then a new session


@pytest.mark.parametrize("ahead_s", [4.96, 59.96])
def test_N9_a_rest_is_that_of_the_delivered_pulses_in_whatever_order_they_are_asked_for(ahead_s: float) -> None:
    envelope = Envelope(ahead_s=60.0)
    bookings = Bookings(RATE, envelope.rest_s)

    def accepted(at_s: float, ahead_s: float = 0.0) -> bool:
        now = round(at_s * RATE)
        request = ask(at_frame=now + round(ahead_s * RATE)) if ahead_s else ask()
        impedances = [Impedance(220.0, now)] * 8
        decision = decide(request, view(now, bookings, impedances=impedances), envelope)
        if decision.accepted:
            book(request, decision, bookings)
        else:
            assert limits(decision) == {"rest"}
        return decision.accepted

    assert all(accepted(second + 0.5) for second in range(1200))
    at_s = 1199.5 + 302.0 - ahead_s
    assert accepted(at_s, ahead_s)  # after a rest
    assert not accepted(at_s)  # it would cut that rest
    assert not accepted(at_s, ahead_s - 2.5)
    assert accepted(at_s, ahead_s - 0.1)  # in the same session


def test_N9_pulses_on_both_sides_of_a_gap_that_a_third_one_fills_are_one_session() -> None:
    envelope = Envelope(session_s=20.0, rest_s=3.0, ahead_s=60.0)
    bookings = Bookings(RATE, envelope.rest_s)
    for ahead_s in (1.0, 6.0, 11.0, 16.0):
        request = ask(at_frame=round(ahead_s * RATE))
        book(request, decide(request, view(1, bookings), envelope), bookings)
    train = ask(
        at_frame=3 * RATE + RATE // 2, pulses=10, period_frames=2 * RATE
    )  # fills every gap, and goes on to 21.5 s
    assert limits(decide(train, view(1, bookings), envelope)) == {"rest"}
    assert decide(replace(train, pulses=9), view(1, bookings), envelope).accepted


def test_N9_duty_of_an_hour_refuses_with_the_reason() -> None:
    bookings = Bookings(RATE, Envelope().rest_s)
    envelope = Envelope(duty=0.01)  # 36 s of each hour
    accepted = 0
    for second in range(60):
        decision = decide(ask(), view(second * RATE + 1, bookings), envelope)
        accepted += decision.accepted
        if decision.accepted:
            book(ask(), decision, bookings)
        else:
            assert limits(decision) == {"duty"}
    assert accepted == 36
    assert decide(ask(), view(3_700 * RATE, bookings), envelope).accepted


@pytest.mark.parametrize("name", sorted(HARD))
def test_no_configuration_exceeds_the_hard_limits(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        replace(Envelope(), **{name: HARD[name] * 1.001})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_an_envelope_of_impossible_numbers_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="charge_nc"):
        Envelope(charge_nc=value)


def test_shannon_k_of_the_worked_examples() -> None:
    """30 µm: 0.1 nC gives −2.85, 3 nC gives 0.10 (the arithmetic of the design's reference)."""
    area = math.pi * (30e-4) ** 2 / 4
    assert shannon_k(0.1, area) == pytest.approx(-2.85, abs=0.01)
    assert shannon_k(3.0, area) == pytest.approx(0.10, abs=0.01)


EDGES = [0.0, -0.0, 5e-324, 1e-12, 20.0, 200.0, 500.0, 500.00000000000006, 1e308, math.inf, -math.inf, math.nan, -1.0]
NUMBERS = st.one_of(st.sampled_from(EDGES), st.floats(), st.integers(1, 25).map(lambda n: n * 20.0))
CURRENTS = st.one_of(st.sampled_from(EDGES), st.floats(), st.integers(-320, 320).map(lambda n: n / 100.0))


HUGE = (Phase(500.0, -30.0), Phase(500.0, 30.0))
"""30 nC a pulse: beyond every budget of charge, so that no sum may stop early."""
FAR = [10**6, 10**9, 2**52]
"""Periods (frames) with which a train reaches from 40 s to millennia ahead."""


KOHM = [220.0, 220.0, 220.0, 220.0, 220.0, 400.0, 8_000.0, None]
"""What the property test's array has: at 400 kΩ the voltage binds before the current, 6 and 7 must never be
used.
"""


@st.composite
def sane(draw: st.DrawFn) -> Request:
    """Near the limits rather than far beyond them, so that much is accepted and budgets are what decides."""
    us = draw(st.integers(1, 10)) * 20.0
    ua = draw(st.integers(1, 240)) / 100.0
    back = draw(st.sampled_from([ua, ua, ua, ua, ua, ua + 0.02]))
    pause = draw(st.sampled_from([(), (), (Phase(100.0, 0.0),)]))
    two = (Phase(us, -ua), *pause, Phase(us, back))
    steps = (Phase(us, -ua / 2), *pause, Phase(us, -ua / 2), Phase(2 * us, ua), Phase(us, -ua), Phase(us, back))
    pulses = draw(st.sampled_from([1, 1, 1, 2, 6]))
    return Request(
        requester=draw(st.sampled_from(["anna", "ben", "cleo"])),
        lease="lease-1",
        electrodes=tuple(
            draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 4, 5, 6]), min_size=1, max_size=3, unique=True))
        ),
        phases=draw(st.sampled_from([two, two, two, steps, (*two, Phase(us, -ua)), (*two, *two)])),
        at_frame=draw(st.sampled_from([0, 0, 3, 6, 30, 300])),
        not_after=draw(st.sampled_from([0, 0, 1, 100, 250, 260])),
        pulses=pulses,
        period_frames=draw(st.sampled_from([249, 275, 350, 600, 10_000])) if pulses > 1 else 0,
    )


WILD = st.builds(
    Request,
    requester=st.sampled_from(["anna", "ben", "cleo"]),
    lease=st.just("lease-1"),
    electrodes=st.lists(st.integers(-1, 8), max_size=4).map(tuple),
    phases=st.one_of(st.lists(st.builds(Phase, NUMBERS, CURRENTS), max_size=8).map(tuple), st.just(HUGE)),
    at_frame=st.sampled_from([0, 5, 30, 300, 100_000, 2**53, 2**70]),
    not_after=st.sampled_from([0, 1, 251, 2**63]),
    pulses=st.sampled_from([0, 1, 12, 10**9]),
    period_frames=st.sampled_from([0, 1, 250, *FAR, 2**63]),
)
PASSED = st.one_of(st.integers(0, 700), st.integers(0, 700), st.sampled_from([20_000, 30_000, 100_000, 140_000]))
"""Frames from one request to the next."""


@contextmanager
def looking_no_further_than(seconds: float) -> Iterator[None]:
    """Every budget is asked about bins that lie at most so far apart, and a bin."""
    fullest = SlidingBudget.fullest

    def watched(budget: SlidingBudget, added: Mapping[int, float], limit: float) -> float:
        if added:
            assert (max(added) - min(added) - 1) * budget._bin_frames <= seconds * RATE
        return fullest(budget, added, limit)

    with patch.object(SlidingBudget, "fullest", watched):
        yield


@pytest.mark.parametrize("period", FAR)
@pytest.mark.parametrize("lease", [frozenset(range(8)), None])
@pytest.mark.parametrize("at_frame", [0, 2**52])
def test_N1_a_train_to_the_end_of_time_costs_no_more_than_the_next_seconds(
    period: int, lease: frozenset[int] | None, at_frame: int
) -> None:
    request = ask(HUGE, pulses=256, period_frames=period, at_frame=at_frame)
    with looking_no_further_than(TIGHT.ahead_s):
        decision = decide(request, view(lease_electrodes=lease), TIGHT)
    assert not decision.accepted
    assert limits(decision) >= {"ahead", "charge", "current"}
    assert ("lease" in limits(decision)) == (lease is None)


def test_without_permission_no_budget_is_looked_at() -> None:
    with patch.object(SlidingBudget, "fullest", side_effect=AssertionError("budgets are not looked at here")):
        decide(ask(HUGE, pulses=20, period_frames=250), view(lease_electrodes=None), TIGHT)


class Counted(dict[int, float]):
    """Amounts by bin that count how often one is asked for."""

    asked = 0

    def get(self, key: int, default: float = 0.0) -> float:  # type: ignore[override]
        self.asked += 1
        return super().get(key, default)


def test_a_budget_looks_at_what_is_booked_and_not_at_the_time_between() -> None:
    budget = SlidingBudget(1, 20)
    budget.add({3: 2.0, 500_000: 1.0})
    added = Counted({0: 1.0, 10**6: 1.0})
    assert budget.fullest(added, 2.5) == 3.0
    assert added.asked <= 4


@given(
    booked=st.dictionaries(st.integers(0, 60), st.integers(1, 9).map(float), max_size=20),
    added=st.dictionaries(st.integers(0, 60), st.integers(1, 9).map(float), min_size=1, max_size=8),
)
def test_the_fullest_window_is_that_of_a_plain_count(booked: dict[int, float], added: dict[int, float]) -> None:
    budget = SlidingBudget(1, 5)  # windows of seven bins: two more than asked
    budget.add(booked)
    windows = [
        sum(booked.get(b, 0.0) + added.get(b, 0.0) for b in range(begin, begin + 7))
        for begin in range(min(added) - 6, max(added) + 1)
    ]
    assert budget.fullest(added, 0.0) == max(windows)


@settings(max_examples=250, deadline=None)
@given(
    asks=st.lists(st.tuples(PASSED, st.one_of(sane(), sane(), sane(), WILD)), min_size=8, max_size=60),
    lateness=st.randoms(use_true_random=False),
)
def test_N1_no_accepted_stimulation_ever_breaks_the_envelope(
    asks: list[tuple[int, Request]], lateness: random.Random
) -> None:
    bookings = Bookings(RATE, TIGHT.rest_s)
    now = 1
    given_: list[Given] = []
    impedances = [None if kohm is None else Impedance(kohm, 0) for kohm in KOHM]
    for passed, ask in asks:
        now += passed
        # Frames are drawn relative to the moment; 0 keeps its meaning.
        at = ask.at_frame and now + ask.at_frame
        request = replace(ask, at_frame=at, not_after=at and ask.not_after and at + ask.not_after)
        pending = sum(pulse.planned >= now for pulse in given_)
        with looking_no_further_than(TIGHT.ahead_s + TIGHT.tolerance_s):
            decision = decide(request, view(now, bookings, pending=pending, impedances=impedances), TIGHT)
        if not decision.accepted:
            assert decision.reasons
            assert decision.limiting
            assert not decision.starts
            continue
        book(request, decision, bookings)
        for start in decision.starts:
            assert start >= now + INFO.lead_frames
            for electrode in request.electrodes:
                late = lateness.randint(0, decision.tolerance)
                given_.append(Given(start, start + late, electrode, request.requester, request.phases))
    _keeps(TIGHT, given_)


@dataclass(frozen=True)
class Given:
    """A pulse as it was really delivered."""

    planned: int
    frame: int
    electrode: int
    requester: str
    phases: tuple[Phase, ...]


def _keeps(envelope: Envelope, pulses: list[Given]) -> None:
    """Count the envelope over what was really delivered; share nothing with the governor."""
    area_cm2 = math.pi * 0.0015**2
    events = []
    for pulse in pulses:
        phases = pulse.phases
        kohm = KOHM[pulse.electrode]
        assert kohm is not None
        assert kohm <= 2_000.0
        charges_nc = [phase.duration_us * phase.current_ua / 1000 for phase in phases if phase.current_ua]
        assert all(math.isfinite(charge) for charge in charges_nc)
        sides_nc = [sum(group) for _, group in groupby(charges_nc, lambda charge: charge > 0)]
        assert 2 <= len(sides_nc) <= 3
        assert sides_nc[0] < 0 < sides_nc[1]
        phase_nc = max(*map(abs, sides_nc), *map(abs, accumulate(charges_nc)))
        assert phase_nc <= 1.0 + 1e-9
        assert phase_nc * 1e-3 / area_cm2 <= 50.0 + 1e-6
        assert math.log10(phase_nc * 1e-3 / area_cm2) + math.log10(phase_nc * 1e-3) <= 1.5
        assert abs(sum(charges_nc)) <= max(0.01 * phase_nc, 0.005) + 1e-9
        assert all(abs(phase.current_ua) <= 3.0 for phase in phases)
        assert all(20.0 <= phase.duration_us <= 500.0 for phase in phases)
        assert max(abs(phase.current_ua) for phase in phases) * kohm <= 900.0 + 1e-9
        length_s = sum(phase.duration_us for phase in phases) * 1e-6
        charge_nc = sum(abs(charge) for charge in charges_nc)
        events.append((pulse.frame / RATE, length_s, pulse.electrode, pulse.requester, charge_nc))
        assert pulse.frame - pulse.planned <= 0.01 * RATE
    events.sort()
    for electrode in range(8):
        mine = [event for event in events if event[2] == electrode]
        assert all(b[0] - a[0] >= 1 / envelope.rate_hz - 1e-9 for a, b in pairwise(mine))
        _budget(mine, envelope.electrode_nc_s, envelope.electrode_pulses_min)
    for who in ("anna", "ben", "cleo"):
        _budget([e for e in events if e[3] == who], envelope.requester_nc_s, envelope.requester_pulses_min)
    _budget(events, envelope.organoid_nc_s, envelope.organoid_pulses_min)
    for begin, _, _, _, _ in events:
        assert len({e[2] for e in events if e[0] <= begin < e[0] + e[1]}) <= envelope.at_once
        hour = {int(e[0]) for e in events if begin <= e[0] < begin + 3600}
        assert len(hour) <= envelope.duty * 3600 + 1
    start = last = None
    for begin, *_ in events:
        if start is None or last is None or begin - last >= envelope.rest_s - 0.01:
            start = begin
        assert begin - start <= envelope.session_s + 0.01
        last = begin


def _budget(events: list[tuple[float, float, int, str, float]], max_nc_s: float, max_per_min: float) -> None:
    for begin, *_ in events:
        assert sum(e[4] for e in events if begin <= e[0] < begin + 1.0) <= max_nc_s + 1e-6
        assert sum(1 for e in events if begin <= e[0] < begin + 60.0) <= max_per_min


def test_N1_the_property_test_meets_its_limits() -> None:
    """The budgets do bind: pulses as fast as allowed are accepted up to the budget, then refused, then
    again.
    """
    bookings = Bookings(RATE, TIGHT.rest_s)
    accepted = []
    for k in range(0, 4 * RATE, 500):
        decision = decide(ask(), view(k + 1, bookings), TIGHT)
        accepted.append(decision.accepted)
        if decision.accepted:
            book(ask(), decision, bookings)
        else:
            assert limits(decision) == {"charge_budget"}
    assert accepted[:7] == [True] * 7  # 3 nC/s of 0.4 nC pulses
    assert not accepted[7]
    assert 7 * 3 <= sum(accepted) <= 7 * 4
