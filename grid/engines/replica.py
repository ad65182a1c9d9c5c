"""The model at one rank: what all ranks have in common, and what this one has for itself."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from .order import indices
from .recompute import recompute
from .settings import RankSettings
from .task import Samples, Task


class TaskLoss(nn.Module):  # torch has no types here
    """The loss of a model on a batch, as a module: wrappers take nothing else."""

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self._task = task
        self.model = model

    def forward(self, batch: Any) -> Tensor:
        """Return the mean loss of a batch."""
        return self._task.loss(self.model, batch)


class ModelReplica:
    """Model, optimisers and position of one rank.

    Attributes:
        model: The model; between synchronisations its weights are this rank's own.
        loss: Its loss.
        shared: The weights that all ranks have in common, as one vector.
        outer: Outer steps that are behind it.
        lost: What this rank's form of its updates has lost so far; it is added to the next one.
        replicates_optimiser: Whether all ranks have the state of the optimiser of a rank in common, too.
    """

    def __init__(self, settings: RankSettings, task: Task, samples: Samples, *, replicates_optimiser: bool) -> None:
        """Make the model.

        Raises:
            ValueError: Training would change more of the model than its parameters, or they are not of 32 bits.
        """
        self._settings, self._task, self._samples = settings, task, samples
        plain = settings.manifest
        self.model = task.model(plain["preset"], plain["seeds"]["model"])
        if plain.get("recompute") and not recompute(self.model):
            raise ValueError("the model has no blocks to compute again. Next: take recompute out of the manifest")
        self.loss = TaskLoss(task, self.model)
        self._parameters = [each for each in self.model.parameters() if each.requires_grad]
        buffers = [name for name in self.model.state_dict() if name in dict(self.model.named_buffers())]
        if any(self.model.get_buffer(name).is_floating_point() for name in buffers):
            raise ValueError(
                f"the model keeps {buffers[0]} in a buffer, which ranks do not exchange. Next: register constants with"
                " persistent=False, and use a norm without running figures"
            )
        if any(each.dtype != torch.float32 for each in self._parameters):
            raise ValueError("a parameter is not float32. Next: choose precision: bf16 for computing in 16 bits")
        self.shared = nn.Parameter(self._flat())
        self.outer = 0
        self.lost = torch.zeros_like(self.shared)
        self.replicates_optimiser = replicates_optimiser
        self._outer_optimiser = torch.optim.SGD(
            [self.shared],
            lr=plain["outer"]["rate"],
            momentum=plain["outer"]["momentum"],
            nesterov=plain["outer"]["momentum"] > 0,
        )
        self.reset_optimiser()

    @property
    def numbers(self) -> int:
        """Return how many numbers the weights are."""
        return int(self.shared.numel())

    @property
    def shapes(self) -> int:
        """Return a number that differs when the shapes of parameters differ."""
        text = str([tuple(each.shape) for each in self._parameters])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def reset_optimiser(self) -> None:
        """Begin with a new optimiser of this rank, and forget what was lost."""
        inner = self._settings.manifest["inner"]
        self._inner_optimiser = torch.optim.AdamW(self._parameters, lr=inner["rate"], weight_decay=inner["decay"])
        self.lost.zero_()

    def step(self, local: int, loss_of: nn.Module) -> float:
        """Take one local step; return the loss.

        Args:
            local: Its number in the outer step.
            loss_of: Computes the loss of a batch: :attr:`loss`, or that in a wrapper that synchronises gradients.
        """
        plain, inner = self._settings.manifest, self._settings.manifest["inner"]
        chosen = indices(
            len(self._samples),
            seed=plain["seeds"]["order"],
            outer=self.outer,
            local=local,
            locals_=plain["local_steps"],
            rank=self._settings.rank,
            ranks=self._settings.ranks,
            batch=plain["batch"],
        )
        micro = plain["micro_batch"] or len(chosen)
        torch.manual_seed(hash((plain["seeds"]["order"], self.outer, local, self._settings.rank)))
        self._inner_optimiser.zero_grad()
        total = 0.0
        for first in range(0, len(chosen), micro):
            part = chosen[first : first + micro]
            is_last = first + micro >= len(chosen)
            waits = contextlib.nullcontext() if is_last or loss_of is self.loss else loss_of.no_sync()
            with waits:
                with torch.autocast("cpu", torch.bfloat16, enabled=plain["precision"] == "bf16"):
                    loss = loss_of(self._samples.batch(part)) * (len(part) / len(chosen))
                loss.backward()
            total += float(loss.detach())
        nn.utils.clip_grad_norm_(self._parameters, inner["clip"])
        done = self.outer * plain["local_steps"] + local + 1
        for group in self._inner_optimiser.param_groups:
            group["lr"] = inner["rate"] * min(1.0, done / max(inner["warm_up"], 1))
        self._inner_optimiser.step()
        return total

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def update(self) -> Tensor:
        """Return how far this rank has gone from the common weights, with what was lost before."""
        return self.shared.detach() - self._flat() + self.lost

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def advance(self, mean: Tensor) -> None:
        """Move the common weights by the mean of the updates, and go on from there."""
        self.shared.grad = mean
        self._outer_optimiser.step()
        self.outer += 1
        self.return_to_shared()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def take_own(self) -> None:
        """Make the weights of this rank the common ones: where ranks synchronise in each step, they are equal."""
        self.shared.copy_(self._flat())
        self.outer += 1

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def return_to_shared(self) -> None:
        """Give up the local steps: the model has the common weights."""
        nn.utils.vector_to_parameters(self.shared.detach().clone(), self._parameters)

    def common(self) -> dict[str, Tensor]:
        """Return what all ranks have in common."""
        momentum = self._outer_optimiser.state[self.shared].get("momentum_buffer")
        found = {
            "outer": torch.tensor([self.outer]),
            "shared": self.shared.detach(),
            "momentum": torch.zeros(0) if momentum is None else momentum,
        }
        return found | (self._inner() if self.replicates_optimiser else {})

    def own(self) -> dict[str, Tensor]:
        """Return what this rank has for itself."""
        return {"lost": self.lost} | ({} if self.replicates_optimiser else self._inner())

    def digest(self) -> bytes:
        """Return the SHA-256 of what all ranks have in common."""
        found = hashlib.sha256()
        for name, value in sorted(self.common().items()):
            found.update(name.encode())
            found.update(np.ascontiguousarray(value.numpy()).data)
        return found.digest()

    def packed(self) -> bytes:
        """Return what all ranks have in common as safetensors."""
        return bytes(save(self.common()))

    def take(self, data: bytes) -> None:
        """Take what another rank has packed, and begin with a new optimiser if that is not part of it."""
        self.reset_optimiser()
        self.restore(load(data), {})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def restore(self, common: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
        """Take a state.

        Raises:
            ValueError: It is of a model of another size, or not finite.
        """
        if common["shared"].numel() != self.numbers or not math.isfinite(float(common["shared"].sum())):
            raise ValueError("the state is of another model, or not finite. Next: begin the job in a new folder")
        self.outer = int(common["outer"].item())
        self.shared.copy_(common["shared"])
        state = self._outer_optimiser.state[self.shared]
        state["momentum_buffer"] = common["momentum"].clone() if common["momentum"].numel() else None
        if "lost" in own:
            self.lost.copy_(own["lost"])
        inner = {**common, **own}
        for number, each in enumerate(self._parameters):
            if f"inner.{number}.step" in inner:
                names = ("step", "exp_avg", "exp_avg_sq")
                self._inner_optimiser.state[each] = {name: inner[f"inner.{number}.{name}"].clone() for name in names}
        self.return_to_shared()

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def scores(self, samples: Samples) -> dict[str, float]:
        """Return the scores of the common weights on samples that were held out."""
        own = self._flat()
        self.return_to_shared()
        self.model.eval()
        try:
            return self._task.evaluate(self.model, samples)
        finally:
            self.model.train()
            nn.utils.vector_to_parameters(own, self._parameters)

    def weights(self) -> bytes:
        """Return the common weights by their names, as safetensors."""
        self.return_to_shared()
        return bytes(save({name: value.detach().clone() for name, value in self.model.state_dict().items()}))

    def _inner(self) -> dict[str, Tensor]:
        return {
            f"inner.{number}.{name}": value
            for number, each in enumerate(self._parameters)
            for name, value in self._inner_optimiser.state[each].items()
        }

    def _flat(self) -> Tensor:
        return nn.utils.parameters_to_vector(self._parameters).detach().clone()
