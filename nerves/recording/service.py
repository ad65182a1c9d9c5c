"""Keep the writer's process for the engine, on its event loop: start it, read its reports, and answer what people ask.

The process is started for automatic recordings at once, else with the first recording. One that dies is reported as an
alarm and started again; what it had flushed stays.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import math
import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from controller.children.patience import Patience, patiently
from controller.core.clock import Clock
from nerves.cards.contract import ArrayInfo
from nerves.core import Core
from nerves.recording.handover import HandoverSender, make_memory
from nerves.recording.layout import RecordingPlan
from nerves.recording.quota import RecordingRefused
from nerves.recording.tap import RecordingOrder, RecordingTap

logger = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,79}")
BUFFER_S = 40.0
MIN_BUFFER_BYTES, MAX_BUFFER_BYTES = 16 << 20, 512 << 20
BUFFER_SHARE = 0.125
"""Share of the free memory that the buffer may take."""
MEMORY, CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
READY_WITHIN_S = 20.0
"""Longest start of the writer (s in which it could run)."""
ANSWER_WITHIN_S = 10.0
"""Longest time for the begin or the end of a recording (s in which the writer could run)."""
CLOSE_WITHIN_S = 3.0
RESTART_S = 5.0
MISSING = (
    "recordings need the package numcodecs, which is not installed. Likely cause: Choroid was installed without the extra"
    ' “recording”. Next: pip install "choroid[recording]", then restart the engine'
)


def buffer_bytes(info: ArrayInfo, free_bytes: float) -> int:
    """Return the size of the buffer: 40 s of frames, within limits and a share of the free memory."""
    most = min(MAX_BUFFER_BYTES, BUFFER_SHARE * free_bytes)
    return int(max(min(BUFFER_S * info.sample_rate_hz * 2 * info.electrodes, most), MIN_BUFFER_BYTES))


def free_memory_bytes() -> float:
    """Return the memory that this machine, or its container, can still give; infinite where the system does not say."""
    free = [math.inf]
    with suppress(OSError, StopIteration, ValueError):
        lines = MEMORY.read_text(encoding="ascii").splitlines()
        free.append(1024.0 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    with suppress(OSError, ValueError):  # “max” is no number: no limit
        limit, used = ((CONTAINER / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        free.append(float(int(limit) - int(used)))
    return min(free)


@dataclass(slots=True)
class RecordingStatus:
    """Holds the latest report of the writer."""

    name: str = ""
    """The recording that is open; empty without one."""
    frames: int = 0
    bytes: int = 0
    lost_frames: int = 0
    trouble: str = ""
    """Why frames are being lost or will be; empty while all is well."""
    last: str = ""
    """What became of the recording before."""
    ended_early: str = ""
    """Why the recording before ended by itself; empty if people or its lease ended it."""

    @property
    def problem(self) -> str:
        """What the open recording lacks or will lack, or why the latest one ended by itself; empty while all is well."""
        if self.trouble:
            return f"recording {self.name}: {self.trouble}"
        if self.name and self.lost_frames:
            return (
                f"the recording {self.name} lacks {self.lost_frames} frames. Likely cause: the array lost them, or"
                " the disk or the machine was too slow. Next: see its gaps with `choroid recording list`, then begin another"
                " recording"
            )
        return self.ended_early


class RecordingService:
    """The writer, the tap that feeds it, and the recordings that people begin and end. For one event loop."""

    def __init__(self, core: Core, plan: RecordingPlan, clock: Clock) -> None:
        self.plan = plan
        self.status = RecordingStatus()
        self.tap = RecordingTap(core, plan, clock.utc_us, clock.utc_text)
        self._info = core.info
        self._utc_text = clock.utc_text
        self._process: subprocess.Popen[bytes] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._asked: dict[str, asyncio.Future[str]] = {}
        self._ended = asyncio.Event()
        self._pipe = -1

    async def open(self) -> None:
        """Start the writer if recordings begin by themselves."""
        if self.plan.automatic == "never":
            return
        if problem := missing():
            self.status.trouble = problem
            self.tap.alarm(problem)
            return
        self._keep()

    async def start(self, name: str, requester: str, reason: str) -> dict[str, Any]:
        """Begin a recording; return its status.

        Args:
            name: Its name; empty chooses one from the time and the requester.
            requester: Who asks, for the record.
            reason: Why, for the record.

        Raises:
            RecordingRefused: It cannot begin.
        """
        if problem := missing():
            raise RecordingRefused(problem)
        name = (
            name or f"{re.sub('[-:.]', '', self._utc_text())}-{re.sub('[^A-Za-z0-9._@-]', '', requester) or 'manual'}"
        )
        if not NAME.fullmatch(name):
            raise RecordingRefused(
                f"“{name[:100]}” cannot name a recording. Next: use letters, digits and . _ - @, at most 80, the first a"
                " letter or digit"
            )
        if self.tap.name:
            raise RecordingRefused(
                f"the recording {self.tap.name} runs already. Likely cause: it was begun earlier, or by itself. Next:"
                " end it first"
            )
        self._keep()
        try:
            await patiently(self._ready.wait(), self._patience(READY_WITHIN_S))
            answer = self._asked[name] = asyncio.get_running_loop().create_future()
            self.tap.order(RecordingOrder(name, requester, reason))
            refusal = await patiently(answer, self._patience(ANSWER_WITHIN_S))
        except TimeoutError:
            raise RecordingRefused(
                "the writer of recordings did not answer. Likely cause: the array gives no frames, or its disk hangs."
                " Next: see the engine's log"
            ) from None
        finally:
            self._asked.pop(name, None)
        if refusal:
            raise RecordingRefused(refusal)
        return self.view()

    async def stop(self, why: str) -> dict[str, Any]:
        """End the recording that is open; return when it is on the disk.

        Raises:
            RecordingRefused: There is none, or it is not on the disk yet.
        """
        name = self.tap.name
        if not name:
            raise RecordingRefused(
                "no recording is open. Likely cause: it has ended already. Next: `choroid recording list`"
            )
        self._ended.clear()
        self.tap.order(RecordingOrder("", "", why))
        try:
            await patiently(self._ended.wait(), self._patience(ANSWER_WITHIN_S))
        except TimeoutError:
            raise RecordingRefused(
                f"the recording {name} ends, and is not on the disk yet. Likely cause: the disk is full or slow. Next: look"
                " again with `choroid recording status`"
            ) from None
        return self.view()

    def _patience(self, limit_s: float) -> Patience:
        return Patience(lambda: () if self._process is None else (self._process.pid,), limit_s, disk=True)

    def view(self) -> dict[str, Any]:
        """Return the present state, for JSON."""
        return {**asdict(self.status), "feeding": self.tap.name, "buffer_fill": round(self.tap.fill, 3)}

    async def close(self) -> None:
        """Let the writer finish what it has; call after the real-time thread has ended."""
        self.tap.close("the engine ended")
        if self._keeping is None:
            return
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        self._hang_up()
        if self._process is not None:
            try:
                await asyncio.to_thread(self._process.wait, CLOSE_WITHIN_S)
            except subprocess.TimeoutExpired:
                logger.warning("the writer of recordings is still writing; it ends by itself")

    def _keep(self) -> None:
        """Start the writer if it does not run."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._run_again(), name="writer of recordings")

    async def _run_again(self) -> None:
        while True:
            try:
                await self._run()
            except OSError as error:
                logger.error("the writer of recordings cannot be started: %s", error)
            await asyncio.sleep(RESTART_S)

    async def _run(self) -> None:
        """Run the writer's process once, and read its reports until it ends."""
        memory = make_memory(buffer_bytes(self._info, free_memory_bytes()))
        reading, self._pipe = os.pipe()
        try:
            command = [
                sys.executable,
                "-P",
                "-m",
                "nerves.recording.writer_process",
                str(memory),
                str(reading),
            ]
            # Not asyncio's subprocess, which kills a writer that is still writing when the loop ends.
            process = self._process = subprocess.Popen(  # noqa: S603, ASYNC220
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=(memory, reading)
            )
            sender = HandoverSender(memory, self._pipe)
        finally:
            os.close(memory)
            os.close(reading)
        reports = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reports), process.stdout
        )
        try:
            while line := await reports.readline():
                self._note(json.loads(line), sender)
        finally:
            transport.close()
        self._ready.clear()
        self.tap.connect(None)
        self._hang_up()
        status = await asyncio.to_thread(process.wait)
        lost = f"; the recording {self.status.name} stays as it was written so far" if self.status.name else ""
        self.tap.alarm(f"the writer of recordings ended by itself, with status {status}{lost}")
        self.status = RecordingStatus(
            last=f"{self.status.name}: its writer ended with status {status}",
            ended_early=f"the writer of recordings ended by itself, with status {status}{lost}" if lost else "",
        )
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result("the writer of recordings ended. Next: see the engine's log, then try again")
        self._ended.set()

    def _hang_up(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _note(self, said: dict[str, Any], sender: HandoverSender) -> None:
        """Take one report of the writer."""
        status, name = self.status, str(said.get("name", ""))
        match said["event"]:
            case "ready":
                self.tap.connect(sender)
                self._ready.set()
            case "opened":
                self.status = RecordingStatus(name=name)
                self._answer(name, "")
            case "progress":
                status.frames, status.bytes, status.lost_frames = said["frames"], said["bytes"], said["lost_frames"]
            case "trouble":
                status.trouble = said["text"]
                self.tap.alarm(f"recording {status.name}: {said['text'] or 'the disk takes it again'}")
            case "refused":
                self.tap.ended(name)
                if not self._answer(name, said["why"]):
                    self.tap.alarm(f"no recording: {said['why']}")
            case "closed":
                self.status = RecordingStatus(last=f"{name}: {said['why']}", frames=said["frames"], bytes=said["bytes"])
                self.status.lost_frames = said["lost_frames"]
                self._ended.set()
                if said["by_itself"]:
                    self.status.ended_early = f"the recording {name} ended by itself: {said['why']}"
                    self.tap.ended(name)
                    self.tap.alarm(f"the recording {name} ended: {said['why']}")

    def _answer(self, name: str, refusal: str) -> bool:
        """Answer who asked for this recording; return whether there was one who waits."""
        asked = self._asked.get(name)
        if asked is None or asked.done():
            return False
        asked.set_result(refusal)
        return True


def missing() -> str:
    """Return what to install for recordings; empty when it is there."""
    return "" if importlib.util.find_spec("numcodecs") else MISSING
