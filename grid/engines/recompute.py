"""Activation checkpointing: the blocks of a model keep their inputs only and compute the rest again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


def blocks(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the repeated blocks of a model: the entries of its outermost lists of modules, else of its sequences."""
    return list(_entries(model, torch.nn.ModuleList)) or list(_entries(model, torch.nn.Sequential))


def recompute(model: torch.nn.Module) -> int:
    """Let the blocks of a model compute their activations again in the backward pass.

    Args:
        model: The model; it is changed in place, and its weights and their names stay.

    Returns:
        How many blocks; 0 when the model has none, and then nothing has changed.
    """
    found = blocks(model)
    for block in found:
        block.forward = _recomputed(block.forward)
    return len(found)


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def again(*inputs: Any, **named: Any) -> Any:
        return checkpoint(forward, *inputs, use_reentrant=False, **named)

    return again


def _entries(module: torch.nn.Module, kind: type[torch.nn.Module]) -> Iterator[torch.nn.Module]:
    for child in module.children():
        if isinstance(child, kind):
            yield from child.children()
        else:
            yield from _entries(child, kind)
