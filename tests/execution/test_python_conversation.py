"""The conversation of a run with the process of its Python protocol, message by message."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, cast

import pytest

from controller.hazards.loading import load_checked_rig
from controller.runs.facts import RigFacts
from controller.runs.python_conversation import ProtocolConversation
from controller.runs.python_process import ProtocolProcess
from protocols.language import Lab
from protocols.results import VesselVolume
from protocols.verbs import Verb, Way
from tests.execution.world import BENCH


class Process:
    """A process whose messages are given and whose replies are kept."""

    standing = False

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = list(messages)
        self.sent: list[Mapping[str, Any]] = []

    def send(self, message: Mapping[str, Any]) -> None:
        self.sent.append(message)

    def idle_message(self) -> None:
        raise AssertionError("no message was to be discarded")

    async def message(self) -> dict[str, Any] | None:
        return self._messages.pop(0) if self._messages else None


class Steps:
    """A host that takes steps, and finds nothing to do in them."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Mapping[str, Any]]] = []

    async def act(self, verb: Verb, args: Mapping[str, Any]) -> Any:
        self.done.append((verb.name, args))

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        await asyncio.sleep(0.01)  # the journal takes a moment
        return list(await asyncio.gather(*works))

    async def attend(self, coming: asyncio.Future[Any]) -> Any:
        return await coming

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        return {}

    def route(self, verb: str) -> Way:
        raise AssertionError(f"{verb} was not to be carried out")


def note(number: int, branch: str) -> dict[str, Any]:
    args = {"kind": f"note{number}", "data": {}}
    return {"kind": "step", "id": number, "branch": branch, "verb": "note", "args": args}


def ended(branch: str) -> dict[str, Any]:
    return {"kind": "ended", "branch": branch, "error": None}


async def test_requests_of_a_branch_that_come_before_its_parents_is_carried_out_are_kept() -> None:
    """The process writes the request for branches and the branches' first verbs at once: they may come in one read."""

    together = {"kind": "together", "id": 1, "branch": "", "names": ["a", "b"], "children": ["1.a", "1.b"]}
    process = Process(together, note(2, "1.a"), note(3, "1.b"), ended("1.a"), ended("1.b"), note(4, ""), ended(""))
    steps = Steps()
    rig = load_checked_rig(BENCH)
    lab = Lab(steps, RigFacts(rig, steps.volumes_now))
    async with asyncio.timeout(60.0):
        await ProtocolConversation(lab, cast(ProtocolProcess, process)).live()
    assert [args["kind"] for _, args in steps.done] == ["note2", "note3", "note4"]
    assert sorted(message["id"] for message in process.sent) == [1, 2, 3, 4]


STEP = {"kind": "step", "id": 1, "branch": "", "verb": "note", "args": {}}
"""A step as a process may send it."""


@pytest.mark.parametrize(
    "messages",
    [
        [{"kind": "step"} | {"branch": ""}],
        [STEP | {"id": "1"}],
        [STEP | {"args": [1]}],
        [STEP | {"args": None}],
        [STEP | {"kind": "other"}],
        [STEP, STEP, STEP, STEP],
        [{"kind": "together", "id": 1, "branch": "", "names": ["a"], "children": [""]}],
        [{"kind": "together", "id": 1, "branch": "", "names": ["a"], "children": ["1.a", "1.b"]}],
        [{"kind": "together", "id": 1, "branch": "", "names": ["a"] * 200, "children": [str(n) for n in range(200)]}],
    ],
)
async def test_P3_messages_that_no_protocol_sends_end_the_conversation(messages: list[dict[str, Any]]) -> None:
    class Slow(Steps):
        async def act(self, verb: Verb, args: Mapping[str, Any]) -> Any:
            await asyncio.sleep(3600.0)

    steps = Slow()
    lab = Lab(steps, RigFacts(load_checked_rig(BENCH), steps.volumes_now))
    conversation = ProtocolConversation(lab, cast(ProtocolProcess, Process(*messages)))
    while await conversation._sort_next():
        pass
    inbox = conversation._inboxes[""]
    last = [inbox.get_nowait() for _ in range(inbox.qsize())][-1]
    assert last["kind"] == "ended"
    assert "messages that no protocol sends" in last["error"]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"verb": "nothing"}, "no verb is called “nothing”"),
        ({"verb": "together", "args": {"branches": []}}, "no verb is called “together”"),
        ({"verb": "sleep"}, "sleep lacks an argument ('seconds')"),
        ({"verb": "dispense", "args": {"volume_ul": 5.0}}, "dispense lacks an argument ('to')"),
    ],
)
async def test_P3_a_step_does_only_what_is_journalled_of_it(step: dict[str, Any], why: str) -> None:
    steps, process = Steps(), Process(STEP | step, ended(""))
    lab = Lab(steps, RigFacts(load_checked_rig(BENCH), steps.volumes_now))
    await ProtocolConversation(lab, cast(ProtocolProcess, process)).live()
    assert not steps.done
    assert why in process.sent[0]["error"]


async def test_what_is_journalled_of_a_step_is_all_that_is_carried_out() -> None:
    args = {"place": "mid", "value": 7.0, "valid_s": 60.0}
    steps, process = Steps(), Process(STEP | {"verb": "liver.calibrate", "args": args, "point": "ph.ph"}, ended(""))
    lab = Lab(steps, RigFacts(load_checked_rig(BENCH), steps.volumes_now))
    await ProtocolConversation(lab, cast(ProtocolProcess, process)).live()
    assert steps.done == [("liver.calibrate", args)]
