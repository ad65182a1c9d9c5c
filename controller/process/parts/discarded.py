"""Alarms about discarded data: present for an hour after the last count that rose."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.discarded import Discarded
from controller.process.core import ControllerCore
from controller.process.part import Causes, Part, TickStage
from controller.process.registry import part

ALARM_FOR_S = 3600.0


class DiscardedWatch:
    """Follows the counts of everything that discards data."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}
        self._until_s: dict[tuple[str, str], float] = {}

    def causes(self, found: Iterable[Discarded], now_s: float) -> Causes:
        """Return the causes of alarms; what was discarded before the first look raises none."""
        said: dict[str, list[str]] = {}
        for each in found:
            if not each.lost:
                continue
            key = each.where, each.what
            if each.count > self._known.setdefault(key, each.count):
                self._until_s[key] = now_s + ALARM_FOR_S
            self._known[key] = each.count
            if now_s < self._until_s.get(key, now_s):
                said.setdefault(each.where, []).append(f"{each.count} {each.what}")
        return {("data_discarded", where): "given up so far: " + "; ".join(texts) for where, texts in said.items()}


@part(TickStage.REPORT)
def discarded(core: ControllerCore) -> Part:
    """Make the alarms about discarded data."""
    watch = DiscardedWatch()
    return Part("discarded", causes=lambda: watch.causes(core.discarded(), core.store.state.at_s))
