"""A laboratory's Python protocol on a rig: it computes in a process of its own, its verbs are steps of the run.

The journal, the gate and every device stay in the controller's process. A protocol that loops, sleeps, exits or takes all
memory ends its own process, and its run is held with the reason; the control loop goes on. After a restart the protocol
runs again from its beginning in a new process and is given what is recorded, like any other.
"""

from __future__ import annotations

import asyncio
import base64
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from controller.rig.description import Rig
from controller.runs.action import actions
from controller.runs.python_process import ProtocolProcess, protocol_process
from controller.runs.python_text import PythonText
from controller.runs.python_wire import MAX_BRANCHES
from protocols.host import ProtocolError
from protocols.language import Lab
from protocols.parameters import Param, ParamError
from protocols.registry import Recipe, UnknownProtocol
from protocols.table import VERBS, way_of_step
from protocols.verbs import Policy, Way


def described_now(source: PythonText, rig: Rig) -> Recipe:
    """Return what :func:`described` does, without an event loop; for command lines."""
    try:
        described(source, rig, standing=True).send(None)
    except StopIteration as done:
        recipe: Recipe = done.value
        return recipe
    raise AssertionError("it waits for the loop")


async def described(source: PythonText, rig: Rig, *, standing: bool = False) -> Recipe:
    """Return a Python protocol as its text says of itself when it runs, locked in.

    Args:
        source: Its text.
        rig: The rig, which may allow that a text runs unlocked.
        standing: Whether to wait without an event loop.

    Raises:
        UnknownProtocol: It lacks one of the names that a protocol defines, does not come to its end when it is loaded, or
            cannot be locked in.
    """
    name, title = source.declared()
    try:
        async with protocol_process(standing=standing) as process:
            hello = await process.begin(source, {}, unlocked=rig.unlocked_protocols)
        if hello["error"] is not None:
            raise ProtocolError(f"{hello['error']}. Next: correct the file")
        if hello["name"] != name:
            raise ProtocolError(f"it calls itself “{hello['name']}” when it runs. Next: write NAME as a plain text")
        params = tuple(Param(**each) for each in hello["params"])
        needed = tuple(VERBS[each] for each in hello["verbs"])
    except ProtocolError as error:
        raise UnknownProtocol(
            f"{source.path}: {error}; `choroid plan RIG {source.path.name}` runs it on the twin"
        ) from None
    except (TypeError, KeyError, ParamError) as error:
        raise UnknownProtocol(f"{source.path}: its PARAMS or VERBS are not usable ({error})") from None
    return replace(known_recipe(source, rig, name, source.source_sha256), title=title, params=params, verbs=needed)


def known_recipe(source: PythonText, rig: Rig, name: str, source_sha256: str) -> Recipe:
    """Return a protocol whose name and hash are known, to go on with a run of it; nothing of its text is run here."""
    return Recipe(name, name, (), IsolatedProtocol(source, rig), source_sha256, ((source.path, source.sha256),))


@dataclass(frozen=True, slots=True)
class IsolatedProtocol:
    """A protocol function that computes in another process."""

    source: PythonText
    rig: Rig

    async def __call__(self, lab: Lab, params: Mapping[str, float]) -> None:
        """Run the protocol; raise :class:`ProtocolError` with what it ended with, if not at its end."""
        rig = base64.b64encode(pickle.dumps(self.rig)).decode()
        start = {"params": dict(params), "rig": rig, "volumes": _volumes(lab)}
        async with protocol_process() as process:
            hello = await process.begin(self.source, start, unlocked=self.rig.unlocked_protocols)
            if hello["error"] is not None:
                raise ProtocolError(str(hello["error"]))
            await ProtocolConversation(lab, process).live()


class ProtocolConversation:
    """Carries out the requests of one process, branch by branch."""

    def __init__(self, lab: Lab, process: ProtocolProcess) -> None:
        self._lab = lab
        self._host = lab.host
        self._process = process
        self._inboxes: dict[str, asyncio.Queue[dict[str, Any]]] = {"": asyncio.Queue()}

    async def live(self) -> None:
        """Carry out requests until the protocol has ended."""
        if self._process.standing:
            await self._serve("")
            return
        sorting = asyncio.create_task(self._sort())
        try:
            await self._serve("")
        finally:
            sorting.cancel()
            await asyncio.gather(sorting, return_exceptions=True)

    async def _sort(self) -> None:
        while await self._sort_next():
            pass

    async def _sort_next(self) -> bool:
        """Put the next message into the inbox of its branch; a fault of the process into every inbox, then return False."""
        fault = (
            "the process of the protocol ended by itself. Likely cause: the protocol ends the process, or the memory is"
            " exhausted. Next: remove what ends it"
        )
        try:
            message = await self._process.message()
            if message is not None:
                self._take(message)
                return True
        except ProtocolError as error:
            fault = str(error)
        for inbox in list(self._inboxes.values()):
            inbox.put_nowait({"kind": "ended", "error": fault})
        return False

    def _take(self, message: dict[str, Any]) -> None:
        """Put a message into its inbox; raise :class:`ProtocolError` for one that no protocol sends."""
        kind, branch = message["kind"], message.get("branch")
        inbox = self._inboxes.get(branch) if isinstance(branch, str) else None
        if inbox is None:  # of a branch that was given up
            self._process.idle_message()
            return
        names, children = message.get("names"), message.get("children")
        sound = kind in ("step", "together", "ended") and (kind == "ended" or isinstance(message.get("id"), int))
        if kind == "step":
            sound = sound and isinstance(message.get("args"), dict)
        if kind == "together":
            sound = sound and _texts(names) and _texts(children) and len(names or ()) == len(children or ())
            sound = sound and not set(children or ()) & set(self._inboxes)
            sound = sound and len(self._inboxes) + len(children or ()) <= MAX_BRANCHES
        if not sound or inbox.qsize() > 2:
            raise ProtocolError(
                "the process of the protocol sends messages that no protocol sends. Next: use the lab only"
            )
        if kind == "together":  # the branches' own requests may come before this one is carried out
            for child in message["children"]:
                self._inboxes[child] = asyncio.Queue()
        inbox.put_nowait(message)

    async def _serve(self, branch: str) -> None:
        """Carry out the requests of one branch until it has ended."""
        inbox = self._inboxes[branch]
        while True:
            while self._process.standing and inbox.empty():  # time stands still until this branch asks
                await self._sort_next()
            coming = asyncio.ensure_future(inbox.get())
            try:
                message = await self._host.attend(coming)
            finally:
                coming.cancel()
            if message["kind"] == "ended":
                if message.get("error") is not None:
                    raise ProtocolError(str(message["error"]))
                return
            reply: dict[str, Any] = {"id": message["id"], "error": None, "result": None}
            try:
                if message["kind"] == "together":
                    await self._together(message)
                else:
                    reply["result"] = await self._step(message)
            except (ProtocolError, ParamError) as error:
                reply["error"] = str(error)
            self._process.send({**reply, "volumes": _volumes(self._lab)})

    async def _step(self, message: Mapping[str, Any]) -> Any:
        """Carry out one step."""
        name, args = str(message.get("verb")), message["args"]
        action = actions().get(name)
        if action is None:
            raise ProtocolError(f"no verb is called “{name[:100]}”. Next: use the verbs of the lab")
        verb = VERBS[name]
        try:
            _ = [args[each] for each in action.needs]  # raises KeyError
            if verb.policy is Policy.RESUME:
                self._require_deliverable(way_of_step(name, args), args)
        except (KeyError, TypeError, AttributeError) as error:
            raise ProtocolError(f"{name} lacks an argument ({error}). Next: use the verbs of the lab") from None
        return await self._host.act(verb, args)

    def _require_deliverable(self, verb: str, args: Mapping[str, Any]) -> None:
        """Raise :class:`ProtocolError` for a transfer that cannot be requested."""
        volume_ul = args.get("volume_ul")
        way: Way = self._host.route(verb)
        if not isinstance(volume_ul, int | float) or (refusal := way.refusal(volume_ul)):
            why = refusal if isinstance(volume_ul, int | float) else "it is no number"
            raise ProtocolError(f"{verb}({volume_ul}): {why}. Next: correct the volume")

    async def _together(self, message: Mapping[str, Any]) -> None:
        children: list[str] = message["children"]
        try:
            await self._host.together([self._serve(child) for child in children], message["names"])
        finally:
            for child in children:
                self._inboxes.pop(child, None)


def _texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def _volumes(lab: Lab) -> dict[str, Any]:
    return {role: asdict(volume) for role, volume in lab.volumes().items()}
