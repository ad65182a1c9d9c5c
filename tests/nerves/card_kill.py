"""How long the card goes on after the engine is killed: `python -m tests.nerves.card_kill [KILLS]`.

Each engine here is a process that hands the card pulses a quarter of a second ahead, which the real engine never does,
and then goes on reading. It is killed with SIGKILL. The card process reports the frame of the last pulse that began; the
array's clock is read before the signal is sent, so each figure is an upper bound.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time

import numpy as np

from choroid.common.child import HOME
from choroid.running.card_process import CardProcess
from nerves.cards.contract import Phase, Pulse

RATE = 25_000
APART = 25
"""Frames from one pulse to the next, over eight electrodes: a pulse each millisecond."""
CONFIG = {"electrodes": 32, "material": "Pt", "diameter_um": 30.0, "seed": 1}
LAST = re.compile(rb"last pulse began at frame (\d+)")


def engine() -> None:
    """Read and stimulate without end; print the clock of the array after every 10 ms of frames."""
    with contextlib.suppress(OSError):  # the limiter ends an engine that waits for a processor as it ends a dead one
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    card = CardProcess(CONFIG)
    number, next_frame, begun = 0, 0, 0
    while True:
        block = card.read()
        begun += sum(delivery.frame is not None for delivery in block.deliveries)
        next_frame = max(next_frame, card.now_frame() + 100)
        while next_frame < card.now_frame() + RATE // 4:
            number += 1
            phases = (Phase(100.0, -0.2), Phase(100.0, 0.2))
            card.stimulate(Pulse(number, number % 8, phases, next_frame, next_frame))
            next_frame += APART
        if block.first_frame % 250 == 0:
            print(json.dumps({"frame": card.now_frame(), "at_s": time.monotonic(), "begun": begun}), flush=True)


def kill_once() -> float:
    """Kill an engine in the middle of its pulses; return how long the card went on (ms of its clock), from above."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.nerves.card_kill", "--engine"],
        cwd=HOME,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    said = {"begun": 0}
    while said["begun"] < 10:
        line = child.stdout.readline()
        assert line, "the engine ended by itself"
        said = json.loads(line)
    killed_at = said["frame"] + (time.monotonic() - said["at_s"]) * RATE
    child.kill()
    told = child.stderr.read()  # ends when the card process has ended
    child.wait()
    child.stdout.close()
    child.stderr.close()
    found = LAST.search(told)
    assert found is not None, told
    return max(0.0, (int(found.group(1)) - killed_at) / RATE * 1e3)


def main(kills: int) -> None:
    """Print the distribution over many kills."""
    late_ms = [kill_once() for _ in range(kills)]
    p50, p99 = np.percentile(late_ms, (50, 99))
    print(f"{kills} kills: the card is silent after p50 {p50:.1f} ms, p99 {p99:.1f} ms, at most {max(late_ms):.1f} ms")


if __name__ == "__main__":
    if sys.argv[1:] == ["--engine"]:
        engine()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
