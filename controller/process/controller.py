"""The controller: one rig's living process, assembled and ticking once a second.

A tick evaluates every interlock, takes a snapshot and lets the gate enforce the trips. Then each part acts on the snapshot in
the declared order: regulators, books, alarms, records, scores, sinks (:mod:`controller.process.registry`). A slow device
delays no tick: commands to devices run as tasks of their own on the same loop. So do sampling, protocols and the page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from controller.alarms.states import ROWS as ALARM_ROWS
from controller.core.clock import Clock
from controller.core.state import State
from controller.core.version import software_version
from controller.gate.emergency import Stimulator
from controller.guard.heartbeat import Guarded, Heartbeat
from controller.hazards.timing import TICK_S
from controller.process.absence import absence_doubt, last_record_utc
from controller.process.connecting import connect
from controller.process.core import Storage
from controller.process.ending import fell_back
from controller.process.health import ControllerHealth
from controller.process.observed import Observed
from controller.process.parts.regulation import Regulation
from controller.process.registry import Maker, Parts, registered
from controller.process.tasks import Timer
from controller.process.trip_record import TripRecord
from controller.rig.description import Rig
from controller.rig.loading import effective_hash
from controller.safety.terms import Limits
from drivers.transport.opener import Opener

logger = logging.getLogger(__name__)

REGISTERED = registered()
"""The makers of this package. A module of it that cannot be imported ends a start before a guard is asked for."""
DEAD_AFTER_S = 5.0
"""Time (s) without a tick after which a control loop is not healthy (D6)."""
LINKS_EVERY_S = 5.0


class Controller(Observed):
    """One rig. `start`, then `run` until the event is set, then `close`.

    Args:
        rig: The rig.
        opener: Opens the links to its devices.
        storage: Where and how its records are kept.
        clock: The time.
        limits: For campaigns only (docs/campaign.md): limits from which an interlock was removed.
        guard: The connection to the guard; `close` closes it.
        stimulator: What an emergency stop stops in addition to the outputs.
        parts: Makers of parts outside the controller (:mod:`controller.process.outside`).
    """

    def __init__(
        self,
        *,
        rig: Rig,
        opener: Opener,
        storage: Storage,
        clock: Clock,
        limits: Limits | None = None,
        guard: Guarded | None = None,
        stimulator: Stimulator | None = None,
        parts: Iterable[Maker] = (),
    ) -> None:
        super().__init__(rig, clock, storage, limits, stimulator)
        self.ended_by_guard = asyncio.Event()
        """Set when the guard wants this controller to end in order."""
        self._opener = opener
        self.parts: Parts = Parts(self, [*REGISTERED, *parts])
        self._trip_record = TripRecord(self.record)
        self._links_timer = Timer(LINKS_EVERY_S)
        self._ticks = 0
        self._ticked_s: float | None = None
        self._closed = False
        self._heartbeat = Heartbeat(
            guard,
            ticks=lambda: self._ticks,
            devices=lambda: {} if self.connected is None else self.connected.devices.verified(),
            counts=lambda: {} if self.connected is None else self.connected.devices.counted(),
            lost=lambda why: self.alarms.event("guard_lost", "guard", why),
            stop=self.emergency_stop,
            end=self._end_in_order,
        )

    async def start(self) -> None:
        """Connect everything, set the heart going, and take up what a crash interrupted.

        Raises :class:`~controller.links.connect.ConnectError` when nothing at all answers.
        """
        self._heartbeat.begin()
        self.alarms.restore(self.journal.entries(kinds=ALARM_ROWS), self.clock.now_s())
        last_utc = last_record_utc(self.journal, self.history)
        started = {"rig": self.rig.name, "rig_hash": effective_hash(self.rig), "version": software_version()}
        self.record("controller.started", started | ({"rig_id": self.rig_id} if self.rig_id else {}))
        self.wall_clock.began(last_utc)
        self.connected = connected = await connect(self, self._opener)
        try:
            self.emergency.restore(self.gate, self.journal)  # before anything may command an output
            self.parts.make()
        except BaseException:
            self.connected = None  # `close` leaves the outputs to the guard: not all that judges them exists
            await connected.devices.close()
            raise
        self.ledger.listen(lambda movement: self.gate.booked(self.rig.lines[movement.line].pump or ""))
        await self.devices.begin(self.gate.poll, self.rest_s)
        if self.gate.emergency is not None:  # an emergency stop of an earlier process
            await self.gate.keep_emergency()
        self.store.volumes(self.ledger.volumes())
        # The hearts run before anything that a crash interrupted is taken up: no medium is drawn while one stands.
        state = self.store.snapshot(self.clock.now_s(), self.clock.utc_text(), ())
        await self.get(Regulation).start_hearts(state)
        self._ticked_s = self.clock.now_s()
        await self.runs.recover(absence_doubt(self.rig, last_utc, self.clock.utc(), self.ledger.volumes()))

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until `stop` is set. Ticks keep to their grid; a late one is not made up for."""
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        self.devices.count_from(next_s)
        while not stop.is_set():
            self._tick(loop.time() - next_s)
            next_s += TICK_S * max(1, int((loop.time() - next_s) / TICK_S) + 1)
            await asyncio.sleep(max(0.0, next_s - loop.time()))
        self._heartbeat.ending()

    def _tick(self, late_s: float) -> None:
        """Perform one tick. What keeps the rig safe may not fail; if it does, this process ends and the guard acts."""
        self.late_s = late_s
        self.load.ticked(late_s, getattr(asyncio.get_running_loop(), "speed", 1.0))  # a demo's loop is faster than life
        self.store.volumes(self.ledger.volumes())
        state = self._observe()
        if self.gate.enforce(state.trips):
            self.tasks.start(f"safety {state.at_s}", self.gate.settle())
        self.journal.check()
        if (lost := self.journal.lost) is not None and not self.emergency.forbidden:
            self.tasks.start("no journal", self.emergency.forbid_stimulation(str(lost)))
        self.parts.update(state)
        self._ticked_s = state.at_s
        self._ticks += 1

    def _observe(self) -> State:
        """Evaluate every interlock, then freeze everything as the state of this tick."""
        now_s = self.clock.now_s()
        if self._links_timer.due(now_s):
            self.devices.see_links()
            self.store.age(now_s)
        if (pressed := self.emergency.update(self.store.readings, now_s)) and not self.tasks.running(
            "emergency button"
        ):
            self.tasks.start("emergency button", self.emergency_stop("emergency button", pressed))
        trips = self.gate.observe()
        self._trip_record.note(trips)
        return self.store.snapshot(now_s, self.clock.utc_text(), trips)

    def _end_in_order(self, why: str) -> None:
        logger.warning("ending in order: %s", why)
        self.ended_by_guard.set()

    def health(self) -> ControllerHealth:
        """Return whether the control loop lives and the journal is written (D6); a page that answers proves neither."""
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
        if self.started:
            await self.runs.close()
        await self.tasks.cancel()
        if self.started and not leave_running and await fell_back(self.gate, self.runs.min_doses_ul):
            self._heartbeat.goodbye()
        await self.parts.close()
        if self.started:
            await self.devices.close()
            self.tasks.isolate("upkeep", self.upkeep.write)
            self.record("controller.stopped", {})
        self._heartbeat.leave()  # now that the links are free
        await self._heartbeat.close()
        await self.edges.close()
        self.journal.close()
        self.history.close()
