"""The registry of parts.

A part registers itself: a function with the decorator `@part(stage)` in any module of :mod:`controller.process.parts` makes
it for a controller whose devices are connected, or returns None where the rig has no use for it. What is outside the
controller (sinks, delivery, the electrode engine) is given to it as further makers (:mod:`controller.process.outside`). The
order is declared: by stage, then by module name, then by place in the module; makers from outside come last in their stage.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from controller.core.state import State
from controller.process.core import ControllerCore
from controller.process.part import Part, TickStage
from nerves.summary import life_s

logger = logging.getLogger(__name__)

CLOSE_WITHIN_S = 5.0
"""Maximum time (real s) in which a part is closed."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes one part for a controller whose devices are connected, at its stage."""

    stage: TickStage
    make: Callable[[ControllerCore], Part | None]


def part(stage: TickStage) -> Callable[[Callable[[ControllerCore], Part | None]], Maker]:
    """Register the decorated function as the maker of a part."""
    return lambda make: Maker(stage, make)


def registered() -> list[Maker]:
    """Return the makers in :mod:`controller.process.parts`, by module name and place in the module."""
    package = importlib.import_module("controller.process.parts")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    found = ((module, made) for module in modules for made in vars(module).values() if isinstance(made, Maker))
    return [made for module, made in found if made.make.__module__ == module.__name__]


class Parts:
    """The parts of one controller, in their order."""

    def __init__(self, core: ControllerCore, makers: Iterable[Maker]) -> None:
        self._core = core
        self._makers = sorted(makers, key=lambda maker: maker.stage)
        self._parts: list[tuple[TickStage, Part]] = []
        self._attached: set[str] = set()

    def __iter__(self) -> Iterator[Part]:
        return iter([part for _, part in self._parts])

    def make(self) -> None:
        """Make every part. One of a late stage that cannot be made is an alarm; without an early one nothing is started.

        Of two parts with the same name the first stays, and the other is an alarm.
        """
        for maker in self._makers:
            if maker.stage <= TickStage.HOLD:
                made = maker.make(self._core)
                self._core.tasks.isolate(maker.make.__module__, self._add, maker, made)
            else:
                self._core.tasks.isolate(
                    maker.make.__module__, lambda each=maker: self._add(each, each.make(self._core))
                )

    def attach(self, maker: Maker) -> None:
        """Make a part and place it behind the others of its stage; it replaces one that was attached under the same name.

        Raises:
            ValueError: A part that was not attached has this name.
        """
        if (made := maker.make(self._core)) is not None:
            if made.name in self._attached:
                self._parts = [each for each in self._parts if each[1].name != made.name]
            self._add(maker, made)
            self._attached.add(made.name)

    def _add(self, maker: Maker, made: Part | None) -> None:
        if made is None:
            return
        if made.name in {part.name for part in self}:
            raise ValueError(
                f"a second part is called “{made.name}”; it was left out. Likely cause: a copy of its module in"
                f" {maker.make.__module__.rpartition('.')[0]}. Next: rename it, or remove the copy"
            )
        self._parts = sorted([*self._parts, (maker.stage, made)], key=lambda each: each[0])

    def update(self, state: State) -> None:
        """Let each part act on the snapshot of a tick."""
        for part in self:
            if part.update is not None:
                self._core.tasks.isolate(part.name, part.update, state)

    def describe(self) -> list[dict[str, object]]:
        """Return name, stage and state of each part, as JSON; the state is None where a part describes none."""
        return [
            {"name": part.name, "stage": stage.name.lower(), "state": self._state(part)} for stage, part in self._parts
        ]

    @staticmethod
    def _state(part: Part) -> object:
        try:
            return None if part.describe is None else json.loads(json.dumps(part.describe(), allow_nan=False))
        except Exception as error:  # a reader of the API raises no alarm
            logger.error("the part %s cannot be described: %r", part.name, error)
            return None

    async def close(self) -> None:
        """Let each part release what it holds, for a limited time each."""
        for part in self:
            if part.close is not None:
                closing = asyncio.wait_for(part.close(), life_s(CLOSE_WITHIN_S))
                await self._core.tasks.isolated(part.name, closing)
