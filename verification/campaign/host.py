"""The computer of the controller and its environment: service manager, guard, people.

The host starts the controller, restarts it when it has died, and implements `sim.faults.injector.Host`: kills,
stalls, clock steps, bad disks, lost brokers and floods of requests happen here.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sqlite3
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from choroid.simulation.rates import RateNerves
from controller.guard.guarding import guard_plan
from controller.guard.liveness import SILENCE_S
from controller.guard.plan import GuardPlan
from controller.guard.rescue import Rescue
from controller.journal.terms import JournalError, JournalUnwritten
from controller.links.connect import ConnectError
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.outside import with_nerves, with_sink
from controller.rig.description import Rig
from controller.runs.runner import RunnerError
from controller.safety.terms import Limits
from sim.faults.targets import BROKER, STORE
from sim.lab import SimulatedLab
from verification.campaign import careless
from verification.campaign.lives import LIFE, LifeLoop
from verification.campaign.storage import CampaignClock, CampaignJournal, Disk, FrailDatabase, Killed, OnRow
from verification.campaign.telemetry import Forwarder, Service
from verification.campaign.wires import LabConnections
from verification.campaign.world import Trial

logger = logging.getLogger(__name__)

GUARD_PATIENCE_S = 3600.0
RESTART_S = (2.0, 5.0, 5.0, 30.0, 300.0)
"""Restart delays of service managers (s): usually a few seconds; sometimes a person is needed."""
FLOOD_EVERY_S = 0.05
START_AGAIN_S = 60.0
"""Time after which a person starts a run again that could not be recorded (s)."""
SURVIVABLE_START = (ConnectError,)
"""Exceptions that may keep a controller from starting while a fault lasts; the service manager retries. A disk must
not (D2).
"""


@dataclass
class Life:
    """One process of the controller, from its start to its end."""

    number: int
    context: Context
    port: LabConnections
    born_s: float
    controller: Controller | None = None
    journal: CampaignJournal | None = None
    forwarders: tuple[Forwarder, ...] = ()
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    main: asyncio.Task[None] | None = None
    databases: list[FrailDatabase] = field(default_factory=list)
    ready: bool = False
    dead: bool = False
    error: BaseException | None = None


class CampaignHost:
    """The host of one trial. `on_row` receives each journal row; `start_run` starts the protocol in the first life."""

    def __init__(
        self,
        rig: Rig,
        lab: SimulatedLab,
        data: Path,
        *,
        limits: Limits,
        trial: Trial,
        on_row: OnRow,
    ) -> None:
        self.rig = rig
        self.lab = lab
        self.life: Life | None = None
        self.lives = 0
        self.kills = 0
        self.down_s = 0.0
        """Total time without a controller at work so far (s)."""
        self.run_id: str | None = None
        self.refused = ""
        """Why the protocol was not started, if it was not."""
        self.disk = Disk()
        self.services = {name: Service() for name in (BROKER, STORE)} if trial.telemetry else {}
        """Destinations of readings."""
        self.crashes: list[tuple[float, str]] = []
        """Unprovoked ends of the controller: (s, what)."""
        self.leftover: list[str] = []
        """Tasks that an orderly end has left."""
        self._data = data
        self._limits = limits
        self._rng = np.random.default_rng([trial.seed, 0xD1E])
        self._trial = trial
        self._on_row = on_row
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LifeLoop)  # noqa: S101  (a campaign's trials run on nothing else)
        self._loop = loop
        self._context = copy_context()
        self._ending = False
        self._step_s = 0.0
        self._ills: dict[str, float] = {}
        self._frozen_since_s: float | None = None
        self._frozen_until_s = 0.0
        self._rows_to_live: tuple[int, bool] | None = None
        self._asked = 0
        self._plan = GuardPlan.from_json(guard_plan(rig).to_json())
        self._side_tasks: set[asyncio.Task[Any]] = set()
        electrodes = rig.nerves.electrodes if rig.nerves else 0
        self._nerves = RateNerves(lab.plant, electrodes=electrodes, seed=trial.seed) if electrodes else None

    # --- the service manager ----------------------------------------------------------------------------

    async def serve(self) -> None:
        """Keep a controller running until :meth:`end`."""
        while not self._ending:
            life = self._bear()
            await life.over.wait()
            self.life = None
            down_since_s = self._loop.time()
            if not life.dead:
                self.leftover += [repr(task.get_coro()) for task in self._loop.tasks_of(life.number)]
                self._sever(life)
            gc.collect()
            if self._ending:
                return
            guard = self._spawn(self._guard(life))
            await asyncio.sleep(float(self._rng.choice(RESTART_S)))
            self.down_s += self._loop.time() - down_since_s
            del guard

    def _bear(self) -> Life:
        self.lives += 1
        context = copy_context()
        context.run(LIFE.set, self.lives)
        life = self.life = Life(self.lives, context, LabConnections(self.lab), self._loop.time())
        life.main = self._loop.create_task(self._live(life), context=context)
        life.main.add_done_callback(lambda task: self._ended(life, task), context=self._context)
        return life

    def _ended(self, life: Life, task: asyncio.Task[None]) -> None:
        """Process the end of a life's main task."""
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, Killed):
            life.error = error
            if life.ready or not isinstance(error, SURVIVABLE_START):
                self.crashes.append((self._loop.time(), f"{type(error).__name__}: {error}"))
        life.over.set()

    async def _live(self, life: Life) -> None:
        """Run what `choroid run` does, in virtual time."""
        clock = CampaignClock(lambda: self._step_s)
        journal = life.journal = CampaignJournal(
            self._data / "journal.db",
            clock,
            self.disk,
            die=lambda: self._strike(life),
            on_row=self._on_row,
        )
        if self._rows_to_live is not None:
            rows, journal.dies_after = self._rows_to_live
            journal.dies_at = journal.next_seq + rows
            self._rows_to_live = None
        life.forwarders = tuple(
            Forwarder(self._data / f"outbox-{name}.db", name, service) for name, service in self.services.items()
        )
        try:
            controller = life.controller = Controller(
                rig=self.rig,
                opener=life.port.opener,
                storage=Storage(self._data, journal=journal),
                clock=clock,
                limits=self._limits,
                parts=(
                    with_nerves(self._nerves),
                    *map(with_sink, life.forwarders),
                ),
            )
        except BaseException:
            journal.close()
            raise
        database = FrailDatabase(controller.history._db, self.disk)
        controller.history._db = cast(sqlite3.Connection, database)
        life.databases.append(database)
        life.databases.extend(forwarder.frail(self.disk) for forwarder in life.forwarders)
        try:
            await controller.start()
            life.ready = True
            ticking = asyncio.create_task(controller.run(life.stop))
            sending = [asyncio.create_task(forwarder.run()) for forwarder in life.forwarders]
            if self.run_id is None:
                await self._start_run(controller, life)
            await ticking
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
        finally:
            if not life.dead:
                await controller.close()
                for forwarder in life.forwarders:
                    forwarder.close()

    async def _start_run(self, controller: Controller, life: Life) -> None:
        while not life.stop.is_set():
            try:
                self.run_id = await controller.runs.start(
                    self._trial.protocol, self._trial.params, user="campaign", reason="choroid verify campaign"
                )
            except RunnerError as refusal:
                self.refused = str(refusal)  # rehearsed and refused: life support continues without a run
            except JournalUnwritten:  # the page says so, and the person tries again
                await asyncio.sleep(START_AGAIN_S)
                continue
            return

    async def end(self) -> None:
        """End the controller in order and do not restart it."""
        self._ending = True
        life = self.life
        if life is None:
            return
        life.stop.set()
        await life.over.wait()
        await asyncio.sleep(0)

    def restart(self) -> None:
        """Restart the controller in order, as a person does."""
        if self.life is not None and self.life.ready:
            self.life.stop.set()

    async def bury(self) -> None:
        """Let the remains of killed controllers end; the lab must be closed by then."""
        for task in self._side_tasks:
            task.cancel()
        await asyncio.gather(*self._side_tasks, return_exceptions=True)
        for number in range(1, self.lives + 1):
            await self._loop.bury(number)

    async def _guard(self, life: Life) -> None:
        """Run the guard's rescue, which detects at once that the pipe has closed."""
        rescue = Rescue(self._plan, self.lab.opener, lambda text: None)
        await rescue.run(GUARD_PATIENCE_S, lambda: self.life is not None and self.life.journal is not None)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self._loop.create_task(work, context=self._context.copy())
        self._side_tasks.add(task)
        task.add_done_callback(self._side_tasks.discard)
        return task

    # --- faults -----------------------------------------------------------------------------------------

    def kill(self, at_journal_row: int | None = None) -> None:
        """Kill the controller: at once, or at the `at_journal_row`-th row from now, just before or just after it."""
        life = self.life
        rows, after = (at_journal_row or 0) - 1, bool(self._rng.integers(2))
        if life is None:
            return  # already dead
        if rows < 0:
            self._strike(life)
        elif life.journal is None:
            self._rows_to_live = (rows, after)
        else:
            life.journal.dies_after = after
            life.journal.dies_at = life.journal.next_seq + rows

    def stall(self, for_s: float) -> None:
        """Stop the whole process, as when its computer swaps or is suspended."""
        self._freeze(for_s)

    def step_clock(self, by_s: float) -> None:
        """Step the computer's clock."""
        self._step_s += by_s

    def disk_full(self, for_s: float) -> None:
        """Make every write fail."""
        self.disk.full = True
        self._heal(for_s, self.disk, "full", False)

    def disk_slow(self, for_s: float, delay_s: float) -> None:
        """Delay each journal row by `delay_s`."""
        self.disk.slow_s = delay_s
        self._heal(for_s, self.disk, "slow_s", 0.0)

    def lock_database(self, for_s: float) -> None:
        """Hold the files' write lock, as another program would."""
        self.disk.locked = True
        self._heal(for_s, self.disk, "locked", False)

    def service_down(self, service: str, for_s: float) -> None:
        """Take a service down."""
        self.services[service].up = False
        self._heal(for_s, self.services[service], "up", True)

    def flood(self, for_s: float) -> None:
        """Send requests and commands without pause, as a runaway program would."""
        self._spawn(self._flood(for_s))

    async def _flood(self, for_s: float) -> None:
        end_s = self._loop.time() + for_s
        while self._loop.time() < end_s:
            life = self.life
            if life is not None and life.ready and life.controller is not None:
                self._loop.create_task(_pester(life.controller, self.run_id or ""), context=life.context.copy())
            await asyncio.sleep(FLOOD_EVERY_S)

    def careless(self, output: str, for_s: float) -> None:
        """Request by hand what `output` must not do."""
        self._spawn(self._careless(output, for_s))

    async def _careless(self, output: str, for_s: float) -> None:
        end_s = self._loop.time() + for_s
        while self._loop.time() < end_s:
            self._asked += 1
            self.visit(partial(careless.ask, lab=self.lab, output=output, number=self._asked))
            await asyncio.sleep(careless.EVERY_S)

    def visit(self, work: Callable[[Controller], Coroutine[Any, Any, None]]) -> bool:
        """Let a person do something at the controller; return False when none answers."""
        life = self.life
        if life is None or not life.ready or life.dead or life.controller is None or self._frozen_since_s is not None:
            return False
        self._loop.create_task(work(life.controller), context=life.context.copy())
        return True

    def _heal(self, for_s: float, what: object, name: str, healthy: object) -> None:
        """Restore an attribute after `for_s`, unless a later fault of the same kind lasts longer."""
        end_s = self._loop.time() + for_s
        self._ills[name] = max(self._ills.get(name, 0.0), end_s)

        def healed() -> None:
            if self._loop.time() >= self._ills[name]:
                setattr(what, name, healthy)

        self._loop.call_at(end_s, healed, context=self._context)

    # --- life and death ---------------------------------------------------------------------------------

    def _strike(self, life: Life) -> None:
        """Declare `life` dead: nothing of it reaches a device, a file or the loop from now on."""
        if life.dead:
            return
        life.dead = True
        self.kills += 1
        self._loop.kill(life.number)
        self._frozen_since_s = None
        self._sever(life)
        self._loop.call_soon(life.over.set, context=self._context)

    def _sever(self, life: Life) -> None:
        life.port.sever()
        if life.journal is not None:
            life.journal.die()
        for database in life.databases:
            database.close()

    def _freeze(self, for_s: float) -> None:
        life = self.life
        if life is None or life.dead:
            return
        now_s = self._loop.time()
        self._frozen_until_s = max(self._frozen_until_s, now_s + for_s)
        if self._frozen_since_s is None:
            self._frozen_since_s = now_s
            self._loop.freeze(life.number)
            life.port.hold()
            self._loop.call_at(now_s + SILENCE_S, self._silent, life, now_s, context=self._context)
        self._loop.call_at(self._frozen_until_s, self._thaw, life, context=self._context)

    def _thaw(self, life: Life) -> None:
        if life.dead or self._frozen_since_s is None or self._loop.time() < self._frozen_until_s:
            return
        self._frozen_since_s = None
        self._loop.thaw(life.number)
        life.port.release()

    def _silent(self, life: Life, since_s: float) -> None:
        """Kill what has been silent for too long, as the guard does: two masters on one line are worse than none."""
        if life.ready and self._frozen_since_s == since_s and self.life is life:
            self._strike(life)


async def _pester(controller: Controller, run_id: str) -> None:
    """Send the requests of a page with a runaway script: reads, and commands that must be refused."""
    controller.health()
    controller.alarms.active()
    with contextlib.suppress(RunnerError):
        controller.runs.get(run_id)
    list(controller.journal.entries(limit=20, newest_first=True))
    with contextlib.suppress(RunnerError, JournalError):
        await controller.runs.pause("run-unknown", "flood", "a runaway script")
    if controller.runs.active is not None:
        with contextlib.suppress(RunnerError, JournalError):
            await controller.runs.start("recycle", {"min_batch": "18 mL"}, "flood", "a runaway script")
