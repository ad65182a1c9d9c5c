"""The conversation of a run with the process of its Python protocol, message by message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, cast

from controller.hazards.loading import load_checked_rig
from controller.runs.facts import RigFacts
from controller.runs.python_process import ProtocolConversation
from protocols.host import Actions, Perform
from protocols.language import Lab
from protocols.results import VesselVolume
from protocols.verbs import Verb
from tests.execution.world import BENCH


class Process:
    """A process whose input is kept."""

    def __init__(self) -> None:
        self.stdin = self
        self.lines: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line)

    def is_closing(self) -> bool:
        return False


class Steps:
    """Takes steps, and finds nothing to do in them."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Mapping[str, Any]]] = []

    async def step(self, verb: Verb, args: Mapping[str, Any], perform: Perform) -> Any:
        self.done.append((verb.name, args))

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        await asyncio.sleep(0.01)  # the journal takes a moment
        return list(await asyncio.gather(*works))

    async def attend(self, coming: asyncio.Future[Any]) -> Any:
        return await coming

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        return {}


def note(number: int, branch: str) -> dict[str, Any]:
    args = {"kind": f"note{number}"}
    values = [{"$step": True}, f"note{number}", {}]
    return {
        "kind": "step",
        "id": number,
        "branch": branch,
        "verb": "note",
        "args": args,
        "action": "noted",
        "values": values,
    }


def ended(branch: str) -> dict[str, Any]:
    return {"kind": "ended", "branch": branch, "error": None}


async def test_requests_of_a_branch_that_come_before_its_parents_is_carried_out_are_kept() -> None:
    """The process writes the request for branches and the branches' first verbs at once: they may come in one read."""

    async def messages() -> AsyncIterator[dict[str, Any]]:
        yield {"kind": "together", "id": 1, "branch": "", "names": ["a", "b"], "children": ["1.a", "1.b"]}
        for message in (note(2, "1.a"), note(3, "1.b"), ended("1.a"), ended("1.b"), note(4, ""), ended("")):
            yield message

    process, steps = Process(), Steps()
    rig = load_checked_rig(BENCH)
    lab = Lab(steps, cast(Actions, None), RigFacts(rig, steps.volumes_now))
    async with asyncio.timeout(5.0):
        await ProtocolConversation(lab, cast(asyncio.subprocess.Process, process), messages()).live()
    assert [args["kind"] for _, args in steps.done] == ["note2", "note3", "note4"]
    assert sorted(json.loads(line)["id"] for line in process.lines) == [1, 2, 3, 4]
