"""The controller: one rig's living process, assembled and ticking once a second.

A tick freezes a snapshot, asks the kernel which interlocks are not content, lets the gate enforce them, lets the
regulators act, and hands the snapshot to history, alarms and sinks. Everything else (sampling, protocols, the page) runs
beside it on the same loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from controller.alarms import DEFINITIONS, Alarms
from controller.body import Body
from controller.clock import Clock
from controller.execution.journal import Journal
from controller.execution.ledger import Ledger
from controller.execution.runner import Runner
from controller.guard import GOODBYE
from controller.memory.history import History
from controller.nerves.summary import NervesSource, NervesSummary
from controller.regulation.gas import GasRegulator
from controller.regulation.heart import HeartRegulator
from controller.regulation.temperature import TemperatureRegulator
from controller.rig.description import Rig
from controller.rig.loading import effective_hash
from controller.safety.gate import Gate
from controller.safety.kernel import Trip, evaluate
from controller.safety.limits import basal_states, limits_of
from controller.state import State, StateStore
from controller.vitals import VitalSigns
from drivers.device import Quality
from drivers.transport.opener import Opener
from protocols.grading import Letter

logger = logging.getLogger(__name__)

TICK_S = 1.0
DEAD_AFTER_S = 5.0
"""A control loop that has not ticked for so long is not healthy (D6)."""
NERVES_EVERY_S = 10.0
LINKS_EVERY_S = 5.0
SCORE_EVERY_S = 60.0
SCORE_JOURNAL_EVERY_S = 3600.0
VALVE_LEASE_S = 2400.0
"""A valve stays open no longer than the longest transfer and a little more."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the control loop lives, and why not."""

    ok: bool
    reasons: tuple[str, ...]
    tick_age_s: float


class Sink(Protocol):
    """Something that carries readings away (MQTT, say). It must return at once and never fail."""

    def offer(self, state: State) -> None:
        """Take this tick's snapshot."""


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
        durable: bool = True,
        sinks: tuple[Sink, ...] = (),
        heartbeat: int | None = None,
    ) -> None:
        self.rig = rig
        self.clock = clock
        self.nerves = nerves_source
        self.nerves_summary: NervesSummary | None = None
        self.store = StateStore()
        self.journal = Journal(data_dir / "journal.db", clock, durable=durable)
        self.history = History(data_dir / "history.db", clock)
        self.alarms = Alarms(self.journal.append, clock.utc_text)
        self.ledger = Ledger(rig, self.journal, clock, alarm=self.alarms.event)
        self.body: Body
        self.gate: Gate
        self.runs: Runner
        self._opener = opener
        self._limits = limits_of(rig)
        self._sinks = sinks
        self._heartbeat = heartbeat
        self._trips: tuple[Trip, ...] = ()
        self._ticked_s: float | None = None
        self._next_nerves_s = 0.0
        self._next_links_s = 0.0
        self._next_score_s = 0.0
        self._next_score_row_s = 0.0
        self.viability: dict[str, Any] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Connect everything, bring the heart to its flow, and take up what a crash interrupted."""
        self.journal.append("controller.started", {"rig": self.rig.name, "rig_hash": effective_hash(self.rig)})
        self.body = await Body.connect(self.rig, self._opener, self.store)
        for failure in self.body.failures:
            logger.warning("%s did not come up: %s", failure.device, failure.error)
        leases = dict.fromkeys(self._limits.switches, VALVE_LEASE_S)
        leases[self._limits.heart] = self.rig.organs.heart.lease_s
        self.gate = Gate(
            actuators=self.body.hand_over_actuators(),
            limits=self._limits,
            basal=basal_states(self.rig),
            leases_s=leases,
            store=self.store,
            journal=self.journal,
            clock=self.clock,
            alarm=self.alarms.event,
        )
        self.runs = Runner(
            self.rig,
            gate=self.gate,
            store=self.store,
            journal=self.journal,
            ledger=self.ledger,
            clock=self.clock,
            alarm=self.alarms.event,
        )
        self._vitals = VitalSigns(self.rig, self.runs.estimator, self._last_letter)
        self._regulators = (
            HeartRegulator(self.rig, self.gate),
            TemperatureRegulator(self.rig, self.gate),
            GasRegulator(self.rig, self.gate),
        )
        self.body.begin(self.gate.saw)
        self.store.volumes(self.ledger.volumes())
        await self.runs.recover()

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until `stop` is set. Ticks keep to their grid; a late one is not made up for."""
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        while not stop.is_set():
            late_s = loop.time() - next_s
            await self._tick(late_s)
            next_s += TICK_S * max(1, int((loop.time() - next_s) / TICK_S) + 1)
            await asyncio.sleep(max(0.0, next_s - loop.time()))

    async def _tick(self, late_s: float) -> None:
        now_s = self.clock.now_s()
        self.store.volumes(self.ledger.volumes())
        if now_s >= self._next_links_s:
            self._next_links_s = now_s + LINKS_EVERY_S
            self.body.see_links()
        trips = evaluate(self.gate.view(), self._limits, self._trips)
        self._note_trips(trips)
        state = self.store.snapshot(now_s, self.clock.utc_text(), trips)
        await self.gate.tick(trips)
        for regulator in self._regulators:
            await regulator.step(state)
        self.alarms.levels(self._causes(state, late_s), now_s)
        self.history.add(now_s, state.utc, state.readings)
        for sink in self._sinks:
            sink.offer(state)
        self._listen(now_s)
        self._score(state)
        self._ticked_s = now_s
        self._beat(b".")

    def _beat(self, sign: bytes) -> None:
        """Tell the guard that this process lives."""
        if self._heartbeat is not None:
            try:
                os.write(self._heartbeat, sign)
            except OSError as error:
                logger.error("the guard is gone (%s); nothing watches this controller", error)
                self._heartbeat = None
                self.alarms.event("guard_lost", "guard", str(error))

    def _score(self, state: State) -> None:
        """The viability score, once a minute; into the journal once an hour."""
        if state.at_s < self._next_score_s:
            return
        self._next_score_s = state.at_s + SCORE_EVERY_S
        self.viability = self._vitals.score(state).to_json()
        if state.at_s >= self._next_score_row_s:
            self._next_score_row_s = state.at_s + SCORE_JOURNAL_EVERY_S
            self.journal.append("viability", self.viability)

    def last_grade(self) -> dict[str, Any] | None:
        """The note of the last graded batch: grade, limiting variable, reasons, variables, estimate."""
        row = self.journal.last("note.grade")
        return None if row is None else {"utc": row.utc, **row.body}

    def _last_letter(self) -> Letter | None:
        row = self.journal.last("note.grade")
        return None if row is None else Letter(row.body["grade"])

    def _note_trips(self, trips: tuple[Trip, ...]) -> None:
        before = {trip.interlock for trip in self._trips}
        after = {trip.interlock for trip in trips}
        for trip in trips:
            if trip.interlock not in before:
                self.journal.append("safety.trip", {"interlock": trip.interlock, "detail": trip.detail})
        for name in sorted(before - after):
            self.journal.append("safety.clear", {"interlock": name})
        self._trips = trips

    def _causes(self, state: State, late_s: float) -> Mapping[tuple[str, str], str]:
        """What is wrong at this moment, as (alarm kind, source) -> detail."""
        causes = {(trip.interlock, trip.point): trip.detail for trip in state.trips if trip.interlock in DEFINITIONS}
        for point, reading in state.readings.items():
            if reading.quality is Quality.BAD:
                causes[("device_lost", point.partition(".")[0])] = reading.detail
        if late_s > TICK_S:
            causes[("slow_loop", "controller")] = f"a tick came {late_s:.1f} s late"
        return causes

    def _listen(self, now_s: float) -> None:
        """Ask the nerves for a summary now and then, never waiting for it."""
        if self.nerves is None or now_s < self._next_nerves_s:
            return
        self._next_nerves_s = now_s + NERVES_EVERY_S
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._hear(self.nerves), name="hearing the nerves")

    async def _hear(self, nerves: NervesSource) -> None:
        summary = await nerves.summary()
        if summary is not None:
            self.nerves_summary = summary
            now_s = self.clock.now_s()
            self.store.read("nerves.firing_rate", summary.firing_rate_hz, "Hz", Quality.GOOD, now_s)
            self.store.read("nerves.active_electrodes", float(summary.active_electrodes), "", Quality.GOOD, now_s)

    def health(self) -> Health:
        """Whether the control loop lives (D6); a page that still answers proves nothing."""
        if self._ticked_s is None:
            return Health(False, ("the control loop has not ticked yet",), float("inf"))
        age_s = self.clock.now_s() - self._ticked_s
        if age_s > DEAD_AFTER_S:
            return Health(False, (f"the control loop has not ticked for {age_s:.1f} s",), age_s)
        return Health(True, (), age_s)

    async def close(self, *, leave_running: bool = False) -> None:
        """End: stop protocols where they are, turn outputs off (unless `leave_running`), close every file."""
        if self._closed:
            return
        self._closed = True
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if hasattr(self, "runs"):
            await self.runs.close()
        if hasattr(self, "body"):
            await self.body.close(leave_running=leave_running)
            self.journal.append("controller.stopped", {})
            if not leave_running:
                self._beat(GOODBYE)
        self.journal.close()
        self.history.close()
