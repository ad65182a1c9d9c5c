"""A task process: makes the data of a board or simulates its tissue, and returns the score of an episode.

It is part of Choroid (`python -m grid.tasks`), not of a submission. Seed, targets and metric stay in it: the grader
and the model see only observations. It has a process of its own, since the grid does not import the simulator.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from controller.children.patience import ChildSilent, Patience, patiently
from grid.boards.board import TaskSpec
from grid.grading.frames import LENGTH, FrameError, TaskFrame, Tensors, decode_head, encode, head_length

MODULE = "grid.tasks"
ANSWER_S = 300.0
"""Maximum time to one answer in which the process could run; the simulated laboratory takes the longest."""
END_S = 2.0
MAX_STDERR = 2000
NICE = 10
"""Priority of the process: leases and tunnels of the hub go first."""


class TaskFailed(Exception):
    """The task process failed: a fault of this software or of the board, never of the model."""


@dataclass(frozen=True, slots=True)
class EpisodeScore:
    """The score of one episode, and the figures behind it."""

    value: float
    figures: Mapping[str, float] = field(default_factory=dict)


class TaskProcess:
    """A running task process; one episode at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def begin(
        self, task: TaskSpec, seed: int, *, control: str | None = None, baseline: str | None = None
    ) -> Tensors | EpisodeScore:
        """Begin an episode. With a `baseline` the task plays it to the end itself.

        Raises:
            TaskFailed: The task, control or baseline is unknown, or the process ended.
        """
        fields: dict[str, Any] = {
            "task": task.name,
            "params": task.params,
            "seed": seed,
            "control": control,
            "baseline": baseline,
        }
        return await self._ask(TaskFrame("begin", fields))

    async def act(self, outputs: Tensors) -> Tensors | EpisodeScore:
        """Give the outputs of the model; return the next observation, or the score at the end."""
        return await self._ask(TaskFrame("action", {}, outputs))

    async def _ask(self, frame: TaskFrame) -> Tensors | EpisodeScore:
        try:
            answer = await self._exchange(frame)
        except ChildSilent:
            raise TaskFailed(f"the task process did not answer within {ANSWER_S:g} s") from None
        except (FrameError, OSError, EOFError) as error:
            raise TaskFailed(f"the task process ended or failed ({error}). {await self._last_words()}") from None
        if answer.kind == "observation":
            return answer.tensors
        if answer.kind == "score":
            return EpisodeScore(float(answer.fields["value"]), dict(answer.fields["figures"]))
        raise TaskFailed(str(answer.fields.get("text", f"the task process answered with {answer.kind}")))

    async def _exchange(self, frame: TaskFrame) -> TaskFrame:
        return await patiently(self._over_pipes(frame), Patience(self._process.pid, ANSWER_S))

    async def _over_pipes(self, frame: TaskFrame) -> TaskFrame:
        to, source = self._process.stdin, self._process.stdout
        if to is None or source is None:
            raise FrameError("the process has no pipes")
        to.write(encode(frame))
        await to.drain()
        head = decode_head(await source.readexactly(head_length(await source.readexactly(LENGTH.size))))
        return head.with_body(await source.readexactly(head.body_bytes))

    async def _last_words(self) -> str:
        if self._process.stderr is None:
            return ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                text = (await self._process.stderr.read(MAX_STDERR * 10)).decode(errors="replace")
                return text[-MAX_STDERR:]
        return ""


@asynccontextmanager
async def task_process(module: str = MODULE) -> AsyncIterator[TaskProcess]:
    """Start a task process for the time of the block."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "NUMBA_CACHE_DIR") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
    try:
        yield TaskProcess(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())
