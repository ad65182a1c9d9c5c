"""Ranks in network namespaces of their own, joined by shaped links: both probes, and the engines, as members run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

from grid.planning.candidates import LinkTable, TrainingCandidate, links_of, read_candidate
from grid.planning.links import LinkFigures
from tests.grid.namespaces import Net, Topology, device, run
from tests.nerves.test_gateway import ROOT

TORCH = Path(os.environ.get("CHOROID_TORCH", Path.home() / ".cache" / "choroid-train" / "bin" / "python"))
PACKAGE = ROOT / "tests" / "grid" / "packages" / "blocks"
LIMIT_S = 600
BURST_S = 2e-3
"""Of the shaped links: what they let pass at once, at least two segments as the kernel hands them over (64 KiB)."""


@dataclass(frozen=True)
class Wire:
    """A link of every rank: rate (Mbit/s; None: as fast as the machine), delay of one way (ms; two ranks only)."""

    mbit_s: float | None = None
    delay_ms: float = 0.0

    def __str__(self) -> str:
        rate = "unshaped" if self.mbit_s is None else f"{self.mbit_s:g} Mbit/s"
        return f"{rate}, {2 * self.delay_ms:g} ms" if self.delay_ms else rate


@dataclass(frozen=True)
class Trained:
    """What one run of a job gave, by rank: seconds and bytes of each outer step, and the peak of memory (bytes).

    `waited` is for how much of the seconds a rank and its line (a process) waited for a processor that had other work.
    """

    seconds: list[list[float]]
    waited: list[list[float]]
    sent: list[list[int]]
    peaks: list[int]


class ShapedRanks:
    """Ranks that train and are probed."""

    def __init__(self, net: Net, names: Sequence[str], addresses: Sequence[str], folder: Path) -> None:
        self._net = net
        self._names = names
        self.addresses = list(addresses)
        self._folder = folder
        self.line: subprocess.Popen[str] | None = None

    def _start(self, rank: int, *words: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen((*self._net.inside(self._names[rank]), *words), text=True, cwd=ROOT, **more)

    def links(self) -> LinkTable:
        """Measure the links of all ranks; a single one has none."""
        if len(self.addresses) == 1:
            return LinkTable({})
        started = []
        for rank in range(len(self.addresses)):
            about = self._folder / f"about-{rank}.json"
            about.write_text(json.dumps({"rank": rank, "addresses": self.addresses}))
            words = (sys.executable, "-P", "-m", "grid.planning.links", str(about))
            started.append(
                self._start(rank, *words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
            )
        found: dict[tuple[str, str], LinkFigures] = {}
        for process in started:
            found |= links_of(json.loads(process.communicate(timeout=LIMIT_S)[0]), "the answer")
        return LinkTable(found)

    def probe(self, preset: str, sizes: Sequence[int], cpu_s: float) -> list[TrainingCandidate]:
        """Measure the preset on all ranks at the same time, as they will train."""
        words = (str(TORCH), "-m", "engines.probe", str(PACKAGE), preset, "--threads", "1", "--cpu-s", str(cpu_s))
        sized = ("--micro-batches", ",".join(map(str, sizes)))
        started = [
            self._start(rank, *words, *sized, stdout=subprocess.PIPE, env=environment())
            for rank in range(len(self.addresses))
        ]
        answers = [process.communicate(timeout=LIMIT_S)[0] for process in started]
        return [read_candidate(json.loads(answer), str(rank)) for rank, answer in enumerate(answers)]

    def train(self, manifest: Mapping[str, Any]) -> Trained:
        """Run the engine at every rank to the last outer step."""
        started = []
        count = len(self.addresses)
        folders = [self._folder / f"{os.urandom(4).hex()}-{rank}" for rank in range(count)]
        for rank, folder in enumerate(folders):
            settings = {
                "job": "0" * 64,
                "manifest": {**manifest, "ranks": {"max": count, "min": count}},
                "min_ranks": count,
                "rank": rank,
                "addresses": self.addresses,
                "package": str(PACKAGE),
                "data": {"train": []},
                "folder": str(folder),
                "threads": 1,
            }
            file = folder.with_suffix(".json")
            file.write_text(json.dumps(settings))
            words = (str(TORCH), "-m", "engines.rank", str(file))
            started.append(self._start(rank, *words, stdout=subprocess.PIPE, env=environment()))
        waited: list[list[float]] = [[] for _ in started]
        pairs = zip(started, waited, strict=True)
        readers = [Thread(target=note_waits, args=(process, found, self.line)) for process, found in pairs]
        for reader in readers:
            reader.start()
        peaks = []
        for process, reader in zip(started, readers, strict=True):
            reader.join()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0, f"a rank ended with {process.returncode}"
            peaks.append(used.ru_maxrss * 1024)
        steps = [[each for each in events(folder) if each["event"] == "step"] for folder in folders]
        seconds, sent = ([[each[name] for each in own] for own in steps] for name in ("s", "sent"))
        return Trained(seconds, [[b - a for a, b in pairwise(own)] for own in waited], sent, peaks)


def note_waits(process: subprocess.Popen[str], found: list[float], line: subprocess.Popen[str] | None) -> None:
    """Note at the start and after each outer step for how long the main thread of a rank has waited for a processor (s)."""

    def now_s() -> float:
        waits = [Path(f"/proc/{each.pid}/schedstat").read_text().split()[1] for each in (process, line) if each]
        return sum(map(int, waits)) / 1e9

    found.append(now_s())
    assert process.stdout is not None
    found += [now_s() for line in process.stdout if '"event": "step"' in line]


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "grid"), "OMP_NUM_THREADS": "1", "HOME": "/"}


@contextmanager
def shaped(count: int, wire: Wire, folder: Path) -> Iterator[ShapedRanks]:
    """Make `count` ranks, each on a link of this kind; two with a delay are joined by a line of their own."""
    names = [f"r{rank}" for rank in range(count)]
    direct = wire.delay_ms > 0
    outer = [] if direct else [(f"10.9.{rank}.1", f"10.9.{rank}.2") for rank in range(count)]
    topology = Topology(
        links=[("net", near, names[rank], far) for rank, (near, far) in enumerate(outer)]
        or [("r0", "10.8.0.1", "r1", "10.8.0.2")],
        gateways={names[rank]: near for rank, (near, _) in enumerate(outer)},
        outer={},
        forwards=("net",) if outer else (),
    )
    net = Net(topology)
    line = None
    try:
        net.open()
        if direct:
            assert count == 2
            ends = ("10.7.0.1", "10.7.0.2")
            joined = (net.of("r0"), ends[0], net.of("r1"), ends[1], str(wire.delay_ms))
            line = subprocess.Popen(
                (sys.executable, "-m", "tests.grid.slow_link", *joined), cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
            assert line.stdout is not None
            assert line.stdout.readline().strip() == "ready"
            addresses = list(ends)
            shaped_ends = [(name, "slow") for name in names]
        else:
            addresses = [far for _, far in outer]
            shaped_ends = [("net", device(near)) for near, _ in outer]
            shaped_ends += [(names[rank], device(far)) for rank, (_, far) in enumerate(outer)]
        if wire.mbit_s is not None:
            burst = str(int(max(131_072, wire.mbit_s * 1e6 / 8 * BURST_S)))
            for name, port in shaped_ends:
                words = ("tc", "-n", net.of(name), "qdisc", "replace", "dev", port, "root", "tbf")
                run(*words, "rate", f"{wire.mbit_s}mbit", "burst", burst, "latency", "100ms")
        found = ShapedRanks(net, names, addresses, folder)
        found.line = line
        yield found
    finally:
        if line is not None:
            line.kill()
            line.wait()
        net.close()
