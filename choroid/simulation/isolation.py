"""Run work with a laboratory's Python protocol in a process of its own, and end it if the protocol never gives control back.

A protocol is code. One that loops without an await, sleeps or waits for a file blocks the event loop of the plan; nothing
inside that process can end it for certain. A thread of the child samples where the main thread is. The parent ends the child
when the samples within the protocol outweigh the others by :data:`PATIENCE_S`, or when no sample arrives.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from choroid.common.failure import UserError, explain
from controller.children.patience import ChildSilent, Patience, wait_readable
from sim.virtual_time import VirtualDeadlock

PATIENCE_S = 20.0
"""Maximum time (s) within the protocol without an await."""
SAMPLE_S = 0.25
OUTSIDE = 0.1
"""Weight of a sample outside of the protocol; a sound protocol is in few of the samples."""
START_S = 60.0
"""Maximum time (s) without a sample in which the child could run: it starts, or a call holds the interpreter."""


def isolated(
    work: Callable[..., dict[str, Any]],
    keywords: Mapping[str, Any],
    *,
    protocol: Path,
    patience_s: float = PATIENCE_S,
) -> dict[str, Any]:
    """Return what `work(**keywords)` returns in a process of its own.

    Raises:
        UserError: The protocol did not give control back within `patience_s`, or `work` failed with an error that a user
            can correct.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(there, work, dict(keywords), protocol), daemon=True)
    child.start()
    there.close()
    try:
        return _followed(here, child.pid or 0, protocol, patience_s)
    finally:
        child.kill()
        child.join()
        here.close()


def _followed(samples: Connection, pid: int, protocol: Path, patience_s: float) -> dict[str, Any]:
    """Follow the samples of the child until its answer; raise :class:`UserError` when it is blocked."""
    within_s, place, begun = 0.0, "", False
    while True:
        try:
            wait_readable(samples, Patience(pid, max(START_S, patience_s)))
        except ChildSilent:
            raise _blocked(protocol, place, max(START_S, patience_s)) if begun else _unbegun(protocol) from None
        try:
            kind, value = samples.recv()
        except EOFError:
            raise UserError(
                f"the process that runs {protocol} ended by itself. Likely cause: the protocol ends the process, or the"
                " memory is exhausted. Next: remove what ends it"
            ) from None
        begun = True
        if kind == "answer":
            answer: dict[str, Any] = value
            return answer
        if kind == "error":
            raise UserError(value)
        if value:
            within_s, place = within_s + SAMPLE_S, value
        else:  # a loop of asyncio.sleep(0) is outside of the protocol again and again
            within_s = max(within_s - OUTSIDE * SAMPLE_S, 0.0)
        if within_s >= patience_s:
            raise _blocked(protocol, place, patience_s)


def _unbegun(protocol: Path) -> UserError:
    return UserError(
        f"the process that runs {protocol} has not begun its work, although it could run for {START_S:g} s. Likely cause: a"
        " disk or file server that hangs, from which it reads Python's modules. Next: look at the disk, then try again"
    )


def _blocked(protocol: Path, place: str, seconds: float) -> UserError:
    where = f", at {place}" if place else ""
    return UserError(
        f"{protocol} has not given control back for {seconds:g} s{where}. Likely cause: a loop without an await, time.sleep,"
        " or a call that waits for a file or the network. Next: await a verb in the loop, and take times and"
        " readings only from the lab"
    )


def _child(
    connection: Connection, work: Callable[..., dict[str, Any]], keywords: dict[str, Any], protocol: Path
) -> None:
    """Run `work` in this process and send samples, then the answer or the error."""
    files = {str(protocol.absolute()), str(protocol.resolve())}
    lock = threading.Lock()

    def send(kind: str, value: object) -> None:
        with lock:
            connection.send((kind, value))

    over = threading.Event()

    def sample(main: int) -> None:
        while not over.wait(SAMPLE_S):
            try:
                send("at", _place(sys._current_frames().get(main), files))
            except OSError:
                os._exit(1)  # the parent is gone

    threading.Thread(target=sample, args=(threading.get_ident(),), daemon=True).start()
    try:
        answer = work(**keywords)
    except VirtualDeadlock as error:
        over.set()
        send(
            "error", f"{protocol} waits for something that no verb brings ({error}). Next: await verbs of the lab only"
        )
    except Exception as error:
        over.set()
        send("error", explain(error) or f"{protocol}: {type(error).__name__}: {error}{_line(error, files)}")
    else:
        over.set()
        send("answer", answer)


def _place(frame: FrameType | None, files: set[str]) -> str:
    """Return file and line of the innermost frame within the protocol's `files`; empty if the stack has none."""
    while frame is not None:
        if frame.f_code.co_filename in files:
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _line(error: Exception, files: set[str]) -> str:
    """Return the line of the protocol at which an error was raised, for people."""
    at, trace = "", error.__traceback__
    while trace is not None:
        if (name := trace.tb_frame.f_code.co_filename) in files:
            at = f" ({Path(name).name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return at
