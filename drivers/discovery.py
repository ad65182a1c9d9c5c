"""What the modules of a package define: a stray file among them takes nothing away from those that do not use it.

It imports nothing of Choroid, so that each package may use it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Catalogue(dict[str, T]):
    """What the modules of a package define, by name, in alphabetical order.

    `ambiguous` has a sentence for each name that two modules define: the code cannot say which is meant, so neither is
    here. `broken` has one for each module that cannot be imported.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ambiguous: dict[str, str] = {}
        self.broken: list[str] = []

    def why_absent(self, name: str) -> str:
        """Return why `name` is absent, or may be; empty when nothing was left out."""
        return self.ambiguous.get(name) or "; ".join(self.broken)


def discover(package: ModuleType, name_of: Callable[[Any], str | None], without: Collection[str] = ()) -> Catalogue[T]:
    """Import the modules of a package and return what they define. A class belongs to the module that defines it.

    What is left out is logged as a warning.

    Args:
        package: The package; packages inside it are not searched.
        name_of: The name of a value of a module; None for a value that does not belong in the catalogue.
        without: Names of modules that are not searched.

    Returns:
        The values by name.
    """
    catalogue: Catalogue[T] = Catalogue()
    found: dict[str, list[tuple[str, T]]] = {}
    for each in iter_modules(package.__path__, f"{package.__name__}."):
        if each.ispkg or each.name.rpartition(".")[2] in without:
            continue
        file = f"{each.name.replace('.', '/')}.py"
        try:
            named = [(name_of(value), value) for value in _own(import_module(each.name))]
        except (Exception, SystemExit) as error:  # a stray file may raise anything
            text = " ".join(str(error).split())
            catalogue.broken.append(f"{file} cannot be imported ({type(error).__name__}: {text})")
            continue
        for name, value in named:
            if name is not None and all(value is not other for _, other in found.setdefault(name, [])):
                found[name].append((file, value))
    for name, homes in sorted(found.items()):
        if len(homes) == 1:
            catalogue[name] = homes[0][1]
        else:
            catalogue.ambiguous[name] = f"“{name}” is defined by {' and by '.join(file for file, _ in homes)}"
    for line in (*catalogue.ambiguous.values(), *catalogue.broken):
        logger.warning("%s: left out", line)
    return catalogue


def _own(module: ModuleType) -> list[Any]:
    """Return the values of a module, without the classes that it imports."""
    values = vars(module).values()
    return [each for each in values if not isinstance(each, type) or each.__module__ == module.__name__]
