"""The process of one Python protocol: it computes here, and each verb is carried out by the run in the controller's process.

Started by :mod:`controller.runs.python_process` with one line on its standard input. A thread watches the protocol and ends
this process when the protocol blocks, or when the controller is gone; so a fault of it never stops the control loop. It
is a bound on faults and no sandbox: the text has the rights of the controller's user.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import os
import pickle
import resource
import sys
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn, cast

from controller.runs.facts import RigFacts
from controller.runs.python_wire import ALIVE_S, MAX_LINE_BYTES, STEP, line, packed
from controller.transfers.routes import Route, route_of, routes_of
from protocols.host import Actions, Perform, ProtocolError
from protocols.language import Lab
from protocols.registry import UnknownProtocol, of_module
from protocols.results import VesselVolume
from protocols.verbs import Verb

MAX_MEMORY_BYTES = 4_000_000_000
NICENESS = 10
"""The control loop goes first on a busy processor."""
BRANCH: ContextVar[str] = ContextVar("branch", default="")


class ControllerPipe:
    """Sends requests to the controller's process, and gives its replies to those who wait."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.answered = 0
        """Number of replies so far; the watching thread compares it."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message; ends the process when the controller is gone."""
        with self._lock:
            try:
                left = memoryview(line(message))
                while left:
                    left = left[os.write(self._out, left) :]
            except OSError:
                os._exit(1)

    def number(self) -> int:
        """Return the number of the next request."""
        return next(self._numbers)

    @property
    def waits(self) -> bool:
        """Whether a request is with the controller."""
        return bool(self._waiting)

    async def request(self, number: int, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its reply; raise :class:`ProtocolError` where the run refuses it."""
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self.send({**message, "id": number, "branch": BRANCH.get()})
        try:
            reply = await self._waiting[number]
        finally:
            del self._waiting[number]
        if reply.get("error") is not None:
            raise ProtocolError(reply["error"])
        return reply

    def replied(self, reply: dict[str, Any]) -> None:
        """Give a reply to the request that waits for it."""
        self.answered += 1
        waiting = self._waiting.get(reply["id"])
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)


class _Call:
    """Result of an action: nothing yet, the run carries it out."""

    def __await__(self) -> Any:
        return self
        yield


class RemoteActions:
    """Notes which action a verb asks for (:class:`protocols.host.Actions`); the run carries it out."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self.call: tuple[str, list[Any]] = ("", [])

    def route(self, verb: str) -> Route:
        """Return the route of a transfer verb."""
        return route_of(self._routes, verb)

    def __getattr__(self, action: str) -> Any:
        def ask(*values: Any) -> _Call:
            self.call = (action, [packed(value) for value in values])
            return _Call()

        return ask


class RemoteSteps:
    """Sends steps and branches to the run (:class:`protocols.host.StepRunner`)."""

    def __init__(self, pipe: ControllerPipe, actions: RemoteActions, volumes: Mapping[str, Any]) -> None:
        self._pipe = pipe
        self._actions = actions
        self._volumes: dict[str, Mapping[str, Any]] = {"": volumes}
        self._busy: set[str] = set()

    async def step(self, verb: Verb, args: Mapping[str, Any], perform: Perform) -> Any:
        """Have the run do the next step of this branch, or return what is recorded of it."""
        await perform(STEP)
        action, values = self._actions.call
        step = {"kind": "step", "verb": verb.name, "args": dict(args), "action": action, "values": values}
        return (await self._requested(verb.name, self._pipe.number(), step))["result"]

    async def together(self, works: Sequence[Coroutine[Any, Any, Any]], names: Sequence[str]) -> list[Any]:
        """Run coroutines as branches: they compute here, their verbs are steps of the run's branches."""
        number = self._pipe.number()
        children = [f"{number}.{name}" for name in names]
        for child in children:
            self._volumes[child] = self._volumes[BRANCH.get()]
        tasks = [asyncio.create_task(self._along(*pair)) for pair in zip(children, works, strict=True)]
        try:
            await self._requested("together", number, {"kind": "together", "names": list(names), "children": children})
            return [task.result() for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def attend(self, coming: asyncio.Future[Any]) -> Any:
        """Wait; commands for the run are obeyed in the controller's process."""
        return await coming

    def volumes_now(self) -> Mapping[str, VesselVolume]:
        """Return the vessel volumes as of the end of the branch's last step."""
        return {role: VesselVolume(**data) for role, data in self._volumes[BRANCH.get()].items()}

    async def _requested(self, what: str, number: int, message: Mapping[str, Any]) -> dict[str, Any]:
        branch = BRANCH.get()
        if branch in self._busy:
            raise ProtocolError(
                f"{what} was asked while another verb was at work. Next: await one verb at a time, or several with"
                " lab.together()"
            )
        self._busy.add(branch)
        try:
            reply = await self._pipe.request(number, message)
        finally:
            self._busy.discard(branch)
        self._volumes[branch] = reply["volumes"]
        return reply

    async def _along(self, branch: str, work: Coroutine[Any, Any, Any]) -> Any:
        BRANCH.set(branch)
        try:
            result = await work
        except Exception as error:  # of the laboratory's code, of any kind: the run tells it
            self._pipe.send({"kind": "ended", "branch": branch, "error": told(error)})
            raise
        self._pipe.send({"kind": "ended", "branch": branch, "error": None})
        return result


def told(error: BaseException) -> str:
    """Return an error of the protocol for people, with its line unless it says by itself what to do."""
    if isinstance(error, ProtocolError):
        return str(error)
    place, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _Text.path:
            place = f" ({Path(_Text.path).name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{place}"


class _Text:
    """The file of this process's protocol."""

    path = ""


def _module(path: str, text: bytes) -> ModuleType:
    """Run the text of a protocol; return its module."""
    _Text.path = path
    module = ModuleType("choroid_protocol")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses and inspect look a module up by name
    exec(compile(text, path, "exec"), module.__dict__)  # noqa: S102  (running it is the purpose of this process)
    return module


def _watch(pipe: ControllerPipe, main: int, parent: int, patience_s: float) -> None:
    """Tell the controller that this process lives; end it when the protocol is blocked or the controller is gone."""
    still, answered = 0.0, -1
    pause = threading.Event()
    while not pause.wait(ALIVE_S):
        if os.getppid() != parent:
            os._exit(1)
        if pipe.waits or pipe.answered != answered:
            still, answered = 0.0, pipe.answered
        else:
            still += ALIVE_S
        if still >= patience_s:
            pipe.send({"kind": "blocked", "seconds": still, "place": _place(sys._current_frames().get(main))})
            os._exit(3)
        pipe.send({"kind": "alive"})


def _place(frame: FrameType | None) -> str:
    while frame is not None:
        if frame.f_code.co_filename == _Text.path:
            return f"{Path(_Text.path).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


async def _live(pipe: ControllerPipe, start: Mapping[str, Any], module: ModuleType) -> None:
    """Run the protocol to its end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def listen() -> NoReturn:
        while text := await reader.readline():
            pipe.replied(json.loads(text))
        os._exit(1)  # the controller is gone, or has no more use for this process

    listening = asyncio.create_task(listen())
    rig = pickle.loads(base64.b64decode(start["rig"]))  # noqa: S301  (written by the controller's own process)
    actions = RemoteActions(routes_of(rig))
    steps = RemoteSteps(pipe, actions, start["volumes"])
    lab = Lab(steps, cast(Actions, actions), RigFacts(rig, steps.volumes_now))
    try:
        await module.protocol(lab, start["params"])
    except Exception as error:  # of the laboratory's code, of any kind: the run tells it
        pipe.send({"kind": "ended", "branch": "", "error": told(error)})
    else:
        pipe.send({"kind": "ended", "branch": "", "error": None})
    await listening


def main() -> None:
    """Take the text of a protocol from the standard input, tell its names, and run it if parameters are given."""
    out = os.dup(1)
    os.dup2(2, 1)  # what the protocol prints goes to the log
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    pipe, parent = ControllerPipe(out), os.getppid()
    start = json.loads(_first_line())
    watched = (pipe, threading.get_ident(), parent, float(start["patience_s"]))
    threading.Thread(target=_watch, args=watched, daemon=True).start()
    text = base64.b64decode(start["text"])
    try:
        module = _module(start["path"], text)
        recipe = of_module(module, text.decode("utf-8"))
        params = [asdict(param) for param in recipe.params]
        verbs = [verb.name for verb in recipe.verbs]
    except (Exception, SystemExit) as error:
        what = str(error) if isinstance(error, UnknownProtocol) else told(error)
        pipe.send({"kind": "hello", "error": what})
        return
    names = {"name": recipe.name, "title": recipe.title, "params": params, "verbs": verbs}
    sha256 = hashlib.sha256(text).hexdigest()
    pipe.send({"kind": "hello", "error": None, **names, "sha256": sha256, "source_sha256": recipe.source_sha256})
    if start.get("params") is not None:
        asyncio.run(_live(pipe, start, module))


def _first_line() -> bytes:
    """Read one line from the standard input, and nothing of what follows."""
    text = bytearray()
    while not text.endswith(b"\n"):
        part = os.read(0, 1)
        if not part:
            os._exit(1)
        text += part
    return bytes(text)


if __name__ == "__main__":
    main()
