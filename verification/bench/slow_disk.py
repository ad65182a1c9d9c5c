"""A controller on a disk whose every fsync takes seconds: loop lag, and delay of doses.

The delay is real: a small C library, loaded before all others (LD_PRELOAD), makes `fsync` and `fdatasync` of the
controller's process wait. It needs a C compiler.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from choroid.common.child import python
from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from drivers.transport.opener import open_real

FSYNC_S = 3.0
FOR_S = 60.0
WARM_UP_S = 5.0
LOOK_S = 0.01
DELAY = "CHOROID_SLOW_FSYNC_S"

_SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_a_while(void) {
    const char *text = getenv("CHOROID_SLOW_FSYNC_S");
    double seconds = text ? atof(text) : 0.0;
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0) {}
}
int fsync(int fd) {
    static int (*real)(int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    wait_a_while();
    return real(fd);
}
int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    wait_a_while();
    return real(fd);
}
"""


def slow_fsync(folder: Path) -> Path:
    """Build the library that delays each fsync by :data:`DELAY` seconds of the environment; return its path."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise UserError("the slow disk needs a C compiler (cc), and there is none. Next: apt-get install gcc libc6-dev")
    source, library = folder / "slow_fsync.c", folder / "slow_fsync.so"
    source.write_text(_SHIM, encoding="utf-8")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)  # noqa: S603  (our own source)
    return library


def bench_slow_disk(fsync_s: float = FSYNC_S, for_s: float = FOR_S) -> dict[str, Any]:
    """Measure with real time, real sockets and real fsyncs; takes `for_s` (s) and some ten seconds more."""
    with tempfile.TemporaryDirectory(prefix="choroid-slow-disk-") as name:
        folder = Path(name)
        environment = {**os.environ, "LD_PRELOAD": str(slow_fsync(folder))}
        rig = folder / "lab.yaml"
        words = python("choroid", "lab", "serve", str(bench_rig()), "--write", str(rig))
        lab = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603  (our own)
        try:
            deadline_s = time.monotonic() + 60.0  # noqa: TID251  (another process)
            while not rig.exists():
                if lab.poll() is not None or time.monotonic() > deadline_s:  # noqa: TID251
                    raise UserError("the simulated lab did not start. Next: try `choroid lab serve` by itself")
                time.sleep(0.1)  # noqa: TID251
            words = python("verification.bench.slow_disk", str(rig), str(folder), str(fsync_s), str(for_s))
            kept = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)  # noqa: S603  (our own)
            machine_ms = _machine_lags_ms(kept)
            told, _ = kept.communicate()
        finally:
            lab.terminate()
            lab.wait()
        if kept.returncode != 0:
            raise UserError("the controller of this benchmark failed; what it said is above. Next: report it")
        figures: dict[str, Any] = {"fsync_s": fsync_s, **json.loads(told)}
        return figures | {"machine_lag_p99_ms": _percentile(machine_ms, 99)}


def _machine_lags_ms(other: subprocess.Popen[bytes]) -> list[float]:
    """Return the wake-up delays of an idle process while another one runs: the cost of the machine's load alone."""
    lags_ms = []
    while other.poll() is None:
        due_s = time.perf_counter() + LOOK_S  # noqa: TID251  (a benchmark)
        time.sleep(LOOK_S)  # noqa: TID251
        lags_ms.append(1e3 * (time.perf_counter() - due_s))  # noqa: TID251
    return lags_ms


def _percentile(values: list[float], percent: int) -> float:
    values = sorted(values)
    return round(values[len(values) * percent // 100], 2)


async def _watch(path: Path, data: Path, fsync_s: float, for_s: float) -> dict[str, Any]:
    """Run the rig with a protocol of many small doses, and observe the loop while the disk is slow.

    Start and end are as fast as the disk really is: each of their many fsyncs would add `fsync_s` and show nothing.
    """
    rig = load_rig(path, models=MODELS)
    clock, stop, loop = Clock(follow_system=True), asyncio.Event(), asyncio.get_running_loop()
    journal = Journal(data / "journal.db", clock, durable=True, threaded=True)
    controller = Controller(
        rig=rig, opener=open_real, storage=Storage(data, threaded=True, journal=journal), clock=clock
    )
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(WARM_UP_S)
    os.environ[DELAY] = str(fsync_s)  # the library reads it at each fsync
    params = {"batch": "2 mL", "min_batch": "2 mL"}
    await controller.runs.start("recycle", params, user="bench", reason="a slow disk")
    begun_s, lags_ms = loop.time(), []
    while loop.time() - begun_s < for_s:
        due_s = loop.time() + LOOK_S
        await asyncio.sleep(LOOK_S)
        lags_ms.append(1e3 * (loop.time() - due_s))
    waits_s = _waits_s(journal)
    problem = journal.problem
    del os.environ[DELAY]
    stop.set()
    await ticking
    await controller.close()
    return {
        "seconds": for_s,
        "lag_p50_ms": _percentile(lags_ms, 50),
        "lag_p99_ms": _percentile(lags_ms, 99),
        "lag_max_ms": round(max(lags_ms), 2),
        "doses": len(waits_s),
        "dose_waited_min_s": round(min(waits_s, default=0.0), 2),
        "dose_waited_max_s": round(max(waits_s, default=0.0), 2),
        "journal_problem": problem,
    }


def _waits_s(journal: Journal) -> list[float]:
    """Return the wait of each dose: from its row `act` to the device's status in `act.outcome` (s)."""
    acts = {row.seq: row.at_s for row in journal.entries(kinds=("act",)) if row.body["command"][0] == "dispense"}
    outcomes = journal.entries(kinds=("act.outcome",))
    return [
        row.at_s - acts[row.body["act"]] for row in outcomes if row.body.get("act") in acts and "status" in row.body
    ]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_watch(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))))
