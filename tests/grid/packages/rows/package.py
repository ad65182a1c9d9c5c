"""A small code package for tests: a network learns a fixed function of eight numbers.

`CHOROID_TEST_FAULT` in the environment of a rank makes it go wrong: nan, long, shape, lie, exchange, checkpoint, evaluation.
The file that `CHOROID_TEST_ORDER` names does so once while it runs: nan, long, lie.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

FAULT = os.environ.get("CHOROID_TEST_FAULT", "")
SLOW_S = float(os.environ.get("CHOROID_TEST_SLOW_S", "0"))
ORDER = Path(os.environ.get("CHOROID_TEST_ORDER", "none"))
BAD_STEPS = (7, 8)
"""Local steps in which a model goes wrong; each outer step of these tests has four."""


class Rows:
    def __init__(self, values: Tensor) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, indices: Sequence[int]) -> Tensor:
        return self.values[list(indices)]


class RowsTask:
    presets: ClassVar = {"tiny": {"width": 32}, "wide": {"width": 512}, "large": {"width": 1500}}

    def __init__(self) -> None:
        self._steps = 0

    def model(self, preset: str, seed: int) -> nn.Module:
        width = self.presets[preset]["width"] + (8 if FAULT == "shape" else 0)
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def data(self, folders: Sequence[Path], split: str) -> Rows:
        found = [np.load(path) for folder in folders for path in sorted(Path(folder).glob("*.npy"))]
        return Rows(torch.from_numpy(np.concatenate(found)))

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        self._steps += 1
        time.sleep(SLOW_S)
        fault = FAULT if self._steps in BAD_STEPS else ordered("nan", "long")
        if fault in ("nan", "long"):
            with torch.no_grad():
                for each in model.parameters():
                    each.mul_(float("nan") if fault == "nan" else 1e6)
        return nn.functional.mse_loss(model(batch[:, :8])[:, 0], batch[:, 8])

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def evaluate(self, model: nn.Module, samples: Rows) -> dict[str, float]:
        if FAULT == "evaluation":
            time.sleep(25.0)
        return {"loss": float(nn.functional.mse_loss(model(samples.values[:, :8])[:, 0], samples.values[:, 8]))}

    def example(self, preset: str, micro_batch: int, seed: int) -> Any:
        return torch.randn(micro_batch, 9, generator=torch.Generator().manual_seed(seed))


def ordered(*faults: str) -> str:
    """Return which of these faults was ordered, once; empty for none."""
    with contextlib.suppress(OSError):
        if (found := ORDER.read_text()) in faults:
            ORDER.unlink()
            return found
    return ""


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _go_wrong() -> None:
    """Change the engine of this process, as a bad member could."""
    checkpoints: Any = importlib.import_module("engines.checkpoints")
    diloco: Any = importlib.import_module("engines.diloco")

    exchanges, writes = itertools.count(1), itertools.count(1)
    mean_of, each_of, write = diloco.mean_of, diloco.each_of, checkpoints.write_whole

    lies = False

    def changed(update: Tensor, *others: Any) -> Any:
        nonlocal lies
        number = next(exchanges)
        if FAULT == "exchange" and number == 2:
            _die()
        lies = (FAULT == "lie" and number == 2) or bool(ordered("lie"))
        return mean_of(update * 1e6 if lies else update, *others)

    def false(update: Tensor, members: int) -> Any:
        return each_of(update * 1e6 if lies else update, members)

    def torn(path: Path, data: bytes) -> None:
        if FAULT == "checkpoint" and next(writes) == 5:
            path.with_name(f".{path.name}.part").write_bytes(data[: len(data) // 2])
            _die()
        write(path, data)

    diloco.mean_of, diloco.each_of = changed, false
    checkpoints.write_whole = torn


if FAULT in ("lie", "exchange", "checkpoint") or ORDER.is_absolute():
    _go_wrong()
TASK = RowsTask()
