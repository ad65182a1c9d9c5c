"""Weights as safetensors: no pickle, and the preset follows from the shapes."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from .model import OrganoidModel
from .presets import SIZES, Size


class WeightsError(Exception):
    """A checkpoint that is not one of this model. The message says what to do."""


def save(model: OrganoidModel, path: Path) -> None:
    """Write the weights of a model."""
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, path)


def load(path: Path) -> tuple[str, OrganoidModel]:
    """Return preset and model of a checkpoint.

    Raises:
        WeightsError: It cannot be read, is of another model, or holds values that are not finite.
    """
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise WeightsError(
            f"{path}: no weights can be read ({error}). Next: give a checkpoint of organoid-lm, a .safetensors file"
        ) from None
    shapes = {name: tuple(value.shape) for name, value in found.items()}
    fitting = [preset for preset, size in SIZES.items() if shapes == _shapes(size)]
    if not fitting:
        raise WeightsError(
            f"{path}: its tensors are of no preset of this model ({', '.join(SIZES)}). Likely cause: another model, or"
            " another release. Next: give a checkpoint that this release made"
        )
    odd = sorted(name for name, value in found.items() if not bool(torch.isfinite(value).all()))
    if odd:
        raise WeightsError(f"{path}: the tensor {odd[0]} is not finite. Next: go back to an earlier checkpoint")
    model = OrganoidModel(SIZES[fitting[0]])
    model.load_state_dict(found)
    return fitting[0], model


def _shapes(size: Size) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        model = OrganoidModel(size)
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}
