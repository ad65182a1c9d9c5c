"""What the verbs of protocols do: one class for each, or for a few that do the same.

An action is any subclass of :class:`Action` in a module of :mod:`controller.runs.actions`; its verbs are declared in
:mod:`protocols`. It obeys its run: it holds where the run is held, and continues from there, also after a restart.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any

from controller.runs.context import LiveRun
from controller.runs.paper import Paper
from controller.steps.steps import StepRecord
from protocols.verbs import Verb

_FOUND: dict[str, type[Action]] = {}
"""Classes of actions, by the name of their verb."""


class Action(ABC):
    """Carries out the steps of its verbs, on the rig and in a rehearsal; both return the same plain JSON data."""

    needs: tuple[str, ...]
    """Arguments that a step must have."""

    def __init_subclass__(cls, *, verbs: tuple[Verb, ...], needs: tuple[str, ...] = ()) -> None:
        cls.needs = needs
        _FOUND.update(dict.fromkeys((verb.name for verb in verbs), cls))

    @abstractmethod
    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> Any:
        """Carry out a step on the rig, from its record if it was begun before a restart; return the result.

        `args` are the arguments of the call; the record lacks those that are not recorded.
        """

    @abstractmethod
    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> Any:
        """Return the expected result, and let the time pass that the step takes (:meth:`Paper.advance`)."""

    def text(self, args: Mapping[str, Any], result: Any) -> str | None:
        """Return the text of a rehearsed step for people, empty where its verb says all; None: it is not shown."""
        return str(args.get("message") or args.get("point") or args.get("kind") or "")


@cache
def actions() -> Mapping[str, Action]:
    """Return the action of each verb, by the verb's name."""
    package = importlib.import_module("controller.runs.actions")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return {name: found() for name, found in _FOUND.items()}
