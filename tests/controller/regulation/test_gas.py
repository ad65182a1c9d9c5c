"""pH and oxygen over a loop in miniature, the mixture's order, and probes that fall silent."""

from __future__ import annotations

from dataclasses import replace
from math import log10

import pytest

from controller.core.state import ActuatorView, Reading, State
from controller.regulation.gas import BACK_S, PERIOD_S, SILENT_S, GasMixer
from controller.regulation.oxygen import MAX_PCT, OxygenRegulator
from controller.regulation.ph import PATIENCE_S, PhRegulator
from controller.rig.description import required
from controller.safety.interlocks import GAS_MIXTURE
from controller.safety.kernel import decide
from controller.safety.terms import Intent, Seen, Trip
from drivers.commands import Level, LevelStatus, Quality
from tests.controller.regulation.states import RIG, output, reading, state
from tests.controller.safety.facts import LIMITS, peace

LUNG = required(RIG.organs.lung, "organs.lung")
POINTS = (LUNG.air, LUNG.co2, LUNG.o2)


class Loop:
    """Medium of a given bicarbonate (mM) under the gas: pH and oxygen follow it with a lag of some minutes."""

    def __init__(self, bicarbonate_mm: float, uptake_pct: float) -> None:
        self.bicarbonate_mm, self.uptake_pct = bicarbonate_mm, uptake_pct
        self.co2_pct, self.oxygen_pct = 5.0, 80.0
        self.ph = self._ph()
        self.flows = {LUNG.air: 0.0, LUNG.co2: 0.0, LUNG.o2: 0.0}

    def _ph(self) -> float:
        return 6.1 + log10(self.bicarbonate_mm / (0.0301 * 7.13 * self.co2_pct))

    def second(self) -> None:
        total = sum(self.flows.values()) or 1.0
        self.co2_pct += (100.0 * self.flows[LUNG.co2] / total - self.co2_pct) / 400.0
        oxygen = 100.0 * (0.209 * self.flows[LUNG.air] + self.flows[LUNG.o2]) / total / 0.209
        self.oxygen_pct += (oxygen - self.uptake_pct - self.oxygen_pct) / 400.0
        self.ph += (self._ph() - self.ph) / 30.0

    def readings(self, now_s: float) -> dict[str, Reading]:
        return {LUNG.ph: reading(round(self.ph, 3), now_s), LUNG.oxygen: reading(round(self.oxygen_pct, 2), now_s)}

    def views(self) -> dict[str, ActuatorView]:
        return {point: output(LevelStatus(flow, flow)) for point, flow in self.flows.items()}


def live(loop: Loop, mixer: GasMixer, seconds: int, begin_s: int = 0) -> None:
    for second in range(begin_s, begin_s + seconds):
        for intent in mixer.intents(state(float(second), loop.readings(float(second)), loop.views())):
            seen = {point: Seen(flow > 0, flow, 0.0) for point, flow in loop.flows.items()}
            verdict = decide(intent, peace(seen={**peace().seen, **seen}), LIMITS)
            assert verdict.accepted, verdict
            assert verdict.command == intent.command, "the mixer wants nothing that the kernel has to tighten"
            assert isinstance(intent.command, Level)
            loop.flows[intent.actuator] = intent.command.value
        assert sum(loop.flows.values()) == pytest.approx(LUNG.total_ml_min, abs=0.2) or second == 0
        loop.second()


@pytest.mark.parametrize("bicarbonate_mm", [20.0, 27.5, 32.0])
@pytest.mark.parametrize("uptake_pct", [5.0, 25.0])
def test_ph_and_oxygen_come_to_their_setpoints_and_stay(bicarbonate_mm: float, uptake_pct: float) -> None:
    loop, mixer = Loop(bicarbonate_mm, uptake_pct), GasMixer(LUNG, air_every_s=5.0)
    live(loop, mixer, 6 * 3600)
    for hour in range(3):
        live(loop, mixer, 3600, (6 + hour) * 3600)
        assert loop.ph == pytest.approx(LUNG.ph_setpoint, abs=0.03)
        if uptake_pct > 10.0:
            assert loop.oxygen_pct == pytest.approx(LUNG.oxygen_setpoint_pct, abs=2.0)


def test_co2_stays_within_the_rigs_shares_whatever_ph_says() -> None:
    for ph, bound in ((6.0, LUNG.co2_min_pct), (9.0, LUNG.co2_max_pct)):
        regulator = PhRegulator(LUNG)
        for step in range(500):
            now_s = step * PERIOD_S
            share = regulator.step(state(now_s, {LUNG.ph: reading(ph, now_s)}), PERIOD_S)
            assert LUNG.co2_min_pct <= share <= LUNG.co2_max_pct
        assert share == bound


def test_a_ph_probe_that_falls_silent_leaves_the_mixture_and_then_the_basal_one() -> None:
    regulator = PhRegulator(LUNG)
    for step in range(200):
        regulator.step(state(step * PERIOD_S, {LUNG.ph: reading(7.6, step * PERIOD_S)}), PERIOD_S)
    held = regulator.co2_pct
    assert held > 6.5
    last_s = 199 * PERIOD_S
    assert regulator.step(state(last_s + PATIENCE_S, {}), PERIOD_S) == held
    assert regulator.step(state(last_s + PATIENCE_S + 1.0, {}), PERIOD_S) == 6.0


def test_oxygen_is_not_added_in_the_dark() -> None:
    regulator = OxygenRegulator(LUNG)
    for step in range(2000):
        share = regulator.step(state(step * PERIOD_S, {LUNG.oxygen: reading(10.0, step * PERIOD_S)}), PERIOD_S)
        assert share <= MAX_PCT
    assert share == MAX_PCT
    assert regulator.step(state(2000 * PERIOD_S + 700.0, {}), PERIOD_S) == 0.0


def intents_at(flows: dict[str, float], ph: float) -> tuple[Intent, ...]:
    views = {point: output(LevelStatus(flow, flow)) for point, flow in flows.items()}
    return GasMixer(LUNG, air_every_s=5.0).intents(
        state(0.0, {LUNG.ph: reading(ph, 0.0), LUNG.oxygen: reading(90.0, 0.0)}, views)
    )


def test_co2_comes_last_when_it_rises_and_first_when_it_falls() -> None:
    rising = intents_at({LUNG.air: 48.0, LUNG.co2: 2.0, LUNG.o2: 0.0}, 7.5)
    assert [intent.actuator for intent in rising] == [LUNG.air, LUNG.o2, LUNG.co2]
    falling = intents_at({LUNG.air: 45.5, LUNG.co2: 4.5, LUNG.o2: 0.0}, 7.2)
    assert [intent.actuator for intent in falling] == [LUNG.co2, LUNG.o2, LUNG.air]


def test_without_air_and_pH_oxygen_takes_its_place_until_air_has_readings_again_for_a_minute() -> None:
    mixer = GasMixer(LUNG, air_every_s=5.0)
    views = {
        point: output(LevelStatus(flow, flow)) for point, flow in ((LUNG.air, 47.0), (LUNG.co2, 3.0), (LUNG.o2, 0.0))
    }

    def wanted(at_s: float, air: Reading) -> dict[str, float]:
        told = {LUNG.oxygen: reading(90.0, at_s), LUNG.air: air}
        intents = mixer.intents(state(at_s, told, views))
        return {intent.actuator: intent.command.value for intent in intents if isinstance(intent.command, Level)}

    def silent(good_s: float) -> Reading:
        return replace(reading(47.0, good_s, Quality.MISSING), last_good=reading(47.0, good_s))

    assert wanted(0.0, reading(47.0, 0.0)) == {}
    assert wanted(5.0, silent(0.0)) == {}, "one reading that is missing is no silence"
    lost = wanted(SILENT_S + 0.5, silent(0.0))
    assert list(lost) == [LUNG.o2, LUNG.co2, LUNG.air], "who does not answer comes last"
    assert lost[LUNG.o2] == LIMITS.levels[LUNG.o2][1]
    assert wanted(SILENT_S + 1.0, silent(0.0)) == {}, "it is asked for once, and again only when it did not arrive"
    assert wanted(95.0, silent(0.0))[LUNG.o2] == lost[LUNG.o2]
    views |= {LUNG.air: output(LevelStatus(27.0, 27.0)), LUNG.o2: output(LevelStatus(20.0, 20.0))}
    ended = []
    for second in range(100, 320):
        back = wanted(float(second), silent(139.0) if second == 140 else reading(27.0, float(second)))
        if back.get(LUNG.o2) == 0.0:
            ended.append(second)
    assert 140 + BACK_S < ended[0] <= 141 + BACK_S + PERIOD_S, "a gap restarts the minute"


def test_air_without_a_reading_while_pH_holds_changes_nothing() -> None:
    mixer = GasMixer(LUNG, air_every_s=5.0)
    views = {
        point: output(LevelStatus(flow, flow)) for point, flow in ((LUNG.air, 47.0), (LUNG.co2, 3.0), (LUNG.o2, 0.0))
    }
    air = replace(reading(47.0, 0.0, Quality.MISSING), last_good=reading(47.0, 0.0))
    for second in range(0, 1800, 5):
        at_s = float(second)
        told = {LUNG.ph: reading(LUNG.ph_setpoint, at_s), LUNG.oxygen: reading(90.0, at_s), LUNG.air: air}
        assert mixer.intents(state(at_s, told, views)) == (), second


def test_air_that_pH_tells_to_be_closed_is_silent_at_once() -> None:
    mixer = GasMixer(LUNG, air_every_s=5.0)
    views = {
        point: output(LevelStatus(flow, flow)) for point, flow in ((LUNG.air, 47.0), (LUNG.co2, 3.0), (LUNG.o2, 0.0))
    }
    air = replace(reading(47.0, 0.0, Quality.MISSING), last_good=reading(47.0, 0.0))
    told = {LUNG.ph: reading(7.25, 5.0), LUNG.oxygen: reading(90.0, 5.0), LUNG.air: air}
    assert mixer.intents(state(4.0, {**told, LUNG.air: reading(47.0, 0.0)}, views)) is not None
    shut = Trip(GAS_MIXTURE, LUNG.co2, "air has no reading", 5.0, (LUNG.co2,))
    intents = mixer.intents(replace(state(5.0, told, views), trips=(shut,)))
    assert Level(LIMITS.levels[LUNG.o2][1]) in [intent.command for intent in intents]


def test_noise_is_not_worth_a_command_but_a_lost_setpoint_is() -> None:
    calm = {LUNG.air: 47.0, LUNG.co2: 3.0, LUNG.o2: 0.0}
    assert intents_at(calm, LUNG.ph_setpoint) == ()
    assert intents_at({**calm, LUNG.air: 0.0}, LUNG.ph_setpoint) != ()
    silent = State(0.0, "", {}, {point: output(None) for point in POINTS}, {}, (), {})
    assert len(GasMixer(LUNG, air_every_s=5.0).intents(silent)) == 3
