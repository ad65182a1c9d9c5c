"""Processes of a demo: each with a log of its own, and none of them outlives the demo."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from choroid.common.failure import UserError

END_S = 8.0
"""Longest time in which a process ends by itself."""
ORPHAN_S = 3.0
"""Longest time in which what a process has started ends by itself after it."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LAST_LINES = 15
LINUX = sys.platform == "linux"


class DemoParts:
    """The processes of a demo, by name. Each is the leader of its own session, so that Ctrl-C reaches the demo alone."""

    def __init__(self, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._lasting: dict[str, asyncio.Task[int]] = {}
        self._started = asyncio.Event()
        self._before = set(_children())
        if LINUX:  # what they have started becomes a child of this process when they end
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)

    async def start(self, name: str, *words: str, ends: bool = False) -> None:
        """Start a process; with `ends` it may end, with status 0, while the demo goes on."""
        with self._log(name).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent if LINUX else None,
            )
        self._processes[name] = process
        self._lasting[name] = asyncio.create_task(_status(process, ends), name=name)
        self._started.set()

    @property
    def names(self) -> tuple[str, ...]:
        """The processes that were started."""
        return tuple(self._processes)

    def pid(self, name: str) -> int:
        """Return the number of a process."""
        return self._processes[name].pid

    async def ended(self, name: str) -> None:
        """Wait until a process has ended; :meth:`watch` finds those that failed."""
        if await self._processes[name].wait():
            await asyncio.Event().wait()

    def kill(self, name: str) -> None:
        """Kill a process with everything that it has started, as when its machine loses power; it may be started again."""
        self._lasting.pop(name).cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._processes[name].pid, signal.SIGKILL)

    def said(self, name: str) -> str:
        """Return what a process has printed."""
        return self._log(name).read_text(encoding="utf-8", errors="replace")

    async def watch(self) -> None:
        """Wait until a process ends that should not. Raises :class:`UserError` with its last lines."""
        while True:
            self._started.clear()
            starting = asyncio.create_task(self._started.wait())
            await asyncio.wait((starting, *self._lasting.values()), return_when=asyncio.FIRST_COMPLETED)
            starting.cancel()
            for name, task in self._lasting.items():
                if task.done():
                    last = "\n".join(self.said(name).splitlines()[-LAST_LINES:])
                    raise UserError(
                        f"{name} of the demo has ended with status {task.result()}. Its last lines:\n{last}\nNext: see"
                        f" {self._log(name)}"
                    )

    async def end(self) -> None:
        """End every process, the latest first, and what they have started; children from before the demo go on."""
        for task in self._lasting.values():
            task.cancel()
        for process in reversed(self._processes.values()):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await asyncio.gather(*(process.wait() for process in self._processes.values()))
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + ORPHAN_S
        while children := set(_children()) - self._before:
            for pid in children:
                _reap(pid, kill=loop.time() > patient_until)
            await asyncio.sleep(0.05)

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"


@contextlib.asynccontextmanager
async def demo_parts(logs: Path) -> AsyncIterator[DemoParts]:
    """Yield the processes, whose logs are in the folder `logs`; end them with the block."""
    parts = DemoParts(logs)
    try:
        yield parts
    finally:
        await asyncio.shield(parts.end())


def _children() -> list[int]:
    """Return the children of this process (Linux; empty elsewhere)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat") if LINUX else ():
        with contextlib.suppress(OSError):
            name, _, fields = entry.read_text().rpartition(")")
            if int(fields.split()[1]) == os.getpid():
                found.append(int(name.split()[0]))
    return found


def _reap(pid: int, *, kill: bool) -> None:
    """Take the status of an orphan if it has ended; kill it before if asked."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        if kill:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)


async def _status(process: asyncio.subprocess.Process, ends: bool) -> int:
    status = await process.wait()
    if ends and status == 0:
        await asyncio.Event().wait()
    return status


def _end_with_parent() -> None:
    """Let the kernel end this process when the demo is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
