"""The protocols: shipped ones by name, a laboratory's own by path."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from protocols import exchange, language, pump_calibration, recycle
from protocols.language import ProtocolFunction
from protocols.parameters import Param
from protocols.program import Program
from protocols.verbs import Verb


@dataclass(frozen=True, slots=True)
class Recipe:
    """A protocol with all that the runner needs; `source_sha256` is that of :func:`source_hash`."""

    name: str
    title: str
    params: tuple[Param, ...]
    function: ProtocolFunction
    source_sha256: str
    watched: tuple[tuple[Path, str], ...] = ()
    """Its files outside Choroid, each with its sha256: a run is held if one of them changes."""
    verbs: tuple[Verb, ...] = ()
    """Verbs that a Python protocol cannot do without; those of a recipe file are in its steps."""
    version_sha256: str = ""
    """Hash of its text in the library of uploaded protocols; empty for any other."""

    def altered(self) -> Path | None:
        """Return the file that has changed or disappeared since this was loaded; None if there is none."""
        return next((path for path, sha256 in self.watched if file_sha256(path) != sha256), None)

    @property
    def program(self) -> Program | None:
        """Its steps if it came from a recipe file, else None."""
        return self.function if isinstance(self.function, Program) else None


def file_sha256(path: Path) -> str | None:
    """Return the sha256 of a file, read again only if its date or size has changed; None if it is gone."""
    try:
        stat = path.stat()
        return _file_sha256(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _file_sha256(path: Path, changed_ns: int, size: int, inode: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class UnknownProtocol(KeyError):
    """No protocol has that name."""

    def __str__(self) -> str:
        return str(self.args[0])


def of_module(module: ModuleType, part: str) -> Recipe:
    """Return the protocol that a module defines; `part` is what its hash depends on.

    Raises:
        UnknownProtocol: The module lacks one of the names.
    """
    missing = [name for name in ("NAME", "TITLE", "PARAMS", "protocol") if not hasattr(module, name)]
    if missing:
        raise UnknownProtocol(
            f"{module.__name__} does not define {', '.join(missing)}. Next: see examples/protocols for the four names"
        )
    verbs = tuple(getattr(module, "VERBS", ()))
    return Recipe(module.NAME, module.TITLE, module.PARAMS, module.protocol, source_hash(part), verbs=verbs)


def source_hash(*parts: str) -> str:
    """Return the sha256 of what the course of a run depends on: the parts of its protocol, and the language's version.

    Texts of Choroid itself are not among them: an update must not hold runs that are under way. Each step that a run has
    finished is compared with its record when the run is fed again; a version is raised where that is not enough.
    """
    return hashlib.sha256(json.dumps([language.VERSION, *parts]).encode()).hexdigest()


def shipped() -> dict[str, Recipe]:
    """Return the Python protocols that come with Choroid, by name."""
    found: dict[str, Recipe] = {}
    for module in (recycle, exchange, pump_calibration):
        recipe = of_module(module, f"{module.NAME} {module.VERSION}")
        found[recipe.name] = recipe
    return found


PROTOCOLS: Mapping[str, Recipe] = shipped()


def get(name: str, catalogue: Mapping[str, Recipe] = PROTOCOLS) -> Recipe:
    """Return the recipe of a name; raise :class:`UnknownProtocol` with the known names."""
    try:
        return catalogue[name]
    except KeyError:
        raise UnknownProtocol(
            f"no protocol is called “{name}”. Next: choose among {', '.join(sorted(catalogue))}"
        ) from None
