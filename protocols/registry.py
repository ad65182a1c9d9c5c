"""Which protocols there are: the shipped ones by name, a lab's own by path."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from protocols import conditioning, exchange, grading, interval, language, parameters, recycle, soft_sensor
from protocols.language import ProtocolFunction
from protocols.parameters import Param


@dataclass(frozen=True, slots=True)
class Recipe:
    """A protocol as the runner knows it. `source_sha256` covers every text that its course depends on."""

    name: str
    title: str
    params: tuple[Param, ...]
    function: ProtocolFunction
    source_sha256: str


class UnknownProtocol(KeyError):
    """No protocol has that name."""

    def __str__(self) -> str:
        return str(self.args[0])


def load(path: Path) -> Recipe:
    """A lab's own protocol: a Python file that defines `NAME`, `TITLE`, `PARAMS` and `async def protocol(lab, params)`.

    The file is code and runs with the controller's rights; it is named by whoever starts the controller, never by
    a remote client. Raises :class:`UnknownProtocol` when the file lacks one of those.
    """
    spec = importlib.util.spec_from_file_location(f"choroid_protocol_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UnknownProtocol(f"{path} is not a Python file. Next: name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and inspect look a module up by name
    spec.loader.exec_module(module)
    return _recipe(module, path.read_text(encoding="utf-8"))


def _recipe(module: ModuleType, source: str) -> Recipe:
    missing = [name for name in ("NAME", "TITLE", "PARAMS", "protocol") if not hasattr(module, name)]
    if missing:
        raise UnknownProtocol(
            f"{module.__name__} does not define {', '.join(missing)}. Next: see examples/protocols for the four names"
        )
    return Recipe(module.NAME, module.TITLE, module.PARAMS, module.protocol, _hash(source))


def _hash(source: str) -> str:
    shared = (language, interval, parameters, grading, soft_sensor, conditioning)
    digest = hashlib.sha256(source.encode())
    for module in shared:
        digest.update(inspect.getsource(module).encode())
    return digest.hexdigest()


def shipped() -> dict[str, Recipe]:
    """The protocols that come with Choroid, by name."""
    recipes = (_recipe(module, inspect.getsource(module)) for module in (recycle, exchange))
    return {recipe.name: recipe for recipe in recipes}


PROTOCOLS: Mapping[str, Recipe] = shipped()


def get(name: str, catalogue: Mapping[str, Recipe] = PROTOCOLS) -> Recipe:
    """The recipe of that name; raises :class:`UnknownProtocol` with the names there are."""
    try:
        return catalogue[name]
    except KeyError:
        raise UnknownProtocol(
            f"no protocol is called “{name}”. Next: choose among {', '.join(sorted(catalogue))}"
        ) from None
