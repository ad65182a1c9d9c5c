"""Join the page's ES modules into one script, so that a browser needs one request for them.

The modules stay as they are written; nothing is built beforehand. Each becomes a function that is called once, after the
modules that it imports, and returns what it exports. That needs named exports that are never assigned again, and no circles:
another form is refused, which the tests find.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from posixpath import dirname, join, normpath

_IMPORT = re.compile(r'^import \{([^{}]*)\} from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async function|function|class|const) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*|\bimport\.meta\b|(?<![{<])\bimport\(", re.MULTILINE)


def joined_modules(sources: Mapping[str, str], first: str) -> str:
    """Return one script that does what the module `first` does.

    Args:
        sources: Texts of the modules by path, with `/`.
        first: Path of the module that starts the page.

    Raises:
        ValueError: a module has a form that cannot be joined, imports itself by a circle, or does not exist.
    """
    done: dict[str, str] = {}
    _add(first, sources, done, ())
    return "".join(done.values())


def _add(path: str, sources: Mapping[str, str], done: dict[str, str], importers: tuple[str, ...]) -> None:
    """Add a module and before it those that it imports; `done` has the texts so far, in order."""
    if path in importers:
        raise ValueError(
            f"modules import each other: {' > '.join((*importers, path))}. Next: move what both need into a third"
        )
    if path in done:
        return
    if path not in sources:
        raise ValueError(f"{importers[-1] if importers else 'the page'} imports {path}, which does not exist")
    source = sources[path]
    for _, target in _IMPORT.findall(source):
        _add(normpath(join(dirname(path), target)), sources, done, (*importers, path))

    def taken(found: re.Match[str]) -> str:
        names = ", ".join(name.strip().replace(" as ", ": ") for name in found[1].split(",") if name.strip())
        return f"const {{ {names} }} = {_name(normpath(join(dirname(path), found[2])))};"

    exports = ", ".join(name for _, name in _EXPORT.findall(source))
    text = _EXPORT.sub(r"\1", _IMPORT.sub(taken, source))
    if (other := _OTHER.search(text)) is not None:
        raise ValueError(f"{path} cannot be joined with others: “{other[0]}”. Next: import and export by name")
    done[path] = f"// {path}\nconst {_name(path)} = (() => {{\n{text}\nreturn {{ {exports} }};\n}})();\n"


def _name(path: str) -> str:
    """Return the name of a module's exports: it has a $, which no name of the page has."""
    return "$" + re.sub(r"\W", "_", path.removesuffix(".js"))
