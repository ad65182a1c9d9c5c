"""Data-parallel training within one site: gradients are averaged in each step (torch's DistributedDataParallel).

torch reads the annotations of the hook as objects: this module does without `from __future__ import annotations`.
"""

import math

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from .judge import excluded
from .settings import RankSettings
from .task import Task
from .traffic import predicted_bytes
from .training import Training


class Ddp(Training):
    """The engine for fast links. When a round fails, or a rank is left out, the outer step begins again."""

    def __init__(self, settings: RankSettings, task: Task) -> None:
        super().__init__(settings, task, replicates_optimiser=True)
        self._codec = str(settings.manifest["codec"])
        self._wrapped: tuple[str, DistributedDataParallel] | None = None
        self._out: dict[int, str] = {}
        """Ranks that are left out of this outer step, with the reasons."""
        self._before: bytes = self.replica.packed()
        self._squares = torch.zeros(1, dtype=torch.float64)
        self._spoiled = False
        """Whether an average was not finite: all ranks see the same, and later gradients say nothing of a rank."""

    def advance(self) -> None:
        """Take the steps of one outer step together."""
        self.begin()
        if self.align(self.figures(0.0, 0.0, 0.0, contributes=False)):
            self._before = self.replica.packed()
        computed = self._model()
        locals_ = int(self.settings.manifest["local_steps"])
        losses, longest, self._spoiled = [], 0.0, False
        for local in range(locals_):
            self._squares.zero_()
            losses.append(self.replica.step(local, computed))
            length = math.sqrt(float(self._squares)) if bool(self._squares.isfinite().all()) else math.inf
            longest = max(longest, length)
            if self._spoiled:
                break
        found = self.figures(
            longest, longest, sum(losses) / len(losses), contributes=self.settings.rank not in self._out
        )
        out = excluded(found)
        if out:
            self._out |= {self.members[place]: reason for place, reason in out.items()}
            self._return()
            if len(self._out) == len(self.members):
                self._out = {}
                raise RuntimeError("no gradient of this round can be counted")
            return
        self.replica.take_own()
        counted = [rank for rank in self.members if rank not in self._out]
        each = predicted_bytes(self.replica.numbers, len(self.members), self._codec)
        loss = sum(found[self.members.index(rank)].loss for rank in counted) / len(counted)
        out_now, self._out = self._out, {}
        self._before = self.replica.packed()
        self.commit(loss, counted, out_now, each * locals_)

    def give_up(self) -> None:
        """Return to the state before the outer step."""
        self._out = {}
        self._return()

    def _return(self) -> None:
        self.replica.take(self._before)

    def _model(self) -> DistributedDataParallel:
        if self._wrapped is None or self._wrapped[0] != self.group.generation:
            self._wrapped = None
            wrapped = DistributedDataParallel(self.replica.loss)
            wrapped.register_comm_hook(None, self._averaged)
            self._wrapped = (self.group.generation, wrapped)
        return self._wrapped[1]

    def _averaged(self, _: object, bucket: dist.GradBucket) -> Future[Tensor]:
        """Average a bucket of gradients over the ranks that are counted."""
        own: Tensor = bucket.buffer()
        self._squares += own.double().square().sum()
        if self.settings.rank in self._out:
            own.zero_()
        counted = sum(rank not in self._out for rank in self.members)
        sent = (own / counted).half() if self._codec == "fp16" else own / counted
        work = dist.all_reduce(sent, async_op=True)
        return work.get_future().then(lambda done: self._taken(own, done.value()[0]))

    def _taken(self, own: Tensor, average: Tensor) -> Tensor:
        self._spoiled |= not bool(average.isfinite().all())
        return own.copy_(average)
