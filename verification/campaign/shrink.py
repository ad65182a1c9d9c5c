"""Reduce a failing schedule of faults to the shortest that still fails: delta debugging (Zeller and Hildebrandt,
2002).

First whole faults are removed, then the rest is made shorter and simpler. A candidate counts when it still breaks
the same invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sim.faults.schedule import Fault
from verification.campaign.world import Trial

Fails = Callable[[Trial], bool]
MAX_TRIES = 80
SHORTEST_S = 1.0


class Shrinker:
    """Reduces one failing trial with at most `max_tries` tries; `tries` counts them."""

    def __init__(self, fails: Fails, *, max_tries: int = MAX_TRIES) -> None:
        self._fails = fails
        self._max_tries = max_tries
        self.tries = 0

    def shrink(self, trial: Trial) -> Trial:
        """Return the shortest trial found that still fails; `trial` itself must fail."""
        trial = self._fewer(trial)
        trial = self._shorter(trial)
        return self._simpler(trial)

    def _holds(self, trial: Trial) -> bool:
        if self.tries >= self._max_tries:
            return False
        self.tries += 1
        return self._fails(trial)

    def _fewer(self, trial: Trial) -> Trial:
        """Remove faults by the ddmin algorithm."""
        faults: tuple[Fault, ...] = trial.faults
        if faults and self._holds(trial.with_faults(())):
            return trial.with_faults(())
        parts = 2
        while len(faults) >= 2 and self.tries < self._max_tries:
            chunks = _chunks(faults, parts)
            smaller = self._first_failing(trial, chunks)
            if smaller is not None:
                faults, parts = smaller, 2
                continue
            rests = [_without(chunks, index) for index in range(len(chunks))] if parts > 2 else []
            smaller = self._first_failing(trial, rests)
            if smaller is not None:
                faults, parts = smaller, max(parts - 1, 2)
                continue
            if parts >= len(faults):
                break
            parts = min(len(faults), 2 * parts)
        return trial.with_faults(faults)

    def _first_failing(self, trial: Trial, candidates: Sequence[tuple[Fault, ...]]) -> tuple[Fault, ...] | None:
        """Return the first of several sets of faults with which the violation still occurs, or None."""
        return next((faults for faults in candidates if self._holds(trial.with_faults(faults))), None)

    def _shorter(self, trial: Trial) -> Trial:
        """Shorten each fault, then the whole trial."""
        for index in range(len(trial.faults)):
            while trial.faults[index].for_s > SHORTEST_S:
                fault = trial.faults[index]
                shorter = replace(fault, for_s=float(round(fault.for_s / 2)) or SHORTEST_S)
                tried = trial.with_faults([*trial.faults[:index], shorter, *trial.faults[index + 1 :]])
                if shorter == fault or not self._holds(tried):
                    break
                trial = tried
        while trial.hours > 0.1 and self.tries < self._max_tries:
            tried = replace(trial, hours=round(trial.hours / 2, 3))
            if not self._holds(tried):
                break
            trial = tried
        return trial

    def _simpler(self, trial: Trial) -> Trial:
        """Round times, and restore the bench rig's values where they do not matter."""
        for index, fault in enumerate(trial.faults):
            plain = replace(fault, at_s=float(round(fault.at_s, -1)), for_s=float(round(fault.for_s)))
            tried = trial.with_faults([*trial.faults[:index], plain, *trial.faults[index + 1 :]])
            if plain != fault and self._holds(tried):
                trial = tried
        if trial.rig and self._holds(replace(trial, rig={})):
            return replace(trial, rig={})
        for place in list(trial.rig):
            tried = replace(trial, rig={name: value for name, value in trial.rig.items() if name != place})
            if self._holds(tried):
                trial = tried
        return trial


def _chunks(faults: Sequence[Fault], parts: int) -> list[tuple[Fault, ...]]:
    size, extra = divmod(len(faults), parts)
    chunks, begin = [], 0
    for index in range(parts):
        end = begin + size + (index < extra)
        chunks.append(tuple(faults[begin:end]))
        begin = end
    return [chunk for chunk in chunks if chunk]


def _without(chunks: Sequence[tuple[Fault, ...]], index: int) -> tuple[Fault, ...]:
    return tuple(fault for number, chunk in enumerate(chunks) if number != index for fault in chunk)
