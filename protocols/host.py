"""What a protocol's lab needs from the controller: steps, actions, routes and facts of the rig, and two exceptions.

The controller implements it twice: a run (controller/runs/run.py, controller/runs/performer.py) and a rehearsal
(controller/runs/rehearsal.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from protocols.answers import AnswerForm
from protocols.dialysis import DialyserModel
from protocols.grading import RuleSet
from protocols.prices import Prices
from protocols.results import ChamberFacts, VesselVolume
from protocols.targets import Targets
from protocols.verbs import TransferVerb, Verb, Way

Perform = Callable[[Any], Awaitable[Any]]
"""Carries out one step; gets the controller's record of that step, returns plain JSON data."""


class RunEnded(BaseException):
    """The run was stopped or aborted. Not an `Exception`, so that a protocol does not catch it by accident."""


class ProtocolError(Exception):
    """A verb was called with an invalid argument (a negative volume, an unknown sensor)."""


class StepRunner(Protocol):
    """Numbers and journals the steps of a run."""

    async def step(self, verb: Verb, args: Mapping[str, Any], perform: Perform) -> Any:
        """Do the next step, or return its recorded result."""

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        """Run coroutines as branches of the calling branch; return their results in order."""

    async def attend(self, coming: asyncio.Future[Any]) -> Any:
        """Wait for what a protocol in a process of its own asks next; obey commands for the run meanwhile."""

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        """Return the vessel volumes as of the end of the branch's last step."""


class Actions(Protocol):
    """Carries out steps on the rig, or in a rehearsal; results are plain JSON data. `step` is the controller's record."""

    def route(self, verb: str) -> Way:
        """Return the route of a transfer verb; raises :class:`ProtocolError` without a line."""

    async def transfer(self, step: Any) -> dict[str, Any]:
        """Move the volume of a step along its route, both as the step records them; returns `{ul, low, high}`, `peak_kpa`
        where it passes the filter, and `failed` where a dose of one chamber was given up.
        """

    def volume(self, chamber: str) -> dict[str, float]:
        """Return the volume of a chamber in the ledger; `{ul, sd_ul}`."""

    async def measured(self, point: str, settle_s: float) -> dict[str, Any]:
        """Take a settled reading."""

    async def flow_of(self, pump: str) -> dict[str, Any]:
        """Return the flow that a pump reports."""

    async def calibrated(self, step: Any, point: str) -> dict[str, Any]:
        """Set a probe's own calibration; returns `{before, after, places}`."""

    async def slept(self, step: Any, seconds: float) -> None:
        """Wait for the step's recorded deadline."""

    async def slept_until(self, step: Any, elapsed_s: float) -> float:
        """Wait for a time since the run's start; returns how late it was (s)."""

    async def slept_until_clock(self, step: Any) -> str:
        """Wait for the time of day that the step has recorded; returns it."""

    def barrier(self) -> dict[str, Any]:
        """Return the fields of :class:`Barrier`, from the filter passes on record."""

    def noted(self, step: Any, kind: str, data: Mapping[str, Any]) -> None:
        """Write a note to the journal, once."""

    async def asked(self, step: Any, message: str, answer: AnswerForm | None) -> dict[str, Any] | None:
        """Hold until a person resumes, once for each message; with `answer`, until it is given: returns `{value, text}`,
        and `{user, reason}` of a decision.
        """

    async def estimated(self) -> dict[str, Any]:
        """Return the soft sensor's estimate."""


class Facts(Protocol):
    """Facts of the rig description. A place is a key below `organs`, such as `lung.ph`."""

    @property
    def hearts(self) -> tuple[str, ...]:
        """Names of the hearts of the rig."""

    @property
    def chambers(self) -> Mapping[str, ChamberFacts]:
        """The chambers that can be dosed, by name."""

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Groups of these chambers, by name."""

    def sensor(self, place: str, heart: str = "") -> str | None:
        """Return the sensor (`device.point`) at a place; None on a rig without it. `heart` names one of several."""

    def pump(self, place: str, heart: str = "") -> str | None:
        """Return the pump of the line at a place; None on a rig without it. `heart` names one of several."""

    def probe(self, quantity: str, place: str) -> str | None:
        """Return the probe (`device.point`) of a quantity in the vessel at a place; None on a rig without it."""

    def dialyser(self, verb: TransferVerb, way: Callable[[str], Way]) -> DialyserModel | None:
        """Return the dialyser that `verb` passes medium through, at the flow of its way; None on a rig without it."""

    @property
    def max_filter_kpa(self) -> float:
        """Highest pressure that the sterile filter stands (kPa)."""

    @property
    def min_filter_kpa(self) -> float:
        """Lowest pressure that a whole sterile filter needs while medium is given back (kPa)."""

    @property
    def targets(self) -> Targets:
        """Set-points of the rig."""

    @property
    def rules(self) -> RuleSet:
        """Rules by which media are graded on this rig."""

    @property
    def prices(self) -> Prices:
        """Costs of treating a batch on this rig."""
