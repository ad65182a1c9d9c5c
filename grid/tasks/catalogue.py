"""The tasks that boards can name: each one of the modules of this package."""

from __future__ import annotations

import grid.tasks
from drivers.discovery import Catalogue, discover
from grid.tasks.task import BoardTask

NO_TASKS = ("__main__", "catalogue", "rollouts", "serve")
"""Modules that serve or play tasks; they import this one."""


def _name_of(value: object) -> str | None:
    return value.name if isinstance(value, BoardTask) else None


TASKS: Catalogue[BoardTask] = discover(grid.tasks, _name_of, without=NO_TASKS)
