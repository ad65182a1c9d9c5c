"""The electrode engine of a rig in real time: a `NervesSource` over its process, kept running in the background.

Page and perfusion never wait for the engine: while it is not ready, there is no summary, which lowers the coverage
of scores and raises an alarm if it lasts.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from choroid.common.failure import UserError
from choroid.running.local_agent import ENDPOINT
from choroid.running.nerves_handle import LEDGER, EngineHandle, spawn_engine
from choroid.running.nerves_source import GatewayNerves
from choroid.running.recording_plan import recording_plan
from choroid.running.tls_folder import tls_files
from controller.core.clock import Clock
from controller.process.edges import AlarmedFailure, Edges, Pauses, Up
from controller.rig.description import Rig
from nerves.access import AgentAccess
from nerves.budgets import BudgetUse
from nerves.cards.contract import CardRefused
from nerves.credentials import AgentCredentials
from nerves.inspection import ElectrodeTable, LeaseSeen, ResponseSeen, Waveforms
from nerves.ledger import StimulationRecord, latest
from nerves.ledger_head import LedgerRefused
from nerves.recording.access import RecordingAccess
from nerves.summary import NervesSummary

if TYPE_CHECKING:
    from sim.plant.plant import Plant

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 300.0
"""Maximum pause before an engine is restarted, in simulated seconds; the pause doubles each time, so that a
repeated failure cannot stimulate again each second.
"""
STEADY_S = 600.0
"""After this life time (s) the end of an engine counts as a new failure, and the pause starts from its minimum."""


NOT_ALLOWED_YET = "the controller has not allowed stimulation yet"


class EngineNerves:
    """The engine's process and the connection to it, as one source.

    It is restarted when it ends. That gives no client more of the tissue: its leases ended with it, and the new
    engine books from the ledger what the old one delivered and may have delivered. It starts only after the old one
    is dead, so that there are never two engines on one array. A hanging engine is not killed, since the cause is
    unknown: an alarm is raised. Only an emergency stop kills it, when it does not confirm. Each engine starts
    stopped, and is allowed to stimulate when no emergency stop is active.
    """

    def __init__(
        self,
        rig: Rig,
        data_dir: Path,
        seed: int,
        remote: tuple[str, int] | None = None,
        *,
        recordable: bool = True,
    ) -> None:
        """Prepare an engine.

        Args:
            rig: The rig with the array.
            data_dir: Folder of its files.
            seed: Seed of the simulated array.
            remote: An address for agents on other machines, with mutual TLS.
            recordable: Whether there is room for recordings; not in a spare folder.
        """
        self._remote = remote
        self._rig = rig
        self._data_dir = data_dir
        self._seed = seed
        self._engine: EngineHandle | None = None
        self._gateway: GatewayNerves | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopped = ""
        credentials = AgentCredentials(data_dir, Clock(follow_system=True).utc_text)
        self.agents = AgentAccess(credentials, self._apply_agents)
        """The credentials of agents."""
        self.recordings = RecordingAccess(recording_plan(rig, data_dir) if recordable else None, lambda: self._engine)
        """The recordings of the array."""
        self.ledger_problem = ""
        """Why no engine starts with the stimulation ledger, for people; empty while one does."""
        self._card_refused = ""
        """Why no engine starts with the electrode card; empty while one does."""

    @property
    def card_problem(self) -> str:
        """Why the electrode card cannot be used, or what of it does not work, for people; empty while all does."""
        return self._card_refused or ("" if self._gateway is None else self._gateway.card_fault)

    @property
    def recording_problem(self) -> str:
        """What the recordings of the array lack, for people; empty while they are whole."""
        return "" if self._gateway is None else self._gateway.recording_problem

    @property
    def engine(self) -> EngineHandle | None:
        """The engine's process when it is ready: address and tokens of its API."""
        return self._engine

    def start(self, edges: Edges) -> None:
        """Have `edges` keep the engine running; return at once.

        A failure is an alarm and leaves the rig without nerves for a while, never without life support.
        """
        pauses = Pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_S)
        self._keeping = edges.keep("electrode engine", self._live, pauses=pauses)

    async def _live(self, up: Up) -> None:
        """Run the engine once, from its start to its end.

        Raises:
            AlarmedFailure: The ledger or the card is refused.
            OSError, RuntimeError, UserError: It did not start, or has ended.
        """
        if self._remote is not None and tls_files(self._data_dir) is None:
            raise UserError(
                f"agents on other machines need mutual TLS, and {self._data_dir} has no certificate of the electrode engine."
                f" Next: choroid agent certify-engine --host {self._remote[0]} --data {self._data_dir}"
            )
        try:
            self._engine = await spawn_engine(
                self._rig, self._data_dir, self._seed, NOT_ALLOWED_YET, self._remote, self.recordings.plan
            )
        except LedgerRefused as error:
            self.ledger_problem = str(error)
            raise AlarmedFailure(str(error)) from error
        except CardRefused as error:
            self._card_refused = str(error)
            raise AlarmedFailure(str(error)) from error
        self.ledger_problem = self._card_refused = ""
        try:
            await self._engine.order(self._stopped)
            self._gateway = GatewayNerves(self._engine.address, self._engine.token)
            up()
            print(
                f"Nerves: the address for agents is {self._engine.address}; {self._data_dir / ENDPOINT} holds a token",
                file=sys.stderr,
                flush=True,
            )
            status = await self._engine.ended()
            raise RuntimeError(
                f"the electrode engine ended by itself, with status {status}, and every lease is gone. Likely cause: a"
                " defect, its card or memory. Next: look at its lines in the log; it is started again"
            )
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        """Disconnect, end the engine's process if it still runs, and remove its address file."""
        gateway, self._gateway = self._gateway, None
        engine, self._engine = self._engine, None
        if gateway is not None:
            await gateway.close()
        if engine is not None:
            await engine.close()
            (self._data_dir / ENDPOINT).unlink(missing_ok=True)

    async def _apply_agents(self) -> None:
        """Have the engine read the credentials; one that does not confirm it is killed, and the next one reads them."""
        if self._engine is not None:
            await self._engine.apply_agents()

    async def end_leases(self, requester: str, why: str) -> bool:
        """End an agent's leases and cancel its waiting pulses; return whether the engine confirmed it, else it is killed."""
        return self._engine is not None and await self._engine.end_leases(requester, why)

    async def electrodes(self) -> ElectrodeTable | None:
        """Return the figures of each electrode; None without an engine, as the next three."""
        return await self._gateway.electrodes() if self._gateway else None

    async def waveforms(self, electrode: int) -> Waveforms | None:
        """Return the waveforms of an electrode's spikes of the last seconds."""
        return await self._gateway.waveforms(electrode) if self._gateway else None

    async def responses(self, electrode: int) -> ResponseSeen | None:
        """Return the spikes of an electrode around the pulses of the last minutes."""
        return await self._gateway.responses(electrode) if self._gateway else None

    async def leases(self) -> tuple[tuple[LeaseSeen, ...], tuple[BudgetUse, ...]] | None:
        """Return the living leases and the use of the budgets."""
        return await self._gateway.leases() if self._gateway else None

    async def records(
        self, *, before: int | None, limit: int, requester: str | None, electrode: int | None
    ) -> list[StimulationRecord]:
        """Return records of the stimulation ledger, newest first; none before its first engine has started."""
        path = self._data_dir / LEDGER
        if not path.exists():
            return []
        return await asyncio.to_thread(
            latest, path, before=before, limit=limit, requester=requester, electrode=electrode
        )

    def forbid_stimulation(self, why: str) -> None:
        """Forbid stimulation for every engine that starts from now on, until :meth:`allow_stimulation`."""
        self._stopped = why

    async def stop_stimulation(self, why: str) -> str:
        """Stop stimulation and cancel every waiting pulse (A9); return the result, for the record.

        An engine that does not confirm within 150 ms is killed. Later ones start stopped.
        """
        self._stopped = why
        engine = self._engine
        if engine is None:
            return "no electrode engine runs"
        if await engine.stop(why):
            return "confirmed"
        return "the electrode engine did not confirm and was killed" + ("" if engine.dead else "; it is not dead yet")

    async def allow_stimulation(self) -> None:
        """End :meth:`stop_stimulation`; earlier leases stay ended."""
        self._stopped = ""
        if self._engine is not None:
            await self._engine.order("")

    async def summary(self) -> NervesSummary | None:
        """Return the latest firing summary, or None without an engine."""
        return await self._gateway.summary() if self._gateway else None

    def recent_spikes(self) -> list[tuple[float, int]]:
        """Return the spikes of the last seconds (seconds, electrode)."""
        return self._gateway.recent_spikes() if self._gateway else []

    async def close(self) -> None:
        """Disconnect and end the engine's process."""
        if self._keeping is not None:
            if not self._keeping.cancelling():
                self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)


async def follow_tissue(nerves: EngineNerves, plant: Plant, stop: asyncio.Event) -> None:
    """Send what the plant's tissue lives in to the simulated array about once per real second.

    This is a channel of the simulator only (tissue to electrodes); the controller has no part in it.
    """
    while not stop.is_set():
        if nerves.engine is not None:
            nerves.engine.set_conditions(plant.conditions)
        await asyncio.sleep(60.0)
