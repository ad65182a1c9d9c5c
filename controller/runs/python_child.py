"""The process of one Python protocol: it computes here, and each verb is carried out by the run in the controller's process.

Started by :mod:`controller.runs.python_process`. It imports what a protocol may use, locks itself in
(:mod:`controller.sandbox.lock`), and only then receives the text. From then on it can compute and exchange messages with
its run, nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import io
import itertools
import json
import os
import pickle
import pkgutil
import random
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, cast

import protocols
from controller.runs.facts import RigFacts
from controller.runs.python_wire import MAX_START_BYTES, line
from controller.sandbox.errors import SandboxUnavailable
from controller.sandbox.limits import MIB, ProcessLimits
from controller.sandbox.lock import die_with_the_owner, limit_resources, lock, no_new_privileges
from controller.transfers.routes import Route, route_of, routes_of
from protocols.host import ProtocolError
from protocols.language import Lab
from protocols.registry import UnknownProtocol, of_module
from protocols.results import VesselVolume
from protocols.verbs import Verb

LIMITS = ProcessLimits(max_memory=512 * MIB)
NICENESS = 10
"""The control loop goes first on a busy processor."""
MODULES = (
    "abc", "bisect", "calendar", "cmath", "collections.abc", "contextlib", "copy", "dataclasses", "datetime", "decimal",
    "encodings.idna",
    "enum", "fractions", "functools", "hashlib", "heapq", "inspect", "itertools", "json", "logging", "math", "numbers",
    "numpy", "operator", "pathlib", "random", "re", "statistics", "string", "textwrap", "time", "traceback", "types",
    "typing", "uuid", "zoneinfo",
)  # fmt: skip
"""What a protocol may import in addition to :mod:`protocols`; when it is locked in, no file can be read."""
MAX_SAID = 10_000
"""Maximum length of one message of what the text prints."""
BRANCH: ContextVar[str] = ContextVar("branch", default="")


class ControllerPipe:
    """Sends requests to the controller's process, and gives its replies to those who wait."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._sending = False

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message; ends the process when the controller is gone."""
        self._sending = True
        try:
            left = memoryview(line(message))
            while left:
                left = left[os.write(self._out, left) :]
        except OSError:
            os._exit(1)
        finally:
            self._sending = False

    def tell_place(self, _number: int, frame: FrameType | None) -> None:
        """Say where the protocol computes; the run asks so by a signal."""
        if not self._sending:  # else it computes no more
            self.send({"kind": "place", "place": _place(frame)})

    def number(self) -> int:
        """Return the number of the next request."""
        return next(self._numbers)

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
        waiting = self._waiting.get(reply["id"])
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)


class _Said(io.TextIOBase):
    """Passes what a protocol prints to the run, which writes it to the log of the controller."""

    def __init__(self, pipe: ControllerPipe) -> None:
        self._pipe = pipe

    def write(self, text: str) -> int:
        """Send a text."""
        if text.strip():
            self._pipe.send({"kind": "said", "text": text[:MAX_SAID]})
        return len(text)


class RemoteHost:
    """Sends steps and branches to the run (:class:`protocols.host.ProtocolHost`)."""

    def __init__(self, pipe: ControllerPipe, routes: Mapping[str, Route], volumes: Mapping[str, Any]) -> None:
        self._pipe = pipe
        self._routes = routes
        self._volumes: dict[str, Mapping[str, Any]] = {"": volumes}
        self._busy: set[str] = set()

    async def act(self, verb: Verb, args: Mapping[str, Any]) -> Any:
        """Have the run do the next step of this branch, or return what is recorded of it."""
        if verb is Lab.decide:
            return args["choose"]()  # what a laboratory's own text decides changes with that text alone
        step = {"kind": "step", "verb": verb.name, "args": dict(args)}
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

    def route(self, verb: str) -> Route:
        """Return the route of a transfer verb."""
        return route_of(self._routes, verb)

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
            self._pipe.send({"kind": "ended", "branch": branch, "error": described_error(error)})
            raise
        self._pipe.send({"kind": "ended", "branch": branch, "error": None})
        return result


def described_error(error: BaseException) -> str:
    """Return an error of the protocol for people, with its line unless it says by itself what to do."""
    if isinstance(error, ProtocolError):
        return str(error)
    place, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _Text.path:
            place = f" ({Path(_Text.path).name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{place}{_advice(error)}"


def _advice(error: BaseException) -> str:
    if isinstance(error, ImportError):
        return ". Next: import only what docs/protocols.md lists; a protocol is locked in and reads no file"
    if isinstance(error, OSError) or "can't start new thread" in str(error):
        return ". Likely cause: a protocol is locked in: no file, network, process or thread. Next: use the verbs of the lab"
    return ""


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


def _place(frame: FrameType | None) -> str:
    while frame is not None:
        if frame.f_code.co_filename == _Text.path:
            return f"{Path(_Text.path).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _load(path: str, text: bytes) -> tuple[ModuleType | None, dict[str, Any]]:
    """Run the text; return its module and what it says of itself."""
    try:
        module = _module(path, text)
        recipe = of_module(module, text.decode("utf-8"))
        params = [asdict(param) for param in recipe.params]
        verbs = [verb.name for verb in recipe.verbs]
        json.dumps([recipe.name, recipe.title, params])
    except (Exception, SystemExit) as error:
        what = str(error) if isinstance(error, UnknownProtocol) else described_error(error)
        return None, {"kind": "hello", "error": what}
    names = {"name": recipe.name, "title": recipe.title, "params": params, "verbs": verbs}
    return module, {"kind": "hello", "error": None, **names}


async def _live(
    pipe: ControllerPipe, start: Mapping[str, Any], reader: asyncio.StreamReader, module: ModuleType
) -> None:
    """Run the protocol to its end."""

    async def listen() -> None:
        while text := await reader.readline():
            pipe.replied(json.loads(text))
        os._exit(1)  # the controller is gone, or has no more use for this process

    listening = asyncio.create_task(listen())
    host = RemoteHost(pipe, start["routes"], start["volumes"])
    lab = Lab(host, RigFacts(start["rig"], host.volumes_now))
    try:
        await module.protocol(lab, start["params"])
    except Exception as error:  # of the laboratory's code, of any kind: the run tells it
        pipe.send({"kind": "ended", "branch": "", "error": described_error(error)})
    else:
        pipe.send({"kind": "ended", "branch": "", "error": None})
    await listening


async def _work(pipe: ControllerPipe) -> None:
    """Lock this process in, take the text and run it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_START_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    start: dict[str, Any] = json.loads(await reader.readline())
    if start.get("rig") is not None:
        rig = start["rig"] = pickle.loads(base64.b64decode(start["rig"]))  # noqa: S301  (of the controller's own process)
        start["routes"] = routes_of(rig)
    lacks = ""
    os.nice(NICENESS)
    try:
        lock(LIMITS, waits=True)
    except (SandboxUnavailable, OSError) as error:
        lacks = str(error)
        with suppress(SandboxUnavailable, OSError, ValueError):
            no_new_privileges()
            limit_resources(LIMITS)
    pipe.send({"kind": "locked", "lacks": lacks})
    given = json.loads(await reader.readline())
    module, hello = _load(given["path"], base64.b64decode(given["text"]))
    pipe.send(hello)
    if module is not None and start.get("rig") is not None:
        await _live(pipe, start, reader, module)


def main() -> None:
    """Prepare what a protocol may use, then work."""
    out = os.dup(1)
    os.dup2(2, 1)
    pipe = ControllerPipe(out)
    signal.signal(signal.SIGUSR1, pipe.tell_place)
    die_with_the_owner(int(sys.argv[1]))
    for name in (*MODULES, *(f"protocols.{each.name}" for each in pkgutil.iter_modules(protocols.__path__))):
        importlib.import_module(name)
    random.seed(0)  # a protocol repeats itself after a restart
    sys.stdout = sys.stderr = cast(Any, _Said(pipe))
    with suppress(Exception, SystemExit, KeyboardInterrupt):  # the run finds that this process has ended
        asyncio.run(_work(pipe))
    os._exit(0)


if __name__ == "__main__":
    main()
