"""A rig file's text as plain data that knows the line of each key.

Only the plain part of YAML is read: mappings, lists and scalars. Anchors, aliases and tags would hide what is set where
and can blow up a small file (S3), so they are problems; so is a key that stands twice, which YAML itself lets pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from controller.rig.problems import Finding, Place, Problem, RigError
from drivers.strict_yaml import MisreadError, scalar_value

MAX_BYTES = 256_000
"""A rig file is a page or two; anything larger is a mistake or an attack (S3)."""
DEEPEST = 10
"""The description itself is five levels deep."""

_UNLIKE = re.compile(r"[\t\ufeff]|^(?:[^#\n]|(?<=\S)#)*\?", re.MULTILINE)
"""libyaml takes tabs after a colon, and question marks within words in brackets; PyYAML does not. Comments are none of it."""


@dataclass(slots=True)
class Document:
    """The data of one file, the line of each place in it, and what was wrong with its form."""

    path: Path
    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    moved: dict[Place, Place] = field(default_factory=dict)
    """Places that loading has moved → where they stand in the file."""
    moved_below: dict[Place, Place] = field(default_factory=dict)
    """The same for everything below a place."""
    example: str = "examples/rigs/bench.yaml"
    """A sound file of this kind, for those who have to start over."""
    deepest: int = DEEPEST

    def line(self, place: Place) -> int:
        """Return the line of `place`, or of the nearest place around it."""
        place = self.in_file(place)
        for length in range(len(place), 0, -1):
            if place[:length] in self.lines:
                return self.lines[place[:length]]
        return 1

    def in_file(self, place: Place) -> Place:
        """Return where in the file `place` stands."""
        if place in self.moved:
            return self.moved[place]
        for length in range(len(place) - 1, 0, -1):
            if place[:length] in self.moved_below:
                return self.moved_below[place[:length]] + place[length:]
        return place

    def problem(self, finding: Finding, *, line: int | None = None) -> Problem:
        """Return `finding` with its file and line."""
        key = ".".join(map(str, self.in_file(finding.place))) or "(file)"
        return Problem(self.path, self.line(finding.place) if line is None else line, key, finding.what, finding.fix)

    def problems_of(self, findings: Iterable[Finding]) -> list[Problem]:
        """Return the findings with file and line; one that all wells of a plate share is listed once."""
        found: dict[tuple[str, ...], Problem] = {}
        for finding in findings:
            problem = self.problem(finding)
            texts = (problem.what, problem.fix)
            if len(finding.place) > 1 and self.in_file(finding.place) != finding.place:
                texts = (
                    problem.what.replace(str(finding.place[1]), ""),
                    problem.fix.replace(str(finding.place[1]), ""),
                )
            found.setdefault((str(problem.line), problem.key, *texts), problem)
        return list(found.values())


def read_document(path: Path, *, example: str = "examples/rigs/bench.yaml", deepest: int = DEEPEST) -> Document:
    """Read `path`; raises :class:`RigError` when it is no YAML at all, OSError when it cannot be read."""
    document = Document(path, example=example, deepest=deepest)
    fill(document, file_text(document))
    return document


def fill(document: Document, text: str) -> None:
    """Read `text` into an empty document; raises :class:`RigError` when it is no YAML at all."""
    try:
        root = _root(document, text)
    except yaml.YAMLError as error:
        raise _unreadable(document, _line_of(error, text), *_said(error)) from None
    if not isinstance(root, yaml.MappingNode):
        fix = f"Start from {document.example}"
        raise _unreadable(document, 1, "is not a mapping of sections such as “vessels:”", fix)
    document.data = _Reader(document).mapping(root, ())


def file_text(document: Document) -> str:
    """Return the text of the document's file; raises :class:`RigError` for one that cannot be a rig file, OSError."""
    with document.path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)  # bounded, whatever the path leads to
    if len(raw) > MAX_BYTES:
        what = f"is larger than {MAX_BYTES // 1000} kB"
        raise _unreadable(document, 1, what, f"Is this the right file? Start from {document.example}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _unreadable(document, line, "is not UTF-8 text", "Save the file as UTF-8") from None


def _root(document: Document, text: str) -> yaml.Node | None:
    """Return the text's only node. libyaml is ten times faster; where it and PyYAML do not read the same, PyYAML is used.

    That is where libyaml stumbles (PyYAML says more of what is wrong), and what is in :data:`_UNLIKE`.
    """
    if yaml.__with_libyaml__ and not _UNLIKE.search(text):
        try:
            return _composed(document, text, yaml.CSafeLoader)
        except yaml.YAMLError:
            pass
    return _composed(document, text, yaml.SafeLoader)


def _composed(document: Document, text: str, loader: type[yaml.SafeLoader | yaml.CSafeLoader]) -> yaml.Node | None:
    _refuse_the_wild(document, text, loader)
    return yaml.compose(text, Loader=loader)


def _refuse_the_wild(document: Document, text: str, loader: type[yaml.SafeLoader | yaml.CSafeLoader]) -> None:
    """Refuse, before anything is built, what could recurse or multiply without end."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            what, fix = f"refers to something else (*{event.anchor})", "Write the value out here"
            raise _unreadable(document, line, what, fix)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > document.deepest:
                raise _unreadable(document, line, "is nested too deeply", "Check brackets and indentation")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line_of(error: yaml.YAMLError, text: str) -> int:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return mark.line + 1 if mark else 1
    if isinstance(error, yaml.reader.ReaderError):
        return text.count("\n", 0, error.position) + 1
    return 1


def _said(error: yaml.YAMLError) -> tuple[str, str]:
    """Return what YAML reports of the text, and the usual fix."""
    said = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    if "'\\t'" in said:
        return "has a tab where YAML wants spaces", "Indent with spaces only"
    if "mapping values are not allowed" in said:
        return "has a colon where none may be", "Put a text with a colon in quotes, or check the indentation"
    return f"is not YAML ({said})", "Check indentation, colons and quotes at this line and the one before"


def _unreadable(document: Document, line: int, what: str, fix: str) -> RigError:
    return RigError(document.path, [document.problem(Finding((), what, fix), line=line)])


class _Reader:
    """Turns nodes into plain data, noting lines and problems in the document."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._note(place, "has a key that is itself a list or mapping", "Keys are plain words", line)
                continue
            key = str(key_node.value)
            within = (*place, key)
            if key in result:
                what = f"“{key}” stands twice (first on line {self._document.lines[within]})"
                self._note(within, what, "Remove one of the two", line)
                continue
            self._document.lines[within] = line
            result[key] = self._value(value_node, within)
        return result

    def _value(self, node: yaml.Node, place: Place) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, item in enumerate(node.value):
                within = (*place, index)
                self._document.lines[within] = item.start_mark.line + 1
                items.append(self._value(item, within))
            return items
        try:
            return scalar_value(node)
        except MisreadError as error:
            self._note(place, error.what, f"{error.fix[:1].upper()}{error.fix[1:]}", node.start_mark.line + 1)
            return error.meant
        except (yaml.YAMLError, ValueError):  # an unknown tag, or a date such as 2026-13-45
            self._note(place, f"“{node.value}” cannot be read", "Write plain text, in quotes", node.start_mark.line + 1)
            return None

    def _note(self, place: Place, what: str, fix: str, line: int) -> None:
        self._document.problems.append(self._document.problem(Finding(place, what, fix), line=line))
