"""Stand in for the controller: the guard watches it, and signals make it hang.

    python puppet.py DATA [blind]

Of the devices it says what known.json in its data directory holds. SIGUSR2 makes its loop spin; SIGALRM makes it sleep;
SIGTERM makes it say goodbye and end. An order to stop is confirmed, one to end is obeyed; a `blind` one does neither.
"""

from __future__ import annotations

import fcntl
import json
import signal
import socket
import sys
import time
from pathlib import Path

from controller.guard.wire import connect, digest, receive, send


def main() -> None:
    data = Path(sys.argv[1])
    blind = "blind" in sys.argv
    owner = (data / "journal.db.owner").open("ab")
    fcntl.flock(owner, fcntl.LOCK_EX)
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGALRM):
        signal.signal(number, lambda number, frame: signals.append(number))
    hello = {"hello": True, "rig": "puppet", "plan": digest((data / "guard.json").read_text())}
    verified = {"verified": json.loads((data / "known.json").read_text())}
    beats = 0
    while True:
        try:
            connection = connect(data)
            send(connection, hello)
            beats = live(connection, signals, beats, verified, blind=blind)
        except OSError:
            time.sleep(0.05)


def live(connection: socket.socket, signals: list[int], beats: int, verified: dict[str, object], *, blind: bool) -> int:
    while True:
        beats += 1
        send(connection, verified)
        send(connection, {"beat": beats, "tick": beats})
        messages = receive(connection)
        if messages is None:
            return beats
        for message in messages:
            print(message, flush=True)
            if "stop" in message and not blind:
                send(connection, {"stopping": message["number"]})
                send(connection, {"stopped": message["number"]})
            if "end" in message and not blind:
                signals.append(signal.SIGTERM)
        if signal.SIGUSR2 in signals:
            while True:
                pass
        if signal.SIGALRM in signals:
            time.sleep(600)
        if signal.SIGTERM in signals:
            send(connection, {"goodbye": True})
            sys.exit(0)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
