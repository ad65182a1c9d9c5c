"""Train a model in one process."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from .model import OrganoidModel
from .samples import WindowSamples
from .scoring import loss_of, scores_of

STEEPEST = 1.0
"""Largest norm of a gradient."""
LAST_RATE = 0.05
"""Of the learning rate at the last step, as a share of the highest."""


@dataclass(frozen=True, slots=True)
class FitPlan:
    """How a model is trained.

    `rate` is the highest learning rate; it rises over `warm` steps and falls along a cosine. With held-out windows the model
    is scored every `look` steps. Training ends when `patience` looks in a row found nothing better, and the model has the
    weights of the lowest loss.
    """

    steps: int
    rows: int
    rate: float
    decay: float = 0.02
    warm: int = 50
    look: int = 100
    patience: int = 4


def fit(
    model: OrganoidModel,
    samples: WindowSamples,
    course: FitPlan,
    *,
    seed: int,
    held: WindowSamples | None = None,
    say: Callable[[int, float], None] = lambda step, loss: None,
) -> list[tuple[int, float]]:
    """Train a model on windows, in an order that the seed gives.

    Args:
        model: It is changed.
        samples: What it learns from.
        course: How.
        seed: Of order and of the rows that do without embeddings.
        held: Windows that decide with which weights it ends; None: with the last ones.
        say: Called with step and loss of held-out windows, or of the batch.

    Returns:
        The same steps and losses.
    """
    torch.manual_seed(seed)
    model.train()
    optimiser = torch.optim.AdamW(_groups(model, course.decay), lr=course.rate, betas=(0.9, 0.98))
    order, seen = np.zeros(0, np.int64), []
    best, kept, epoch, vain = math.inf, None, 0, 0
    for step in range(1, course.steps + 1):
        while len(order) < course.rows:
            order = np.concatenate([order, np.random.default_rng([seed, epoch]).permutation(len(samples))])
            epoch += 1
        chosen, order = order[: course.rows], order[course.rows :]
        for group in optimiser.param_groups:
            group["lr"] = course.rate * rate_at(step, course)
        loss = loss_of(model, samples.batch(chosen.tolist()))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), STEEPEST)
        optimiser.step()
        if step % course.look == 0 or step == course.steps:
            found = float(loss.detach()) if held is None else scores_of(model, held)["loss"]
            seen.append((step, found))
            say(step, found)
            if held is not None and found < best:
                best, kept, vain = found, copy.deepcopy(model.state_dict()), 0
            elif held is not None and (vain := vain + 1) == course.patience:
                break
    if kept is not None:
        model.load_state_dict(kept)
    return seen


def rate_at(step: int, course: FitPlan) -> float:
    """Return the learning rate of a step as a share of the highest."""
    if step < course.warm:
        return step / course.warm
    along = (step - course.warm) / max(course.steps - course.warm, 1)
    return LAST_RATE + (1.0 - LAST_RATE) * 0.5 * (1.0 + math.cos(math.pi * along))


def _groups(model: OrganoidModel, decay: float) -> list[dict[str, object]]:
    """Return the parameters with weight decay (matrices) and without; embeddings are drawn to zero more strongly."""
    named = list(model.named_parameters())
    return [
        {"params": [p for n, p in named if p.dim() > 1 and n != "table.weight"], "weight_decay": decay},
        {"params": [p for n, p in named if p.dim() <= 1], "weight_decay": 0.0},
        {"params": [model.table.weight], "weight_decay": decay},
    ]
