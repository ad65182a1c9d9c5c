"""A small code package for measurements: residual blocks on random features, and no data but what it makes itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

FEATURES = 64
CLASSES = 16
LENGTH = 64
Batch = tuple[torch.Tensor, torch.Tensor]


class Block(torch.nn.Module):  # type: ignore[misc]  # torch is in another environment
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return given + self.down(torch.nn.functional.gelu(self.up(self.norm(given))))


class Stack(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.enter = torch.nn.Linear(FEATURES, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.leave = torch.nn.Linear(width, CLASSES)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        state = self.enter(given)
        for block in self.blocks:
            state = block(state)
        return self.leave(state)


class Made:
    """Samples that a seed makes; the classes are those of a fixed random projection."""

    def __init__(self, split: str, count: int = 256) -> None:
        made = torch.Generator().manual_seed(len(split))
        self.given = torch.randn(count, LENGTH, FEATURES, generator=made)
        self.wanted = (self.given @ torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(7))).argmax(
            -1
        )

    def __len__(self) -> int:
        return len(self.given)

    def batch(self, indices: Sequence[int]) -> Batch:
        return self.given[list(indices)], self.wanted[list(indices)]


class Blocks:
    presets: Mapping[str, Mapping[str, int | float]] = {
        "tiny": {"width": 64, "layers": 4},
        "small": {"width": 256, "layers": 4},
        "base": {"width": 512, "layers": 6},
        "large": {"width": 768, "layers": 6},
    }

    def model(self, preset: str, seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        size = self.presets[preset]
        return Stack(int(size["width"]), int(size["layers"]))

    def data(self, folders: Sequence[Path], split: str) -> Made:
        return Made(split)

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        given, wanted = batch
        return torch.nn.functional.cross_entropy(model(given).flatten(0, -2), wanted.flatten())

    def evaluate(self, model: torch.nn.Module, samples: Made) -> dict[str, float]:
        with torch.no_grad():
            return {"loss": float(self.loss(model, samples.batch(range(len(samples)))))}

    def example(self, preset: str, micro_batch: int, seed: int) -> Batch:
        return Made(preset, micro_batch).batch(range(micro_batch))


TASK = Blocks()
