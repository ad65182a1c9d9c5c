"""A protocol as people name it on a command line."""

from __future__ import annotations

from pathlib import Path

from controller.recipes.catalogue import FILES, find, of_file, require_own_name
from controller.rig.description import Rig
from controller.runs.python_conversation import described_now
from controller.runs.python_text import PythonText
from protocols.registry import Recipe


def chosen(protocol: str, rig: Rig) -> Recipe:
    """Return a shipped protocol by its name, or that of a file; the text of a Python file runs locked in.

    Raises:
        UnknownProtocol: There is none of that name, or the file is not sound.
        RecipeError: The recipe is not sound.
    """
    if not protocol.endswith(FILES):
        return find(protocol)
    path = Path(protocol)
    if path.suffix != ".py":
        return of_file(path)
    source = PythonText.read(path)
    require_own_name(path, source.declared()[0])
    return described_now(source, rig)
