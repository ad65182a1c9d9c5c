"""The guard of a controller: connect to the running service, or start one; replace it when it is lost.

A guard that runs as its own service (`choroid guard`, :mod:`choroid.running.services`) outlives the controller's
container and service manager. Where there is none, the controller starts one in its own session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from choroid.common.child import python
from choroid.common.failure import UserError
from choroid.running.data_folder import folders_of, open_folder
from controller.children.patience import ChildSilent, Patience
from controller.guard.channel import SocketChannel
from controller.guard.guarding import guard_plan
from controller.guard.heartbeat import Guarded
from controller.guard.wire import LOG, PLAN, Message, connect, digest, peer_of, receive, send
from controller.links.ownership import OWNER, holders
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from drivers.registry import MODELS, load_third_party

READY_S = 30.0
"""Longest time in which a guard could have answered (s): a new one, or one that lets a previous controller go."""
SERVICE_BACK_S = 2.5
"""Time for a service manager to restart its guard before the controller starts one itself (s)."""
ANSWER_S = 5.0
STOP_CONNECT_S = 3.0
"""How long `choroid stop` looks for a guard in one folder (s)."""
STOP_ANSWER_S = 6.0
"""Maximum wait of `choroid stop` for the result (s)."""
POLL_S = 0.05


def write_plan(rig: Rig, data: Path) -> str:
    """Write the guard's plan into `data` and return its text."""
    plan, text = data / PLAN, guard_plan(rig).to_json()
    if not plan.exists() or plan.read_bytes() != text.encode():  # a full disk must not destroy the existing plan
        temporary = plan.with_suffix(".new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(plan)
    return text


def guard(path: Path, data: Path) -> NoReturn:
    """Become the guard of the rig file `path`, as a service of its own; this process is replaced."""
    load_third_party()
    rig = load_rig(path, models=MODELS)
    data = open_folder(data, guard_plan(rig).to_json()).records
    if not ((data / PLAN).exists() and holders(data / OWNER)):
        write_plan(rig, data)  # otherwise a controller runs, and its plan holds until it restarts
    words = python("controller.guard", str(data / PLAN))
    sys.stderr.flush()
    os.execv(words[0], words)  # noqa: S606  (our own module: a process that has not loaded what only a rig file needs)


def stop(data: Path, *, reason: str) -> str:
    """Stop the rig of `data` through its guard, without page or password; return the result.

    Raises:
        UserError: No guard answers.
    """
    failed = UserError(
        f"no guard answers in {data}. Likely cause: no controller runs there, or --data names another folder. Next: send"
        " SIGUSR1 to the controller's process, use the page, or switch the devices off by hand"
    )
    for folder in folders_of(data):
        if (connection := _connected(folder)) is not None:
            break
    else:
        raise failed
    with connection:
        send(connection, {"stop": reason})
        select.select([connection], [], [], STOP_ANSWER_S)
        for message in receive(connection) or ():
            if "done" in message:
                return str(message["done"])
            if "refused" in message:
                raise UserError(f"{message['refused']}. Next: use the account under which the guard runs, or root")
    raise failed


def _connected(folder: Path) -> socket.socket | None:
    """Connect to the guard of `folder`; None when no guard listens there, or a hung disk does not answer."""
    found: list[socket.socket] = []

    def reach() -> None:
        with contextlib.suppress(OSError):
            found.append(connect(folder))

    reaching = threading.Thread(target=reach, daemon=True)
    reaching.start()
    reaching.join(STOP_CONNECT_S)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why there is no connection to a guard, and whether a process listens at its socket."""

    why: str
    listens: bool


class _Started:
    """A guard that was started here: its first process ends as soon as it has left its number."""

    def __init__(self, process: subprocess.Popen[bytes], numbers: int) -> None:
        self._process = process
        self._numbers = numbers
        self._guard = 0

    @property
    def pid(self) -> int:
        """Number of the process that is waited for."""
        if self._numbers >= 0 and self._process.poll() is not None:
            self._guard = int(os.read(self._numbers, 20) or b"0")
            os.close(self._numbers)
            self._numbers = -1
        return self._guard or self._process.pid

    @property
    def failed(self) -> bool:
        """Whether it could not detach itself."""
        return self._process.poll() not in (None, 0)

    def close(self) -> None:
        """End the first process if it is still there, and forget the number; a guard that has detached itself goes on."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._numbers >= 0:
            os.close(self._numbers)
            self._numbers = -1


class GuardFinder:
    """Connects a controller of `rig` with a guard."""

    def __init__(self, rig: Rig, data: Path) -> None:
        """Write the guard's plan into `data`."""
        self._text = write_plan(rig, data)
        self._rig = rig
        self.data = data
        self._hello: Message = {"hello": True, "rig": rig.name, "plan": digest(self._text)}
        self.service = False
        """Whether the guard is a service of its own."""
        self.guard = 0
        """Process number of the guard; 0 when it cannot be seen."""
        self._listening = 0
        """Process number at the other end of the guard's socket, while this process waits for its answer."""
        self.given_up: dict[str, str] = {}
        """Links that the guard has left alone since the last controller, and why."""

    async def guarded(self) -> Guarded:
        """Connect to a guard before anything is done to the rig.

        Raises:
            UserError: There is none and none could be started; the rig must not run then.
        """
        return Guarded(await self._found(0.0), self.restore)

    async def restore(self) -> SocketChannel:
        """Connect to another guard after one was lost. Raises as :meth:`guarded`."""
        return await self._found(SERVICE_BACK_S if self.service else 0.0)

    async def _found(self, patience_s: float) -> SocketChannel:
        """Connect to the present guard; after `patience_s` (s) start one and wait for it."""
        begun_s = _now_s()
        started: _Started | None = None
        self._listening = 0

        def awaited() -> list[int]:
            pid = self._listening or (started.pid if started is not None else 0)
            return [pid] if pid else []

        patience = Patience(awaited, READY_S + patience_s)
        try:
            while True:
                answer = await self._asked(patience)
                if isinstance(answer, SocketChannel):
                    return answer
                if not answer.listens and started is None and _now_s() - begun_s >= patience_s:
                    started = await self._start()
                if _used_up(patience) or (started is not None and started.failed):
                    raise UserError(
                        f"the guard of {self.data} does not answer: {answer.why}. Nothing was done to the rig, as without a"
                        " guard nothing brings it to rest when this process fails. Likely cause: see the end of"
                        f" {self.data / LOG}. Next: run `choroid guard RIG --data {self.data}` by hand and read its output"
                    )
                await asyncio.sleep(POLL_S)
        finally:
            if started is not None:
                started.close()

    async def _asked(self, patience: Patience) -> SocketChannel | _Refusal:
        """Ask the guard once; return the connection to it, or why there is none."""
        connection: socket.socket | None = None
        self._listening = 0
        try:
            connection = connect(self.data)
            self._listening = peer_of(connection).pid
            welcome = await self._greet(connection, patience)
        except OSError as error:
            if connection is not None:
                connection.close()
            return _Refusal(str(error) or type(error).__name__, listens=connection is not None)
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        self.service = bool(welcome.get("service"))
        self.given_up |= welcome.get("given_up", {})
        self.guard = self._listening
        return SocketChannel(connection, _now_s)

    async def _greet(self, connection: socket.socket, patience: Patience) -> Message:
        """Send the greeting and return the guard's welcome; raise OSError with the reason when there is none."""
        send(connection, self._hello)
        until_s = _now_s() + ANSWER_S
        while _now_s() < until_s and not _used_up(patience):
            messages = receive(connection)
            if messages is None:
                raise ConnectionError("the guard closed the connection")
            for message in messages:
                if "welcome" in message:
                    found: Message = message["welcome"]
                    return found
                if "refused" in message:
                    raise ConnectionError(f"the guard refuses this controller: {message['refused']}")
            await asyncio.sleep(POLL_S / 5)
        raise TimeoutError("the guard does not answer")

    async def _start(self) -> _Started:
        """Start a guard, in the spare folder if the data folder cannot be written any more.

        Raises:
            UserError: No folder can be written.
        """
        try:
            return self._spawn()
        except OSError:
            folder = await asyncio.to_thread(open_folder, self.data, self._text)
            self.data = folder.records
            write_plan(self._rig, self.data)
            return self._spawn()

    def _spawn(self) -> _Started:
        """Start a guard that survives the closing of a terminal and the killing of a process group or family."""
        with (self.data / LOG).open("ab") as said:
            numbers, told = os.pipe()
            try:
                process = subprocess.Popen(  # noqa: S603  (our own module, our own arguments)
                    [*own_guard(self.data), str(told)],
                    stdin=subprocess.DEVNULL,
                    stdout=said,  # a reader of this process's own output must not wait for the guard, which outlives it
                    stderr=said,
                    start_new_session=True,
                    pass_fds=(told,),
                )
            except BaseException:
                os.close(numbers)
                raise
            finally:
                os.close(told)
            return _Started(process, numbers)


def own_guard(data: Path) -> list[str]:
    """Return the command of a guard for the controller of `data`, with the plan that lies there."""
    return python("controller.guard", str(data / PLAN), "--own", "--detach")


def _used_up(patience: Patience) -> bool:
    """Count the time since the last look; return whether the guard could have answered for its whole limit."""
    try:
        patience.update()
    except ChildSilent:
        return True
    return False


def _now_s() -> float:
    return time.monotonic()  # noqa: TID251  (the guard lives in real time, whatever the loop's time does)
