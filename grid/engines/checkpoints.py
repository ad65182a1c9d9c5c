"""Checkpoints of a rank: safetensors named by their SHA-256, written whole or not at all; a damaged one is passed over."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors
from safetensors.torch import load, save
from torch import Tensor

KEPT = 2


@dataclass(frozen=True, slots=True)
class RankState:
    """What a checkpoint holds.

    Attributes:
        outer: Outer steps that are behind it.
        common: What all ranks have in common.
        own: What this rank has for itself: optimiser, feedback of what was lost.
        sent: Bytes that this rank has sent.
        cpu_s: Processor time that it has used (s).
    """

    outer: int
    common: Mapping[str, Tensor]
    own: Mapping[str, Tensor]
    sent: int
    cpu_s: float


class RankCheckpoints:
    """The checkpoints in the folder of a rank.

    Attributes:
        passed_over: Why newer ones were not taken by :meth:`newest`.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._objects = folder / "objects"
        self._job = job
        self.passed_over: list[str] = []
        self._objects.mkdir(parents=True, exist_ok=True)

    def write(self, checkpoint: RankState) -> str:
        """Keep a checkpoint; return the SHA-256 of what all ranks have in common.

        Raises:
            OSError: The disk is full; the previous checkpoint stays.
        """
        about = {
            "job": self._job,
            "outer": checkpoint.outer,
            "common": self.put(save(dict(checkpoint.common))),
            "own": self.put(save(dict(checkpoint.own))),
            "sent": checkpoint.sent,
            "cpu_s": checkpoint.cpu_s,
        }
        write_whole(self._folder / f"checkpoint-{checkpoint.outer:09d}.json", json.dumps(about).encode())
        self._remove_old()
        return str(about["common"])

    def newest(self) -> RankState | None:
        """Return the newest checkpoint that is whole; None without one."""
        self.passed_over = []
        for path in reversed(self._written()):
            try:
                about = json.loads(path.read_bytes())
                if about["job"] != self._job:
                    raise ValueError("it is of another job")
                common, own = (load(self._get(about[part])) for part in ("common", "own"))
                return RankState(about["outer"], common, own, about["sent"], about["cpu_s"])
            except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
                self.passed_over.append(f"{path.name} is passed over: {error}")
        return None

    def put(self, data: bytes) -> str:
        """Keep bytes under their SHA-256, and return it. Raises OSError."""
        name = hashlib.sha256(data).hexdigest()
        try:
            self._get(name)
        except (OSError, ValueError):
            write_whole(self._objects / name, data)
        return name

    def _get(self, name: str) -> bytes:
        data = (self._objects / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != name:
            raise ValueError(f"the object {name[:16]} is damaged")
        return data

    def _written(self) -> list[Path]:
        return sorted(self._folder.glob("checkpoint-*.json"))

    def _remove_old(self) -> None:
        for path in self._written()[:-KEPT]:
            path.unlink()
        named = set()
        for path in self._written():
            with contextlib.suppress(ValueError):  # a damaged one names nothing
                about = json.loads(path.read_bytes())
                named |= {about["common"], about["own"]}
        for path in self._objects.iterdir():
            if path.name not in named:
                path.unlink()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that appears when it is complete and on the disk. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
