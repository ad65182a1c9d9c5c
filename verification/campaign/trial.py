"""One trial: the whole stack on one rig with its faults, and the result. Nothing here uses real time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from choroid.simulation.respondent import Respondent
from controller.alarms.states import Alarm, AlarmState
from controller.attachments.store import NoRoom
from controller.core.run_states import RunState
from controller.journal.terms import GENESIS, JournalUnwritten
from controller.process.controller import Controller
from sim.faults.injector import Injector
from sim.faults.schedule import Schedule
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from verification.campaign.findings import Violation
from verification.campaign.host import CampaignHost, Life
from verification.campaign.invariants import EXPECTED_LOGS, InvariantWatch
from verification.campaign.lives import LifeLoop
from verification.campaign.storage import Killed
from verification.campaign.world import QUIET_S, Trial, limits_without, rig_of

logger = logging.getLogger(__name__)

REST_S = 1_200.0
"""Time for an aborted run to determine the result of its last dose (s)."""
COLLECT_S = 3_600.0
RESTART = "restart the controller"
"""Text of alarms that only a restart resolves."""


@dataclass
class Result:
    """Result of a trial; `journal` is the head of its chain, the same for each replay."""

    trial: str
    violations: list[dict[str, Any]] = field(default_factory=list)
    journal: str = GENESIS
    simulated_s: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    lives: int = 0
    rows: int = 0
    alarms: int = 0
    raised: list[str] = field(default_factory=list)
    """The alarms that were raised, each once."""
    looks: int = 0
    cycles: int = 0
    refused: str = ""
    """Why its run was refused before its start, if it was."""
    viability: float = 0.0
    down_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def run_trial(trial: Trial) -> Result:
    """Run a whole trial in virtual time; its files are in a folder that is removed."""
    with tempfile.TemporaryDirectory(prefix="choroid-trial-") as folder, _rested_collector(), _quiet() as log:
        loop = LifeLoop()
        said: list[str] = []
        loop.set_exception_handler(lambda _, context: _unhandled(context, said))
        result = run_virtual(_run(trial, Path(folder), log), loop=loop)
        gc.collect()
    for text in dict.fromkeys(said + log.errors):
        result.violations.append(asdict(Violation(result.simulated_s, "no unexpected exception", text)))
    return result


async def _run(trial: Trial, data: Path, log: _Log) -> Result:
    loop = asyncio.get_running_loop()
    rig = rig_of(trial)
    lab = SimulatedLab(rig, seed=trial.seed)
    watch = InvariantWatch(rig, lab, trial.faults)
    host = CampaignHost(
        rig,
        lab,
        data,
        limits=limits_without(rig, trial.without),
        trial=trial,
        on_row=watch.on_row,
    )
    injector = Injector(lab, Schedule(trial.faults), host, seed=trial.seed)
    serving = asyncio.create_task(host.serve())
    side_tasks = [
        asyncio.create_task(watch.run(host)),
        asyncio.create_task(injector.run()),
        asyncio.create_task(_attend(host, trial.attend_min * 60.0)),
        asyncio.create_task(_collect()),
    ]
    last_s = max((fault.at_s + fault.for_s for fault in trial.faults), default=0.0)
    end_s = max(trial.hours * 3600.0, last_s + QUIET_S)
    result = Result(trial.to_text())
    try:
        await asyncio.sleep(end_s - loop.time())
        await _rest(host)
        watch.update(host)
        watch.judge(host, injector)
        life = host.life
        result.cycles = _cycles(life)
        for task in side_tasks:
            task.cancel()
        await asyncio.gather(*side_tasks, return_exceptions=True)
        await host.end()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        for task_text in host.leftover:
            watch.tell("no task left pending", task_text, f"an orderly end left {task_text} pending (R3)")
        if life is not None and life.journal is not None:
            result.journal = life.journal.sha256()
    finally:
        for task in (*side_tasks, serving):
            task.cancel()
        await asyncio.gather(*side_tasks, serving, return_exceptions=True)
        simulated_s = loop.time()
        await lab.close()
        log.over = True
        await host.bury()
    result.refused = host.refused
    result.violations = [asdict(each) for each in watch.found]
    result.simulated_s = round(simulated_s, 3)
    result.faults = dict(Counter(applied.fault.kind for applied in injector.applied))
    result.lives, result.rows, result.alarms = host.lives, watch.rows, watch.alarms_raised
    result.looks, result.raised = watch.looks, watch.raised
    result.viability = round(watch.min_viability, 4)
    result.down_s = round(host.down_s, 1)
    return result


def _cycles(life: Life | None) -> int:
    """Return how often medium was recycled or exchanged; 0 where no controller is alive to tell."""
    if life is None or life.controller is None or life.journal is None or life.dead:
        return 0
    return sum(1 for _ in life.controller.journal.entries(kinds=("note.recycle", "note.exchange")))


async def _attend(host: CampaignHost, every_s: float) -> None:
    """Visit the rig as a person: acknowledge alarms, reset latched interlocks, resume held runs."""
    while True:
        await asyncio.sleep(every_s)
        host.visit(lambda controller: _visit(host, controller))


async def _visit(host: CampaignHost, controller: Controller) -> None:
    alarms = controller.alarms.active()
    _acknowledge(controller, alarms)
    if any(trip.latched for trip in controller.gate.trips):
        controller.gate.reset("campaign", "looked at the rig")
    says_so = any(alarm.kind in ("journal_lost", "defect") or RESTART in alarm.detail for alarm in alarms)
    if says_so and not host.disk.full:
        host.restart()
        return
    with contextlib.suppress(JournalUnwritten, NoRoom):  # the page shows it, and the next visit retries
        await let_go_on(controller, host.lab)


async def let_go_on(controller: Controller, lab: SimulatedLab) -> None:
    """Answer the question of a held run with its declared default, or resume the run."""
    active = controller.runs.active
    if active is None or active.state is not RunState.HELD:
        return
    if active.question is not None and active.question.answer is not None:
        await Respondent(controller, lab, user="campaign").update(asyncio.get_running_loop().time())
    else:
        await controller.runs.resume(active.id, "campaign", "looked at the rig")


def _acknowledge(controller: Controller, alarms: Sequence[Alarm]) -> None:
    for alarm in alarms:
        if alarm.state is not AlarmState.ACKNOWLEDGED:
            with contextlib.suppress(KeyError):
                controller.alarms.acknowledge(alarm.id, "campaign")


def _ready_controller(host: CampaignHost) -> Controller | None:
    life = host.life
    return life.controller if life is not None and life.ready else None


async def _rest(host: CampaignHost) -> None:
    """End the run as a person would, and wait until everything that it moved is settled."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + REST_S
    asked = False
    while loop.time() < end_s:
        controller = _ready_controller(host)
        if controller is not None:
            active = controller.runs.active
            if active is None and asked:
                return
            if active is not None and active.state not in (RunState.ABORTING, RunState.RESTARTING):
                asked = host.visit(_abort) or asked
            elif active is None:
                return
        await asyncio.sleep(5.0)


async def _abort(controller: Controller) -> None:
    active = controller.runs.active
    if active is not None and active.state is not RunState.ABORTING:
        with contextlib.suppress(JournalUnwritten):
            await controller.runs.abort(active.id, "campaign", "the trial is over")


async def _collect() -> None:
    while True:
        await asyncio.sleep(COLLECT_S)
        gc.collect()


@contextlib.contextmanager
def _rested_collector() -> Iterator[None]:
    """Collect cycles once a simulated hour, at the same times in each replay (:mod:`choroid.simulation.simulate`)."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


class _Log(logging.Handler):
    """Collects the unexpected errors of a trial's log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []
        self.over = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an unexpected record."""
        text = record.getMessage()
        if self.over or any(words in text for words in EXPECTED_LOGS):
            return
        if record.exc_info is not None and record.exc_info[0] is not None:
            if issubclass(record.exc_info[0], Killed):
                return
            text += f" ({record.exc_info[0].__name__}: {record.exc_info[1]})"
        self.errors.append(text)


@contextlib.contextmanager
def _quiet() -> Iterator[_Log]:
    """Catch what is logged; nothing of it reaches the terminal."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    log = _Log()
    root.handlers[:] = [log]
    root.setLevel(logging.ERROR)
    try:
        yield log
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _unhandled(context: dict[str, Any], said: list[str]) -> None:
    error = context.get("exception")
    if not isinstance(error, Killed):
        said.append(f"{context.get('message')}: {error!r}")
