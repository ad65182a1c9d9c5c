"""A laboratory's Python protocol on a rig: it computes in a process of its own, its verbs are steps of the run.

The journal, the gate and every device stay in the controller's process. A protocol that loops, sleeps, exits or takes all
memory ends its own process, and its run is held with the reason; the control loop goes on. After a restart the protocol
runs again from its beginning in a new process and is given what is recorded, like any other.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import inspect
import json
import pickle
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from controller.children.patience import ChildSilent, Patience, patiently
from controller.rig.description import Rig
from controller.runs.python_wire import ALIVE_S, MAX_LINE_BYTES, PATIENCE_S, line, unpacked
from protocols import earlier
from protocols.host import Actions, ProtocolError, Way
from protocols.language import Lab
from protocols.parameters import Param, ParamError
from protocols.registry import Recipe, UnknownProtocol
from protocols.table import VERBS
from protocols.verbs import ChamberVerb, TransferVerb, Verb, way_of_step

MAX_TEXT_BYTES = 1_000_000
START_S = 60.0
"""Maximum real time (s) from the start of the process to its first message."""
SILENT_S = PATIENCE_S + 10 * ALIVE_S
"""Maximum real time (s) without a sign of life: a call holds the interpreter, or the process was stopped."""
ACTIONS = frozenset(name for name in vars(Actions) if not name.startswith("_")) - {"route"}


@dataclass(frozen=True, slots=True)
class PythonText:
    """The text of a Python protocol as it was read, and the file that it came from."""

    path: Path
    text: bytes

    @classmethod
    def read(cls, path: Path) -> PythonText:
        """Read a file; raise :class:`UnknownProtocol` for one that is too large, OSError if it cannot be read."""
        text = path.read_bytes()
        if len(text) > MAX_TEXT_BYTES:
            raise UnknownProtocol(
                f"{path} has more than {MAX_TEXT_BYTES / 1e6:g} MB. Next: keep data out of the protocol"
            )
        return cls(path.resolve(), text)

    @property
    def sha256(self) -> str:
        """The hash of the text."""
        return hashlib.sha256(self.text).hexdigest()


@dataclass(frozen=True, slots=True)
class PythonNames:
    """What a Python protocol says of itself."""

    name: str
    title: str
    params: tuple[Param, ...]
    verbs: tuple[Verb, ...]
    source_sha256: str


async def described(source: PythonText) -> PythonNames:
    """Return what a Python protocol says of itself; its text runs in a process of its own.

    Raises:
        UnknownProtocol: It lacks one of the names that a protocol defines, or does not come to its end when it is loaded.
    """
    async with _process(source, {}) as (_, messages):
        hello = await anext(messages)
    if hello["error"] is not None:
        raise UnknownProtocol(
            f"{source.path}: {hello['error']}. Next: correct the file; `choroid plan RIG {source.path.name}` runs it on the"
            " twin"
        )
    try:
        params = tuple(Param(**each) for each in hello["params"])
        verbs = tuple(VERBS[name] for name in hello["verbs"])
        return PythonNames(str(hello["name"]), str(hello["title"]), params, verbs, str(hello["source_sha256"]))
    except (TypeError, KeyError, ParamError) as error:
        raise UnknownProtocol(f"{source.path}: its PARAMS or VERBS are not usable ({error})") from None


async def python_recipe(source: PythonText, rig: Rig) -> Recipe:
    """Return a Python protocol that computes in a process of its own; raise :class:`UnknownProtocol` as :func:`described`."""
    found = await described(source)
    recipe = known_recipe(source, rig, found.name, found.source_sha256)
    return replace(recipe, title=found.title, params=found.params, verbs=found.verbs)


def known_recipe(source: PythonText, rig: Rig, name: str, source_sha256: str) -> Recipe:
    """Return a protocol whose name and hash are known, to go on with a run of it; nothing of its text is run here."""
    text = source.text.decode("utf-8", errors="replace")
    watched = ((source.path, source.sha256),)
    return Recipe(
        name, name, (), IsolatedProtocol(source, rig), source_sha256, watched, lambda: earlier.of_python(text)
    )


@dataclass(frozen=True, slots=True)
class IsolatedProtocol:
    """A protocol function that computes in another process."""

    source: PythonText
    rig: Rig

    async def __call__(self, lab: Lab, params: Mapping[str, float]) -> None:
        """Run the protocol; raise :class:`ProtocolError` with what it ended with, if not at its end."""
        rig = base64.b64encode(pickle.dumps(self.rig)).decode()
        start = {"params": dict(params), "rig": rig, "volumes": _volumes(lab)}
        async with _process(self.source, start) as (process, messages):
            hello = await anext(messages)
            if hello["error"] is not None:
                raise ProtocolError(str(hello["error"]))
            await ProtocolConversation(lab, process, messages).live()


class ProtocolConversation:
    """Carries out the requests of one process, branch by branch."""

    def __init__(self, lab: Lab, process: asyncio.subprocess.Process, messages: AsyncIterator[dict[str, Any]]) -> None:
        self._lab = lab
        self._steps, self._actions = lab.host
        self._process = process
        self._messages = messages
        self._inboxes: dict[str, asyncio.Queue[dict[str, Any]]] = {"": asyncio.Queue()}

    async def live(self) -> None:
        """Carry out requests until the protocol has ended."""
        sorting = asyncio.create_task(self._sort())
        try:
            await self._serve("")
        finally:
            sorting.cancel()
            await asyncio.gather(sorting, return_exceptions=True)

    async def _sort(self) -> None:
        """Put each message into the inbox of its branch; a fault of the process into every inbox."""
        fault = (
            "the process of the protocol ended by itself. Likely cause: the protocol ends the process, or the memory is"
        )
        fault += " exhausted. Next: remove what ends it"
        try:
            async for message in self._messages:
                if message["kind"] == "blocked":
                    fault = _blocked(message)
                    break
                if message["kind"] == "together":  # the branches' own requests may come before this one is carried out
                    for child in message["children"]:
                        self._inboxes[str(child)] = asyncio.Queue()
                inbox = self._inboxes.get(str(message.get("branch")))
                if message["kind"] != "alive" and inbox is not None:
                    inbox.put_nowait(message)
        except (ProtocolError, UnknownProtocol) as error:
            fault = str(error)
        for inbox in list(self._inboxes.values()):
            inbox.put_nowait({"kind": "ended", "error": fault})

    async def _serve(self, branch: str) -> None:
        """Carry out the requests of one branch until it has ended."""
        inbox = self._inboxes[branch]
        while True:
            coming = asyncio.ensure_future(inbox.get())
            try:
                message = await self._steps.attend(coming)
            finally:
                coming.cancel()
            if message["kind"] == "ended":
                if message["error"] is not None:
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
            await self._send({**reply, "volumes": _volumes(self._lab)})

    async def _step(self, message: Mapping[str, Any]) -> Any:
        """Carry out one step. What is journalled is what is done: volumes come from the recorded arguments alone."""
        verb, args = VERBS.get(str(message["verb"])), message["args"]
        action, values = str(message["action"]), list(message["values"])
        if verb is None or action not in ACTIONS or not isinstance(args, dict):
            raise ProtocolError(f"no verb is called “{message['verb']}”. Next: use the verbs of the lab")
        if isinstance(verb, TransferVerb | ChamberVerb) or action == "transfer":
            values = self._transfer(way_of_step(verb, args), args)

        async def perform(step: Any) -> Any:
            found = getattr(self._actions, action)(*(unpacked(value, step) for value in values))
            return await found if inspect.isawaitable(found) else found

        return await self._steps.step(verb, args, perform)

    def _transfer(self, verb: str, args: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a transfer; raise :class:`ProtocolError` for one that cannot be requested."""
        volume_ul = args.get("volume_ul")
        way: Way = self._actions.route(verb)
        if not isinstance(volume_ul, int | float) or (refusal := way.refusal(volume_ul)):
            why = refusal if isinstance(volume_ul, int | float) else "it is no number"
            raise ProtocolError(f"{verb}({volume_ul}): {why}. Next: correct the volume")
        return [{"$step": True}, verb, volume_ul]

    async def _together(self, message: Mapping[str, Any]) -> None:
        children = [str(child) for child in message["children"]]
        try:
            await self._steps.together([self._serve(child) for child in children], [str(n) for n in message["names"]])
        finally:
            for child in children:
                self._inboxes.pop(child, None)

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self._process.stdin is None or self._process.stdin.is_closing():
            return  # its inbox says that it has ended
        with contextlib.suppress(OSError):
            self._process.stdin.write(line(message))


def _blocked(message: Mapping[str, Any]) -> str:
    where = f", at {message['place']}" if message.get("place") else ""
    return (
        f"the protocol has not asked for a verb for {message['seconds']:g} s{where}. Likely cause: a loop without an await,"
        " time.sleep, asyncio.sleep, or a call that waits for a file or the network. Next: await a verb in the loop, and take"
        " times and readings only from the lab"
    )


def _volumes(lab: Lab) -> dict[str, Any]:
    return {role: asdict(volume) for role, volume in lab.volumes().items()}


@contextlib.asynccontextmanager
async def _process(
    source: PythonText, start: Mapping[str, Any]
) -> AsyncIterator[tuple[asyncio.subprocess.Process, AsyncIterator[dict[str, Any]]]]:
    """Start a process with the text of a protocol; yield it and its messages, `hello` first. It ends with this."""
    words = (sys.executable, "-P", "-m", "controller.runs.python_child")
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=MAX_LINE_BYTES
    )
    try:
        first = {
            "path": str(source.path),
            "text": base64.b64encode(source.text).decode(),
            "patience_s": PATIENCE_S,
            **start,
        }
        if process.stdin is not None:
            process.stdin.write(line(first))
        yield process, _messages(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _messages(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of a process until it ends.

    Raises:
        ProtocolError: It sends nothing for too long, or something else than messages.
    """
    out = process.stdout
    begun = False
    while out is not None:
        patience_s = SILENT_S if begun else START_S
        try:
            text = await patiently(out.readline(), Patience(process.pid, patience_s))
        except ChildSilent:
            raise ProtocolError(
                f"the process of the protocol has given no sign of life for {patience_s:g} s. Likely cause: a call holds the"
                " interpreter, or the process was stopped. Next: correct the protocol, then resume"
            ) from None
        except ValueError:
            raise ProtocolError("the protocol sends too large a message. Next: give verbs less data") from None
        if not text and not begun:
            raise UnknownProtocol("the process of the protocol ended before it was loaded")
        if not text:
            return
        try:
            message = json.loads(text)
            kind = message["kind"]
        except (ValueError, TypeError, KeyError):
            raise ProtocolError(
                "the process of the protocol sends no messages. Next: do not write to its pipes"
            ) from None
        if kind == "blocked" and not begun:
            raise UnknownProtocol(_blocked(message))
        if kind == "hello" or begun:
            begun = True
            yield message
