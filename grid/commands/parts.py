"""What the parsers of `choroid grid` share: the data folder of a member, and late imports."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

FOLDER = Path("choroid-grid")


def part(name: str) -> ModuleType:
    """Import a module of the grid's commands. Raises :class:`UserError` where a package that it needs is missing."""
    from choroid.common.extras import load_extra

    return load_extra(f"grid.commands.{name}", "grid", needed_for="choroid grid", otherwise="use a rig without a grid")
