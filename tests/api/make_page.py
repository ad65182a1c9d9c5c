"""Generate docs/api.md from the docstrings of the public names: `python -m tests.api.make_page`."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import choroid
from choroid.client.methods import Asynchronous, Blocking, Method

PAGE = Path(choroid.__file__).parents[1] / "docs" / "api.md"
HEADER = """# Python API

What `import choroid` offers; [python.md](python.md) shows it at work. This page is generated from the docstrings
(`make docs`), and a test checks that it is current.
"""
GROUPS = {
    "A running controller": ("choroid.client.connection", "choroid.client.series", "choroid.client.live"),
    "Answers of the controller": ("choroid.client.answers",),
    "The electrode engine": ("choroid.client.nerves", "choroid.client.nerves_reflexes", "choroid.client.nerves_terms"),
    "Errors of the clients": ("choroid.client.errors",),
    "Recordings": ("choroid.evoked.psth", "nerves.psth"),
    "Rigs": ("choroid.rig_file.check", "controller.rig.description", "controller.rig.problems"),
    "Simulation and records": (
        "choroid.simulation.simulate",
        "choroid.simulation.served_lab",
        "choroid.export.export",
        "choroid.fitting.fit",
        "choroid.common.failure",
    ),
    "What drivers are made of": ("drivers.device",),
    "Commands and what devices answer": ("drivers.commands",),
    "Errors of devices": ("drivers.errors",),
}
ROLE = re.compile(r":\w+:`~?(?:(?:choroid|controller|drivers)\.[\w.]*\.)?([\w.]+)`")
SEE = re.compile(r"See `\w+\.\w+`\.")
INNER = (object, Blocking, Asynchronous)
"""Bases that are not told."""
SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):$")
ITEM = re.compile(r"^( {4})(\w+): ")


def page() -> str:
    """Return the page."""
    parts = [HEADER]
    for title, homes in GROUPS.items():
        parts.append(f"## {title}\n")
        names = " ".join((choroid._CLIENT | choroid._WHOLE)[home] for home in homes).split()
        parts += [entry for name in names for entry in described(name, getattr(choroid, name))]
    return "\n".join(parts)


def described(name: str, found: Any) -> Iterator[str]:
    """Return the paragraphs on one name."""
    if get_origin(found) in (Union, types.UnionType):
        yield f"### {name}\n\n`{name} = {' | '.join(each.__name__ for each in get_args(found))}`\n"
    elif inspect.isclass(found):
        yield from of_class(name, found)
    else:
        yield f"### {name}\n\n{signature(name, found)}\n\n{text(found)}\n"


def of_class(name: str, found: type[Any]) -> Iterator[str]:
    """Return the paragraphs on a class: its docstring, its fields or members, then its methods."""
    homes = [found, *(base for base in found.__mro__[1:] if base.__name__.startswith("_"))]
    members = {key: value for home in reversed(homes) for key, value in vars(home).items()}
    bases = [base.__name__ for base in found.__bases__ if base not in INNER and base.__name__[0] != "_"]
    yield f"### {name}\n\n" + (f"Bases: {', '.join(bases)}\n\n" if bases else "") + f"{text(found)}\n"
    if issubclass(found, enum.Enum):
        yield "\n".join(f"- `{member.name}`: `{member.value!r}`" for member in found) + "\n"
        return
    if dataclasses.is_dataclass(found):
        listed = [f"- `{field.name}: {field.type}`" for field in dataclasses.fields(found)]
        yield "\n".join(listed) + "\n"
    elif (made := members.get("__init__")) is not None and made.__doc__:
        yield f"{signature(name, made)}\n\n{text(made)}\n"
    same = []
    for key, value in members.items():
        if key.startswith("_"):
            continue
        if isinstance(value, property) and value.__doc__:
            yield f"#### {name}.{key}\n\n{text(value)}\n"
        elif isinstance(value, classmethod | Method) or inspect.isfunction(value):
            function = getattr(found, key)
            function = getattr(function, "__func__", function)  # of a method of the class
            told = text(function)
            if SEE.fullmatch(told) or (issubclass(found, Asynchronous) and key not in vars(found)):
                same.append(f"`{key}`")
            else:
                yield f"#### {name}.{key}\n\n{signature(key, function)}\n\n{told}\n"
    if same:
        yield f"As in the class without asyncio: {', '.join(same)}.\n"


def signature(name: str, function: Callable[..., Any]) -> str:
    """Return the call of a function as code, without `self`."""
    found = inspect.signature(function)
    words, star = [], False
    for each in found.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not star:
            words.append("*")
            star = True
        note = "" if each.annotation is each.empty else f": {each.annotation}"
        default = "" if each.default is each.empty else f" = {each.default!r}"
        words.append(f"{each.name}{note}{default}")
    back = "" if found.return_annotation in (found.empty, "None") else f" -> {found.return_annotation}"
    call = f"{name}({', '.join(words)}){back}"
    if len(call) > 110:
        call = f"{name}(\n    " + ",\n    ".join(words) + f",\n){back}"
    start = "async " if inspect.iscoroutinefunction(function) else ""
    return f"```python\n{start}{call}\n```"


def text(found: Any) -> str:
    """Return a docstring as Markdown: its sections become lists."""
    lines = []
    inside = False
    for line in ROLE.sub(r"`\1`", inspect.getdoc(found) or "").splitlines():
        if (section := SECTION.match(line)) is not None:
            inside = True
            lines += [f"*{section[1]}*", ""]
        elif inside and line.startswith("    "):
            item = ITEM.match(line)
            lines.append(f"- `{item[2]}`: {line[item.end() :]}" if item else f"  {line.strip()}")
        else:
            inside = inside and not line
            lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
    sys.exit(0)
