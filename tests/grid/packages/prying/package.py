"""A code package that tries what the lock must deny, and fails when it works."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class Numbers:
    def __len__(self) -> int:
        return 8

    def batch(self, indices: Sequence[int]) -> Tensor:
        return torch.tensor([[float(index)] for index in indices])


def denied(attempt: Callable[[], Any]) -> None:
    try:
        attempt()
    except PermissionError:
        return
    raise RuntimeError(f"the lock did not deny: {attempt.__doc__}")


class PryingTask:
    presets: ClassVar[dict[str, dict[str, int]]] = {"tiny": {}}

    def model(self, preset: str, seed: int) -> nn.Module:
        return nn.Linear(1, 1)

    def data(self, folders: Sequence[Path], split: str) -> Numbers:
        secret = Path(folders[0]).parent / "member" / "identity.key"
        for attempt in (
            secret.read_bytes,
            lambda: secret.with_name("new").write_text("x"),
            lambda: os.listdir("/home"),
            lambda: (Path(folders[0]) / "rows.npy").write_bytes(b""),
            lambda: Path(__file__).write_text(""),
            lambda: subprocess.run(["/bin/sh", "-c", "true"]),
            lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        ):
            denied(attempt)
        Path("own.txt").write_text("the folder of the rank is its own")
        return Numbers()

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return (model(batch) - batch).square().mean()

    def evaluate(self, model: nn.Module, samples: Numbers) -> dict[str, float]:
        return {"loss": 0.0}

    def example(self, preset: str, micro_batch: int, seed: int) -> Any:
        return torch.zeros(micro_batch, 1)


TASK = PryingTask()
