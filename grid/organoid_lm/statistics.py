"""What a minute of spontaneous activity says of each electrode: how a model knows an organoid that it has never seen.

The same function serves the reader of recordings and the graph of an exported model: it consists of tensor operations only.
"""

from __future__ import annotations

import torch
from torch import Tensor

FIGURES = 12
"""Figures of each electrode."""
FEW = 1e-3
"""Added to rates (spikes in a bin) before their logarithm."""


def statistics(past: Tensor) -> Tensor:
    """Return figures of each electrode, shape (electrodes, `FIGURES`); the first is the logarithm of its mean count.

    Args:
        past: Spike counts by window, bin and electrode.
    """
    mean = past.mean(dim=(0, 1))
    array = past.sum(dim=2, keepdim=True)
    others = array - past
    varied = past - mean
    spread = (varied * varied).mean(dim=(0, 1))
    apart = others - others.mean(dim=(0, 1))
    whole = array - array.mean()
    power = (whole * whole).mean()
    own = [
        torch.log(mean + FEW),
        torch.log((spread + FEW) / (mean + FEW)),
        torch.log(mean + FEW) - torch.log(mean.mean() + FEW),
        *(_correlation(varied[:, lag:], apart[:, : past.shape[1] - lag]) for lag in (0, 1, 3)),
        *(_correlation(varied[:, lag:], varied[:, : past.shape[1] - lag]) for lag in (1, 3)),
    ]
    shared = [
        torch.log(array.mean() + FEW),
        torch.log((power + FEW) / (array.mean() + FEW)),
        *(_correlation(whole[:, lag:], whole[:, : past.shape[1] - lag])[0] for lag in (1, 4)),
    ]
    return torch.stack([*own, *(each.expand_as(mean) for each in shared)], dim=1)


def _correlation(one: Tensor, other: Tensor) -> Tensor:
    """Return the correlation over windows and bins of deviations from a mean, for each electrode."""
    product = (one * other).mean(dim=(0, 1))
    return product / torch.sqrt((one * one).mean(dim=(0, 1)) * (other * other).mean(dim=(0, 1)) + FEW**2)
