"""The limiter of the card process: pure, and judged here by sums of its own (N1, N3)."""

from __future__ import annotations

import json
import math
import random

import pytest

from nerves.cards.limiter import SECOND_US, LimiterLimits, StimulationLimiter
from nerves.cards.remote import MAX_SAID
from nerves.envelope import DENSITY_UC_CM2, HARD, MAX_PHASES, MAX_REVERSALS, Envelope, disc_area_cm2

LIMITS = LimiterLimits.of("Pt", 30.0)
PULSE = ((200.0, -1.0), (200.0, 1.0))


def limiter(limits: LimiterLimits = LIMITS) -> StimulationLimiter:
    made = StimulationLimiter(limits, 8)
    made.alive(0)
    return made


def admit(made: StimulationLimiter, *phases: tuple[float, float], electrode: int = 0, at_us: int = 0) -> str:
    made.alive(at_us)
    return made.admit(electrode, phases or PULSE, at_us, at_us + 1000, at_us)


@pytest.mark.parametrize(
    ("phases", "why"),
    [
        (((500.0, -3.0), (500.0, 3.0)), "before it is taken back"),
        (((200.0, -1.0), (200.0, 0.9)), "stay in the tissue"),
        (((200.0, -1.0),), "phases"),
        (((200.0, -1.0), *((20.0, 0.0),) * 6, (200.0, 1.0)), "phases"),
        (((200.0, -0.5), (200.0, 0.5), (200.0, -0.5), (200.0, 0.5)), "changes its sign 3 times"),
        (((400.0, -0.5), (20.0, 0.0), (400.0, -0.5), (400.0, 1.0)), "before it is taken back"),
        (((400.0, -0.5), (20.0, 0.0), (400.0, -0.5), (600.0, 0.5), (200.0, 0.5)), "before it is taken back"),
        (((400.0, -0.5), (20.0, 0.1), (400.0, -0.5)), "before it is taken back"),
        (((300.0, -1.0), (300.0, 1.0), (60.0, 0.0), (300.0, 1.0), (300.0, -1.0)), "before it is taken back"),
        (((100.0, -0.7), (100.0, 0.0), (700.0, 0.1)), "must last"),
        (((200.0, -1.0), (float("nan"), 1.0)), "no number"),
        (((200.0, float("inf")), (200.0, 1.0)), "no number"),
        (((0.0, -1.0), (200.0, 1.0)), "must last"),
        (((700.0, -0.1), (700.0, 0.1)), "must last"),
        (((500.0, -0.1), (500.0, -0.1), (500.0, 0.1), (500.0, 0.1)), "lasts 2000 µs"),
        (((100.0, -1.0), (100.0, -1.0)), "stay in the tissue"),
    ],
)
def test_N1_a_pulse_that_could_do_harm_is_refused(phases: tuple[tuple[float, float], ...], why: str) -> None:
    assert why in admit(limiter(), *phases)


def test_N1_three_phases_and_steps_of_balanced_charge_are_admitted() -> None:
    assert admit(limiter(), (100.0, -1.0), (200.0, 1.0), (100.0, -1.0)) == ""
    assert admit(limiter(), (100.0, -1.0), (100.0, -0.5), (60.0, 0.0), (300.0, 0.5)) == ""


def test_N1_a_sound_pulse_is_admitted_and_the_next_one_waits() -> None:
    made = limiter()
    assert admit(made) == ""
    assert "another pulse" in admit(made, at_us=LIMITS.interval_us)  # the first may come 1 ms later
    assert admit(made, electrode=1) == ""
    assert admit(made, at_us=LIMITS.interval_us + 1000) == ""
    assert "no electrode" in admit(made, electrode=8)
    assert "no electrode" in admit(made, electrode=-1)


def test_N3_without_a_sign_of_life_nothing_is_admitted() -> None:
    made = StimulationLimiter(LIMITS, 8)
    assert made.silent(0)
    made.alive(1_000)
    assert not made.silent(1_000 + LIMITS.dead_man_us)
    assert made.silent(1_001 + LIMITS.dead_man_us)
    assert "silent" in made.admit(0, PULSE, 0, 0, 1_001 + LIMITS.dead_man_us)
    made.alive(9_000)
    assert made.admit(0, PULSE, 0, 0, 9_000) == ""


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (LimiterLimits(1_000_000, second_fc=1_000_000), "on electrode"),
        (LimiterLimits(1_000_000, array_second_fc=1_000_000), "on the array"),
        (LimiterLimits(1_000_000, duty_us=1_000), "would be stimulated"),
    ],
)
def test_N1_each_budget_of_a_second_ends_and_returns(limits: LimiterLimits, why: str) -> None:
    made = limiter(limits)
    assert admit(made) == "" == admit(made, at_us=10_000)
    assert why in admit(made, at_us=20_000)
    assert admit(made, at_us=20_000 + SECOND_US) == ""


def test_N1_every_phase_counts_for_the_charge_of_a_second() -> None:
    made, phases = limiter(LimiterLimits(1_000_000, second_fc=1_000_000)), ((100.0, -1.0), (200.0, 1.0), (100.0, -1.0))
    assert admit(made, *phases) == "" == admit(made, *phases, at_us=10_000)
    assert "on electrode" in admit(made, *phases, at_us=20_000)


@pytest.mark.parametrize("seed", range(5))
def test_N1_no_sequence_breaks_a_limit(seed: int) -> None:
    rng = random.Random(seed)
    limits = LimiterLimits(400_000, second_fc=2_000_000, array_second_fc=6_000_000, duty_us=20_000)
    made = limiter(limits)
    admitted: list[tuple[int, int, float, float]] = []
    now = 0
    refusals: set[str] = set()
    for _ in range(4_000):
        now += rng.randrange(2_500)
        us, ua = rng.choice((60.0, 200.0, 400.0)), rng.choice((0.5, 1.0, 1.5))
        electrode = rng.randrange(8)
        why = admit(made, (us, -ua), (us, ua), electrode=electrode, at_us=now)
        if why:
            refusals.add(why.split(";")[0].split(" ")[-1] if "before it is taken back" in why else why.split(" ")[1])
        else:
            admitted.append((now, electrode, 2 * us * ua * 1000, 2 * us))
    assert len(admitted) > 50
    assert len(refusals) >= 3  # the limits were reached
    for at, electrode, _, _ in admitted:
        window = [each for each in admitted if at - SECOND_US < each[0] <= at]
        own = [each for each in window if each[1] == electrode]
        assert sum(each[2] for each in window) <= limits.array_second_fc
        assert sum(each[2] for each in own) <= limits.second_fc
        assert sum(each[3] for each in own) <= limits.duty_us
        assert all(at - each[0] >= limits.interval_us for each in own if each[0] != at)


@pytest.mark.parametrize("seed", range(3))
def test_N1_no_order_in_which_pulses_are_handed_over_breaks_a_limit(seed: int) -> None:
    rng = random.Random(seed)
    limits = LimiterLimits(
        400_000, second_fc=2_000_000, array_second_fc=6_000_000, session_us=4_000_000, rest_us=900_000
    )
    made = limiter(limits)
    admitted: list[tuple[int, int, float]] = []
    refusals: set[str] = set()
    now = 0
    for _ in range(8_000):
        now += rng.randrange(4_000)
        at, us = now + rng.randrange(1_200_000), rng.choice((60.0, 200.0))
        electrode = rng.randrange(8)
        made.alive(now)
        late = rng.choice((0, 1_000, 10_000))
        why = made.admit(electrode, ((us, -1.0), (us, 1.0)), at, at + late, now)
        if why:
            refusals.add(why.removesuffix(f"electrode {electrode} in a second"))
        else:
            admitted.append((at + rng.randint(0, late), electrode, 2 * us * 1000))
    assert any("without a rest" in why for why in refusals)
    assert any("before a pulse" in why for why in refusals)
    admitted.sort()
    begin = last = admitted[0][0]
    longest = 0
    for at, electrode, _ in admitted:
        begin = at if at - last >= limits.rest_us else begin
        longest, last = max(longest, at - begin), at
        window = [each for each in admitted if at - SECOND_US < each[0] <= at]
        own = [each for each in window if each[1] == electrode]
        assert sum(each[2] for each in window) <= limits.array_second_fc
        assert sum(each[2] for each in own) <= limits.second_fc
        assert all(at - each[0] >= limits.interval_us for each in own if each[0] != at)
    assert 0.9 * limits.session_us < longest <= limits.session_us


def test_N9_a_pulse_that_cuts_a_rest_is_refused_though_it_comes_after_a_later_one() -> None:
    made = limiter()
    for second in range(0, 1_301, 100):
        assert admit(made, at_us=second * SECOND_US) == ""
    assert "without a rest" in admit(made, at_us=1_321 * SECOND_US)
    after = 1_300 * SECOND_US + LIMITS.rest_us + 1_500
    assert admit(made, at_us=after) == ""  # handed over before one that begins earlier
    assert "without a rest" in admit(made, electrode=1, at_us=after - 500_000)
    assert admit(made, electrode=1, at_us=after + 500_000) == ""
    assert "before a pulse" in admit(made, electrode=2, at_us=after - 2 * SECOND_US)


@pytest.mark.parametrize("material", ["Pt", "PtIr", "TiN"])
@pytest.mark.parametrize("diameter_um", [10.0, 30.0, 200.0])
def test_N1_the_limiter_lets_pass_what_the_governor_may_allow_and_little_more(
    material: str, diameter_um: float
) -> None:
    envelope = Envelope.of(material)  # type: ignore[arg-type]
    governed_nc = min(envelope.charge_nc, DENSITY_UC_CM2[material] * disc_area_cm2(diameter_um) * 1000)
    limits = LimiterLimits.of(material, diameter_um)
    assert 1.0 <= limits.phase_fc / 1e6 / governed_nc <= 1.11
    assert envelope.electrode_nc_s * 1e6 < limits.second_fc <= 1.3 * envelope.electrode_nc_s * 1e6
    assert envelope.organoid_nc_s * 1e6 < limits.array_second_fc <= 1.3 * envelope.organoid_nc_s * 1e6
    assert 0.8 < limits.interval_us * 1e-6 * envelope.rate_hz <= 1.0
    assert envelope.net_pc * 1e3 < limits.net_fc
    assert math.isclose(envelope.net_share, limits.net_per_mille / 2000)
    assert envelope.phase_us_max <= limits.phase_us
    assert envelope.session_s * 1e6 < limits.session_us <= 1.3 * envelope.session_s * 1e6
    assert 0.8 * envelope.rest_s * 1e6 < limits.rest_us < envelope.rest_s * 1e6


def test_N9_no_operator_may_sign_a_session_that_the_limiter_cuts_short() -> None:
    assert HARD["session_s"] * 1e6 < LimiterLimits.of("Pt", 30.0).session_us
    assert Envelope().rest_s * 1e6 > LimiterLimits.of("Pt", 30.0).rest_us


def test_N1_the_longest_pulse_has_ended_before_the_next_one_may_begin() -> None:
    assert (LIMITS.phases, LIMITS.reversals) == (MAX_PHASES, MAX_REVERSALS)
    assert HARD["pulse_us_max"] < LIMITS.pulse_us < LIMITS.interval_us
    assert LIMITS.interval_us < 1e6 / HARD["rate_hz"]


def test_N1_the_longest_pulses_at_the_highest_rate_are_no_reason_for_the_limiter_to_act() -> None:
    envelope = Envelope()
    assert envelope.pulse_us_max == HARD["pulse_us_max"] == 2 * envelope.phase_us_max + envelope.pause_us_max
    assert LIMITS.pulse_us * HARD["rate_hz"] < LIMITS.duty_us
    made, third = limiter(), envelope.pulse_us_max / 3
    for at_us in range(0, 2 * SECOND_US, round(1e6 / HARD["rate_hz"])):
        made.alive(at_us)
        assert made.admit(0, ((third, -0.02), (third, 0.0), (third, 0.02)), at_us, at_us, at_us) == ""


def test_N9_a_message_to_the_card_process_holds_all_pulses_that_may_begin_together() -> None:
    long = [(499.123456789012, -20.123456789012)] * MAX_PHASES
    pulses = [(10**12, 100_000, long, 2**53, 2**53)] * int(HARD["at_once"])
    assert len(json.dumps({"pulses": pulses})) < MAX_SAID
