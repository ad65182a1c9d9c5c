"""Random faults in the training of three ranks: `python -m tests.grid.fault_campaign --faults N --seed S` (root).

Each rank is a process in a network namespace of its own, and has a disk of its own. A fault hits one rank at a random
moment: it is killed, stands still, finds its newest checkpoint torn, has a full disk, computes what is not finite, lies
about its update, or is cut off. The other two go on; the campaign waits until all three train together again. Every ten
faults all ranks are killed, and the job is brought to its end. The model is corrupt if ranks differ by hash at one step, a
checkpoint is not what its name says or not finite, the models at the end differ, or the held-out loss is that of an untrained
model. Exit status 1 if it is, or if a rank did not come back.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.grid.namespaces import Net, Topology, run
from tests.grid.ranks import ROOT, Ranks
from tests.grid.training_environment import torch_python

KINDS = ("killed", "stopped", "torn", "full", "nan", "long", "lie", "cut off")
NOTICED = {"torn": "damaged", "full": "unwritten"}
"""What a victim has to report of a fault that it sees itself."""
COUNT = 3
OF_A_JOB = 10
"""Faults of one job; then it is brought to its end, and a new one begins."""
MANY = 10_000_000
LAST_STEPS = 3
UNTRAINED = math.log(16)
"""Held-out loss of a model that knows nothing of its 16 classes. That of the first checkpoint is no measure: the ranks may
have trained for long by then, and on few samples the loss rises again later."""
DISK = "16m"
POLL_S = 0.1
BACK_S = 600.0
"""Longest time until all ranks train together again."""
STOPPED_S, CUT_S, FULL_S = (1.0, 25.0), (2.0, 25.0), (1.0, 6.0)


@dataclass(frozen=True)
class Found:
    """What came of one fault.

    Attributes:
        kind: What it was.
        victim: The rank.
        outer: Outer steps that the others had behind them.
        back_s: Until all ranks trained together again (s).
        longest_s: Longest outer step of the others (s).
        lost: Rounds that failed at the others.
        faults: What was wrong afterwards.
    """

    kind: str
    victim: int
    outer: int
    back_s: float
    longest_s: float
    lost: int
    faults: tuple[str, ...]

    def line(self, number: int) -> str:
        """Return it as a row of the table."""
        verdict = "; ".join(self.faults) or "equal by hash"
        return (
            f"{number:>5} {self.kind:<8} {self.victim:>6} {self.outer:>7} {self.back_s:>7.1f} {self.longest_s:>8.1f}"
            f" {self.lost:>5}  {verdict}"
        )


HEAD = f"{'fault':>5} {'kind':<8} {'victim':>6} {'at step':>7} {'back, s':>7} {'longest':>8} {'lost':>5}  afterwards"


class ForkedRank:
    """A rank that was forked from a server (:mod:`tests.grid.rank_server`)."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        assert server.stdout is not None
        self._said = server.stdout
        self.pid = int(self._said.readline())
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        if self._status is None and select.select([self._said], [], [], 0.0)[0]:
            self._status = int(self._said.readline())
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status when it has ended. Raises TimeoutError."""
        if self._status is None and not select.select([self._said], [], [], timeout)[0]:
            raise TimeoutError(f"process {self.pid} runs after {timeout} s")
        status = self.poll()
        assert status is not None
        return status

    def kill(self) -> None:
        """Kill it if it runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


@dataclass(frozen=True)
class Site:
    """Where ranks run: the net, the disk of each, and the servers that start them."""

    net: Net
    disks: Sequence[Path]
    servers: Sequence[subprocess.Popen[str]]


class ForkedRanks(Ranks):
    """Ranks that servers start, one in the namespace of each rank, with their folders on disks of their own."""

    def __init__(self, site: Site, folder: Path, **more: Any) -> None:
        self._site = site
        super().__init__(folder, COUNT, **more)

    def place(self, rank: int) -> Path:
        """Return the folder of a rank."""
        return self._site.disks[rank] / self.folder.name

    def start(self, rank: int, fault: str = "", slow_s: float = 0.0, file_bytes: int = -1) -> None:
        """Start a rank."""
        log, settings = self.folder / f"{rank}.log", self.folder / f"{rank}.json"
        log.touch()
        environment = self.environment(rank, fault, slow_s)
        request = {"settings": str(settings), "environment": environment, "log": str(log)}
        server = self._site.servers[rank]
        assert server.stdin is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        self.processes[rank] = ForkedRank(server)


@contextmanager
def a_site(folder: Path) -> Iterator[Site]:
    """Make the net, the disks and the servers."""
    net = Net(topology())
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'grid'}:{Path(__file__).parent}", "OMP_NUM_THREADS": "1"}
    with ExitStack() as opened:
        found, disks = [], [folder / f"disk-{rank}" for rank in range(COUNT)]
        opened.callback(net.close)
        net.open()
        for disk in disks:  # before the servers start, which see no later ones
            disk.mkdir()
            run("mount", "-t", "tmpfs", "-o", f"size={DISK}", "choroid-test", str(disk))
            opened.callback(run, "umount", "-l", str(disk))
        for rank in range(COUNT):
            words = (*net.inside(f"r{rank}"), str(torch_python()), "-B", "-P", "-m", "rank_server")
            server = subprocess.Popen(words, text=True, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            found.append(opened.enter_context(server))
            opened.callback(found[-1].kill)
        yield Site(net, disks, found)


class JobUnderFaults:
    """A job of three ranks, each in a namespace and on a disk of its own."""

    def __init__(self, folder: Path, site: Site, engine: str) -> None:
        self.net = site.net
        addresses = [f"10.9.{rank}.2" for rank in range(COUNT)]
        self.ranks = ForkedRanks(
            site, folder, addresses=addresses, engine=engine, outer_steps=MANY, inner=INNER,
            budget={"core_hours": 1e6, "bytes": 10**15},
        )  # fmt: skip
        for rank in range(COUNT):
            self.start(rank)

    def start(self, rank: int) -> None:
        """Start a rank, which may have run before."""
        self.ranks.start(rank, slow_s=0.03)

    def close(self) -> None:
        """End all ranks, and remove their folders."""
        self.ranks.close()
        for rank in range(COUNT):
            shutil.rmtree(self.ranks.place(rank))

    def together(self, after: int) -> bool:
        """Return whether all ranks have taken a step together after an outer step."""
        lasts = [(self.ranks.events(rank, "step") or [{"outer": 0, "members": []}])[-1] for rank in range(COUNT)]
        return all(each["outer"] > after and len(each["members"]) == COUNT for each in lasts)

    def hit(self, kind: str, victim: int, draw: random.Random) -> None:
        """Let a fault happen, and end what lasts."""
        if kind == "killed":
            self.ranks.signal(victim, signal.SIGKILL)
            time.sleep(draw.uniform(0.0, 3.0))
            self.start(victim)
        elif kind == "stopped":
            self.ranks.signal(victim, signal.SIGSTOP)
            time.sleep(draw.uniform(*STOPPED_S))
            self.ranks.signal(victim, signal.SIGCONT)
        elif kind == "torn":
            self.ranks.signal(victim, signal.SIGKILL)
            tear(self.ranks.place(victim), draw)
            self.start(victim)
        elif kind == "full":
            with filled(self.ranks.place(victim)):
                time.sleep(draw.uniform(*FULL_S))
        elif kind == "cut off":
            with cut_off(self.net, victim):
                time.sleep(draw.uniform(*CUT_S))
        else:
            order = self.ranks.order(victim, kind)
            while order.exists():
                time.sleep(POLL_S)

    def differing(self) -> list[str]:
        """Return at which of the last steps ranks have differed by hash."""
        digests = [self.ranks.digests(rank) for rank in range(COUNT)]
        steps = Counter(outer for each in digests for outer in each)
        return [
            f"step {outer} differs"
            for outer, count in steps.items()
            if count > 1 and len({each[outer] for each in digests if outer in each}) > 1
        ]

    def brought_to_its_end(self) -> tuple[list[str], float, float]:
        """Kill all ranks, look at their checkpoints, bring the job to its end.

        Returns:
            What is wrong, the first and the last held-out loss.
        """
        for rank in range(COUNT):
            self.ranks.signal(rank, signal.SIGKILL)
        faults = [fault for rank in range(COUNT) for fault in checked(self.ranks.place(rank))]
        losses = [each["scores"]["loss"] for rank in range(COUNT) for each in self.ranks.events(rank, "checkpoint")
                  if each["scores"]]  # fmt: skip
        self.ranks.set("outer_steps", max(map(self.ranks.outer, range(COUNT))) + LAST_STEPS)
        for rank in range(COUNT):
            self.start(rank)
        ends = self.ranks.end()
        if len({each["model"] for each in ends}) > 1:
            faults.append("the models of the ranks differ")
        for rank, each in enumerate(ends):
            data = (self.ranks.place(rank) / f"model-{each['model']}.safetensors").read_bytes()
            if hashlib.sha256(data).hexdigest() != each["model"] or not finite(data):
                faults.append(f"the model of rank {rank} is damaged")
        last = ends[0]["scores"]["loss"]
        if not last < UNTRAINED:
            faults.append(f"the held-out loss is {last:.3f}, that of an untrained model {UNTRAINED:.3f}")
        return faults, losses[0], last


INNER = {"rate": 1e-3, "decay": 0.0, "warm_up": 0, "clip": 1.0}


def tear(folder: Path, draw: random.Random) -> None:
    """Damage the newest checkpoint of a rank as a machine that loses power could."""
    written = sorted(folder.glob("checkpoint-*.json"))
    about = json.loads(written[-1].read_bytes())
    part = folder / "objects" / about[draw.choice(("common", "own"))]
    match draw.choice(("short", "flipped", "absent", "object short")):
        case "short":
            written[-1].write_bytes(written[-1].read_bytes()[:40])
        case "flipped":
            data = bytearray(part.read_bytes())
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            part.write_bytes(data)
        case "absent":
            part.unlink()
        case _:
            part.write_bytes(part.read_bytes()[: draw.randrange(part.stat().st_size)])


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Leave no room on the disk of a rank."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            for size in (1 << 20, 1 << 12):
                while True:
                    file.write(bytes(size))
        except OSError:
            pass
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            pass
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def cut_off(net: Net, victim: int) -> Iterator[None]:
    """Pass nothing from and to a rank."""
    own = f"10.9.{victim}.2"
    rules = f"ip saddr {own} drop; ip daddr {own} drop;"
    text = f"table ip cut {{\n chain pass {{ type filter hook forward priority 0; {rules} }}\n}}\n"
    run(*net.inside("net"), "nft", "-f", "-", text=text)
    try:
        yield
    finally:
        run(*net.inside("net"), "nft", "delete", "table", "ip", "cut")


def checked(folder: Path) -> list[str]:
    """Return what is wrong with the newest checkpoint of a rank that names objects that are there."""
    for path in sorted(folder.glob("checkpoint-*.json"), reverse=True):
        try:
            about = json.loads(path.read_bytes())
            parts = {part: (folder / "objects" / about[part]).read_bytes() for part in ("common", "own")}
        except (OSError, ValueError, KeyError):
            continue  # torn by this campaign: the rank passes over it as well
        wrong = [part for part, data in parts.items() if hashlib.sha256(data).hexdigest() != about[part]]
        if wrong:
            continue  # likewise
        return [f"{path.name} has numbers that are not finite"] if not all(map(finite, parts.values())) else []
    return [f"{folder.name} has no whole checkpoint"]


def finite(data: bytes) -> bool:
    """Return whether all numbers of 32 bits in a safetensors file are finite; integers are."""
    size = int.from_bytes(data[:8], "little")
    about = json.loads(data[8 : 8 + size])
    parts = [each["data_offsets"] for each in about.values() if each.get("dtype") == "F32"]
    body = data[8 + size :]
    return bool(parts) and all(bool(np.isfinite(np.frombuffer(body[a:b], "<f4")).all()) for a, b in parts)


def topology() -> Topology:
    """Return a net that joins all ranks."""
    ends = [(f"10.9.{rank}.1", f"r{rank}", f"10.9.{rank}.2") for rank in range(COUNT)]
    return Topology(
        links=[("net", near, name, far) for near, name, far in ends],
        gateways={name: near for near, name, _ in ends},
        outer={},
        forwards=("net",),
    )


def one_fault(job: JobUnderFaults, kind: str, draw: random.Random) -> Found:
    """Let a fault happen at a random moment; return what came of it."""
    victim = draw.randrange(COUNT)
    others = [rank for rank in range(COUNT) if rank != victim]
    time.sleep(draw.uniform(0.0, 1.0))
    seen = {rank: len(job.ranks.events(rank)) for rank in others}
    known = len(job.ranks.events(victim))
    outer, begin_s = max(map(job.ranks.outer, range(COUNT))), time.monotonic()
    job.hit(kind, victim, draw)
    after, end_s = max(map(job.ranks.outer, range(COUNT))), time.monotonic() + BACK_S
    faults = []
    while not job.together(after):
        if time.monotonic() > end_s:
            faults.append(f"not together again after {BACK_S:.0f} s")
            break
        time.sleep(POLL_S)
    news = [each for rank in others for each in job.ranks.events(rank)[seen[rank] :]]
    longest_s = max((each["s"] for each in news if each["event"] == "step"), default=0.0)
    lost = max(sum(each["event"] == "lost" and each["rank"] == rank for each in news) for rank in others)
    signs = [each["event"] for each in job.ranks.events(victim)[known:]]
    if kind in NOTICED and NOTICED[kind] not in signs:
        faults.append(f"it did not report “{NOTICED[kind]}”")
    if kind in ("nan", "long", "lie") and not any(str(victim) in each["excluded"] for each in news if named(each)):
        faults.append("it was not named")
    faults += job.differing()
    return Found(kind, victim, outer, time.monotonic() - begin_s, longest_s, lost, tuple(faults))


def named(event: dict[str, Any]) -> bool:
    """Return whether an event names ranks that were left out."""
    return event["event"] in ("step", "none") and bool(event["excluded"])


def campaign(faults: int, seed: int, folder: Path, kinds: Sequence[str] = KINDS, say: Any = print) -> list[str]:
    """Run a campaign; return what was wrong.

    Args:
        faults: How many.
        seed: Of kinds, victims, moments and durations.
        folder: For the files of the ranks.
        kinds: Of faults.
        say: Takes the rows of the table.
    """
    draw = random.Random(seed)
    wrong: list[str] = []
    rows: list[Found] = []
    begin_s = time.monotonic()
    with ExitStack() as opened:
        opened.callback(lambda: say(summary(rows, wrong, time.monotonic() - begin_s)))
        site = opened.enter_context(a_site(folder))
        say(HEAD)
        while len(rows) < faults:
            engine = draw.choice(("diloco", "ddp"))
            able = [kind for kind in kinds if engine == "diloco" or kind != "lie"]
            place = folder / f"job-{len(rows)}"
            place.mkdir()
            job = JobUnderFaults(place, site, engine)
            try:
                while not job.together(2):
                    time.sleep(POLL_S)
                for _ in range(min(OF_A_JOB, faults - len(rows))):
                    rows.append(one_fault(job, draw.choice(able), draw))
                    say(rows[-1].line(len(rows)))
                    wrong += rows[-1].faults
                found, first, last = job.brought_to_its_end()
                wrong += found
                models = "; ".join(found) or "models equal and finite"
                say(f"      {engine}: {models}; held-out loss {first:.3f}, then {last:.3f}")
            finally:
                job.close()
    return wrong


def summary(rows: Sequence[Found], wrong: Sequence[str], seconds: float) -> str:
    """Return the figures of a campaign by kind."""
    lines = [f"{len(rows)} faults in {seconds / 60:.0f} min, {len(wrong)} wrong"]
    for kind in KINDS:
        own = [each for each in rows if each.kind == kind]
        if own:
            back = sorted(each.back_s for each in own)
            lines.append(
                f"{kind:<8} {len(own):>4}: back after {back[len(back) // 2]:.1f} s (median), {back[-1]:.1f} s (longest);"
                f" longest step of the others {max(each.longest_s for each in own):.1f} s;"
                f" at most {max(each.lost for each in own)} rounds lost"
            )
    return "\n".join(lines)


def main() -> int:
    """Run the campaign of the command line."""
    parser = argparse.ArgumentParser(description="random faults in the training of three ranks")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # the figures so far are printed, and the net is removed
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="choroid-faults-") as folder:

        def say(line: str) -> None:
            print(line, flush=True)

        return 1 if campaign(arguments.faults, arguments.seed, Path(folder), say=say) else 0


if __name__ == "__main__":
    sys.exit(main())
