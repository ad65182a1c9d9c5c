"""Provide a small controller for the interface tests: a rig, usually the bench, without devices or plant.

It has the real rig description, states and records. Readings vary about their set-points, and `script` adds what a test needs
(a probe that fails, an alarm, an emergency stop).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from controller.alarms.states import Alarms
from controller.attachments.store import AttachmentStore
from controller.core.clock import Clock
from controller.core.discarded import Discarded
from controller.core.state import ActuatorView, Reading, State, Volume
from controller.delivery.people import People
from controller.gate.bypass import Bypass, BypassRefused
from controller.imaging.imaging import Imaging
from controller.journal.journal import Journal
from controller.journal.terms import Entry, JournalUnwritten
from controller.ledger.batches import Batch, Whereabouts
from controller.ledger.bound import FreshBound
from controller.ledger.ledger import Ledger, LedgerError
from controller.ledger.reconcile import Residual
from controller.ledger.terms import Totals
from controller.memory.history import SeriesPoint
from controller.process.controller import Controller
from controller.process.health import ControllerHealth
from controller.process.load import ProcessLoad
from controller.process.tissue_changes import TissueChanges
from controller.rig.families import points_of
from controller.rig.loading import load_rig
from controller.runs.assay_requests import AssayRequests
from controller.runs.grading import rules_of
from controller.runs.library import ProtocolLibrary
from controller.upkeep.upkeep import Upkeep
from drivers.commands import Guarantee, Level, LevelStatus, PumpStatus, Quality, Run, Status, Stop, Switch, SwitchStatus
from nerves.summary import NervesSummary
from protocols.activity import FiringMeasures
from protocols.care_rating import MediumGrade, Vitals, care_rating
from protocols.conditioning import BatchPlan
from protocols.economy import Candidate, Decision
from protocols.grading import Sample, grade
from protocols.happiness import happiness
from protocols.interval import Interval
from protocols.tissue.estimate import ViabilityEstimate
from protocols.tissue.look import TissueLook
from protocols.tissue.statement import Statement
from protocols.welfare import Treatment as Treated
from protocols.welfare import welfare
from tests.dashboards.fake_assays import FakeAssays
from tests.dashboards.fake_runs import FakeRuns

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
EPOCH = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
PERIOD_S = 2.0
MINUTE_S = 60.0

PROBES: dict[str, tuple[str, float, float, float]] = {
    "t_chamber.temperature": ("degC", 37.02, 0.08, 0.02),
    "do_loop.oxygen": ("%", 90.4, 1.1, 0.25),
    "ph_loop.ph": ("pH", 7.36, 0.015, 0.004),
    "ph_spent.ph": ("pH", 7.18, 0.03, 0.006),
    "p_heart.pressure": ("kPa", 6.4, 0.5, 0.2),
    "p_filter.pressure": ("kPa", 3.1, 0.6, 0.2),
    "gas_air.flow": ("mL/min", 46.6, 0.3, 0.05),
    "gas_co2.flow": ("mL/min", 3.41, 0.12, 0.02),
    "gas_o2.flow": ("mL/min", 0.02, 0.01, 0.005),
    "nerves.firing_rate": ("Hz", 2.6, 0.5, 0.15),
}
"""point -> unit, middle, how far it wanders, noise."""
MOVES = {
    "kidney.draw": ("loop", "spent", "reglo.draw"),
    "kidney.give_back": ("spent", "loop", "reglo.return"),
    "kidney.discard": ("spent", "waste", "reglo.discard"),
    "gut.feed": ("reservoir", "spent", "dose_fresh.pump"),
    "liver.add_glucose": ("glucose", "spent", "dose_glucose.pump"),
    "liver.add_base": ("base", "spent", "dose_base.pump"),
}
PUMPS = ("reglo.heart", *(pump for _, _, pump in MOVES.values()))


class FakeClock(Clock):
    """UTC that begins at `EPOCH`, and monotonic time that begins at 0."""

    def __init__(self) -> None:
        super().__init__(follow_system=False, epoch=EPOCH)

    def now_s(self) -> float:
        return self._loop.time() - self._start_s


class FakeJournal:
    """Rows in memory."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.rows: list[Entry] = []

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        seq = len(self.rows) + 1
        self.rows.append(Entry(seq, self._clock.now_s(), self._clock.utc_text(), kind, run, dict(body), f"{seq:064x}"))
        return seq

    unwritten: JournalUnwritten | None = None
    committed = 0

    async def commit(self) -> None:
        if self.unwritten is not None:
            raise self.unwritten
        self.committed = len(self.rows)

    def entries(
        self,
        *,
        run: str | None = None,
        kinds: Sequence[str] = (),
        after: int = 0,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Entry]:
        rows = [row for row in self.rows if row.seq > after and (not kinds or row.kind in kinds)]
        rows = [row for row in rows if run in (None, row.run)]
        return iter((rows[::-1] if newest_first else rows)[:limit])


REQUESTING = "run-1"
"""The run whose requests of assays stand."""
KEPT = {"balance.mass": ("g", 8.0, 6.0, 0.02), "reglo.heart.flow": ("uL/min", 2000.0, 0.0, 0.5)}
"""Series in addition to the probes: unit, mean, amplitude, noise."""


class FakeHistory:
    """Generate a day of readings on request."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.asked: list[str] = []
        self.without: set[str] = set()

    def series(self) -> dict[str, str]:
        return {point: unit for point, (unit, *_) in (PROBES | KEPT).items() if point not in self.without}

    def query(self, point: str, begin: float, end: float, max_points: int = 1000) -> list[SeriesPoint]:
        self.asked.append(point)
        if point not in self.series():
            return []
        _, middle, swing, noise = (PROBES | KEPT)[point]
        last = min(end, self._clock.utc().timestamp())
        at = np.arange(begin, last, max((end - begin) / max_points, 2.0))
        seed = sum(map(ord, point))
        wander = np.sin(at / 1400 + seed) * 0.6 + np.sin(at / 370 + 2 * seed) * 0.4
        values = middle + swing * wander + np.random.default_rng(seed).normal(0.0, noise, at.size)
        return [
            SeriesPoint(float(t), float(v), float(v - noise), float(v + noise)) for t, v in zip(at, values, strict=True)
        ]


class FakeLedger:
    """Totals and volumes as the rig's moves make them."""

    def __init__(self, volumes: dict[str, float]) -> None:
        self.ul = volumes
        self.totals = Totals(
            drawn_ul=216_400.0, given_back_ul=214_100.0, recycled_ul=171_300.0, discarded_ul=43_700.0, fresh_ul=41_200.0,
            glucose_ul=6_900.0, base_ul=1_100.0, evaporated_ul=480.0, unaccounted_ul=-120.0,
        )  # fmt: skip

        self.opened = EPOCH - timedelta(days=12)
        self.whereabouts = Whereabouts()
        self.whereabouts.loaded(Batch("NB-1", "fresh", "2026-05-01T08:00:00.000Z", "reservoir"))
        self.entered: list[tuple[str, float]] = []

    def volumes(self) -> dict[str, Volume]:
        return {name: Volume(ul, 0.002 * ul + 20.0) for name, ul in self.ul.items()}

    def unexplained(self) -> Volume:
        return Volume(self.totals.unaccounted_ul, 60.0)

    def gain(self, pump: str) -> tuple[float, float] | None:
        return (0.97, 0.01) if pump == "reglo.draw" else None

    def level(self, vessel: str, volume_ul: float, sd_ul: float, *, user: str, reason: str) -> Residual:
        if vessel not in self.ul:
            raise LedgerError(f"there is no vessel “{vessel}”")
        self.entered.append((vessel, volume_ul))
        return Residual(volume_ul - self.ul[vessel], sd_ul)

    def reconcile(self, vessel: str, volume_ul: float, sd_ul: float, *, user: str, reason: str) -> None:
        if vessel not in self.ul:
            raise LedgerError(f"there is no vessel “{vessel}”")
        self.entered.append((vessel, volume_ul))
        self.ul[vessel] = volume_ul

    def load(self, batch: Batch, volume_ul: float, sd_ul: float, *, replaces: bool, user: str, reason: str) -> None:
        if batch.vessel not in self.ul:
            raise LedgerError(f"there is no vessel “{batch.vessel}”")
        self.entered.append((batch.vessel, volume_ul))
        self.whereabouts.loaded(batch)


class FakeBypasses:
    """Bypasses that never run out."""

    def __init__(self) -> None:
        self._active: dict[str, Bypass] = {}

    def active(self) -> tuple[Bypass, ...]:
        return tuple(self._active.values())

    async def begin(self, interlock: str, user: str, reason: str, for_s: float) -> Bypass:
        if interlock != "temperature":
            raise BypassRefused(f"“{interlock}” cannot be bypassed. Likely cause: a slip. Next: choose another")
        self._active[interlock] = Bypass(interlock, user, reason, for_s, "2026-01-01T01:00:00+00:00")
        return self._active[interlock]

    def end(self, interlock: str, user: str) -> None:
        if self._active.pop(interlock, None) is None:
            raise BypassRefused(f"“{interlock}” is not bypassed. Likely cause: it ran out. Next: nothing")


class FakeGate:
    """The emergency stop, and the bypasses."""

    emergency: str | None = None

    def __init__(self) -> None:
        self.bypasses = FakeBypasses()


class FakeNerves:
    """Spikes of 32 electrodes with network bursts, on a clock of their own."""

    def __init__(self, now_s: Callable[[], float], electrodes: int) -> None:
        self._now_s = now_s
        self._electrodes = electrodes
        self._random = np.random.default_rng(7)
        self._rates = self._random.gamma(2.0, 1.3, electrodes)
        self._spikes: list[tuple[float, int]] = []
        self._until_s = -5.0

    async def summary(self) -> NervesSummary | None:
        return self.now()

    def now(self) -> NervesSummary:
        rates = tuple(float(rate) for rate in self._rates)
        return NervesSummary(self._now_s(), float(self._rates.mean()), 29, self._electrodes, rates)

    def recent_spikes(self) -> list[tuple[float, int]]:
        now_s = self._now_s()
        while self._until_s < now_s:
            burst = 14.0 if self._until_s % 2.6 < 0.16 else 1.0
            for electrode in np.flatnonzero(self._random.random(self._electrodes) < self._rates * burst * 0.02):
                self._spikes.append((self._until_s + float(self._random.random()) * 0.02, int(electrode)))
            self._until_s += 0.02
        self._spikes = sorted(spike for spike in self._spikes if spike[0] > now_s - 5.0)
        return self._spikes

    async def close(self) -> None:
        """Nothing to let go of."""


class FakeStore:
    """The latest snapshot."""

    def __init__(self) -> None:
        self.state = State(0.0, "", {}, {}, {}, (), {})


@cache
def estimate() -> dict[str, Any]:
    """The estimate of a tissue that has been well for three days."""
    look = TissueLook(
        temperature_c=Interval.around(36.9, 0.15), oxygen_pct=Interval.around(90.0, 1.5), ph=Interval.around(7.32, 0.03),
        flow_share=Interval.around(1.0, 0.03), firing_hz=Interval.around(3.1, 0.2),
    )  # fmt: skip
    recent = frozenset({"temperature_c", "oxygen_pct", "ph", "firing_hz"})
    return Statement(ViabilityEstimate.of([look] * 72), look, recent).to_json()


class FakeParts:
    """One part, which describes the scores."""

    def __init__(self, rig: FakeController) -> None:
        self._rig = rig

    def describe(self) -> list[dict[str, object]]:
        return [{"name": "scores", "stage": "judge", "state": self._rig.scores}]


class FakeController:
    """Stand in for :class:`controller.process.controller.Controller`; `live()` keeps it moving until it is cancelled."""

    started = True

    def __init__(self, path: Path = BENCH, *, array_clock: Callable[[], float] | None = None) -> None:
        self.rig = load_rig(path)
        self._points = points_of(self.rig)
        self.clock = FakeClock()
        self.journal = FakeJournal(self.clock)
        self.history = FakeHistory(self.clock)
        self.ledger = FakeLedger({name: vessel.volume_ul for name, vessel in self.rig.vessels.items()})
        self.fresh_bound = FreshBound(
            self.rig, cast(Journal, self.journal), cast(Ledger, self.ledger), cast(Clock, self.clock)
        )
        self.upkeep = Upkeep(
            self.rig, journal=cast(Journal, self.journal), clock=self.clock, data=Path("no-such-folder")
        )
        self.ledger.ul |= {"reservoir": 458_800.0, "glucose": 243_100.0, "base": 248_900.0, "waste": 43_700.0}
        self.people: People | None = None
        self.alarms = Alarms(self.journal.append, self.clock.utc_text)
        self.gate = FakeGate()
        self.runs = FakeRuns(self._act, self.journal.append, self.clock.utc_text)
        self.attachments = AttachmentStore(Path("no-such-folder"))
        self.library = ProtocolLibrary(Path("no-such-folder"), rig=self.rig, journal=cast(Journal, self.journal))
        self.tissue = TissueChanges(self.rig, cast(Journal, self.journal), cast(Clock, self.clock))
        self.assays = FakeAssays(self.journal, self.clock.utc_text)
        self.runs.enter_assay = self.assays.enter
        self.runs.requests = AssayRequests(cast(Journal, self.journal), self.clock, lambda: REQUESTING)
        array = self.rig.nerves
        self.nerves = FakeNerves(array_clock or self.clock.now_s, array.electrodes) if array else None
        self.nerves_summary: NervesSummary | None = self.nerves.now() if self.nerves else None
        self.store = FakeStore()
        self.parts = FakeParts(self)
        self.scores: dict[str, Any] | None = None
        self.electrode_deviations: tuple[float, ...] = ()
        self.ticking = True
        self.failing: dict[str, str] = {}
        """Probes that fail, with what they say."""
        self.silent: set[str] = set()
        """Probes that have said nothing for two minutes."""
        self.moving: set[str] = set()
        """Points whose device says that the value is in motion."""
        self.lost: dict[str, str] = {}
        """Actuators that do not answer any more, with why; what they said last stays."""
        self.imaging: Imaging | None = None
        self.rig_id = "0c9b5a7f21de"
        self.given_up = 0
        self._flows = dict.fromkeys(PUMPS, 0.0) | {"reglo.heart": 2000.0}
        self._random = np.random.default_rng(11)
        self._grade: dict[str, Any] | None = None
        self.journal.append("controller.started", {"rig": self.rig.name})
        self.tick()

    def as_controller(self) -> Controller:
        """Return this as the type that the page takes."""
        return cast(Controller, self)

    def probe_health(self) -> list[dict[str, Any]]:
        items = (
            ("slope_acid", "slope below pH 7", "%", 79.0, 85.0, 105.0),
            ("zero_offset", "zero offset", "mV", None, -30.0, 30.0),
        )
        figures = [
            {
                "name": name,
                "meaning": meaning,
                "unit": unit,
                "value": value,
                "low": low,
                "high": high,
                "sound": value is None,
            }
            for name, meaning, unit, value, low, high in items
        ]
        problem = "Its slope below pH 7 is 79 %, and 85 to 105 % is sound. Next: replace the electrode."
        return [{"point": "ph_loop.ph", "at_utc": self.clock.utc_text(), "problem": problem, "figures": figures}]

    async def live(self) -> None:
        while True:
            self.tick()
            await asyncio.sleep(PERIOD_S)

    def tick(self) -> None:
        now_s = self.clock.now_s()
        self.nerves_summary = self.nerves.now() if self.nerves else None
        self.store.state = State(
            now_s, self.clock.utc_text(), self._readings(now_s), self._actuators(now_s), self.ledger.volumes(), (),
            {device.link: "verified" for device in self.rig.devices.values()},
        )  # fmt: skip
        readings = self.store.state.readings
        told = readings.keys() - self.silent
        good = {point: readings[point].value for point in told if readings[point].quality is Quality.GOOD}
        self.scores = self._scores(good.get("t_chamber.temperature"), good.get("do_loop.oxygen"))

    def _scores(self, temperature_c: float | None, oxygen_pct: float | None) -> dict[str, Any]:
        near = Interval(0.2, -0.3, 0.7)
        firing = FiringMeasures(active_ratio=Interval(1.0, 0.97, 1.0), rate_z=near, signal_quality=Interval.exact(1.0))
        letter = None if self._grade is None else self._grade["letter"]
        vitals = Vitals(
            temperature_c=None if temperature_c is None else Interval.around(temperature_c, 0.15),
            oxygen_short_s=None if oxygen_pct is None else Interval.exact(0.0),
            oxygen_uptake=Interval(0.98, 0.8, 1.15),
            oxygen_uptake_by="told from lactate making [P]",
            grade=None if letter is None else MediumGrade(letter, letter),
            firing=firing,
        )
        treated = Treated(
            temperature_spread_c=Interval.around(0.3, 0.05), ph_spread=Interval.around(0.06, 0.01),
            stimulation_load=Interval.exact(0.31), rest_h=Interval.exact(19.5), own_band=near,
        )  # fmt: skip
        rating, kept = care_rating(vitals), welfare(treated)
        return {
            "viability": estimate(),
            "care_rating": rating.to_json() | {"inputs": vitals.to_json()},
            "welfare": kept.to_json() | {"inputs": treated.to_json()},
            "happiness": happiness(rating, kept).to_json(),
            "stimulation": {
                "load": 0.31, "rest_h": 19.5, "response_lost": False, "tier": 1, "level": "envelope", "reason": "",
            },
            "baseline": {"firing_hz": {"value": 3.1, "spread": 0.22, "hours": 40}},
        }  # fmt: skip

    def discarded(self) -> list[Discarded]:
        return [Discarded("influx", "readings that the other side refused", self.given_up)]

    async def emergency_stop(self, who: str, reason: str) -> None:
        self.gate.emergency = f"{who}: {reason}"
        self.journal.append("safety.estop", {"user": who, "reason": reason})

    async def emergency_reset(self, who: str, reason: str) -> None:
        self.gate.emergency = None
        self.journal.append("safety.reset", {"user": who, "reason": reason})

    @property
    def load(self) -> ProcessLoad:
        return ProcessLoad()

    def health(self) -> ControllerHealth:
        if self.ticking:
            return ControllerHealth(True, (), 0.4)
        return ControllerHealth(False, ("the control loop has not ticked for 7.0 s",), 7.0)

    def last_grade(self) -> dict[str, Any] | None:
        return None if self._grade is None else {key: value for key, value in self._grade.items() if key != "letter"}

    def _readings(self, now_s: float) -> dict[str, Reading]:
        readings = {}
        for point, (unit, middle, swing, noise) in PROBES.items():
            value = middle + swing * math.sin(now_s / 400 + len(point)) + float(self._random.normal(0.0, noise))
            readings[point] = Reading(value, unit, Quality.GOOD, now_s)
        readings["balance.mass"] = Reading(self.ledger.ul.get("spent", 0.0) / 1000 * 1.007, "g", Quality.GOOD, now_s)
        for point, detail in self.failing.items():
            readings[point] = replace(readings[point], quality=Quality.MISSING, detail=detail)
        for point in self.moving:
            readings[point] = replace(readings[point], stable=False)
        for point in self.silent:
            readings[point] = replace(readings[point], at_s=now_s - 2 * MINUTE_S)
        return {point: reading for point, reading in readings.items() if self._has(point)}

    def _has(self, point: str) -> bool:
        """Whether the rig has the point; the firing rate is that of its electrode array."""
        return self.nerves is not None if point == "nerves.firing_rate" else point in self._points

    def _actuators(self, now_s: float) -> dict[str, ActuatorView]:
        def view(status: Status, basal: Run | Switch | Level | Stop, guarantee: Guarantee) -> ActuatorView:
            return ActuatorView(status, now_s, basal, basal, guarantee, None)

        views = {
            pump: view(PumpStatus(flow != 0.0, flow, 0.0), Stop(), Guarantee.DEVICE)
            for pump, flow in self._flows.items()
        }
        views["reglo.heart"] = replace(views["reglo.heart"], basal=Run(1000.0), guarantee=Guarantee.GUARD)
        heating = now_s % 20.0 < 9.0
        views["relay.heater"] = view(SwitchStatus(heating), Switch(False), Guarantee.DEVICE)
        returning = self._flows["reglo.return"] != 0.0
        views["relay.return_valve"] = view(SwitchStatus(returning), Switch(False), Guarantee.GUARD)
        for name in ("air", "co2", "o2"):
            middle = PROBES[f"gas_{name}.flow"][1]
            views[f"gas_{name}.flow"] = view(LevelStatus(middle, middle), Level(middle), Guarantee.GUARD)
        return {name: replace(seen, fault=self.lost.get(name, "")) for name, seen in views.items() if self._has(name)}

    def _act(self, verb: str, args: Mapping[str, Any], share: float) -> Any:
        """What a step does to the rig."""
        for pump in PUMPS[1:]:
            self._flows[pump] = 0.0
        if verb in MOVES:
            source, target, pump = MOVES[verb]
            moved = args["volume_ul"] * share
            self.ledger.ul[source] -= moved
            self.ledger.ul[target] += moved
            self._flows[pump] = 4000.0
            return {"ul": args["volume_ul"] * 1.012, "low": args["volume_ul"] * 1.004, "high": args["volume_ul"] * 1.02}
        if verb == "measure":
            reading = self.store.state.readings[args["point"]]
            interval = Interval.around(reading.value, 0.02).to_json()
            return {"point": args["point"], "unit": reading.unit, "interval": interval, "detail": ""}
        if verb == "note" and args["kind"] == "grade":
            self._note_grade()
        if verb == "note" and args["kind"] == "recycle":
            self._note_recycle()
        return None

    def _note_grade(self) -> None:
        found = grade(
            Sample(
                lactate_mm=Interval(6.2, 5.1, 7.3), ammonia_mm=Interval(0.21, 0.17, 0.26),
                glucose_share=Interval(0.71, 0.64, 0.78), glucose_mm=Interval(14.9, 13.4, 16.4),
                ph=Interval(7.21, 7.19, 7.24), osmolality_change_pct=Interval(1.2, -0.6, 2.9),
                oxygen_pct=Interval(90.1, 88.9, 91.3), passes=Interval.exact(2.0), sterile=True,
            ),
            rules_of(self.rig),
        )  # fmt: skip
        body = {"cycle": 12, "of": "batch", **found.to_json()}
        self._grade = {"utc": self.clock.utc_text(), "letter": found.letter, **body}
        self.journal.append("note.grade", body)

    def _note_recycle(self) -> None:
        plan = BatchPlan(0.0, 3_950.0, 3_600.0, 640.0, 0.0, 18_000.0, 0.2)
        chosen = Candidate(
            "dilute", 18_000.0, plan, {"fresh": 4.32, "filter": 0.022, "risk": 0.31}, 0.031, "lactate_mm", 0.024
        )
        others = (
            Candidate("return", 18_000.0, plan, {}, 0.4, "lactate_mm", 0.4, refused="grade B is conditioned first"),
            Candidate("condition", 18_000.0, plan, {"risk": 4.71}, 0.47, "lactate_mm", 0.47, still="lactate_mm"),
            Candidate("discard", 18_000.0, plan, {"fresh": 21.6}, 0.0, "ph", 0.0),
        )
        decision = Decision(chosen, others, 40)
        moved = {"drawn_ul": 18_000.0, "fresh_ul": 3_600.0, "given_back_ul": 18_000.0, "discarded_ul": 3_950.0}
        body = {"cycle": 12, "grade": "B", "limiting": "lactate_mm", "action": "dilute", "decision": decision.to_json()}
        self.journal.append("note.recycle", body | moved)

    async def close(self) -> None:
        await self.runs.close()
