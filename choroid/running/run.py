"""`choroid run`: the controller of a rig in real time, with guard, web page and electrode engine.

The guard is a second process that watches the controller's heartbeat; if this process fails, the guard brings every
actuator that cannot end by itself to its basal state.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI

from choroid.cameras.engines import real_cameras
from choroid.common.extras import load_extra
from choroid.common.failure import UserError
from choroid.common.ports import free_port
from choroid.common.signals import stop_on_signals, stop_rig_on_usr1
from choroid.running.claiming import GUARD_LETS_GO_S, claim_rig
from choroid.running.data_folder import ENDPOINT, DataFolder, open_folder
from choroid.running.endpoint import leave_endpoint
from choroid.running.guarding import GuardFinder
from choroid.running.journal_opening import JOURNAL, open_journal
from choroid.running.listening import EngineNerves
from choroid.running.tls_folder import tls_files
from choroid.tools.recording import recorded
from controller.core.clock import Clock
from controller.core.discarded import Discarded
from controller.core.state import State
from controller.delivery.people import People, people_of
from controller.gate.latch import SecondPlace
from controller.guard.guarding import guard_plan
from controller.guard.notify import notify
from controller.hazards.loading import load_checked_rig
from controller.journal.journal import Journal
from controller.memory.identity import kept_identity
from controller.process.controller import DEAD_AFTER_S, Controller
from controller.rig.description import Rig
from controller.telemetry.batches import ReadingBatch
from controller.telemetry.mqtt import MqttSink
from controller.telemetry.outbox import Outbox
from controller.telemetry.sink import OutboxSink
from dashboards.admission import more_descriptors
from dashboards.app import create_app
from dashboards.auth import Auth
from dashboards.health import serve_health
from dashboards.server import listen, serve
from drivers.registry import MODELS, load_third_party
from drivers.transport.claims import Claim
from drivers.transport.opener import Opener, open_real

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
    restart_controller: bool = False,
    agents: tuple[str, int] | None = None,
) -> int:
    """Run until interrupted; resume what a crash interrupted, by each step's policy.

    Args:
        path: The rig file.
        data: Data folder.
        host: Address of the page.
        port: Port of the page.
        health_port: Port of the health check; 0 for any free one.
        capture: New file for every byte of every link.
        restart_controller: The guard restarts this command when it is lost.
        agents: Address and port for agents on other machines, with mutual TLS.

    Returns:
        The exit status.
    """
    load_third_party()
    rig = load_checked_rig(path, models=MODELS)
    if rig.simulated:
        raise UserError(
            f"every link of {path} is simulated (sim:), and a real run cannot open these. Next: `choroid demo --rig"
            f" {path}` shows it on a page; `choroid lab {path} --write served.yaml` serves its devices, for"
            " `choroid run served.yaml`"
        )
    if agents is not None and tls_files(data) is None:
        raise UserError(
            f"agents on other machines need mutual TLS, and {data} has no certificate of the electrode engine. Next:"
            f" choroid agents certify-engine --host {agents[0]} --data {data}"
        )
    more_descriptors()
    with recorded(capture, rig, open_real) as opener:
        return asyncio.run(_run(rig, data, host, port, health_port, opener, restart_controller, agents))


async def _run(
    rig: Rig,
    data: Path,
    host: str,
    port: int,
    health_port: int,
    opener: Opener,
    restart_controller: bool,
    agents: tuple[str, int] | None,
) -> int:
    return await keep(
        rig,
        data,
        host,
        port,
        opener,
        health_port=health_port,
        clock=Clock(follow_system=True),
        restart_controller=restart_controller,
        agents=agents,
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
    restart_controller: bool = False,
    agents: tuple[str, int] | None = None,
) -> int:
    """Run the rig until a signal: guard, controller, page, nerves, sinks. Return the exit status.

    `journal` and `time_scale` (speed factor of the loop) are for the kill matrix, which runs everything in a
    process that dies at a given row.

    Raises:
        UserError: No guard is available.
        ClaimHeld: Another program holds a link of the rig.
        JournalError: Another controller uses `data`; nothing was done.
    """
    with contextlib.ExitStack() as undone:
        # All that may fail comes before the guard: the guard of a controller that may not run, because another one
        # does, would bring that other one's rig to rest.
        opened = _open(rig, data, host, port, health_port, clock, journal, agents, undone)
        claimed = await claim_rig(rig, opened.folder.guard)
        guarded = await GuardFinder(rig, opened.folder.guard, restart=restart_controller).guarded()
        claimed = claimed or await claim_rig(rig, opened.folder.guard, wait_s=GUARD_LETS_GO_S)
        undone.pop_all()
    stop = asyncio.Event()
    stop_on_signals(stop, None)
    controller = Controller(
        rig=rig,
        opener=opener,
        data_dir=opened.folder.records,
        clock=clock,
        nerves_source=opened.nerves,
        stimulator=opened.nerves,
        durable=True,
        sinks=opened.sinks,
        guard=guarded,
        journal=opened.journal,
        threaded=True,
        people=opened.people,
        notices=_notices(opened.folder, opened.auth),
        cameras=real_cameras(rig),
        rig_id=opened.rig_id,
        second_place=SecondPlace(opened.folder.records),
    )
    stop_rig_on_usr1(controller)
    ready = asyncio.Event()
    telling = asyncio.create_task(_tell_service_manager(controller, stop, ready), name="service manager")
    nerves = opened.nerves
    app = create_app(
        controller,
        opened.auth,
        host=host,
        agents=None if nerves is None else nerves.agents,
        recordings=None if nerves is None else nerves.recordings,
        array=nerves,
    )
    try:
        await controller.start()
        ready.set()
        notify(f"READY=1\nSTATUS=rig {rig.name} is running")
        await _run_until(stop, controller, opened, app, host, time_scale)
    finally:
        notify("STOPPING=1")
        telling.cancel()
        await _close(controller, opened, claimed)
    return ENDED_BY_GUARD if controller.told_to_end.is_set() else 0


@dataclass(frozen=True, slots=True)
class _Opened:
    """Files and ports of a start, opened before the guard is asked."""

    folder: DataFolder
    rig_id: str
    journal: Journal
    auth: Auth
    port: int
    """Port of the page; it is free, and opened later."""
    health: socket.socket
    nerves: EngineNerves | None
    outboxes: list[Outbox]
    sinks: tuple[OutboxSink | UnopenedSink, ...]
    people: People | None


def _open(
    rig: Rig,
    data: Path,
    host: str,
    port: int,
    health_port: int,
    clock: Clock,
    journal: Journal | None,
    agents: tuple[str, int] | None,
    undone: contextlib.ExitStack,
) -> _Opened:
    """Open the files and ports of a start. `undone` closes them if a later part of the start fails."""
    folder = open_folder(data, guard_plan(rig).to_json())
    data = folder.records
    if journal is None:
        journal = open_journal(data / JOURNAL, clock, folder.problem)
    undone.callback(journal.close)
    auth = Auth(data, demo=False, threaded=True)
    page_port = free_port(host, port)
    health = listen("127.0.0.1", health_port, option="--health-port")
    undone.callback(health.close)
    nerves = _nerves(rig, data, agents, recordable=not folder.problem)
    rig_id = kept_identity(data)
    outboxes, sinks = _sinks(rig, data, rig_id)
    for outbox in outboxes:
        undone.callback(outbox.close)
    people = people_of(rig, data, clock, journal.append)
    return _Opened(folder, rig_id, journal, auth, page_port, health, nerves, outboxes, sinks, people)


async def _run_until(
    stop: asyncio.Event, controller: Controller, opened: _Opened, app: FastAPI, host: str, time_scale: float
) -> None:
    """Run control loop, page, health check, electrode engine, sinks and notification until `stop`."""
    async with asyncio.TaskGroup() as group:
        endless = [
            group.create_task(serve(app, host, opened.port, time_scale=time_scale)),
            group.create_task(serve_health(controller, opened.health, time_scale=time_scale)),
        ]
        ticking = group.create_task(controller.run(stop))
        if opened.nerves is not None:
            group.create_task(opened.nerves.start())
        endless += [group.create_task(sink.run()) for sink in opened.sinks]
        if opened.people is not None:
            endless.append(group.create_task(opened.people.run()))
        _announce(controller.rig.name, opened, host)
        await stop.wait()
        await ticking
        for task in endless:
            task.cancel()


def _announce(rig: str, opened: _Opened, host: str) -> None:
    """Write the addresses of page and health check for commands, and print the page's for people."""
    token, health_url = opened.auth.command_line_token(), f"http://127.0.0.1:{opened.health.getsockname()[1]}/health"
    leave_endpoint(opened.folder.records, f"http://{host}:{opened.port}", token, health_url)
    print(f"Choroid: rig {rig} is running; page at {opened.auth.link(host, opened.port)}", file=sys.stderr, flush=True)


async def _close(controller: Controller, opened: _Opened, claimed: tuple[Claim, ...]) -> None:
    """Bring the rig to rest, then close what was opened and release the claims."""
    with contextlib.suppress(OSError):
        (opened.folder.records / ENDPOINT).unlink(missing_ok=True)
    await controller.close()
    if opened.nerves is not None:
        await opened.nerves.close()
    for outbox in opened.outboxes:
        outbox.close()
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
                await controller.told_to_end.wait()
                stop.set()
                return


@dataclass
class UnopenedSink:
    """A sink whose outbox cannot be opened: readings go only into the history, and an alarm gives the reason."""

    name: str
    problem: str

    def __post_init__(self) -> None:
        self._batch = ReadingBatch()
        self._dropped = 0

    @property
    def causes(self) -> Mapping[str, str]:
        """The cause of the alarm."""
        return {"telemetry_lost": self.problem}

    @property
    def discarded(self) -> tuple[Discarded, ...]:
        """The readings that were dropped."""
        return (Discarded(self.name, "readings for which there is no outbox", self._dropped),)

    def offer(self, state: State) -> None:
        """Drop the readings."""
        self._batch.take(state)
        while dropped := len(self._batch.cut()):
            self._dropped += dropped

    async def run(self) -> None:
        """Return at once: nothing is sent."""


def _sinks(rig: Rig, data: Path, rig_id: str) -> tuple[list[Outbox], tuple[OutboxSink | UnopenedSink, ...]]:
    """Return the telemetry sinks of the rig file, each with its own outbox: a failed one does not delay the others."""
    outboxes: list[Outbox] = []
    sinks: list[OutboxSink | UnopenedSink] = []

    def add(name: str, file: str, made: Callable[[Outbox], OutboxSink]) -> None:
        try:
            outboxes.append(Outbox(data / file, autocheckpoint=False))
        except (sqlite3.Error, OSError) as error:
            sinks.append(
                UnopenedSink(name, f"{file} cannot be opened: {error}. Next: free space, restart the controller")
            )
        else:
            sinks.append(made(outboxes[-1]))

    telemetry = rig.telemetry
    mqtt, influx_spec = telemetry.mqtt, telemetry.influx
    if influx_spec is not None:  # an extra that is missing ends the start, so it comes before any file is opened
        sink = load_extra(
            "controller.telemetry.influx",
            "influx",
            needed_for="telemetry.influx",
            otherwise="take telemetry.influx out of the rig file",
        ).InfluxSink
    if mqtt is not None:
        add(MqttSink.name, "outbox.db", lambda outbox: MqttSink(mqtt, rig.name, rig_id, outbox))
    if influx_spec is not None:
        add(sink.name, "outbox-influx.db", lambda outbox: sink(influx_spec, rig.name, rig_id, outbox))
    return outboxes, tuple(sinks)


def _nerves(rig: Rig, data: Path, agents: tuple[str, int] | None, *, recordable: bool) -> EngineNerves | None:
    """Return the electrode engine of this rig, if it has an array."""
    if rig.nerves is None:
        return None
    return EngineNerves(rig, data, seed=1, remote=agents, recordable=recordable)
