"""`choroid run`: the controller of a rig in real time, with guard, web page and electrode engine.

The guard is a second process that watches the controller's heartbeat; if this process fails, the guard brings every
actuator that cannot end by itself to its basal state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from choroid.cameras.engines import real_cameras
from choroid.common.failure import UserError
from choroid.common.signals import stop_on_signals, stop_rig_on_usr1
from choroid.running.claiming import GUARD_LETS_GO_S, claim_rig
from choroid.running.data_folder import ENDPOINT, DataFolder, open_folder
from choroid.running.edges import EdgePlan, RunEdges
from choroid.running.guarding import GuardFinder, own_guard
from choroid.running.journal_opening import JOURNAL, open_journal
from choroid.running.listening import EngineNerves
from choroid.running.notary import Notary
from choroid.running.parent_link import ParentLink
from choroid.running.shared_fate import shared_fates
from choroid.running.sinks import sinks_of
from choroid.tools.recording import recorded
from controller.core.clock import Clock
from controller.delivery.people import people_of
from controller.gate.latch import SecondPlace
from controller.guard.guarding import guard_plan
from controller.guard.notify import notify
from controller.guard.wire import LOG
from controller.hazards.loading import load_checked_rig
from controller.journal.journal import Journal
from controller.memory.identity import kept_identity
from controller.process.controller import DEAD_AFTER_S, Controller
from controller.process.core import Storage
from controller.process.outside import with_cameras, with_causes, with_nerves, with_notices, with_sink
from controller.rig.description import Rig
from controller.rig.quantities import prepare_units
from dashboards.admission import more_descriptors
from dashboards.auth import Auth
from dashboards.outside import INSIDE, Outside
from drivers.registry import MODELS, load_third_party
from drivers.transport.claims import Claim
from drivers.transport.opener import Opener, open_real

logger = logging.getLogger(__name__)

ENDED_BY_GUARD = 3
"""Exit status when the guard has asked the controller to end; a service manager must not restart it then."""
NOTIFY_S = 1.0


def run(
    path: Path,
    *,
    data: Path,
    host: str,
    port: int,
    health_port: int = 0,
    capture: Path | None = None,
    agents: tuple[str, int] | None = None,
    outside: Outside = INSIDE,
) -> int:
    """Run until interrupted; resume what a crash interrupted, by each step's policy.

    Args:
        path: The rig file.
        data: Data folder.
        host: Address of the page.
        port: Port of the page.
        health_port: Port of the health check; 0 for any free one.
        capture: New file for every byte of every link.
        agents: Address and port for agents on other machines, with mutual TLS.
        outside: How the page is reached from other machines.

    Returns:
        The exit status.
    """
    if objection := outside.objection(host):
        raise UserError(objection)
    load_third_party()
    rig = load_checked_rig(path, models=MODELS)
    if rig.simulated:
        raise UserError(
            f"every link of {path} is simulated (sim:), and a real run cannot open these. Next: `choroid demo --rig"
            f" {path}` shows it on a page; `choroid lab serve {path} --write served.yaml` serves its devices, for"
            " `choroid run served.yaml`"
        )
    more_descriptors()
    with recorded(capture, rig, open_real) as opener:
        return asyncio.run(_run(rig, data, host, port, health_port, opener, agents, outside))


async def _run(
    rig: Rig,
    data: Path,
    host: str,
    port: int,
    health_port: int,
    opener: Opener,
    agents: tuple[str, int] | None,
    outside: Outside,
) -> int:
    return await keep(
        rig,
        data,
        host,
        port,
        opener,
        health_port=health_port,
        clock=Clock(follow_system=True),
        agents=agents,
        outside=outside,
    )


async def keep(
    rig: Rig,
    data: Path,
    host: str,
    port: int,
    opener: Opener,
    *,
    health_port: int = 0,
    clock: Clock,
    journal: Journal | None = None,
    time_scale: float = 1.0,
    agents: tuple[str, int] | None = None,
    outside: Outside = INSIDE,
) -> int:
    """Run the rig until a signal: guard, controller, page, nerves, sinks. Return the exit status.

    `journal` and `time_scale` (speed factor of the loop) are for the kill matrix, which runs everything in a
    process that dies at a given row.

    Raises:
        UserError: No guard is available.
        ClaimHeld: Another program holds a link of the rig.
        JournalError: Another controller uses `data`; nothing was done.
    """
    link = ParentLink()
    prepare_units()  # later it would stop the loop for longer than a guard waits for a beat
    with contextlib.ExitStack() as undone:
        # All that may fail comes before the guard: the guard of a controller that may not run, because another one
        # does, would bring that other one's rig to rest.
        opened = _open(rig, data, clock, journal, agents, undone)
        claimed = await claim_rig(rig, opened.folder.guard)
        finder = GuardFinder(rig, opened.folder.guard)
        guarded = await finder.guarded()
        claimed = claimed or await claim_rig(rig, opened.folder.guard, wait_s=GUARD_LETS_GO_S)
        undone.pop_all()
    stop = asyncio.Event()
    stop_on_signals(stop, None)
    records, kept = opened.folder.records, opened.journal
    managed = bool(os.environ.get("NOTIFY_SOCKET"))
    fates = shared_fates(rig, link, guard=finder.guard, service=finder.service, managed=managed)
    for warning in fates.values():
        logger.warning("%s", warning)
    sinks = sinks_of(rig, records, opened.rig_id)
    controller = Controller(
        rig=rig,
        opener=opener,
        storage=Storage(
            records, threaded=True, journal=kept, rig_id=opened.rig_id, second_place=SecondPlace(opened.folder.records)
        ),
        clock=clock,
        stimulator=opened.nerves,
        guard=guarded,
        parts=(
            with_nerves(opened.nerves),
            *map(with_sink, sinks),
            with_cameras(real_cameras(rig)),
            with_notices(_notices(opened.folder, opened.auth) | fates),
            *(() if opened.notary is None else (with_causes("notary", opened.notary),)),
        ),
    )
    stop_rig_on_usr1(controller)
    guard = [*own_guard(finder.data), str(finder.data / LOG)]
    link.report(listens=True, guard=guard)
    ready = asyncio.Event()
    telling = asyncio.create_task(_tell_service_manager(controller, stop, ready), name="service manager")
    plan = EdgePlan(
        data=records,
        auth=opened.auth,
        host=host,
        port=port,
        health_port=health_port,
        nerves=opened.nerves,
        sinks=sinks,
        notary=opened.notary,
        people=None if rig.alarms.notify is None else lambda: people_of(rig, records, clock, kept.append),
        time_scale=time_scale,
        outside=outside,
    )
    try:
        await controller.start()
        ready.set()
        link.report(ready=True)
        if link.restarted:
            controller.alarms.event("controller_restarted", "controller", link.restarted)
        for name, why in finder.given_up.items():
            controller.alarms.event("guard_gave_way", f"link {name}", why)
        if link.exists:
            controller.edges.keep("parent", link.watch, alarm=("restart_unsure", "parent"))
        notify(f"READY=1\nSTATUS=rig {rig.name} is running")
        RunEdges(controller, plan).start()
        await controller.run(stop)
    finally:
        notify("STOPPING=1")
        telling.cancel()
        await _close(controller, opened, claimed)
    return ENDED_BY_GUARD if controller.ended_by_guard.is_set() else 0


@dataclass(frozen=True, slots=True)
class _Opened:
    """Files of a start, opened before the guard is asked."""

    folder: DataFolder
    rig_id: str
    journal: Journal
    auth: Auth
    nerves: EngineNerves | None
    notary: Notary | None


def _open(
    rig: Rig,
    data: Path,
    clock: Clock,
    journal: Journal | None,
    agents: tuple[str, int] | None,
    undone: contextlib.ExitStack,
) -> _Opened:
    """Open the files of a start. `undone` closes them if a later part of the start fails."""
    folder = open_folder(data, guard_plan(rig).to_json())
    data = folder.records
    if journal is None:
        journal = open_journal(data / JOURNAL, clock, folder.problem)
    undone.callback(journal.close)
    auth = Auth(data, demo=False, utc=clock.utc, threaded=True)
    nerves = _nerves(rig, data, agents, recordable=not folder.problem)
    # In a spare folder there is no journal, and its own alarm says so.
    notary = None if folder.problem else Notary(data, rig.name, rig.audit)
    return _Opened(folder, kept_identity(data), journal, auth, nerves, notary)


async def _close(controller: Controller, opened: _Opened, claimed: tuple[Claim, ...]) -> None:
    """Bring the rig to rest, then close what was opened and release the claims."""
    with contextlib.suppress(OSError):
        (opened.folder.records / ENDPOINT).unlink(missing_ok=True)
    await controller.close()
    if opened.nerves is not None:
        await opened.nerves.close()
    for claim in claimed:
        claim.release()


def _notices(folder: DataFolder, auth: Auth) -> dict[tuple[str, str], str]:
    """Return the alarms about this start's files, (kind, source) -> detail; they stay active until the next start."""
    found = {}
    if folder.problem:
        found["data_folder_lost", "data folder"] = folder.problem
    if auth.problem:
        found["credentials_lost", "credentials"] = auth.problem
    return found


async def _tell_service_manager(controller: Controller, stop: asyncio.Event, ready: asyncio.Event) -> None:
    """Renew the service manager's watchdog while the control loop runs; end when the guard requests it."""
    while True:
        if controller.health().tick_age_s <= DEAD_AFTER_S or not ready.is_set():
            notify("WATCHDOG=1")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTIFY_S):
                await controller.ended_by_guard.wait()
                stop.set()
                return


def _nerves(rig: Rig, data: Path, agents: tuple[str, int] | None, *, recordable: bool) -> EngineNerves | None:
    """Return the electrode engine of this rig, if it has an array."""
    if rig.nerves is None:
        return None
    return EngineNerves(rig, data, seed=1, remote=agents, recordable=recordable)
