"""How long the array goes on after its client is killed: `python -m tests.nerves.kill_latency [KILLS]`.

Each client is a real process that has trains planned ahead on four electrodes, 2.5 ms apart, over gRPC. The array's clock is
read before the signal is sent and the last delivered frame comes from the ledger, so each figure is an upper bound.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from choroid import NervesClient
from nerves import ledger
from tests.nerves.test_gateway import ROOT, start, stop

RATE = 25_000


def kill_once(data: Path, observer: NervesClient) -> float:
    """Kill an agent in the middle of its trains; return how long the array went on (ms of its clock), from above."""
    file = data / "stimulation.db"
    earlier = max((record.id for record in records_after(file, 0)), default=0)
    agent = subprocess.Popen(
        [sys.executable, "-m", "tests.nerves.killed_agent", str(data / "nerves.json")], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert agent.stdout is not None
    accepted = 0
    while accepted < 4:  # on a busy machine one may come too late for its frame
        line = agent.stdout.readline()
        assert line, "the agent ended by itself"
        accepted += line.startswith(b"True")
    status = observer.status()
    seen, until_frame = status.pulses_delivered, status.next_frame + 2 * RATE
    while status.pulses_delivered < seen + 5 and status.next_frame < until_frame:  # it stimulates at this moment
        time.sleep(0.001)
        status = observer.status()
    before = status.next_frame
    agent.kill()
    agent.wait()
    agent.stdout.close()
    time.sleep(0.5)
    pulses = [pulse for record in records_after(file, earlier) for pulse in record.pulses]
    last = max(pulse.delivered_frame or 0 for pulse in pulses)
    assert any(pulse.state == "cancelled" for pulse in pulses)
    return max(0.0, (last - before) / RATE * 1e3)


def records_after(file: Path, number: int) -> list[ledger.StimulationRecord]:
    """All records with a higher number."""
    found: list[ledger.StimulationRecord] = []
    while page := ledger.read(file, after=found[-1].id if found else number, limit=1000):
        found += page
    return found


def main(kills: int) -> None:
    """Print the distribution over many kills."""
    with tempfile.TemporaryDirectory() as folder:
        engine = start(Path(folder), patient=False)
        try:
            with NervesClient(engine.address, engine.token) as observer:
                late_ms = [kill_once(engine.data, observer) for _ in range(kills)]
        finally:
            stop(engine)
    p50, p99 = np.percentile(late_ms, (50, 99))
    print(f"{kills} kills: silent after p50 {p50:.1f} ms, p99 {p99:.1f} ms, at most {max(late_ms):.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
