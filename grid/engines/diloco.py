"""DiLoCo: ranks train apart for some steps, then move the common weights by the mean of their updates (Nesterov)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .exchange import each_of, mean_of
from .judge import Figures, excluded, form_of, source_of
from .settings import RankSettings
from .task import Task
from .traffic import predicted_bytes
from .training import Training

TOLERANCE = 1.05
"""The mean may be so many times as long as the longest update that was announced: it is rounded."""


class DiLoCo(Training):
    """The engine for slow links. When a round fails, its local steps are kept for the next."""

    def __init__(self, settings: RankSettings, task: Task) -> None:
        super().__init__(settings, task, replicates_optimiser=False)
        self._codec = str(settings.manifest["codec"])
        self._loss = 0.0
        self._trained = False
        """Whether the local steps of the next outer step are done."""
        self._entered = False

    def advance(self) -> None:
        """Take the local steps if there are none, and exchange them."""
        if self._entered and not self._trained:
            locals_ = int(self.settings.manifest["local_steps"])
            self._loss = sum(self.replica.step(local, self.replica.loss) for local in range(locals_)) / locals_
            self._trained = True
        update = self.replica.update() if self._trained else torch.zeros(self.replica.numbers)
        self.begin()
        peak = float(update.abs().max())
        found = self.figures(float(update.double().norm()), peak, self._loss, contributes=self._trained)
        fits = (self.replica.numbers, self.replica.shapes) == form_of(found)
        if self.align(found):
            self._trained = False
        self._entered = True
        self._exchange(update, found, fits=fits)

    def _exchange(self, update: Tensor, found: Sequence[Figures], *, fits: bool) -> None:
        out = excluded(found)
        source, behind = source_of(found, self.settings.manifest["outer_steps"])
        counted = [place for place, each in enumerate(found) if each.contributes and place not in {*out, *behind}]
        if not counted:
            self._none_counted(out, found)
            return
        place = self.members.index(self.settings.rank)
        sends = update if place in counted else torch.zeros(form_of(found)[0])
        mean, lost = mean_of(sends, len(counted), max(found[each].peak for each in counted), self._codec)
        predicted = predicted_bytes(sends.numel(), len(found), self._codec)
        checked = False
        longest = max(found[each].norm for each in counted)
        if not float(mean.double().norm()) <= TOLERANCE * longest + 1e-12:  # also when it is not finite
            checked = True
            mean, lies = self._unmasked(sends, found, counted)
            out |= lies
            lost = torch.zeros(0)
            predicted += 4.0 * (len(found) - 1) * sends.numel()
        if fits:
            self.replica.advance(mean)
        else:
            self.replica.outer = found[source].outer + 1
        if place in out:
            self.replica.reset_optimiser()
        elif lost.numel() and fits:
            self.replica.lost.copy_(lost)
        self._trained = False
        loss = sum(found[each].loss for each in counted) / len(counted)
        ranks = [self.members[each] for each in counted if each not in out]
        self.commit(
            loss, ranks, {self.members[each]: reason for each, reason in out.items()}, predicted, checked=checked
        )

    def _none_counted(self, out: dict[int, str], found: Sequence[Figures]) -> None:
        """Return to the common weights if no update can be counted; a round of ranks that have just come is no step."""
        self.presence.settle()
        if any(each.contributes for each in found):
            self._trained = False
            self.replica.return_to_shared()
            self.replica.reset_optimiser()
            reasons = {str(self.members[each]): reason for each, reason in out.items()}
            self.reports.say("none", outer=self.replica.outer, excluded=reasons)
            raise RuntimeError("no update of this round can be counted")

    def _unmasked(
        self, sends: Tensor, found: Sequence[Figures], counted: Sequence[int]
    ) -> tuple[Tensor, dict[int, str]]:
        """Look at each update by itself, because their mean is not what was announced; return the mean of the good ones."""
        lies: dict[int, str] = {}
        total, good = torch.zeros_like(sends), 0
        updates = each_of(sends, len(found))
        for place, update in enumerate(updates):
            norm = float(update.double().norm())
            announced = found[place].norm if place in counted else 0.0
            if not math.isfinite(norm) or norm > TOLERANCE * announced + 1e-12:
                lies[place] = f"it sent another update than it announced (length {norm:.3g} for {announced:.3g})"
            elif place in counted:
                total += update
                good += 1
        return total / max(good, 1), lies
