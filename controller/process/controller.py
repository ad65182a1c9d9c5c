"""The controller: one rig's living process, assembled and ticking once a second.

A tick evaluates every interlock, takes a snapshot, lets the gate enforce the trips, collects the intents of the
regulators, and passes the snapshot to alarms, history and sinks. A slow device delays no tick: commands to devices run as
tasks of their own on the same loop. So do sampling, protocols and the page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.alarms.care import FailedCare
from controller.alarms.lines import merge_lost_lines, shared_lines
from controller.alarms.states import ROWS as ALARM_ROWS
from controller.alarms.states import Alarms
from controller.analysers.analysers import Analysers
from controller.attachments.store import AttachmentStore
from controller.core.clock import Clock
from controller.core.discarded import Discarded
from controller.core.state import State, StateStore
from controller.core.version import software_version
from controller.delivery.people import People
from controller.estimator.assays import Assays
from controller.gate.emergency import Button, Emergency, Stimulator
from controller.gate.gate import Gate
from controller.gate.latch import Latch, SecondPlace
from controller.gate.probes import GatedProbe, Probes
from controller.guard.heartbeat import Guarded, Heartbeat
from controller.hazards.rest import rest_periods
from controller.imaging.engine import CaptureEngine
from controller.imaging.imaging import Imaging
from controller.journal.journal import Journal
from controller.journal.terms import JournalUnwritten
from controller.ledger.bound import FreshBound
from controller.ledger.ledger import Ledger
from controller.links.body import ConnectedRig
from controller.memory.calibrations import Calibration, keep
from controller.memory.checkpoints import Checkpoints
from controller.memory.history import FLUSH_S, History
from controller.memory.output_series import OutputSeries
from controller.process.absence import absence_doubt
from controller.process.assembly import Assembly, NotConnected
from controller.process.causes import (
    Causes,
    CauseSource,
    actuator_causes,
    interlock_causes,
    loop_causes,
    nerves_causes,
    record_causes,
    shortfall_causes,
    sink_causes,
)
from controller.process.discarded import DiscardedWatch
from controller.process.edges import Edges
from controller.process.health import ControllerHealth
from controller.process.load import ProcessLoad
from controller.process.notices import notices
from controller.process.pace import Pace
from controller.process.sink import Sink
from controller.process.stimulation_hold import StimulationHold
from controller.process.tasks import Tasks, Timer
from controller.process.tissue_changes import TissueChanges
from controller.process.trip_record import TripRecord
from controller.process.wall_clock import WallClockWatch
from controller.readings.agreement import Agreement
from controller.readings.liveliness import Liveliness
from controller.readings.nerves import NervesReader
from controller.readings.plausibility import Plausibility
from controller.readings.vigilance import Vigilance, oldest_answers
from controller.regulation.heart import HeartRegulator
from controller.regulation.heat_balance import HeatBalance
from controller.regulation.references import References
from controller.regulation.regulators import Regulator, regulators_of
from controller.rig.description import Rig
from controller.rig.loading import effective_hash
from controller.runs.library import ProtocolLibrary
from controller.runs.runner import Runner
from controller.safety.limits import basal_states, limits_of
from controller.safety.terms import Intent, Limits
from controller.upkeep.probe_health import ProbeHealthWatch
from controller.upkeep.upkeep import Upkeep
from controller.vitals.scoring import Scoring, last_grade
from controller.vitals.vitals import vital_signs
from drivers.transport.opener import Opener
from nerves.summary import NervesSource, NervesSummary

logger = logging.getLogger(__name__)

TICK_S = 1.0
DEAD_AFTER_S = 5.0
"""Time (s) without a tick after which a control loop is not healthy (D6)."""
NERVES_EVERY_S = 10.0
LINKS_EVERY_S = 5.0
VALVE_LEASE_S = 30.0
"""A valve stays open no longer than this after its transfer has last asked for it."""
LAZY_FLUSH_S = 900.0
"""How often history is written when nothing has to outlive the process, as in a simulation."""
FALL_BACK_S = 10.0
"""How long an orderly end waits for devices that do not answer."""


class Controller:
    """One rig. `start`, then `run` until the event is set, then `close`."""

    def __init__(
        self,
        *,
        rig: Rig,
        opener: Opener,
        data_dir: Path,
        clock: Clock,
        nerves_source: NervesSource | None = None,
        stimulator: Stimulator | None = None,
        durable: bool = True,
        sinks: tuple[Sink, ...] = (),
        guard: Guarded | None = None,
        journal: Journal | None = None,
        limits: Limits | None = None,
        threaded: bool = False,
        people: People | None = None,
        notices: Mapping[tuple[str, str], str] | None = None,
        cameras: CaptureEngine | None = None,
        rig_id: str = "",
        second_place: SecondPlace | None = None,
        alarm_sources: tuple[CauseSource, ...] = (),
    ) -> None:
        """Open the records of a rig.

        Args:
            stimulator: What an emergency stop stops in addition to the outputs.
            durable: Whether rows must outlive the process.
            guard: The connection to the guard; `close` closes it.
            journal: A journal that the caller has opened already; `close` closes it.
            limits: For campaigns only (docs/campaign.md): limits from which an interlock was removed.
            threaded: Whether writes that wait for a disk run in threads (real time).
            notices: Alarms that stand as long as this process lives, (kind, source) -> detail.
            cameras: Takes the images; None leaves the rig's cameras alone.
            alarm_sources: Parts outside the controller that raise alarms.
            rig_id: Identity of the data folder; empty where it has none (virtual time).
            second_place: Keeps the emergency stop outside of the data folder.
        """
        self.rig = rig
        self.rig_id = rig_id
        self.clock = clock
        self.nerves = nerves_source
        self.nerves_summary: NervesSummary | None = None
        self.people = people
        self.load = ProcessLoad()
        self.edges = Edges()
        """What cannot end the control loop: page, health port, electrode engine, sinks, delivery."""
        self._stimulator = stimulator
        self.told_to_end = asyncio.Event()
        """Set when the guard wants this controller to end in order."""
        self._opener = opener
        self._second_place = second_place
        self._limits = limits or limits_of(rig)
        self._hearts = frozenset(heart.pump for heart in self._limits.hearts)
        self.sinks = sinks
        self._alarm_sources = alarm_sources
        self._discarded = DiscardedWatch()
        self._data_dir = data_dir
        self._threaded = threaded
        self._notices = dict(notices or {})
        self._tasks = Tasks(self._defect)
        self._nerves_timer = Timer(NERVES_EVERY_S)
        self._links_timer = Timer(LINKS_EVERY_S)
        self._ticks = 0
        self._ticked_s: float | None = None
        self._closed = False
        self._assembly: Assembly | None = None
        self._vigilance = Vigilance(rig)
        self._shared_lines = shared_lines(rig)
        self._agreement: Agreement | None = None
        rest_s = rest_periods(rig)
        self._plausibility = Plausibility(rig, rest_s)
        self.store = StateStore(Liveliness(rig).flat, oldest_answers(rig), self._plausibility)
        self.pace = Pace(rig, self._limits, self.store, rest_s)
        self._nerves_reader = NervesReader(self.store, clock)
        self._open_records(journal, durable=durable)
        self.imaging = self._imaging(cameras)
        self._emergency = self._emergency_stop(stimulator)
        self._stimulation_hold = StimulationHold(rig, self.alarms, self._emergency, self._tasks)
        self._heartbeat = Heartbeat(
            guard,
            ticks=lambda: self._ticks,
            devices=lambda: {} if self._assembly is None else self._assembly.devices.verified(),
            counts=lambda: {} if self._assembly is None else self._assembly.devices.counted(),
            lost=lambda why: self.alarms.event("guard_lost", "guard", why),
            stop=self.emergency_stop,
            end=self._told_to_end,
        )

    def _open_records(self, journal: Journal | None, *, durable: bool) -> None:
        """Open journal and history, and what is read from and written to them."""
        self.attachments = AttachmentStore(self._data_dir, threaded=self._threaded)
        self.journal = journal or Journal(self._data_dir / "journal.db", self.clock, durable=durable)
        self.library = ProtocolLibrary(self._data_dir, rig=self.rig, journal=self.journal)
        flush_s = FLUSH_S if durable else LAZY_FLUSH_S
        history = self._data_dir / "history.db"
        self.history = History(history, self.clock, flush_s=flush_s, autocheckpoint=not self._threaded)
        self._checkpoints = Checkpoints(self._data_dir, self._tasks.start) if self._threaded else None
        self._outputs = OutputSeries(self.history.add)
        self.alarms = Alarms(self.journal.append, self.clock.utc_text)
        self._trip_record = TripRecord(self._record)
        self._wall_clock = WallClockWatch(self.clock, self._record, self.alarms.event)
        self.ledger = Ledger(self.rig, self.journal, self.clock, alarm=self.alarms.event)
        self.fresh_bound = FreshBound(self.rig, self.journal, self.ledger, self.clock)
        self.tissue = TissueChanges(self.rig, self.journal, self.clock)
        self.upkeep = Upkeep(
            self.rig,
            journal=self.journal,
            clock=self.clock,
            data=self._data_dir,
            batches=lambda: self.ledger.whereabouts.batches,
            volumes=self.ledger.volumes,
        )

    def _imaging(self, engine: CaptureEngine | None) -> Imaging | None:
        """Return the cameras of the rig; None if it has none."""
        if engine is None or not self.rig.cameras:
            return None
        return Imaging(
            self.rig,
            engine=engine,
            store=self.store,
            journal=self.journal,
            clock=self.clock,
            data=self._data_dir,
            tissue=self.tissue.record,
            start=self._tasks.start,
        )

    def _emergency_stop(self, stimulator: Stimulator | None) -> Emergency:
        button = self.rig.safety.emergency_stop
        return Emergency(
            latch=Latch(self._data_dir, self._second_place),
            stimulator=stimulator,
            button=None if button is None else Button(button),
            record=self._record,
            alarm=self.alarms.event,
        )

    @property
    def started(self) -> bool:
        """Whether the devices are connected; `gate`, `runs` and `assays` exist from then on."""
        return self._assembly is not None

    @property
    def _connected(self) -> Assembly:
        if self._assembly is None:
            raise NotConnected
        return self._assembly

    @property
    def body(self) -> ConnectedRig:
        """The connected devices. Raises :class:`NotConnected` before :meth:`start`, as the next three do."""
        return self._connected.devices

    @property
    def gate(self) -> Gate:
        """The one path to the actuators."""
        return self._connected.gate

    @property
    def runs(self) -> Runner:
        """The runs of protocols."""
        return self._connected.runs

    @property
    def assays(self) -> Assays:
        """The assays of the medium."""
        return self._connected.runs.assays

    async def start(self) -> None:
        """Connect everything, set the heart going, and take up what a crash interrupted.

        Raises :class:`~controller.links.connect.ConnectError` when nothing at all answers.
        """
        self._heartbeat.begin()
        self.alarms.restore(self.journal.entries(kinds=ALARM_ROWS), self.clock.now_s())
        last_utc = self._last_utc()
        started = {"rig": self.rig.name, "rig_hash": effective_hash(self.rig), "version": software_version()}
        started |= {"rig_id": self.rig_id} if self.rig_id else {}
        self._record("controller.started", started)
        self._wall_clock.began(last_utc)
        self._notices |= notices(self.rig, self.journal, self.clock.utc(), self._data_dir)
        devices = await ConnectedRig.connect(self.rig, self._opener, self.store)
        for failure in devices.failures:
            logger.warning("%s did not come up: %s", failure.device, failure.error)
        try:
            self._assembly = self._assemble(devices)
        except BaseException:
            await devices.close()
            raise
        self._emergency.restore(self.gate, self.journal)
        self.ledger.listen(lambda movement: self.gate.booked(self.rig.lines[movement.line].pump or ""))
        await self.body.begin(self.gate.poll, self.pace.rest_s)
        if self.gate.emergency is not None:  # an emergency stop of an earlier process
            await self.gate.keep_emergency()
        self.store.volumes(self.ledger.volumes())
        # The hearts run before anything that a crash interrupted is taken up: no medium is drawn while one stands.
        state = self.store.snapshot(self.clock.now_s(), self.clock.utc_text(), ())
        hearts = (each for each in self._assembly.regulators.values() if isinstance(each, HeartRegulator))
        await asyncio.gather(*(self._submit(heart.intents(state)) for heart in hearts))
        self._ticked_s = self.clock.now_s()
        await self.runs.recover(absence_doubt(self.rig, last_utc, self.clock.utc(), self.ledger.volumes()))

    def _last_utc(self) -> str | None:
        """Return when a controller before this one last recorded a row or a reading."""
        row = next(self.journal.entries(newest_first=True), None)
        read = self.history.last_at()
        times = [] if row is None else [datetime.fromisoformat(row.utc)]
        times += [] if read is None else [datetime.fromtimestamp(read, UTC)]
        return max(times).isoformat() if times else None

    def _assemble(self, devices: ConnectedRig) -> Assembly:
        """Make gate, runs, scores and regulators for connected `devices`."""
        leases = dict.fromkeys(self._limits.switches, VALVE_LEASE_S)
        leases |= {heart.pump: heart.lease_s for heart in self._limits.hearts}
        health = self._probe_health(devices)
        gate = Gate(
            actuators=devices.hand_over_actuators(),
            limits=self._limits,
            basal=basal_states(self.rig),
            leases_s=leases,
            store=self.store,
            journal=self.journal,
            clock=self.clock,
            alarm=self.alarms.event,
            volumes=self.ledger.volumes,
            calibrated=lambda: self.upkeep.pumps,
            probes=self._probes(devices, health),
        )
        runs = Runner(
            self.rig,
            gate=gate,
            store=self.store,
            journal=self.journal,
            ledger=self.ledger,
            clock=self.clock,
            alarm=self.alarms.event,
            trust=self.upkeep.trust,
            calibrated=self.upkeep.refusal,
            recipes=self._data_dir / "recipes",
            library=self.library,
            tissue=self.tissue.record,
            tissue_loss=lambda: self._connected.scoring.tissue_loss,
        )
        vitals = vital_signs(self.rig, runs.estimator, grade=self.last_grade, journal=self.journal, clock=self.clock)
        memory, skin = References(self.journal), self.rig.organs.skin
        heat = HeatBalance(skin, memory) if self._limits.compared and skin is not None else None
        self._agreement = Agreement(self.rig, memory, heat) if self._limits.compared else None
        scoring = Scoring(vitals, care=FailedCare(self.rig), record=self._record)
        analysers = self._analysers(devices, runs)
        return Assembly(devices, gate, runs, analysers, scoring, regulators_of(self.rig, heat), health)

    def _analysers(self, devices: ConnectedRig, runs: Runner) -> Analysers:
        """Make the way of at-line results into the assays."""
        return Analysers(
            self.rig,
            devices.results,
            enter=runs.enter_assay,
            book=runs.assays.book,
            journal=self.journal,
            clock=self.clock,
            alarm=self.alarms.event,
            start=self._tasks.start,
        )

    def _probes(self, devices: ConnectedRig, health: ProbeHealthWatch) -> Probes:
        """Make the access to the probes' own calibrations; each one that is set is kept among the rig's records."""
        return Probes(
            {
                point: GatedProbe(calibrator, self.rig.devices[point.partition(".")[0]].every_s)
                for point, calibrator in devices.hand_over_calibrators().items()
            },
            rig=self.rig.name,
            limits=self._limits,
            store=self.store,
            journal=self.journal,
            clock=self.clock,
            keep=self._keep,
            alarm=self.alarms.event,
            examine=health.examine,
        )

    def _probe_health(self, devices: ConnectedRig) -> ProbeHealthWatch:
        """Make the watch over the health that probes report of themselves."""
        return ProbeHealthWatch(
            devices.health,
            {name: spec.link for name, spec in self.rig.devices.items()},
            record=self._record,
            clock=self.clock,
            start=self._tasks.start,
        )

    def _keep(self, record: Calibration) -> None:
        """Add a calibration to the rig's records; in real time in a thread, because it waits for the disk."""
        if self._threaded:
            self._tasks.start(f"calibration {record.point}", asyncio.to_thread(keep, self._data_dir, record))
        else:
            keep(self._data_dir, record)

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until `stop` is set. Ticks keep to their grid; a late one is not made up for."""
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        self.body.count_from(next_s)
        while not stop.is_set():
            self._tick(loop.time() - next_s)
            next_s += TICK_S * max(1, int((loop.time() - next_s) / TICK_S) + 1)
            await asyncio.sleep(max(0.0, next_s - loop.time()))
        self._heartbeat.ending()

    def _tick(self, late_s: float) -> None:
        """One tick. What keeps the rig safe may not fail; if it does, this process ends and the guard acts."""
        self.load.ticked(late_s, getattr(asyncio.get_running_loop(), "speed", 1.0))  # a demo's loop is faster than life
        self.store.volumes(self.ledger.volumes())
        state = self._look()
        if self.gate.enforce(state.trips):
            self._tasks.start(f"safety {state.at_s}", self.gate.settle())
        for name, regulator in self._connected.regulators.items():
            self._tasks.isolate(name, self._regulate, name, regulator, state)
        self._tasks.isolate("wall clock", self._wall_clock.look)
        self.journal.look()
        if (lost := self.journal.lost) is not None and not self._emergency.forbidden:
            self._tasks.start("no journal", self._emergency.forbid_stimulation(str(lost)))
        self._tasks.isolate("strays", self._stray, state)
        self._tasks.isolate("continuous bookings", self.runs.continuous.look, state)
        self._tasks.isolate("upkeep", self.upkeep.look, state.actuators, self.gate.revolution_ul)
        self._tasks.isolate("alarms", self._alarm_levels, state, late_s)
        self._tasks.isolate("stimulation", self._stimulation_hold.look, state)
        self._tasks.isolate("sampling", self.pace.look, state, self._connected)
        if self.people is not None:
            self._tasks.isolate("people", self.people.look, self.alarms)
        self._tasks.isolate("history", self.history.add, state.at_s, state.utc, self.store.news())
        self._tasks.isolate("outputs", self._outputs.observe, state)
        if self._checkpoints is not None:
            self._checkpoints.look(state.at_s)
        for sink in self.sinks:
            self._tasks.isolate(type(sink).__name__, sink.offer, state)
        self._tasks.isolate("nerves", self._listen, state)
        self._tasks.isolate("scores", self._connected.scoring.look, state, self.nerves_summary, self.alarms)
        self._tasks.isolate("analysers", self._connected.analysers.look, state.at_s)
        self._tasks.isolate("health of probes", self._connected.health.look, state)
        if self.imaging is not None:
            self._tasks.isolate("images", self.imaging.look, state.at_s)
        self._ticked_s = state.at_s
        self._ticks += 1

    def _look(self) -> State:
        """Every interlock, then everything frozen as the state of this tick."""
        now_s = self.clock.now_s()
        if self._links_timer.due(now_s):
            self.body.see_links()
            self.store.age(now_s)
        if (pressed := self._emergency.look(self.store.readings, now_s)) and not self._tasks.running(
            "emergency button"
        ):
            self._tasks.start("emergency button", self.emergency_stop("emergency button", pressed))
        trips = self.gate.observe()
        self._trip_record.note(trips)
        return self.store.snapshot(now_s, self.clock.utc_text(), trips)

    def _regulate(self, name: str, regulator: Regulator, state: State) -> None:
        if self._tasks.running(name):
            return  # its last intents are still under way; it will submit again
        if intents := regulator.intents(state):
            self._tasks.start(name, self._submit(intents))

    def _stray(self, state: State) -> None:
        """What moves and was not asked for is booked, told and stopped."""
        for route in self.runs.strays.look(state.actuators):
            name = f"stray {route.pump}"
            if not self._tasks.running(name):
                self._tasks.start(name, self._halt(route.pump))

    async def _halt(self, pump: str) -> None:
        await self.gate.stop(pump, "it runs, and no dose of its line is open")

    async def _submit(self, intents: tuple[Intent, ...]) -> None:
        for intent in intents:
            await self.gate.submit(intent)

    def _defect(self, name: str, error: BaseException) -> None:
        if isinstance(error, JournalUnwritten):  # a disk that is full is no defect of this program (D2)
            self._unwritten(error)
            return
        logger.error("%s failed", name, exc_info=error)
        self.alarms.event("defect", name.partition(" ")[0], f"{type(error).__name__}: {error}")

    @property
    def scores(self) -> dict[str, Any] | None:
        """The latest scores (:meth:`controller.vitals.vitals.Scores.to_json`); None before the first, or if it has none."""
        return None if self._assembly is None else self._assembly.scoring.latest

    @property
    def electrode_deviations(self) -> tuple[float, ...]:
        """Distance of each electrode's rate from its own baseline, in spreads; NaN where it is not known."""
        return () if self._assembly is None else self._assembly.scoring.electrode_deviations

    def last_grade(self) -> dict[str, Any] | None:
        """The note of the last graded batch: grade, limiting variable, reasons, variables, estimate."""
        return last_grade(self.journal)

    def probe_health(self) -> list[dict[str, Any]]:
        """What each probe last reported of its health; empty before :meth:`start`."""
        return [] if self._assembly is None else self._assembly.health.to_json()

    def _record(self, kind: str, body: Mapping[str, Any]) -> None:
        try:
            self.journal.append(kind, body)
        except JournalUnwritten as error:
            self._unwritten(error)

    def _unwritten(self, error: JournalUnwritten) -> None:
        logger.error("%s", error)
        self.alarms.event("journal_unwritten", "journal", str(error))

    def _alarm_levels(self, state: State, late_s: float) -> None:
        causes, unseen = self._vigilance.causes(state)
        if self._agreement is not None:
            differing, unknown = self._agreement.causes(state)
            causes, unseen = causes | differing, [*unseen, *unknown]
        causes = causes | self._causes(state, late_s)
        silent = {alarm.id for alarm in self.alarms.suppressed()}
        self.alarms.levels(causes, state.at_s, merge_lost_lines(self._shared_lines, causes, unseen, silent))

    def _causes(self, state: State, late_s: float) -> dict[tuple[str, str], str]:
        """Return the present causes of alarms other than those in readings: detail by (alarm kind, source)."""
        found = {
            **interlock_causes(state.trips, self.gate.bypasses.active()),
            **actuator_causes(state.actuators),
            **shortfall_causes(self.gate.shortfalls, self._hearts),
            **self.upkeep.causes,
            **self.tissue.causes,
            **self._notices,
            **self._connected.scoring.concerns,
            **self._connected.health.causes,
            **self.runs.requests.causes(state.at_s),
            **loop_causes(late_s, TICK_S, self.load),
            **record_causes(self.journal, self.history),
            **{cause: detail for part in self._alarm_sources for cause, detail in part.causes.items()},
            **self._discarded.causes(self.discarded(), state.at_s),
            **self.edges.causes,
        }
        edges: dict[str, Callable[[], Causes]] = {  # one that fails leaves the alarms of all others
            "nerves": lambda: nerves_causes(self._stimulator),
            "sinks": lambda: sink_causes(self.sinks),
            "images": lambda: {} if self.imaging is None else self.imaging.causes,
            "people": lambda: {} if self.people is None else self.people.causes(),
            "analysers": lambda: dict(self._connected.analysers.causes),
        }
        for name, causes in edges.items():
            self._tasks.isolate(name, lambda causes=causes: found.update(causes()))
        return found

    def discarded(self) -> list[Discarded]:
        """Return what was discarded since the start, for every reason; of an outbox, since its file was made."""
        suspect = Discarded("readings", "marked suspect and used for nothing", self._plausibility.dropped, lost=False)
        return [suspect, *self.history.discarded, *(each for sink in self.sinks for each in sink.discarded)]

    def _listen(self, state: State) -> None:
        """Ask the nerves for a summary now and then, never waiting for it."""
        if self.nerves is not None and not self._tasks.running("nerves") and self._nerves_timer.due(state.at_s):
            self._tasks.start("nerves", self._read_nerves(self.nerves))

    async def _read_nerves(self, nerves: NervesSource) -> None:
        self.nerves_summary = await self._nerves_reader.read(nerves)

    async def emergency_stop(self, who: str, reason: str) -> None:
        """Stop perfusion outputs and stimulation together, until :meth:`emergency_reset` (A9); at any time, and again."""
        await self._emergency.stop(who, reason)

    async def emergency_reset(self, who: str, reason: str) -> None:
        """End an emergency stop. Raises :class:`~controller.gate.emergency.ResetRefused`."""
        await self._emergency.reset(who, reason)

    def _told_to_end(self, why: str) -> None:
        logger.warning("ending in order: %s", why)
        self.told_to_end.set()

    def health(self) -> ControllerHealth:
        """Whether the control loop lives and the journal is written (D6); a page that still answers proves nothing."""
        if self._ticked_s is None:
            return ControllerHealth(False, ("the control loop has not ticked yet",), float("inf"))
        age_s = self.clock.now_s() - self._ticked_s
        reasons = [f"the control loop has not ticked for {age_s:.1f} s"] if age_s > DEAD_AFTER_S else []
        reasons += [problem] if (problem := self.journal.problem) is not None else []
        return ControllerHealth(not reasons, tuple(reasons), age_s)

    async def close(self, *, leave_running: bool = False) -> None:
        """End: let go of the runs where they are, bring every output to its basal state, close links and files.

        The heart goes on at its basal flow: the tissue outlives a restart of this program. With `leave_running` the
        outputs stay as they are, as after a crash. The guard goes on with those that could not be brought to it.
        """
        if self._closed:
            return
        self._closed = True
        self.edges.cancel()
        self._heartbeat.ending()
        if self._assembly is not None:
            await self.runs.close()
        await self._tasks.cancel()
        if self.imaging is not None:
            await self.imaging.close()
        if self._assembly is not None:
            if not leave_running:
                await self._fall_back()
            await self.body.close()
            self._tasks.isolate("upkeep", self.upkeep.write)
            self._record("controller.stopped", {})
        self._heartbeat.leave()  # now that the links are free
        await self._heartbeat.close()
        await self.edges.close()
        self.journal.close()
        self.history.close()

    async def _fall_back(self) -> None:
        """Bring every output to its basal state; the guard has nothing left to do only if each is there."""
        ending = self.gate.ending(self.runs.min_doses_ul)
        within_s = FALL_BACK_S + max(ending.values(), default=0.0)
        try:
            async with asyncio.timeout(within_s):
                owing = await self.gate.fall_back("the controller ends", ending)
        except TimeoutError:
            logger.warning(
                "not every output could be brought to its basal state within %g s: the guard goes on", within_s
            )
            return
        if owing:
            logger.warning("could not be brought to the basal state: %s; the guard goes on", ", ".join(owing))
            return
        self._heartbeat.goodbye()
