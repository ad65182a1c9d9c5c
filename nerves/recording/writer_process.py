"""The writer's process: `python -m nerves.recording.writer_process MEMORY PIPE`.

The two numbers are inherited descriptors of the buffer (:mod:`nerves.recording.handover`). It reports on standard
output, as JSON lines. It ends when the engine has ended and all that it handed over is written, so a killed engine loses
nothing that it had read.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from nerves.recording.handover import HandoverReceiver
from nerves.recording.layout import MessageKind
from nerves.recording.session import WriterSession

logger = logging.getLogger(__name__)

FLUSH_S = 1.0
RETRY_S = 0.5
GIVE_UP_S = 5.0
"""Time (s) for which a full disk is tried after the engine has ended."""
MESSAGES_AT_ONCE = 512
NICE = -5
"""Priority where the system allows it: three times the share of an ordinary process. On a machine with more work than
processors the buffer would overflow else."""


def serve_writer(
    receiver: HandoverReceiver,
    session: WriterSession,
    say: Callable[[dict[str, Any]], None],
    *,
    now_s: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Write until the engine has ended and the buffer is empty.

    Args:
        receiver: The writer's end of the buffer.
        session: What takes the messages.
        say: Reports `trouble` and its end (empty text).
        now_s: Monotonic time.
        sleep: Waits.
    """
    next_flush = now_s() + FLUSH_S
    trouble_s: float | None = None
    while True:
        if not receiver.ended:
            receiver.wait(0.0 if receiver.waiting_bytes else min(FLUSH_S, max(0.0, next_flush - now_s())))
        try:
            for message in receiver.messages(MESSAGES_AT_ONCE):
                session.take(message)
            if now_s() >= next_flush:
                session.tick()
                next_flush = now_s() + FLUSH_S
            if receiver.ended and not receiver.waiting_bytes and session.open:
                session.close("the engine ended")
        except OSError as error:
            if trouble_s is None:
                trouble_s = now_s()
                say({"event": "trouble", "text": f"the disk does not take the recording ({error})"})
            if receiver.ended and now_s() - trouble_s > GIVE_UP_S:
                session.give_up(f"the disk did not take it ({error})", last_frame(receiver))
                return
            sleep(RETRY_S)
            continue
        if trouble_s is not None:
            trouble_s = None
            say({"event": "trouble", "text": ""})
        if receiver.ended and not receiver.waiting_bytes:
            return


def last_frame(receiver: HandoverReceiver) -> int:
    """Return the end of the frames that are still in the buffer, which is emptied."""
    end = 0
    while receiver.waiting_bytes:
        for message in receiver.messages():
            if message.kind is MessageKind.FRAMES:
                end = message.frame + message.count
    return end


def _say(message: dict[str, Any]) -> None:
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:
        sys.stdout = open("/dev/null", "w", encoding="utf-8")  # noqa: SIM115  (the engine is gone; nothing to tell it)


def main(arguments: list[str]) -> int:
    """Run the process; return its exit status."""
    logging.basicConfig(level=logging.WARNING, format="choroid recording: %(levelname)s: %(message)s")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends with the engine, and only when all is written
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    receiver = HandoverReceiver(int(arguments[0]), int(arguments[1]))
    session = WriterSession(_say, _utc_text)
    _say({"event": "ready"})
    serve_writer(receiver, session, _say, now_s=time.monotonic, sleep=time.sleep)  # noqa: TID251
    return 0


def _utc_text() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")  # noqa: TID251


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
