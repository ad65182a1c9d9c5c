"""The contract of a code package: a folder of Python files with `package.py`, which defines `TASK: Task`.

The package says what is trained on which data; the engine decides the order of samples, the steps and the synchronisation.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

MODULE = "package"


class Samples(Protocol):
    """Samples of one split."""

    def __len__(self) -> int:
        """Return how many samples there are."""

    def batch(self, indices: Sequence[int]) -> Any:
        """Return the samples of these indices as one batch: a tensor, or tensors in a dictionary or tuple."""


class Task(Protocol):
    """What a code package trains.

    Attributes:
        presets: Sizes of the model by name.
    """

    presets: Mapping[str, Mapping[str, int | float]]

    def model(self, preset: str, seed: int) -> torch.nn.Module:
        """Return a new model; the same preset and seed give the same weights."""

    def data(self, folders: Sequence[Path], split: str) -> Samples:
        """Return the samples of a split (“train”, “test” or another name) in the folders of data sets."""

    def loss(self, model: torch.nn.Module, batch: Any) -> torch.Tensor:
        """Return the mean loss of a batch, a scalar."""

    def evaluate(self, model: torch.nn.Module, samples: Samples) -> dict[str, float]:
        """Return scores of a model on samples that were held out; “loss” is always among them."""

    def example(self, preset: str, micro_batch: int, seed: int) -> Any:
        """Return a batch of the right shape that needs no data, for measurements."""


def load_task(folder: Path) -> Task:
    """Import a code package from its folder; its modules import each other relatively.

    Args:
        folder: The package. Its name is the name under which it is imported.

    Raises:
        AttributeError: It defines no `TASK`; and what its import raises.
    """
    folder = folder.resolve()
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))  # last: nothing in that folder may take the place of a library
    task: Task = importlib.import_module(f"{folder.name}.{MODULE}").TASK
    return task
