"""A rig on paper: what a rehearsal knows of it, and what the actions of its steps do there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controller.core.state import Volume
from controller.ledger.line_contents import LineContents
from controller.rig.description import Rig
from controller.rig.places import at, roles_of
from controller.rig.probes import (
    chamber_temperature,
    loop_oxygen,
    loop_ph,
    oxygen_target_pct,
    ph_target,
    temperature_target_c,
)
from controller.runs.paper_volumes import PaperVolumes
from controller.steps.barrier import bounds_kpa
from controller.steps.branches import BRANCH
from controller.transfers.routes import routes_of
from protocols.answers import AnswerForm
from protocols.host import RunEnded
from protocols.results import VesselVolume
from protocols.soft_sensor import MediaEstimate

Calibrated = Callable[[str, str], str | None]
"""Pump and UTC (ISO 8601) → why it would be refused volumes then, or None."""


class RehearsalOver(RunEnded):
    """Ends a branch of the rehearsal: the time to rehearse is over, or the run would be held."""


@dataclass(frozen=True, slots=True)
class Event:
    """Records one step of the rehearsal. Times in s since the start, volumes in µL."""

    n: int
    verb: str
    begin_s: float
    end_s: float
    ul: float = 0.0
    source: str = ""
    target: str = ""
    line: str = ""
    text: str = ""
    branch: str = ""
    """Its name; empty for the protocol itself."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """An answer that was assumed: number and time (s since the start) of the step, its message, the form of the answer."""

    n: int
    at_s: float
    message: str
    form: AnswerForm

    @property
    def text(self) -> str:
        """The assumption for people."""
        form = self.form
        return f"assumed answer to step {self.n} ({self.message}): {form.text(form.assumed)} ({form.assumed_because})"


@dataclass(slots=True)
class Rehearsed:
    """Holds the result of a rehearsal: its steps, the volumes at the end, and why the run would be refused (empty if it
    would not).
    """

    events: list[Event] = field(default_factory=list)
    volumes: dict[str, Volume] = field(default_factory=dict)
    passed_ul: dict[str, float] = field(default_factory=dict)
    """What the hearts have brought to a vessel (negative: taken from it), by vessel (µL)."""
    breaches: list[str] = field(default_factory=list)
    uncalibrated: bool = False
    """Whether the breach is a pump's missing or expired calibration."""
    assumed: list[Assumed] = field(default_factory=list)
    """Answers that were assumed."""
    seconds: float = 0.0
    ended: bool = False
    """Whether the protocol came to its end before the horizon."""


@dataclass
class Paper:
    """The rig on paper: time, volumes and readings, and what comes of the rehearsal."""

    rig: Rig
    start: Mapping[str, Volume]
    """Volumes at the start."""
    readings: Mapping[str, float]
    """Latest readings, by point."""
    estimate: MediaEstimate | None
    """The last estimate of the medium; None: fresh medium everywhere."""
    calibrated: Calibrated
    began: datetime
    """When the rehearsed run begins."""
    horizon_s: float
    """How far it is rehearsed."""
    contents: LineContents
    """What stands in the lines that several media pass."""
    out: Rehearsed = field(default_factory=Rehearsed)
    latest_s: float = 0.0
    """The latest time of all branches (s since the start)."""

    def __post_init__(self) -> None:
        self.volumes = PaperVolumes(self.rig, self.start)
        self.routes = routes_of(self.rig)
        self.batch: str | None = at(self.rig, "kidney.vessel")
        """The vessel through which every batch passes."""
        self._free_s: dict[str | None, float] = {}
        """Until when a vessel, pump or valve is in use."""
        self._evaporated_s = 0.0

    @property
    def now_s(self) -> float:
        """Where the branch that asks stands (s since the start)."""
        return BRANCH.get().now_s

    def advance(self, seconds: float) -> None:
        """Advance the time of this branch; water evaporates, and hearts go on."""
        branch = BRANCH.get()
        branch.now_s += seconds
        self.latest_s = max(self.latest_s, branch.now_s)
        within_s = max(min(branch.now_s, self.horizon_s) - self._evaporated_s, 0.0)
        self._evaporated_s += within_s
        self.volumes.elapse(within_s)

    @contextlib.contextmanager
    def using(self, *names: str | None) -> Iterator[None]:
        """Have vessels, pumps and valves to this branch alone, from when no other branch uses them."""
        free_s = max((self._free_s.get(name, 0.0) for name in names if name is not None), default=0.0)
        self.advance(max(free_s - self.now_s, 0.0))
        yield
        self._free_s |= dict.fromkeys(names, self.now_s)

    def volumes_by_role(self) -> dict[str, VesselVolume]:
        """Return the volumes of the vessels that protocols know, by role."""
        now = self.volumes.now()
        return {
            role: VesselVolume(now[name].ul, now[name].sd_ul, 0.0, 0.0) for role, name in roles_of(self.rig).items()
        }

    def value(self, point: str) -> float | None:
        """Return the latest reading, else the set-point where there is one."""
        organs, rig, limit = self.rig.organs, self.rig, self.rig.safety.over_pressure_heart
        if organs.kidney is not None and point == organs.kidney.mass:
            return self.volumes.ul[organs.kidney.vessel] / 1000.0
        if point in self.readings:
            return self.readings[point]
        known = {
            loop_ph(rig): ph_target(rig),
            None if organs.liver is None else organs.liver.ph: ph_target(rig),
            loop_oxygen(rig): oxygen_target_pct(rig),
            chamber_temperature(rig): temperature_target_c(rig),
            None if organs.immune is None else organs.immune.pressure: 0.1 * bounds_kpa(rig)[1],
            **{heart.pressure: 0.0 if limit is None else 0.1 * limit.high_kpa for heart in organs.hearts.values()},
        }
        return known.get(point)
