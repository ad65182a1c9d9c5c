"""Which protocols a rig may run: the shipped ones (Python and recipe files), and a folder's own by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path

import protocols
from controller.recipes.file import read_recipe
from protocols.registry import PROTOCOLS, Recipe, UnknownProtocol

SHIPPED = Path(protocols.__file__).parent / "recipes"
FILES = (".yaml", ".yml", ".py")


def find(name: str, around: tuple[Path, ...] = (), *, own: Path | None = None) -> Recipe:
    """Return the protocol of that name: a shipped one, else `own`/NAME.yaml; `around` are the recipes that call it.

    Raises :class:`UnknownProtocol` for an unknown name or one that calls itself, :class:`RecipeError` for a file that is
    not sound.
    """
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    looking = partial(find, own=own)
    for folder in (SHIPPED, own):
        path = None if folder is None else (folder / f"{name}.yaml").resolve()
        if path is None or "/" in name or not path.is_file():
            continue
        _check_not_nested(path, around)
        recipe = read_recipe(path, find=looking, around=around)
        if recipe.name != name:
            raise UnknownProtocol(f"{path} is called “{recipe.name}” inside. Next: give file and recipe the same name")
        return recipe
    raise UnknownProtocol(f"no protocol is called “{name}”. Next: choose among {', '.join(sorted(names()))}")


def _check_not_nested(path: Path, around: tuple[Path, ...]) -> None:
    """Raise :class:`UnknownProtocol` if the file `path` is among those that call it."""
    if path in around:
        chain = " → ".join(part.stem for part in (*around[around.index(path) :], path))
        raise UnknownProtocol(f"the recipe calls itself ({chain}). Next: take the call out, use repeat")


def names() -> set[str]:
    """Return the names of the shipped protocols."""
    return {*PROTOCOLS, *(path.stem for path in SHIPPED.glob("*.yaml"))}


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, Recipe]:
    """Return every shipped protocol by its name."""
    return {name: find(name) for name in sorted(names())}


def of_file(path: Path) -> Recipe:
    """Return a laboratory's own recipe; raise :class:`UnknownProtocol` or :class:`RecipeError` when it is not sound."""
    recipe = read_recipe(path, find=find)
    require_own_name(path, recipe.name)
    return recipe


def require_own_name(path: Path, name: str) -> None:
    """Raise :class:`UnknownProtocol` for a file that takes the name of a shipped protocol."""
    if name in names() and SHIPPED not in path.resolve().parents:
        raise UnknownProtocol(f"{path}: “{name}” is the name of a shipped protocol. Next: give yours another name")
