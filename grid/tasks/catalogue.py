"""The tasks that boards can name: each one of the modules of this package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

import grid.tasks
from grid.tasks.task import BoardTask

NO_TASKS = ("__main__", "catalogue", "rollouts", "serve")
"""Modules that serve or play tasks; they import this one."""


def _found() -> dict[str, BoardTask]:
    names = [each.name for each in iter_modules(grid.tasks.__path__) if each.name not in NO_TASKS]
    values = [value for name in names for value in vars(import_module(f"grid.tasks.{name}")).values()]
    return {value.name: value for value in values if isinstance(value, BoardTask)}


TASKS: Mapping[str, BoardTask] = _found()
