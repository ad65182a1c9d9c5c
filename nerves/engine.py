"""Run the engine in a process of its own: a real-time thread that steps the core with each block, and the gRPC service.

The thread only reads a block, steps the core and wakes the streams that wait. Everything slow (serving, syncing the
ledger to disk, collecting garbage) happens on the event loop in another thread. The interpreter's switch interval is
0.2 ms, so that the real-time thread gets its turn in time.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from controller.core.clock import Clock
from controller.core.database import checkpoint
from nerves.brake import Brake
from nerves.cards.contract import ArrayInfo, ElectrodeCard
from nerves.commands import RevokeCommand
from nerves.core import Core
from nerves.detector import Detection, warm_up
from nerves.envelope import Envelope
from nerves.gateway import Gateway
from nerves.ledger import StimulationLedger
from nerves.ledger_head import LedgerRefused
from nerves.metrics.following import MetricsFollower
from nerves.metrics.following import warm_up as metrics_warm_up
from nerves.permit import Tissue, tissue_at
from nerves.precedence import take_precedence
from nerves.recording.layout import RecordingPlan
from nerves.recording.service import RecordingService
from nerves.recording.tap import RecordingTap
from nerves.server import GatewayServer, RemoteAddress
from nerves.tokens import Grant, Keyring

logger = logging.getLogger(__name__)

SWITCH_S = 0.0002
UPKEEP_S = 5.0
FRAME_SIGNAL_S = 0.01
"""Interval at which readers of frames are woken; readers of spikes are woken by each block that has a spike."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Path of the ledger, address of the gRPC service (port 0, or one that is taken: any free one), limits of stimulation."""

    ledger: Path
    host: str = "127.0.0.1"
    port: int = 0
    envelope: Envelope = field(default_factory=Envelope)
    remote: RemoteAddress | None = None
    """Where agents on other machines connect, with mutual TLS; without it the service listens on loopback only."""
    tissue: Mapping[str, Any] | None = None
    """What the rig file says of the organoid's age and review (see :func:`nerves.permit.tissue_at`)."""
    detection: Detection = field(default_factory=Detection)
    """Frequency of the mains and reference of the signals, for the spike detection."""
    recording: RecordingPlan | None = None
    """Where recordings go, and when they begin by themselves; None: there are none."""


class RealTimeThread(threading.Thread):
    """Reads, steps, records, wakes; ends with `end()` or with the array, and then closes the core."""

    def __init__(
        self,
        card: ElectrodeCard,
        core: Core,
        gateway: Gateway,
        ended: Callable[[], object],
        tap: RecordingTap | None = None,
    ) -> None:
        super().__init__(name="nerves", daemon=True)
        self._card = card
        self._core = core
        self._gateway = gateway
        self._ended = ended
        self._tap = tap
        self._stopping = False
        self.failure: Exception | None = None
        """The error that ended the thread; None while it runs, and after `end`."""

    def end(self) -> None:
        """Stop after the present block."""
        self._stopping = True

    def run(self) -> None:
        """Read blocks and step the core until the end."""
        streams, events = self._gateway.streams, self._core.events
        told = events.last
        frames_between_signals = round(FRAME_SIGNAL_S * self._core.info.sample_rate_hz)
        next_signal = 0
        if not take_precedence():
            logger.info("the system does not allow real-time scheduling; on a busy machine pulses may come too late")
        try:
            while not self._stopping:
                block = self._card.read()
                spikes = self._core.step(block)
                if self._tap is not None:
                    self._tap.take(block, spikes)
                if len(spikes):
                    streams.spike_signal.rise()
                if events.last != told:
                    told = events.last
                    streams.event_signal.rise()
                if block.first_frame >= next_signal:
                    next_signal = block.first_frame + frames_between_signals
                    streams.frame_signal.rise()
        except Exception as error:
            self.failure = error
        finally:
            try:
                self._core.close()
            finally:
                self._ended()


def compile_engine(info: ArrayInfo, detection: Detection | None = None) -> None:
    """Compile (or load from the cache) what the engine of a card needs, before the first frame."""
    warm_up(info.electrodes, detection)
    metrics_warm_up(info.sample_rate_hz)


async def serve(
    card: ElectrodeCard,
    config: EngineConfig,
    keyring: Keyring,
    *,
    ready: Callable[[str], None],
    control: Callable[[EngineControl], None] | None = None,
    stop: asyncio.Event,
    brake: Brake | None = None,
) -> None:
    """Run the engine until `stop`; `ready` receives the address once the service listens, `brake` stops stimulation.

    :func:`compile_engine` comes before. `control` receives what may be changed from then on.

    Raises:
        LedgerRefused: The ledger cannot be used; the service does not listen then.
        OSError: The array is gone. This ends the process, and with it every lease.
        Exception: Whatever else ended the real-time thread.
    """
    loop = asyncio.get_running_loop()
    clock = Clock(follow_system=True)
    with _refusing(config.ledger):
        ledger = StimulationLedger(config.ledger, card.info, clock.utc_text())
        began = datetime.fromisoformat(ledger.first_utc)
        tissue = Tissue() if config.tissue is None else tissue_at(config.tissue, clock.utc(), began)
        core = Core(card, ledger, config.envelope, tissue, brake, detection=config.detection)
    if ledger.unknown:
        logger.warning("%d pulse(s) of an earlier session have an unknown fate; see the ledger", ledger.unknown)
    metrics = MetricsFollower(core)
    gateway = Gateway(core, keyring, config.ledger, ledger.unknown, metrics)
    server = GatewayServer(gateway, keyring)
    recording = None if config.recording is None else RecordingService(core, config.recording, clock)
    if recording is not None:
        gateway.recording_problem = lambda: recording.status.problem
    tap = None if recording is None else recording.tap
    thread = RealTimeThread(card, core, gateway, lambda: loop.call_soon_threadsafe(stop.set), tap)
    with undisturbed():
        thread.start()
        try:
            ready(await _listen(server, config))
            if control is not None:
                control(EngineControl(core, keyring, recording))
            if recording is not None:
                await recording.open()
            background = [asyncio.create_task(_upkeep(config.ledger)), asyncio.create_task(metrics.follow())]
            await stop.wait()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        finally:
            thread.end()
            await asyncio.to_thread(thread.join)
            if recording is not None:
                await recording.close()
            await server.close()
    if thread.failure is not None:
        raise thread.failure


class EngineControl:
    """Changes a running engine for its owner. Called on the event loop."""

    def __init__(self, core: Core, keyring: Keyring, recording: RecordingService | None = None) -> None:
        self._core = core
        self._keyring = keyring
        self.recording = recording
        """The recordings; None where there are none."""

    def set_agents(self, agents: Mapping[str, Grant], done: Callable[[], None]) -> None:
        """Replace the agents' grants (digest → grant) and end the leases of those that lost theirs; `done` confirms it.

        `done` is called on the real-time thread.
        """
        revoked = sorted(self._keyring.set_agents(agents))
        for name in revoked[:-1]:
            self._core.submit(RevokeCommand(name, lambda: None, _revoked(name)))
        if revoked:
            self._core.submit(RevokeCommand(revoked[-1], done, _revoked(revoked[-1])))
        else:
            done()

    def end_leases(self, requester: str, why: str, done: Callable[[], None]) -> None:
        """End the leases of an agent and cancel its waiting pulses; it may acquire new ones. `done` as above."""
        self._core.submit(RevokeCommand(requester, done, why))


def _revoked(name: str) -> str:
    return f"{name} may not stimulate any more"


async def _listen(server: GatewayServer, config: EngineConfig) -> str:
    """Open the service; return its address."""
    try:
        return await server.open(config.host, config.port, config.remote)
    except OSError as error:
        if not config.port:
            raise
        logger.warning("the electrode engine listens on another port than before: %s", error)
        return await server.open(config.host, 0, config.remote)


@contextmanager
def _refusing(ledger: Path) -> Iterator[None]:
    """Raise :class:`LedgerRefused` for a ledger that cannot be read or written."""
    try:
        yield
    except LedgerRefused:
        raise
    except sqlite3.Error as error:
        raise LedgerRefused(
            f"{ledger} cannot be used: {error}. Likely cause: the file is damaged, or its disk failed or is full. Next: make"
            " room, or restore the file from a backup; or, when the tissue has rested for a day, move it and"
            f" {ledger.name}.head elsewhere to begin a new one"
        ) from error


@contextmanager
def undisturbed() -> Iterator[None]:
    """Run a block without garbage collection and with quick turns of threads, for an engine's process."""
    interval = sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        gc.enable()


async def _upkeep(ledger: Path) -> None:
    """Sync the ledger to disk every few seconds, and collect the young garbage that serving leaves."""
    while True:
        await asyncio.sleep(UPKEEP_S)
        try:
            await asyncio.to_thread(checkpoint, ledger)
        except Exception:
            logger.exception("the stimulation ledger could not be synced to disk; trying again")
        gc.collect(1)
