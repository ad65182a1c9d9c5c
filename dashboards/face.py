"""What the faces need of a controller, and no more: tests stand a small one behind the same door.

:class:`controller.process.controller.Controller` fulfils it; the type checker holds both to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from controller.alarms.states import Alarm
from controller.core.state import State, Volume
from controller.gate.bypass import Bypass
from controller.journal.terms import Entry
from controller.ledger.batches import Batch, Whereabouts
from controller.ledger.reconcile import Residual
from controller.ledger.terms import Totals
from controller.memory.history import SeriesPoint
from controller.nerves.summary import NervesSource, NervesSummary
from controller.process.health import ControllerHealth
from controller.process.load import ProcessLoad
from controller.rig.description import Rig
from controller.runs.views import RunView
from protocols.registry import Recipe


class ClockFace(Protocol):
    """UTC of the rig."""

    def utc(self) -> datetime:
        """Now."""

    def utc_text(self) -> str:
        """Now, as ISO 8601 with milliseconds and a Z."""


class StoreFace(Protocol):
    """The latest snapshot."""

    @property
    def state(self) -> State:
        """As of the last tick."""


class HistoryFace(Protocol):
    """Kept readings."""

    def series(self) -> dict[str, str]:
        """Every point that was ever kept, with its unit."""

    def query(self, point: str, begin: float, end: float, max_points: int = ...) -> list[SeriesPoint]:
        """One series between two UTC times (s since 1970)."""


class LedgerFace(Protocol):
    """Where the medium went."""

    @property
    def totals(self) -> Totals:
        """Sums since the journal began (µL)."""

    @property
    def whereabouts(self) -> Whereabouts:
        """Batches of medium: what they are, where they are, where they went."""

    def volumes(self) -> Mapping[str, Volume]:
        """Every vessel's volume with its standard deviation (µL)."""

    def unexplained(self) -> Volume:
        """The balance error with its standard deviation (µL)."""

    def gain(self, pump: str) -> tuple[float, float] | None:
        """What a pump delivers over what its calibration says, and its standard deviation; None before any dose."""

    def level(self, vessel: str, volume_ul: float, sd_ul: float, *, user: str, reason: str) -> Residual:
        """A person read a vessel's volume; raises LedgerError for what cannot be."""

    def reconcile(self, vessel: str, volume_ul: float, sd_ul: float, *, user: str, reason: str) -> None:
        """A person changed a vessel's volume by hand; raises LedgerError for what cannot be."""

    def load(self, batch: Batch, volume_ul: float, sd_ul: float, *, replaces: bool, user: str, reason: str) -> None:
        """A person put medium into a vessel; raises LedgerError for what cannot be."""


class UpkeepFace(Protocol):
    """Calibrations and tubing."""

    def to_json(self) -> list[dict[str, Any]]:
        """Every pump: calibration and tubing."""

    def install(
        self,
        pump: str,
        *,
        material: str,
        bore_mm: float | None,
        user: str,
        reason: str,
        lot: str = "",
        life_revolutions: float | None = None,
    ) -> object:
        """New tubing is in a pump's head; raises UpkeepError for what cannot be."""


class AlarmsFace(Protocol):
    """What a person must do something about."""

    def active(self) -> list[Alarm]:
        """Every alarm that is announced, the most urgent first."""

    def set_aside(self) -> list[Alarm]:
        """Every alarm that is shelved, suppressed by design or out of service."""

    def shelve(self, identifier: str, for_s: float, user: str, reason: str) -> Alarm:
        """Do not announce it for a limited time; raises ShelfError for what cannot be."""

    def take_out_of_service(self, identifier: str, user: str, reason: str) -> Alarm:
        """Do not announce it until it is returned to service; raises ShelfError for what cannot be."""

    def bring_back(self, identifier: str, user: str) -> None:
        """End either; raises ShelfError for what cannot be."""

    def acknowledge(self, identifier: str, user: str) -> Alarm:
        """Somebody has seen it; raises KeyError for one that is not active."""


class PeopleFace(Protocol):
    """Delivery of alarms to people."""

    def status(self) -> list[dict[str, Any]]:
        """Every channel: what it takes, how it does, what waits."""

    async def test(self, user: str) -> list[dict[str, Any]]:
        """Send a test message over every channel now; returns each channel's result."""


class RunsFace(Protocol):
    """The runner."""

    @property
    def catalogue(self) -> Mapping[str, Recipe]:
        """The protocols there are, by name."""

    @property
    def latest(self) -> RunView | None:
        """The run that has not ended, or else the one that was begun last."""

    async def start(self, protocol: str, params: Mapping[str, str | float], user: str, reason: str) -> str:
        """Begin a run; returns its id."""

    async def pause(self, run_id: str, user: str, reason: str) -> None:
        """Bring what it moves to rest, then hold it."""

    async def resume(self, run_id: str, user: str, reason: str) -> None:
        """Go on with what remains."""

    async def abort(self, run_id: str, user: str, reason: str) -> None:
        """End it for good."""

    def get(self, run_id: str) -> RunView:
        """One run."""

    def list(self) -> list[RunView]:
        """Every run, oldest first."""


class AssaysFace(Protocol):
    """What the laboratory found, and what is believed of the medium."""

    def enter(
        self,
        analyte: str,
        value: str,
        *,
        vessel: str,
        taken: str,
        user: str,
        sd: str = ...,
        method: str = ...,
        reason: str = ...,
        zone: str = ...,
        sure: bool = ...,
    ) -> dict[str, Any]:
        """Take one in; returns what it did to the estimate."""

    def recent(self, limit: int = ...) -> list[dict[str, Any]]:
        """The latest entered, newest first."""

    def medium(self) -> dict[str, Any]:
        """The estimate of this moment, with bounds."""


class BypassesFace(Protocol):
    """Interlocks that are set aside for a while."""

    def active(self) -> tuple[Bypass, ...]:
        """Those of this moment."""

    async def begin(self, interlock: str, user: str, reason: str, for_s: float) -> Bypass:
        """Set one aside; raises BypassRefused."""

    def end(self, interlock: str, user: str) -> None:
        """Let it act again; raises BypassRefused."""


class GateFace(Protocol):
    """The emergency stop, and the bypasses of interlocks."""

    @property
    def bypasses(self) -> BypassesFace:
        """The bypasses."""

    @property
    def emergency(self) -> str | None:
        """Who stopped everything and why; None when nobody did."""


class JournalFace(Protocol):
    """The audit trail."""

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Write one row; returns its number."""

    async def commit(self) -> None:
        """Wait until every row so far is on the disk; raises JournalUnwritten."""

    def entries(
        self, *, kinds: Sequence[str] = ..., after: int = ..., limit: int | None = ..., newest_first: bool = ...
    ) -> Iterator[Entry]:
        """Rows, in order or newest first."""


class ControllerFace(Protocol):
    """A controller as the faces see it. `gate`, `runs` and `assays` exist once it has started."""

    @property
    def rig(self) -> Rig:
        """The rig's description."""

    @property
    def clock(self) -> ClockFace:
        """The rig's clock."""

    @property
    def store(self) -> StoreFace:
        """Where the latest snapshot is."""

    @property
    def history(self) -> HistoryFace:
        """Kept readings."""

    @property
    def ledger(self) -> LedgerFace:
        """Where the medium went."""

    @property
    def upkeep(self) -> UpkeepFace:
        """What has to be looked after."""

    @property
    def alarms(self) -> AlarmsFace:
        """The alarms."""

    @property
    def people(self) -> PeopleFace | None:
        """Who is told of alarms; None where the rig file names no channel."""

    @property
    def runs(self) -> RunsFace:
        """The runner."""

    @property
    def assays(self) -> AssaysFace:
        """The assays."""

    @property
    def gate(self) -> GateFace:
        """The safety gate, of which the faces may only see the emergency stop."""

    async def emergency_stop(self, who: str, reason: str) -> None:
        """Everything but the basal circulation stops, and all stimulation, until :meth:`emergency_reset`."""

    async def emergency_reset(self, who: str, reason: str) -> None:
        """End the emergency stop; raises :class:`~controller.gate.emergency.ResetRefused`."""

    @property
    def journal(self) -> JournalFace:
        """The audit trail."""

    @property
    def nerves(self) -> NervesSource | None:
        """Where firing summaries and spikes come from."""

    @property
    def nerves_summary(self) -> NervesSummary | None:
        """The latest firing summary."""

    @property
    def viability(self) -> dict[str, Any] | None:
        """The latest scores, as :meth:`controller.vitals.vitals.VitalSigns.score` gives them."""

    def last_grade(self) -> dict[str, Any] | None:
        """The latest grade with its time, inputs, limits and reasons."""

    def health(self) -> ControllerHealth:
        """Whether the control loop lives (D6)."""

    @property
    def load(self) -> ProcessLoad:
        """Lag of the loop, and what the process takes."""


class SpeedControl(Protocol):
    """The speed of a simulated rig; a real one has none."""

    @property
    def speed(self) -> float:
        """Times life."""

    def set_speed(self, speed: float) -> None:
        """Change it; raises ValueError outside its range."""


class FaultsControl(Protocol):
    """Faults of a simulated lab, made by hand; a real one has none."""

    def kinds(self) -> list[dict[str, Any]]:
        """What can go wrong: `kind, group, meaning, targets, momentary`."""

    def lasting(self) -> list[dict[str, Any]]:
        """What is wrong at this moment: `number, kind, target, meaning, left_s`."""

    def make(self, kind: str, target: str, for_s: float) -> None:
        """Let it go wrong for `for_s` (s; 0: until it is mended); raises ValueError for what cannot be."""

    def mend(self, number: int) -> str:
        """Take one back and say what it was; raises KeyError for one that does not last."""


def started(controller: ControllerFace) -> bool:
    """Whether the controller has connected: its gate and its runner are made only then."""
    return hasattr(controller, "gate") and hasattr(controller, "runs")
