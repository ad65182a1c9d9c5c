"""Firing against the culture's own baseline: z-scores, hypersynchrony and loss of response, with hysteresis and alarms."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.vitals.electrode_baseline import ElectrodeBaseline
from controller.vitals.firing import FiringSigns
from controller.vitals.rolling_baseline import RollingBaseline
from drivers.commands import Quality
from nerves.cards.contract import Phase
from nerves.detections import Spikes
from nerves.metrics.rolling import RollingSpikes
from nerves.metrics.terms import METRICS, ArrayMetrics
from nerves.summary import NervesSummary, StimulationTreatment
from protocols.baseline import WARM_UP_H
from sim.neurons.conditions import TissueConditions
from sim.neurons.culture import STEP_S, NeuralCulture
from sim.neurons.spiking import SpikingNetwork
from tests.nerves.bench import bench
from tests.nerves.test_core import ask
from tests.nerves.test_nerves_reader import living

EPOCH = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
ELECTRODES = 32
USUAL = dict.fromkeys((each.name for each in METRICS), 1.0) | {
    "network_bursts_min": 6.0,
    "in_network_bursts": 0.62,
    "sttc": 0.6,
    "cv2": 0.9,
}
QUIET = ArrayMetrics(seconds=60.0, spikes=5000, active=25, pulses=0, figures=USUAL)


def figures(**changed: float) -> ArrayMetrics:
    """Return the quiet minute with some figures changed."""
    return replace(QUIET, figures=USUAL | changed)


UNTOUCHED = StimulationTreatment(0.0, 24.0, None, False, 1, "open", "")


class CultureSource:
    """The spiking network of the simulated culture in virtual time, with the figures of its recorded spikes."""

    def __init__(self, seed: int) -> None:
        culture = NeuralCulture.grown(ELECTRODES, seed)
        self._network = SpikingNetwork(culture, seed)
        self._recorded = culture.recorded()
        self._window = RollingSpikes(ELECTRODES, 1.0 / STEP_S)
        self._window.begin(0)
        self.conditions = TissueConditions()
        self.treatment = UNTOUCHED

    async def summary(self) -> NervesSummary | None:
        now_s = asyncio.get_running_loop().time()
        steps = round(now_s / STEP_S) - self._network.step
        if steps > 0:
            who, when = self._network.advance(steps, self.conditions)
            spike, electrode = np.nonzero(self._recorded[who])
            uv = np.full(len(spike), -50.0, np.float32)
            self._window.add(Spikes(when[spike], electrode.astype(np.int32), uv), self._network.step)
        found = self._window.measure(np.ones(ELECTRODES, np.bool_))
        array, each = found or (None, None)
        rates = (0.0,) * ELECTRODES if each is None else tuple(each.rate_hz.tolist())
        return NervesSummary(now_s, 3.0, 25, ELECTRODES, rates, self.treatment, metrics=array)

    def recent_spikes(self) -> list[tuple[float, int]]:
        return []

    async def close(self) -> None:
        pass


class StimulatedSource(CultureSource):
    """Summaries without firing figures: only of how the tissue answers."""

    def __init__(self, treatment: StimulationTreatment) -> None:
        self.treatment = treatment

    async def summary(self) -> NervesSummary | None:
        rates = (3.0,) * ELECTRODES
        return NervesSummary(asyncio.get_running_loop().time(), 3.0, 25, ELECTRODES, rates, self.treatment)


def alarms(controller: object, kind: str) -> list[str]:
    return [alarm.state.value for alarm in controller.alarms.active() if alarm.id == f"{kind}:nerves"]  # type: ignore[attr-defined]


@pytest.mark.virtual_time
async def test_N9_ammonia_makes_the_culture_hypersynchronous_and_an_alarm_says_so(tmp_path: Path) -> None:
    source = CultureSource(seed=1)
    async with living(tmp_path, source) as controller:
        await asyncio.sleep(130.0)
        assert alarms(controller, "hypersynchrony") == []
        readings = controller.store.state.readings
        assert 0.3 < readings["nerves.sttc"].value < 0.8
        assert 2.0 < readings["nerves.network_burst_rate"].value < 15.0
        assert readings["nerves.burst_rate"].unit == "1/min"
        source.conditions = TissueConditions(ammonia_mm=5.0)
        await asyncio.sleep(150.0)
        assert alarms(controller, "hypersynchrony") == [], "it has to be confirmed"
        await asyncio.sleep(300.0)
        assert alarms(controller, "hypersynchrony") == ["unacknowledged"]
        assert controller.store.state.readings["nerves.in_network_bursts"].value > 0.9


@pytest.mark.virtual_time
async def test_N9_tissue_that_dies_stops_answering_and_an_alarm_says_so(tmp_path: Path) -> None:
    treatments: list[StimulationTreatment] = []
    with bench(tmp_path / "stimulation.db", seed=11) as lab:
        lease = lab.lease(6, ttl_s=10.0)
        for pulse in range(100):
            if pulse == 60:
                lab.run(1.0)
                treatments.append(treatment_of(lab.core.load))
                lab.array.set_conditions(TissueConditions(alive=0.0))
            lab.ask(ask(lease.id, 6, phases=(Phase(200, -1.7), Phase(200, 1.7))))
            lab.run(0.15)
            lab.command("renew", lease)
        lab.run(1.0)
        treatments.append(treatment_of(lab.core.load))
    assert treatments[0].evoked_spikes is not None
    assert treatments[0].evoked_spikes > 1.0
    source = StimulatedSource(treatments[0])
    async with living(tmp_path, source) as controller:
        await asyncio.sleep(200.0)
        assert alarms(controller, "response_lost") == []
        source.treatment = treatments[1]
        await asyncio.sleep(200.0)
        assert alarms(controller, "response_lost") == ["unacknowledged"]
        source.treatment = UNTOUCHED
        await asyncio.sleep(600.0)
        assert alarms(controller, "response_lost") == ["unacknowledged"], (
            "without a pulse nothing shows that it is back"
        )
        source.treatment = treatments[0]
        await asyncio.sleep(600.0)
        assert alarms(controller, "response_lost") == ["return_to_normal_unacknowledged"]


def treatment_of(load: object) -> StimulationTreatment:
    return StimulationTreatment(0.1, 20.0, load.evoked_ratio, load.response_lost, 1, "open", "", load.evoked_spikes)  # type: ignore[attr-defined]


@pytest.mark.virtual_time
async def test_an_engine_that_falls_silent_leaves_no_figures_that_look_present(tmp_path: Path) -> None:
    class Ending(CultureSource):
        gone = False

        async def summary(self) -> NervesSummary | None:
            return None if self.gone else await super().summary()

    source = Ending(seed=2)
    async with living(tmp_path, source) as controller:
        await asyncio.sleep(60.0)
        before = controller.store.state.readings["nerves.sttc"].quality
        source.gone = True
        await asyncio.sleep(60.0)
        after = controller.store.state.readings["nerves.sttc"].quality
        assert (before, after) == (Quality.GOOD, Quality.MISSING)


# --- against the baseline ---------------------------------------------------------------------------------


class Signs:
    """Firing signs with a journal, minute by minute."""

    def __init__(self, folder: Path, later_h: float = 0.0) -> None:
        clock = Clock(follow_system=False, epoch=EPOCH + timedelta(hours=later_h))
        self.journal = Journal(folder / "journal.db", clock, durable=False)
        self.baseline = RollingBaseline(self.journal, clock)
        self.firing = FiringSigns(self.baseline, ElectrodeBaseline(self.journal, clock))

    async def live(
        self,
        minutes: int,
        metrics: ArrayMetrics = QUIET,
        treatment: StimulationTreatment = UNTOUCHED,
        rates: tuple[float, ...] = (2.0, 4.0, 0.0),
        states: tuple[str, ...] = ("ok", "ok", "ok"),
        why: str = "",
    ) -> None:
        for _ in range(minutes):
            await asyncio.sleep(60.0)
            if why:
                self.baseline.disturbed(why)
            self.baseline.turn()
            self.firing.turn(why)
            now_s = asyncio.get_running_loop().time()
            summary = NervesSummary(now_s, 3.0, 2, 3, rates, treatment, states=states, metrics=metrics)
            self.firing.update(summary, treatment)


WARM_UP_MIN = (WARM_UP_H + 2) * 60


@pytest.mark.virtual_time
async def test_N9_scores_are_distances_from_the_own_baseline_and_survive_a_restart(tmp_path: Path) -> None:
    signs = Signs(tmp_path)
    await signs.live(30)
    assert signs.firing.scores == {}
    await signs.live(WARM_UP_MIN)
    assert signs.firing.scores["sttc"] == pytest.approx(0.0)
    await signs.live(1, figures(network_bursts_min=12.0, sttc=math.nan))
    assert signs.firing.scores["network_bursts_min"] == pytest.approx(math.log(2.0) / 0.22)
    assert "sttc" not in signs.firing.scores
    signs.journal.close()
    again = Signs(tmp_path, later_h=WARM_UP_MIN / 60 + 1)
    await again.live(1, figures(cv2=0.45))
    assert again.firing.scores["cv2"] == pytest.approx(math.log(0.5) / 0.22)
    again.journal.close()


@pytest.mark.virtual_time
async def test_N9_minutes_with_pulses_enter_no_baseline_of_spontaneous_firing(tmp_path: Path) -> None:
    signs = Signs(tmp_path)
    await signs.live(WARM_UP_MIN)
    await signs.live(600, replace(figures(sttc=0.95, in_network_bursts=0.99), pulses=5))
    assert signs.baseline.norms()["sttc"].value == pytest.approx(0.6)
    assert signs.firing.hypersynchrony == ""
    signs.journal.close()


@pytest.mark.virtual_time
async def test_N8_electrodes_have_a_baseline_of_their_own_without_muted_hours_and_disturbed_ones(
    tmp_path: Path,
) -> None:
    signs = Signs(tmp_path)
    await signs.live(WARM_UP_MIN)
    await signs.live(300, rates=(9.0, 9.0, 9.0), why="no_heart_flow")
    await signs.live(300, rates=(2.0, 0.0, 0.0), states=("ok", "dead", "ok"))
    await signs.live(1, rates=(8.0, 4.0, 0.0))
    first, second, third = signs.firing.electrode_scores
    assert first == pytest.approx(math.log(4.0) / 0.22)
    assert second == pytest.approx(0.0), "it was muted, not silent"
    assert third == pytest.approx(0.0)
    await signs.live(1, rates=(8.0, 4.0, 0.0), states=("noisy", "ok", "ok"))
    assert math.isnan(signs.firing.electrode_scores[0])
    signs.journal.close()
    again = Signs(tmp_path, later_h=30.0)
    await again.live(1, rates=(8.0, 4.0, 0.0))
    assert again.firing.electrode_scores == pytest.approx((first, 0.0, 0.0))
    await again.live(1, rates=(1.0, 1.0), states=("ok", "ok"))
    assert all(map(math.isnan, again.firing.electrode_scores)), "another array has no baseline yet"
    again.journal.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("usually", "course"),
    [
        (None, [(0.62, False), (0.89, False), (0.91, True), (0.87, True), (0.84, False)]),
        (0.62, [(0.70, False), (0.86, False), (0.88, True), (0.83, True), (0.80, False)]),
    ],
)
async def test_N9_hypersynchrony_has_hysteresis_and_the_own_baseline_counts(
    tmp_path: Path, usually: float | None, course: list[tuple[float, bool]]
) -> None:
    signs = Signs(tmp_path)
    if usually is not None:
        await signs.live(WARM_UP_MIN, figures(in_network_bursts=usually))
    for share, expected in course:
        await signs.live(1, figures(in_network_bursts=share))
        assert bool(signs.firing.hypersynchrony) is expected, share
    await signs.live(1, replace(figures(in_network_bursts=0.99), spikes=100))
    assert signs.firing.hypersynchrony == "", "too few spikes for a judgement"
    signs.journal.close()


@pytest.mark.virtual_time
async def test_N9_a_restarted_engine_that_learns_dead_tissue_is_compared_with_earlier_sessions(tmp_path: Path) -> None:
    signs = Signs(tmp_path)
    answering = replace(UNTOUCHED, evoked_ratio=1.0, evoked_spikes=12.0)
    await signs.live(WARM_UP_MIN, treatment=answering)
    for spikes, expected in ((6.0, False), (4.0, False), (3.0, True), (5.0, True), (6.5, False)):
        await signs.live(1, treatment=replace(UNTOUCHED, evoked_ratio=None, evoked_spikes=spikes))
        assert bool(signs.firing.lost_response) is expected, spikes
    await signs.live(1, treatment=replace(answering, response_lost=True))
    assert signs.firing.lost_response
    await signs.live(1)
    assert signs.firing.lost_response, "nothing was stimulated since"
    signs.journal.close()


@pytest.mark.virtual_time
async def test_the_scores_get_burst_regularity_and_synchrony_of_an_hour(tmp_path: Path) -> None:
    signs = Signs(tmp_path)
    await signs.live(9)
    assert signs.firing.mean_of("sttc") is None
    await signs.live(1, figures(sttc=0.8))
    found = signs.firing.mean_of("sttc")
    assert found is not None
    assert found.value == pytest.approx(0.62)
    assert found.low < 0.62 < found.high
    assert not signs.firing.seizure_like
    await signs.live(60, figures(in_network_bursts=0.95))
    assert signs.firing.seizure_like
    signs.journal.close()
