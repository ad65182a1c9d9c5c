"""The mean of the updates of a round: as numbers of 32 or 16 bits, or of 8 bits with feedback of what was lost."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from .traffic import BLOCK

PART = 1 << 20
"""Numbers that one collective sends: on a slow link each one ends within its time, however large the model is."""


def mean_of(update: Tensor, counted: int, peak: float, codec: str) -> tuple[Tensor, Tensor]:
    """Return the mean of the updates of the members that are counted, and what this member's form has lost.

    Args:
        update: Of this member; zero when it is not counted.
        counted: How many are counted.
        peak: Highest magnitude in any of them.
        codec: Form in which they are sent.
    """
    if codec == "int8":
        parts = [_mean_int8(part, counted) for part in update.split(PART)]
        return torch.cat([mean for mean, _ in parts]), torch.cat([lost for _, lost in parts])
    if codec == "fp32":
        whole = update.clone()
        _sum(whole)
        return whole / counted, torch.zeros(0)
    bound = max(peak, 1e-30) * counted
    half = (update / bound).half()  # the sum is within -1 and 1
    _sum(half)
    return half.float() * (bound / counted), torch.zeros(0)


def _sum(values: Tensor) -> None:
    """Replace numbers by the sums of those of all members, part by part."""
    for work in [dist.all_reduce(part, async_op=True) for part in values.split(PART)]:
        work.wait()


def _mean_int8(update: Tensor, counted: int) -> tuple[Tensor, Tensor]:
    """Return the mean and what was lost: each member sums one part of all updates, and passes the sum on."""
    members, place = dist.get_world_size(), dist.get_rank()
    size = -(-update.numel() // (members * BLOCK)) * BLOCK  # of a part
    padded = torch.nn.functional.pad(update, (0, members * size - update.numel()))
    whole, scales = _quantised(padded)
    lost = padded - _restored(whole, scales)
    parts, part_scales = torch.empty_like(whole), torch.empty_like(scales)
    dist.all_to_all_single(parts, whole)
    dist.all_to_all_single(part_scales, scales)
    part = _restored(parts, part_scales).view(members, size).sum(0)
    sent, sent_scales = _quantised(part)
    lost[place * size : (place + 1) * size] += part - _restored(sent, sent_scales)
    dist.all_gather(list(whole.view(members, -1)), sent)
    dist.all_gather(list(scales.view(members, -1)), sent_scales)
    count = update.numel()
    return _restored(whole, scales)[:count] / counted, lost[:count]


def _quantised(values: Tensor) -> tuple[Tensor, Tensor]:
    blocks = values.view(-1, BLOCK)
    scales = blocks.abs().amax(1) / 127.0
    return (blocks / scales.clamp_min(1e-30)[:, None]).round().to(torch.int8).view(-1), scales


def _restored(values: Tensor, scales: Tensor) -> Tensor:
    return (values.view(-1, BLOCK).float() * scales[:, None]).view(-1)


def each_of(update: Tensor, members: int) -> list[Tensor]:
    """Return the update of every member as it sends it (float32), which costs N - 1 updates of traffic."""
    found = [torch.empty_like(update) for _ in range(members)]
    for number, part in enumerate(update.split(PART)):
        dist.all_gather([each.split(PART)[number] for each in found], part)
    return found
