"""Ranks of a training job as processes of the training environment, on loopback, without hub and lock."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tests.grid.addresses import loopback_bases
from tests.grid.training_environment import torch_python

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = Path(__file__).with_name("packages")
TORCH = Path(os.environ.get("CHOROID_TORCH", Path.home() / ".cache" / "choroid-train" / "bin" / "python"))
MANIFEST: dict[str, Any] = {
    "preset": "tiny",
    "engine": "diloco",
    "seeds": {"model": 0, "order": 0},
    "precision": "fp32",
    "codec": "fp16",
    "local_steps": 4,
    "outer_steps": 6,
    "batch": 32,
    "micro_batch": None,
    "inner": {"rate": 1e-3, "decay": 0.0, "warm_up": 0, "clip": 1.0},
    "outer": {"rate": 0.7, "momentum": 0.9},
    "budget": {"core_hours": 1.0, "bytes": 10**9},
    "checkpoint_every": 1,
}
Event = dict[str, Any]


def rows(folder: Path, count: int, seed: int) -> Path:
    """Write samples of a fixed function of eight numbers; return their folder."""
    values = np.random.default_rng(seed).normal(size=(count, 8))
    wanted = np.sin(2.0 * values[:, 0]) + values[:, 1] * values[:, 2]
    folder.mkdir(parents=True)
    np.save(folder / "rows.npy", np.column_stack([values, wanted]).astype(np.float32))
    return folder


class RankStarted(Protocol):
    """The process of a rank, as its starter knows it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


class Ranks:
    """The ranks of one job. `start` may be called again for a rank that has ended."""

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        *,
        addresses: Sequence[str] = (),
        prefixes: Sequence[Sequence[str]] = (),
        **changes: Any,
    ) -> None:
        """Prepare the ranks.

        Args:
            folder: For their files.
            count: How many.
            addresses: Of each; by default on loopback.
            prefixes: Words before the command of each, such as those that enter a network namespace.
            changes: Of the manifest.
        """
        torch_python()
        self._prefixes = prefixes or [()] * count
        self._seen: dict[int, tuple[int, list[Event]]] = {}
        self.folder, self.count = folder, count
        self.processes: dict[int, RankStarted] = {}
        train, test = rows(folder / "train", 4000, 1), rows(folder / "test", 500, 2)
        self._held = contextlib.ExitStack()
        if not addresses:
            (base,) = self._held.enter_context(loopback_bases(1))
            addresses = [f"{base}.1.{1 + rank}" for rank in range(count)]
        for rank in range(count):
            settings = {
                "job": "a" * 64,
                "manifest": MANIFEST | {"ranks": {"max": count}} | changes,
                "min_ranks": count // 2 + 1,
                "rank": rank,
                "addresses": list(addresses),
                "package": str(PACKAGES / "rows"),
                "data": {"train": [str(train)], "test": [str(test)]},
                "folder": str(self.place(rank)),
                "threads": 1,
            }
            self.place(rank).mkdir()
            (folder / f"{rank}.json").write_text(json.dumps(settings))

    def place(self, rank: int) -> Path:
        return self.folder / f"rank-{rank}"

    def start(self, rank: int, fault: str = "", slow_s: float = 0.0, file_bytes: int = -1) -> None:
        environment = self.environment(rank, fault, slow_s)
        with (self.folder / f"{rank}.log").open("ab") as log:
            words = [
                str(TORCH),
                "-B",
                "-P",
                "-m",
                "engines.rank",
                str(self.folder / f"{rank}.json"),
            ]
            self.processes[rank] = subprocess.Popen(
                words,
                env=environment,
                stdout=log,
                stderr=log,
            )
        resource.prlimit(self.processes[rank].pid, resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    def environment(self, rank: int, fault: str, slow_s: float) -> dict[str, str]:
        """Return the environment of a rank."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT / "grid"),
            "OMP_NUM_THREADS": "1",
            "CHOROID_TEST_FAULT": fault,
            "CHOROID_TEST_SLOW_S": str(slow_s),
            "CHOROID_TEST_ORDER": str(self.folder / f"{rank}.order"),
        }

    def events(self, rank: int, kind: str = "") -> list[Event]:
        """What a rank has reported, of standard output: its folder may be full."""
        at, found = self._seen.get(rank, (0, []))
        with (self.folder / f"{rank}.log").open("rb") as log:
            log.seek(at)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        found += [json.loads(line) for line in whole.splitlines() if line.startswith(b'{"event"')]
        self._seen[rank] = (at + len(whole), found)
        return [each for each in found if kind in ("", each["event"])]

    def outer(self, rank: int) -> int:
        return max((each["outer"] for each in self.events(rank, "step")), default=0)

    def signal(self, rank: int, number: signal.Signals) -> None:
        os.kill(self.processes[rank].pid, number)
        if number is signal.SIGKILL:
            self.processes[rank].wait()

    def order(self, rank: int, fault: str) -> Path:
        """Let the code package of a rank that runs go wrong once; return the file that is there until it does."""
        part = self.folder / f"{rank}.order.part"
        part.write_text(fault)
        return part.replace(self.folder / f"{rank}.order")

    def set(self, key: str, value: Any) -> None:
        """Change the manifest for ranks that are started from now on."""
        for rank in range(self.count):
            file = self.folder / f"{rank}.json"
            settings = json.loads(file.read_bytes())
            settings["manifest"][key] = value
            file.write_text(json.dumps(settings))

    def digests(self, rank: int) -> dict[int, str]:
        """SHA-256 of the common state after each outer step."""
        return {each["outer"]: each["digest"] for each in self.events(rank, "step")}

    def end(self) -> list[Event]:
        """Wait for all that run; return the last event of each."""
        for rank, process in self.processes.items():
            assert process.wait(240) == 0, (self.folder / f"{rank}.log").read_text()[-2000:]
        return [self.events(rank, "end")[-1] for rank in self.processes]

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._held.close()
