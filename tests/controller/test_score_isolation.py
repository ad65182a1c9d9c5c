"""Scores do not stop: any input gives a value with an interval or "unknown" with a reason, and one error ends one score."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.alarms.care import FailedCare
from controller.alarms.definitions import DEFINITIONS
from controller.alarms.states import Alarms
from controller.core.clock import Clock
from controller.core.state import ActuatorView, Reading, State
from controller.estimator.estimator import Estimator
from controller.journal.journal import Journal
from controller.rig.camera import CameraSpec
from controller.rig.description import Nerves, Rig
from controller.vitals import scores
from controller.vitals.electrode_baseline import ElectrodeBaseline
from controller.vitals.firing import FiringSigns
from controller.vitals.image_signs import ImageSigns
from controller.vitals.ldh_signs import LdhSigns
from controller.vitals.rolling_baseline import RollingBaseline
from controller.vitals.scoring import Scoring
from controller.vitals.tissue import TissueWatch
from controller.vitals.tissue_inputs import TissueInputs
from controller.vitals.vitals import VitalSigns
from drivers.commands import Guarantee, PumpStatus, Quality, Run
from nerves.metrics.terms import METRICS, ArrayMetrics
from nerves.summary import NervesSummary, StimulationTreatment
from protocols.media_state import STATES, MediaState, begin
from protocols.soft_sensor import Composition
from tests.controller.test_composed_vitals import scored, state
from tests.controller.test_ldh_signs import FixedClock
from tests.execution.world import EPOCH, RIG

pytestmark = pytest.mark.virtual_time

ARRAY = Nerves.model_validate({"link": "sim:nerves", "electrodes": 8, "sample_rate": "20 kHz", "diameter": "30 um"})
WIRED = RIG.model_copy(update={"nerves": ARRAY})
SCORES = ("care_rating", "welfare", "happiness")
WARM: Mapping[str, tuple[float, str]] = {"skin.temperature": (37.0, "degC")}


def array(now_s: float, ratio: float | None, spikes: float | None, figures: dict[str, float]) -> NervesSummary:
    treatment = StimulationTreatment(0.2, 20.0, ratio, False, 1, "open", "", spikes)
    known = dict.fromkeys((each.name for each in METRICS), 0.5) | figures
    metrics = ArrayMetrics(60.0, 5000, 8, 0, known)
    return NervesSummary(now_s, 2.0, 8, 8, (2.0,) * 8, treatment, 8, ("ok",) * 8, metrics)


def scoring_of(signs: VitalSigns | None, rig: Rig = WIRED, rows: list[Mapping[str, Any]] | None = None) -> Scoring:
    kept = [] if rows is None else rows
    return Scoring(signs, care=FailedCare(rig), record=lambda _, body: kept.append(body))


def sound(answer: dict[str, Any]) -> None:
    """Assert that every score has a value with an interval, or is unknown with a reason."""
    json.dumps(answer, allow_nan=False)
    for name in SCORES:
        score = answer[name]
        assert 0.0 <= score["low"] <= score["score"] <= score["high"] <= 1.0, name
    estimate = answer["viability"]
    if estimate is not None:
        assert 0.0 <= estimate["low"] <= estimate["value"] <= estimate["high"] <= 1.0
    assert all(answer.get("unknown", {"": "reason"}).values())


@pytest.mark.parametrize("ratio", [-0.3, -1e-9, 0.0, -1e300])
async def test_a_negative_evoked_response_ends_no_score(tmp_path: Path, ratio: float) -> None:
    """The response is spikes after a pulse less those before it, which is negative by chance."""
    with scored(WIRED, tmp_path) as signs:
        assert signs is not None
        now_s = asyncio.get_running_loop().time()
        scores = signs.score(state(WARM), array(now_s, ratio, 2.0 * ratio, {}), "")
        answer = scores.to_json()
    seen = scores.vitals.firing.evoked_ratio
    assert seen is not None
    assert seen.value == ratio
    assert seen.low <= ratio <= seen.high
    assert answer["viability"] is not None
    assert "unknown" not in answer
    sound(answer)


FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -1.0, 1.0, 37.0, 1e300, -1e300, 5e-324, 1e-9, 1e9]),
)
WILD = st.one_of(FLOATS, st.sampled_from([float("nan"), float("inf"), float("-inf")]))
POINTS = ("t_chamber.temperature", "do_loop.oxygen", "ph_loop.ph")
UNITS = {"temperature": "degC", "oxygen": "%", "ph": "pH"}
READINGS = st.fixed_dictionaries({}, optional=dict.fromkeys(POINTS, WILD))
FIGURES = st.fixed_dictionaries({each.name: WILD for each in METRICS})
TREATMENTS = st.builds(
    StimulationTreatment,
    load=WILD,
    rest_h=WILD,
    evoked_ratio=st.none() | WILD,
    response_lost=st.booleans(),
    tier=st.integers(0, 4),
    level=st.just("open"),
    reason=st.just(""),
    evoked_spikes=st.none() | WILD,
)
RATES = st.lists(WILD, max_size=8).map(tuple)
ARRAYS = st.builds(
    NervesSummary,
    at_s=st.just(math.nan),  # set by the bench
    firing_rate_hz=WILD,
    active_electrodes=st.integers(0, 8),
    electrodes=st.integers(0, 8),
    rates_hz=RATES,
    treatment=st.none() | TREATMENTS,
    observed_electrodes=st.none() | st.integers(0, 8),
    states=st.just(()) | st.lists(st.sampled_from(["ok", "dead", "blanked"]), max_size=8).map(tuple),
    metrics=st.none()
    | st.builds(
        ArrayMetrics,
        seconds=st.just(60.0),
        spikes=st.integers(0, 10**9),
        active=st.integers(0, 8),
        pulses=st.integers(0, 3),
        figures=FIGURES,
    ),
)
MEDIA = st.builds(
    lambda seed, size, spread: (seed, size, spread), st.integers(0, 9), FLOATS, st.one_of(FLOATS, st.just(1e200))
)
LATER_H = st.sampled_from([1 / 60, 1 / 60, 1.0, 30.0, 24.0 * 90])
ROWS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"ldh": FLOATS, "sd": FLOATS}),
        st.fixed_dictionaries(
            {"area_mm2": FLOATS, "area_sd_mm2": FLOATS, "per_day": FLOATS, "low": FLOATS, "high": FLOATS}
        ),
        st.fixed_dictionaries({"note": st.dictionaries(st.sampled_from(["ldh", "growth", "volume"]), FLOATS)}),
    ),
    max_size=2,
)
GRADES = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"grade": st.sampled_from(["A", "C", "D", "Z", ""])},
        optional={"confidence": FLOATS, "missing": st.just(["ldh"]), "utc": st.just("2026-01-01T00:00:00Z")},
    ),
)


class WildBench:
    """The vital signs of a rig with an array and a camera, whose every input can be set."""

    def __init__(self, folder: Path) -> None:
        self.clock = FixedClock()
        clock = cast(Clock, self.clock)
        self.journal = Journal(folder / "journal.db", clock, durable=False)
        self.media: MediaState | None = None
        self.undiluted = 1.0
        self.grade: Mapping[str, Any] | None = None
        camera = CameraSpec.model_validate(
            {"model": "simulated", "chamber": "chamber", "pixel": "5 um", "every": "1 h"}
        )
        self.rig = WIRED.model_copy(update={"cameras": {"eye": camera}})
        self.signs = self.begun()

    def begun(self) -> VitalSigns:
        estimator = cast(Estimator, self)
        return VitalSigns(
            self.rig, estimator, grade=lambda: self.grade, journal=self.journal, clock=cast(Clock, self.clock)
        )

    @property
    def state(self) -> MediaState:
        assert self.media is not None
        return self.media

    def now(self, readings: Mapping[str, float], flow: float = 2000.0) -> State:
        """Return the snapshot of this minute."""
        now_s = self.clock.now_s()
        seen = {
            point: Reading(value, UNITS[point.partition(".")[2]], Quality.GOOD, now_s)
            for point, value in readings.items()
        }
        run = Run(2000.0)
        view = ActuatorView(PumpStatus(True, flow, 0.0, 4000.0), now_s, run, run, Guarantee.DEVICE)
        pumps = dict.fromkeys((line.pump for line in self.rig.lines.values() if line.pump), view)
        return State(now_s, "", seen, pumps, {}, (), {})

    def answer(
        self, readings: Mapping[str, float], nerves: NervesSummary | None, flow: float = 2000.0
    ) -> dict[str, Any]:
        """Return the scores of this minute, as a run and the journal get them."""
        at, now_s = self.now(readings, flow), self.clock.now_s()
        scoring = scoring_of(self.signs, self.rig)
        scoring.update(
            at, None if nerves is None else replace(nerves, at_s=now_s), Alarms(lambda kind, body: None, str)
        )
        assert scoring.latest is not None
        json.dumps(self.signs.tissue_loss.to_json(), allow_nan=False)
        assert {kind for kind, _ in scoring.concerns} <= DEFINITIONS.keys()
        return scoring.latest

    def write(self, row: Mapping[str, Any]) -> None:
        """Write an assay, an image or a person's findings into the journal."""
        taken = self.clock.utc_text()
        if "note" in row:
            self.journal.append("note.tissue", row["note"])
        elif "ldh" in row:
            if "taken_h" in row:
                taken = (EPOCH + timedelta(hours=row["taken_h"])).isoformat()
            assay = {"analyte": "ldh", "where": "loop", "vessel": "loop", "taken_utc": taken, "value": row["ldh"]}
            more = {"sd": row["sd"], "unit": "U/L", "used": True, "method": row.get("method", "")}
            self.journal.append("assay", assay | more)
        else:
            growth = {key: row[key] for key in ("per_day", "low", "high")}
            features = {key: row[key] for key in ("area_mm2", "area_sd_mm2")}
            frame = {"camera": "eye", "taken": taken, "defects": [], "features": features, "growth": growth}
            self.journal.append("image.taken", frame)

    def set_media(self, drawn: tuple[int, float, float] | None) -> None:
        if drawn is None:
            self.media = media()
            return
        seed, size, spread = drawn
        random = np.random.default_rng(seed)
        mean = size * random.normal(size=STATES)
        covariance = spread * random.normal(size=(STATES, STATES))
        self.media = MediaState(10_000.0, 5_000.0, mean, covariance, observations=9 + int(self.clock.hours * 60))


def media() -> MediaState:
    fresh = Composition(20.0, 0.0, 0.02, 26.0, 1.0, 290.0)
    loop = begin(
        fresh, fresh, loop_ul=30_000.0, spent_ul=0.0, tissue_mm3=30.0, water_ul_d=(90.0, 30.0), buffer=(5.0, 2.0)
    )
    return replace(loop, observations=5)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[WildBench]:
    found = WildBench(tmp_path)
    yield found
    found.journal.close()


@pytest.mark.long
def test_any_input_of_every_score_gives_a_value_or_a_reason(bench: WildBench) -> None:
    """Baselines, estimate and findings go on from example to example: what one leaves behind must not harm the next."""

    @settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(READINGS, st.none() | ARRAYS, WILD, st.none() | MEDIA, LATER_H, ROWS, GRADES)
    def check(
        readings: Mapping[str, float],
        nerves: NervesSummary | None,
        flow: float,
        drawn: tuple[int, float, float] | None,
        later_h: float,
        rows: list[Mapping[str, Any]],
        grade: Mapping[str, Any] | None,
    ) -> None:
        bench.clock.hours += later_h
        bench.set_media(drawn)
        bench.grade = grade
        for row in rows:
            bench.write(row)
        sound(bench.answer(readings, nerves, flow))

    with np.errstate(all="ignore"):  # as in a running controller: an overflow is infinite, and no error
        check()
    bench.grade = None
    bench.set_media(None)
    for restarted in (False, True):
        if restarted:
            bench.signs = bench.begun()  # takes in what the wild hours left in the journal
        comes_back(bench)


def comes_back(bench: WildBench) -> None:
    """Assert that every score is known again after three calm hours."""
    calm = array(0.0, 1.0, 3.0, {})
    for _ in range(180):
        bench.clock.hours += 1.0 / 60.0
        bench.write({"ldh": 8.0, "sd": 0.5})
        bench.write({"area_mm2": 3.0, "area_sd_mm2": 0.1, "per_day": 0.01, "low": 0.0, "high": 0.02})
        bench.signs.restore_some()
        answer = bench.answer({"t_chamber.temperature": 37.0, "do_loop.oxygen": 85.0, "ph_loop.ph": 7.35}, calm)
    sound(answer)
    assert "unknown" not in answer, "each score comes back by itself"
    assert answer["viability"] is not None


def test_hours_that_cannot_be_end_no_estimate(bench: WildBench) -> None:
    """The estimate takes what cannot be for not measured; each hour has one row in the journal."""
    bench.set_media(None)
    well = {"t_chamber.temperature": 37.0, "do_loop.oxygen": 85.0, "ph_loop.ph": 7.35}
    for hour in range(4):
        for _ in range(60):
            bench.clock.hours += 1.0 / 60.0
            answer = bench.answer(well | ({} if hour != 1 else {"t_chamber.temperature": 1e300}), None)
            sound(answer)
    rows = list(bench.journal.entries(kinds=("tissue.look",)))
    assert [row.body["hour"] - rows[0].body["hour"] for row in rows] == [0, 1, 2, 3]
    assert "unknown" not in answer
    assert answer["viability"]["low"] > 0.5


WELL = {"t_chamber.temperature": 37.0, "do_loop.oxygen": 85.0, "ph_loop.ph": 7.35}
BROKEN = [
    (scores, "care_rating", "care_rating"),
    (scores, "welfare", "welfare"),
    (TissueWatch, "statement", "viability"),
    (TissueWatch, "note", "tissue_look"),
    (TissueWatch, "restore_some", "earlier_hours"),
    (TissueInputs, "update", "tissue_look"),
    (FiringSigns, "update", "firing_signs"),
    (VitalSigns, "_activity", "activity"),
    (VitalSigns, "_uptake", "oxygen_uptake"),
    (VitalSigns, "_salt_spread_pct", "osmolality"),
    (LdhSigns, "seen", "ldh"),
    (LdhSigns, "value", "ldh_assay"),
    (ImageSigns, "volume", "volume"),
    (ImageSigns, "growth", "growth"),
    (RollingBaseline, "turn", "baseline"),
    (ElectrodeBaseline, "turn", "electrode_baseline"),
]


@pytest.mark.parametrize(("owner", "function", "name"), BROKEN, ids=[f"{each[1]}-{each[2]}" for each in BROKEN])
def test_an_error_in_one_score_leaves_the_others_and_passes(
    bench: WildBench,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: object,
    function: str,
    name: str,
) -> None:
    bench.set_media(None)
    calm = array(0.0, 1.0, 3.0, {})
    bench.answer(WELL, calm)

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a part of the score divides by nothing")

    with monkeypatch.context() as patch:
        patch.setattr(owner, function, fails)
        for _ in range(3):
            bench.clock.hours += 1.0 / 60.0
            answer = bench.answer(WELL, calm)
    sound(answer)
    assert "ZeroDivisionError: a part of the score divides by nothing" in answer["unknown"][name]
    causes = scoring_of(bench.signs).concerns
    assert "Likely cause" in causes["score_unknown", name]
    assert "Next" in causes["score_unknown", name]
    logged = [
        each for each in caplog.records if each.levelno >= logging.ERROR and each.getMessage().startswith(f"{name} can")
    ]
    assert len(logged) == 1
    assert logged[0].exc_info is not None
    for score in {"care_rating", "welfare"} - {name}:
        assert answer[score]["coverage"] > 0.0
    if name in ("care_rating", "welfare"):
        assert (answer[name]["score"], answer[name]["low"], answer[name]["high"]) == (0.0, 0.0, 1.0)
        assert "divides by nothing" in answer[name]["gates"]["computation"]["text"]
    if name != "viability":
        assert answer["viability"] is not None
    bench.clock.hours += 1.0 / 60.0
    well_again = bench.answer(WELL, calm)
    assert "unknown" not in well_again
    assert well_again["viability"] is not None
    assert scoring_of(bench.signs).concerns == {}
