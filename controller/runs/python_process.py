"""The process of a Python protocol as its run sees it: started, proven to be locked in, watched, killed.

Its limits count processor time, or looks at which it sleeps without having asked for anything: a busy machine makes no
protocol fail. On a loop of virtual time the process is read while time stands still, so a run is as deterministic there
as that of a shipped protocol.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol, cast

from controller.children.accounts import now_s
from controller.runs.python_text import PythonText
from controller.runs.python_wire import MAX_LINE_BYTES, line, parsed
from controller.sandbox.files import POLLIN, POLLOUT, ready
from controller.sandbox.proof import gaps
from protocols.host import ProtocolError

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""Real time between two looks at a process that is to answer."""
PATIENCE_S = 20.0
"""Maximum processor time between two verbs, and maximum sleep without a request (s)."""
START_S = 60.0
"""The same until the process is locked in."""
MAX_IDLE_MESSAGES = 1_000
"""Messages that ask for nothing, between two requests."""
SAID_LINES = 100
"""Printed texts of one process that come into the log."""
WORDS = (sys.executable, "-P", "-s", "-m", "controller.runs.python_child")
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
}
"""All that the process sees of the environment."""
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


class ProtocolWatch:
    """Judges a process that is to answer, by what the kernel counts of it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.limit_s = START_S
        self._asked_place = False
        self.place = ""
        self.turn()

    def turn(self) -> None:
        """Begin a new count: the process has got something to do."""
        self._begun_s = self._cpu()[1]
        self._asleep = self._stopped = 0
        self._asked_place = False

    def check(self) -> str | None:
        """Look once; return what is wrong, if anything is."""
        state, cpu_s = self._cpu()
        used_s = cpu_s - self._begun_s
        self._asleep = self._asleep + 1 if state == "S" else 0
        self._stopped = self._stopped + 1 if state in "Tt" and state else 0
        if self._stopped * LOOK_S >= 3 * self.limit_s:
            return (
                "the process of the protocol gets no time. Likely cause: it was stopped from outside (SIGSTOP, a debugger),"
                " or the machine was suspended or is very busy; the protocol is not at fault. Next: let it go on, then resume"
            )
        if max(used_s, self._asleep * LOOK_S) < self.limit_s:
            return None
        if not self._asked_place:
            self._asked_place = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGUSR1)  # where? it may say so until the next look
            return None
        return self.blocked(used_s)

    def told_place(self, place: str) -> str | None:
        """Take where the protocol computes; return what is wrong if that was asked."""
        self.place = place
        return self.blocked(self._cpu()[1] - self._begun_s) if self._asked_place else None

    def blocked(self, used_s: float) -> str:
        """Return the fault of a protocol that computes or waits without asking for a verb."""
        where = f", at {self.place}" if self.place else ""
        return (
            f"the protocol has not asked for a verb for {self.limit_s:g} s{where} (computed {used_s:.3g} s). Likely cause: a"
            " loop without an await, time.sleep, asyncio.sleep, or a call that waits for something else than a verb. Next:"
            " await a verb in the loop, and take times and readings only from the lab"
        )

    def _cpu(self) -> tuple[str, float]:
        """Return state and processor time (s); an empty state if the process is gone."""
        try:
            fields = (
                Path(f"/proc/{self._pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            )
            return fields[0], (int(fields[11]) + int(fields[12])) * TICK_S
        except (OSError, IndexError, ValueError):
            return "", 0.0


class Lines(Protocol):
    """The two pipes of a process."""

    def write(self, text: bytes) -> None:
        """Give a text to the process."""

    async def readline(self, look: Any) -> bytes:
        """Return the next line, empty at the end; call `look` while there is none; raise ValueError for a line too long."""

    def close(self) -> None:
        """Close both."""


class LiveLines:
    """The pipes on an event loop of real time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        self._coming: asyncio.Task[bytes] | None = None

    async def connect(self) -> None:
        """Connect the pipes with the loop."""
        loop = asyncio.get_running_loop()
        self._look_s = LOOK_S * float(getattr(loop, "speed", 1.0))
        reading = asyncio.StreamReaderProtocol(self._reader)
        self._from, _ = await loop.connect_read_pipe(lambda: reading, self._process.stdout)
        self._to, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._process.stdin)

    def write(self, text: bytes) -> None:
        """Give a text to the process."""
        if not self._to.is_closing():
            self._to.write(text)

    async def readline(self, look: Any) -> bytes:
        """Return the next line; call `look` while there is none."""
        self._coming = self._coming or asyncio.ensure_future(self._reader.readline())
        while not self._coming.done():
            await asyncio.wait({self._coming}, timeout=self._look_s)
            if not self._coming.done():
                look()
        done, self._coming = self._coming, None
        return done.result()

    def close(self) -> None:
        """Close the pipes."""
        if self._coming is not None:
            self._coming.cancel()
        self._from.close()
        if not self._to.is_closing():
            self._to.abort()


class StandingLines:
    """Reads and writes the pipes of a protocol's process without letting the loop's time pass."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._to, self._from = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
        os.set_blocking(self._to.fileno(), False)
        self._received = bytearray()
        self._left = bytearray()

    def write(self, text: bytes) -> None:
        """Keep a text; it is given while the next line is waited for."""
        self._left += text

    async def readline(self, look: Any) -> bytes:
        """Return the next line; call `look` while there is none."""
        return self._readline(look)

    def _readline(self, look: Any) -> bytes:
        looked_s = now_s()
        while (end := self._received.find(b"\n")) < 0:
            if len(self._received) > MAX_LINE_BYTES:
                raise ValueError("too long")
            if self._left and ready(self._to.fileno(), POLLOUT, now_s()):
                with contextlib.suppress(BlockingIOError):
                    try:
                        del self._left[: os.write(self._to.fileno(), self._left)]
                    except BrokenPipeError:
                        self._left.clear()
            if ready(self._from.fileno(), POLLIN, now_s() + (0.001 if self._left else LOOK_S)):
                part = os.read(self._from.fileno(), 1 << 16)
                if not part:
                    return b""
                self._received += part
            elif now_s() - looked_s >= LOOK_S:
                looked_s = now_s()
                look()
        text = bytes(self._received[: end + 1])
        del self._received[: end + 1]
        return text

    def close(self) -> None:
        """Close both."""
        self._from.close()
        with contextlib.suppress(OSError):
            self._to.close()


class ProtocolProcess:
    """A process with the text of one protocol, locked in."""

    def __init__(self, process: subprocess.Popen[bytes], lines: Lines, *, standing: bool) -> None:
        self.standing = standing
        """Whether the loop's time stands still while the process computes."""
        self.pid = process.pid
        self._process = process
        self._lines = lines
        self._watch = ProtocolWatch(process.pid)
        self._with_us = 0
        """Requests that the run has not replied to."""
        self._idle = self._said = 0

    def send(self, message: Mapping[str, Any], *, reply: bool = True) -> None:
        """Send a message: a reply to a request, or what the process begins with."""
        self._with_us -= reply
        self._watch.turn()
        self._lines.write(line(message))

    async def message(self) -> dict[str, Any] | None:
        """Return the next message that asks for something; None when the process has ended.

        Raises:
            ProtocolError: It computes or sleeps for too long, or sends something else than messages.
        """
        while True:
            try:
                text = await self._lines.readline(self._look)
            except ValueError:
                raise ProtocolError("the protocol sends too large a message. Next: give verbs less data") from None
            if not text:
                return None
            try:
                message = parsed(text)
            except ValueError:
                raise ProtocolError(
                    "the process of the protocol sends no messages. Next: do not write to its pipes"
                ) from None
            if message["kind"] not in ("said", "place"):
                self._with_us += message["kind"] in ("step", "together")
                self._idle = 0
                return message
            self.idle_message()
            if message["kind"] == "said":
                self._log(str(message.get("text"))[:1000])
            elif fault := self._watch.told_place(str(message.get("place"))[:200]):
                raise ProtocolError(fault)

    def idle_message(self) -> None:
        """Count a message that asks for nothing; raise :class:`ProtocolError` when they are too many."""
        self._idle += 1
        if self._idle > MAX_IDLE_MESSAGES:
            raise ProtocolError(
                f"the process of the protocol has sent {MAX_IDLE_MESSAGES} messages without asking for a verb. Likely cause:"
                " it prints in a loop. Next: print less"
            )

    def _log(self, text: str) -> None:
        self._said += 1
        if self._said <= SAID_LINES:
            logger.info("protocol: %s", text)
        if self._said == SAID_LINES:
            logger.warning("what the protocol prints from now on is not shown")

    def _look(self) -> None:
        if self._with_us <= 0 and (fault := self._watch.check()):
            raise ProtocolError(fault)

    async def begin(self, source: PythonText, start: Mapping[str, Any], *, unlocked: bool) -> dict[str, Any]:
        """Have the process lock itself in, prove that it is, give it the text; return what the text says of itself.

        Raises:
            ProtocolError: It is not locked in, or ends before it has loaded the text.
        """
        self.send(start, reply=False)
        locked = await self._expected("locked")
        lacks = str(locked.get("lacks") or "") or ", ".join(gaps(self.pid))
        if lacks and not unlocked:
            raise ProtocolError(
                f"a Python protocol cannot be locked in on this machine: {lacks}. Next: use Linux 5.13 or newer, write it as"
                " a recipe (YAML), or let the rig file say `unlocked_protocols: true`: its text then has the rights of the"
                " controller's user"
            )
        if lacks:
            logger.warning("a Python protocol runs with the rights of this user: %s", lacks)
        self._watch.limit_s = PATIENCE_S
        self.send({"path": str(source.path), "text": base64.b64encode(source.text).decode()}, reply=False)
        return await self._expected("hello")

    async def _expected(self, kind: str) -> dict[str, Any]:
        message = await self.message()
        if message is None:
            raise ProtocolError("the process of the protocol ended before it was loaded. Next: look into the log")
        if message["kind"] != kind:
            raise ProtocolError("the process of the protocol sends no messages. Next: do not write to its pipes")
        return message

    def kill(self) -> None:
        """Kill the process, and all of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._lines.close()


@contextlib.asynccontextmanager
async def protocol_process(*, standing: bool = False) -> AsyncIterator[ProtocolProcess]:
    """Start a process in a session of its own; it ends with this block, or with this process.

    Args:
        standing: Whether to wait without a loop, as is done anyway where the loop's time stands still.
    """
    loop = None if standing else asyncio.get_running_loop()
    standing = standing or bool(getattr(loop, "time_stands_still", False))
    lifeline, held_end = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603, ASYNC220  (our own module; a start takes a millisecond)
            (*WORDS, str(lifeline)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(lifeline,),
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )
    except BaseException:
        os.close(held_end)
        raise
    finally:
        os.close(lifeline)
    lines = StandingLines(process) if standing else LiveLines(process)
    try:
        if isinstance(lines, LiveLines):
            await lines.connect()
        child = ProtocolProcess(process, lines, standing=standing)
        try:
            yield child
        finally:
            child.kill()
    finally:
        os.close(held_end)
        if standing:
            process.wait()
        else:
            await _reaped(process, LOOK_S * float(getattr(loop, "speed", 1.0)) / 100)


async def _reaped(process: subprocess.Popen[bytes], pause_s: float) -> None:
    for _ in range(500):
        if process.poll() is not None:
            return
        await asyncio.sleep(pause_s)
    logger.warning("the killed process %d of a protocol has not ended yet", process.pid)
