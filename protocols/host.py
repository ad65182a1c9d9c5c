"""What a protocol's lab needs from the controller: a host that carries out verbs, facts of the rig, and two exceptions.

The host is a run (controller/runs/run.py) or a rehearsal (controller/runs/rehearsal.py). What each verb does there is a
class in controller/runs/actions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from protocols.dialysis import DialyserModel
from protocols.grading import RuleSet
from protocols.prices import Prices
from protocols.results import ChamberFacts, VesselVolume
from protocols.targets import Targets
from protocols.verbs import TransferVerb, Verb, Way


class RunEnded(BaseException):
    """The run was stopped or aborted. Not an `Exception`, so that a protocol does not catch it by accident."""


class ProtocolError(Exception):
    """A verb was called with an invalid argument (a negative volume, an unknown sensor)."""


class ProtocolHost(Protocol):
    """Carries out the verbs of one protocol, on the rig or in a rehearsal."""

    async def act(self, verb: Verb, args: Mapping[str, Any]) -> Any:
        """Do the next step of the calling branch, or return its recorded result.

        Args:
            verb: The verb.
            args: Its arguments. They are plain JSON data and recorded, except for :attr:`Verb.unrecorded`.

        Returns:
            The result, as plain JSON data.
        """

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        """Run coroutines as branches of the calling branch; return their results in order."""

    async def attend(self, coming: asyncio.Future[Any]) -> Any:
        """Wait for what a protocol in a process of its own asks next; obey commands for the run meanwhile."""

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        """Return the vessel volumes as of the end of the branch's last step."""

    def route(self, verb: str) -> Way:
        """Return the route of a transfer verb; raises :class:`ProtocolError` without a line."""


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
