"""Serve tasks over standard input and output, one frame for each frame (:mod:`grid.grading.frames`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

from grid.grading.frames import LENGTH, TaskFrame, decode_head, encode, head_length
from grid.tasks.task import BoardTask, Episode, Scored, TaskError, play


def serve(source: BinaryIO, to: BinaryIO, tasks: Mapping[str, BoardTask]) -> None:
    """Answer frames until the input ends."""
    server = TaskServer(tasks)
    while True:
        prefix = source.read(LENGTH.size)
        if len(prefix) < LENGTH.size:
            return
        head = decode_head(source.read(head_length(prefix)))
        to.write(encode(server.answer(head.with_body(source.read(head.body_bytes)))))
        to.flush()


class TaskServer:
    """The episode that is being played."""

    def __init__(self, tasks: Mapping[str, BoardTask]) -> None:
        self._tasks = tasks
        self._episode: Episode | None = None

    def answer(self, frame: TaskFrame) -> TaskFrame:
        """Return the answer to a frame; what cannot be served is answered with a failure."""
        try:
            if frame.kind == "begin":
                return self._begin(frame.fields)
            if frame.kind != "action" or self._episode is None:
                raise TaskError("no episode has begun")
            return self._advanced(self._episode, frame)
        except TaskError as error:
            self._episode = None
            return TaskFrame("failure", {"text": str(error)})

    def _begin(self, fields: Mapping[str, Any]) -> TaskFrame:
        task = self._tasks.get(fields["task"])
        if task is None:
            raise TaskError(f"there is no task “{fields['task']}”; known: {', '.join(sorted(self._tasks))}")
        control, baseline, params, seed = fields["control"], fields["baseline"], fields["params"], int(fields["seed"])
        if control is not None and control not in task.controls:
            raise TaskError(f"the task {fields['task']} has no control “{control}”; known: {', '.join(task.controls)}")
        episode = task.episode(seed, control, params)
        if baseline is not None:
            made = task.baselines.get(baseline)
            if made is None:
                raise TaskError(
                    f"the task {fields['task']} has no baseline “{baseline}”; known: {', '.join(task.baselines)}"
                )
            return _scored(play(episode, made(seed, params)))
        self._episode = episode
        return TaskFrame("observation", {}, next(episode))

    def _advanced(self, episode: Episode, frame: TaskFrame) -> TaskFrame:
        try:
            return TaskFrame("observation", {}, episode.send(frame.tensors))
        except StopIteration as end:
            self._episode = None
            return _scored(end.value)


def _scored(scored: Scored) -> TaskFrame:
    figures = {name: float(value) for name, value in scored.figures.items()}
    return TaskFrame("score", {"value": float(scored.value), "figures": figures})
