"""What a protocol's lab needs from the controller in addition to its actions: steps, routes and facts of the rig.

The controller implements it twice: a run (controller/runs/run.py, controller/runs/performer.py) and a rehearsal
(controller/runs/rehearsal.py). The actions are in :mod:`protocols.language`, with the verbs that need them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from protocols.dialysis import DialyserModel
from protocols.grading import RuleSet
from protocols.prices import Prices
from protocols.results import VesselVolume
from protocols.targets import Targets
from protocols.verbs import TransferVerb, Verb

Perform = Callable[[Any], Awaitable[Any]]
"""Carries out one step; gets the controller's record of that step, returns plain JSON data."""


class Way(Protocol):
    """Route of a transfer verb on this rig."""

    @property
    def flow_ul_min(self) -> float:
        """Flow (µL/min)."""

    @property
    def min_ul(self) -> float:
        """Smallest volume (µL)."""

    def refusal(self, volume_ul: float) -> str:
        """Return why `volume_ul` (µL) cannot be requested; an empty text if it can."""


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


class Facts(Protocol):
    """Facts of the rig description. A place is a key below `organs`, such as `lung.ph`."""

    @property
    def hearts(self) -> tuple[str, ...]:
        """Names of the hearts of the rig."""

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
