"""A rehearsal: the protocol run through on paper, from the rig's present volumes, before anything moves (E5).

The same function, the same organs, no device: transfers are booked in a copy of the volumes with their doubt, times are
added up, readings are what was last read or else the set-points. What the gate would refuse for want of room or medium
is found in an instant, so that `run` can refuse it as `plan` does. What depends on readings to come (grades, branches on
them) is that of a rig on which all is well; the twin looks deeper (`choroid plan`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any

from controller.core.state import Volume
from controller.ledger.line_contents import LineContents
from controller.rig.description import Rig
from controller.runs.action import actions
from controller.runs.facts import RigFacts
from controller.runs.paper import Calibrated, Event, Paper, RehearsalOver, Rehearsed
from controller.runs.python_conversation import IsolatedProtocol
from controller.steps.branches import BRANCH, Branch, abreast, spoken
from controller.steps.budget import StepBudget
from controller.steps.steps import StepRecord
from controller.transfers.routes import Route, route_of
from protocols.host import ProtocolError
from protocols.language import Lab
from protocols.parameters import ParamError
from protocols.registry import Recipe
from protocols.results import VesselVolume
from protocols.soft_sensor import MediaEstimate
from protocols.verbs import Verb

HOURS = 24.0
"""Default duration (h): bottles are refilled once a day."""
MAX_STEPS = 20_000
FOREIGN_S = 30.0
"""Maximum time of the event loop (s) that a rehearsal takes: verbs take none, so the protocol waits for something else."""
FOREIGN = (
    "the protocol waits for something else than a verb. Likely cause: asyncio.sleep, a lock, a file or a network call. Next:"
    " await verbs of the lab only"
)


async def rehearse(
    recipe: Recipe,
    rig: Rig,
    params: Mapping[str, float],
    *,
    volumes: Mapping[str, Volume],
    readings: Mapping[str, float] | None = None,
    estimate: MediaEstimate | None = None,
    calibrated: Calibrated | None = None,
    now: datetime,
    hours: float = HOURS,
    contents: LineContents | None = None,
) -> Rehearsed:
    """Run `recipe` on paper for `hours` from `volumes` (all vessels); `readings` are the latest by point,
    `estimate` the soft sensor's last word (default: fresh medium everywhere). `calibrated` tells why a pump would be
    refused volumes at a time (F5); without it calibrations are not looked at. `contents` is what stands in the lines that
    several media pass (default: each is primed with its first medium).

    Takes no time of the loop's. An error of the protocol's own (a dose out of its range) is a breach as well; any other
    exception is its defect and ends the rehearsal without one, as the run itself will hold at it and say so.
    """
    contents = LineContents(rig) if contents is None else contents
    trust = calibrated or (lambda pump, utc: None)
    paper = Paper(rig, volumes, readings or {}, estimate, trust, now, hours * 3600.0, contents)
    host = _PaperRun(paper)
    before = BRANCH.set(host.root)
    try:
        within_s = None if isinstance(recipe.function, IsolatedProtocol) else FOREIGN_S  # its own process is watched
        async with asyncio.timeout(within_s) as limit:
            await recipe.function(Lab(host, RigFacts(rig, host.volumes_now)), params)
        paper.out.ended = True
    except RehearsalOver:
        pass
    except (ProtocolError, ParamError) as error:
        paper.out.breaches.append(str(error))
    except Exception:  # the run itself holds at a defect of the protocol's, and says which
        if limit.expired():
            paper.out.breaches.append(FOREIGN)
    finally:
        BRANCH.reset(before)
    paper.out.seconds = paper.latest_s
    paper.out.volumes, paper.out.passed_ul = paper.volumes.now(), paper.volumes.passed_ul
    return paper.out


class _PaperRun:
    """The host of a protocol that is rehearsed (:class:`protocols.host.ProtocolHost`)."""

    def __init__(self, paper: Paper) -> None:
        self.root = Branch(volumes=paper.volumes_by_role())
        self._paper = paper
        self._branches = {self.root}
        self._waiting: dict[Branch, asyncio.Future[None]] = {}
        self._n = 0
        self._budget = StepBudget()

    async def act(self, verb: Verb, args: Mapping[str, Any]) -> Any:
        paper, branch = self._paper, BRANCH.get()
        branch.last += 1
        await self._turn(branch)
        self._n += 1
        if too_many := self._budget.spend(paper.latest_s):
            paper.out.breaches.append(f"step {self._n} ({verb.name}): {too_many}")
        if self._n > MAX_STEPS or branch.now_s >= paper.horizon_s or paper.out.breaches:
            raise RehearsalOver
        step = StepRecord(self._n, verb.name, verb.recorded(args), branch.at)
        begin_s, action = branch.now_s, actions()[verb.name]
        result = await action.rehearse(paper, step, args)
        branch.volumes = paper.volumes_by_role()
        if (text := action.text(args, result)) is not None:
            end_s = min(branch.now_s, paper.horizon_s)
            paper.out.events.append(Event(step.n, verb.name, begin_s, end_s, text=text, branch=spoken(branch.path)))
        if branch.now_s > paper.horizon_s:
            raise RehearsalOver
        return result

    async def attend(self, coming: asyncio.Future[Any]) -> Any:
        return await coming

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        branch = BRANCH.get()
        branch.last += 1
        children = [branch.child(name) for name in names]
        self._branches = self._branches - {branch} | set(children)
        try:
            return await abreast(children, works, ended=self._branch_ended)
        finally:
            self._branches = self._branches - set(children) | {branch}
            branch.now_s = max(child.now_s for child in (branch, *children))
            branch.volumes = self._paper.volumes_by_role()

    async def _turn(self, branch: Branch) -> None:
        """Wait until no other branch is at an earlier time: transfers of all branches are booked in the order of their
        times.
        """
        if self._branches != {branch}:
            self._waiting[branch] = asyncio.get_running_loop().create_future()
            gate = self._waiting[branch]
            self._next()
            await gate

    def _next(self) -> None:
        """Resume the branch with the earliest time, once all branches wait."""
        if self._waiting and set(self._waiting) >= self._branches:
            gate = self._waiting.pop(min(self._waiting, key=lambda branch: (branch.now_s, branch.path)))
            if not gate.done():
                gate.set_result(None)

    def _branch_ended(self, branch: Branch) -> None:
        self._branches = self._branches - {branch}
        self._waiting.pop(branch, None)
        self._next()

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        return BRANCH.get().volumes

    def route(self, verb: str) -> Route:
        return route_of(self._paper.routes, verb)
