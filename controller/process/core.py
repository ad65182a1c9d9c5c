"""What the parts of a controller share: rig, clock, records, alarms and tasks; once started, devices, gate and runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from controller.alarms.states import Alarms
from controller.attachments.store import AttachmentStore
from controller.core.clock import Clock
from controller.core.discarded import Discarded
from controller.core.state import StateStore
from controller.estimator.assays import Assays
from controller.gate.emergency import Button, Emergency, Stimulator
from controller.gate.gate import Gate
from controller.gate.latch import Latch, SecondPlace
from controller.hazards.rest import rest_periods
from controller.journal.context import RigContext
from controller.journal.journal import Journal
from controller.journal.terms import JournalUnwritten
from controller.ledger.bound import FreshBound
from controller.ledger.ledger import Ledger
from controller.links.connected_rig import ConnectedRig
from controller.memory.history import FLUSH_S, History
from controller.process.edges import Edges
from controller.process.load import ProcessLoad
from controller.process.part import Part
from controller.process.tasks import Tasks
from controller.process.tissue_changes import TissueChanges
from controller.process.wall_clock import WallClockWatch
from controller.readings.liveliness import Liveliness
from controller.readings.plausibility import Plausibility
from controller.readings.vigilance import oldest_answers
from controller.rig.description import Rig
from controller.runs.library import ProtocolLibrary
from controller.runs.runner import Runner
from controller.safety.limits import limits_of
from controller.safety.terms import Limits
from controller.upkeep.upkeep import Upkeep

logger = logging.getLogger(__name__)

LAZY_FLUSH_S = 900.0
"""How often history is written when nothing has to outlive the process, as in a simulation."""
T = TypeVar("T")


class NotConnected(RuntimeError):
    """The controller has not connected its devices yet."""

    def __init__(self) -> None:
        super().__init__("the controller has not connected its devices yet. Next: wait for Controller.start to return")


@dataclass(frozen=True, slots=True)
class Storage:
    """Says where a controller keeps its records, and how durably."""

    folder: Path
    durable: bool = True
    """Whether rows must outlive the process."""
    threaded: bool = False
    """Whether writes that wait for a disk run in threads (real time)."""
    journal: Journal | None = None
    """A journal that the caller has opened already; the controller closes it."""
    rig_id: str = ""
    """Identity of the folder; empty where it has none (virtual time)."""
    second_place: SecondPlace | None = None
    """Keeps the emergency stop outside of the folder."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Holds the parts that exist only once the devices are connected."""

    devices: ConnectedRig
    gate: Gate
    runs: Runner


class ControllerCore:
    """Holds what the parts of one controller share."""

    def __init__(
        self, rig: Rig, clock: Clock, storage: Storage, limits: Limits | None, stimulator: Stimulator | None
    ) -> None:
        self.rig = rig
        self.clock = clock
        self.storage = storage
        self.limits = limits or limits_of(rig)
        self.stimulator = stimulator
        self.tasks = Tasks(self._failed)
        self.load = ProcessLoad()
        self.edges = Edges()
        """What cannot end the control loop: page, health port, electrode engine, sinks, delivery."""
        self.late_s = 0.0
        """Lateness of the present tick (s of the loop's time)."""
        self.parts: Iterable[Part] = ()
        """The parts, in their order."""
        self.connected: Assembly | None = None
        self._provided: list[object] = []
        self.rest_s = rest_periods(rig)
        """Period of each device at rest (s)."""
        self.plausibility = Plausibility(rig, self.rest_s)
        self.store = StateStore(Liveliness(rig).flat, oldest_answers(rig), self.plausibility)
        folder, threaded = storage.folder, storage.threaded
        self.attachments = AttachmentStore(folder, threaded=threaded)
        self.journal = storage.journal or Journal(folder / "journal.db", clock, durable=storage.durable)
        self.library = ProtocolLibrary(folder, rig=rig, journal=self.journal)
        flush_s = FLUSH_S if storage.durable else LAZY_FLUSH_S
        self.history = History(folder / "history.db", clock, flush_s=flush_s, autocheckpoint=not threaded)
        self.alarms = Alarms(self.journal.append, clock.utc_text)
        self.context = RigContext(rig, clock, self.store, self.journal, self.alarms.event)
        self.wall_clock = WallClockWatch(clock, self.record, self.alarms.event)
        self.ledger = Ledger(rig, self.journal, clock, alarm=self.alarms.event)
        self.fresh_bound = FreshBound(rig, self.journal, self.ledger, clock)
        self.tissue = TissueChanges(rig, self.journal, clock)
        self.upkeep = Upkeep(
            rig,
            journal=self.journal,
            clock=clock,
            data=folder,
            medium=lambda: self.ledger.whereabouts,
            volumes=self.ledger.volumes,
        )
        button = rig.safety.emergency_stop
        self.emergency = Emergency(
            latch=Latch(folder, storage.second_place),
            stimulator=stimulator,
            button=None if button is None else Button(button),
            record=self.record,
            alarm=self.alarms.event,
        )

    @property
    def rig_id(self) -> str:
        """Identity of the data folder; empty where it has none (virtual time)."""
        return self.storage.rig_id

    @property
    def started(self) -> bool:
        """Whether the devices are connected; `gate`, `runs` and `assays` exist from then on."""
        return self.connected is not None

    @property
    def devices(self) -> ConnectedRig:
        """The connected devices. Raises :class:`NotConnected` before the start, as the next three do."""
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

    @property
    def _connected(self) -> Assembly:
        if self.connected is None:
            raise NotConnected
        return self.connected

    def provide(self, made: T) -> T:
        """Let other parts, and the API, find an object by its class. Return it."""
        self._provided = [*(each for each in self._provided if type(each) is not type(made)), made]
        return made

    def find(self, kind: type[T]) -> T | None:
        """Return the object of a class that a part provided; None if there is none, or not yet."""
        return next((made for made in self._provided if isinstance(made, kind)), None)

    def get(self, kind: type[T]) -> T:
        """Return the object of a class that a part provided; raise :class:`NotConnected` if there is none yet."""
        if (found := self.find(kind)) is None:
            raise NotConnected
        return found

    async def emergency_stop(self, who: str, reason: str) -> None:
        """Stop perfusion outputs and stimulation together, until :meth:`emergency_reset` (A9); at any time, and again."""
        await self.emergency.stop(who, reason)

    async def emergency_reset(self, who: str, reason: str) -> None:
        """End an emergency stop. Raises :class:`~controller.gate.emergency.ResetRefused`."""
        await self.emergency.reset(who, reason)

    def discarded(self) -> list[Discarded]:
        """Return what was discarded since the start, for every reason; of an outbox, since its file was made."""
        found: list[Discarded] = []
        for part in self.parts:
            if (discarded := part.discarded) is not None:
                self.tasks.isolate(part.name, lambda count=discarded: found.extend(count()))
        return found

    def record(self, kind: str, body: Mapping[str, Any]) -> None:
        """Write a row; a journal that cannot be written is an alarm (D2)."""
        try:
            self.journal.append(kind, body)
        except JournalUnwritten as error:
            self._unwritten(error)

    def _unwritten(self, error: JournalUnwritten) -> None:
        logger.error("%s", error)
        self.alarms.event("journal_unwritten", "journal", str(error))

    def _failed(self, name: str, error: BaseException) -> None:
        if isinstance(error, JournalUnwritten):  # a disk that is full is no defect of this program
            self._unwritten(error)
            return
        logger.error("%s failed", name, exc_info=error)
        self.alarms.event("defect", name.partition(" ")[0], f"{type(error).__name__}: {error}")
