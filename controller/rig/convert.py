"""Upgrade the text of a rig file to format 2; comments, order and everything that does not change stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller.rig.document import Document, file_text, fill
from controller.rig.format_1 import ORGANOID, upgrade
from controller.rig.former import ANY, FORMER_KEYS, rename_former_keys
from controller.rig.problems import Finding, RigError

STEP = 2
"""Spaces by which a block moves that gets a key around it."""


@dataclass(frozen=True, slots=True)
class ConvertedFile:
    """A rig file in format 2: its text, and each change as a line of text."""

    text: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Edit:
    """Replace the characters from `start` to `end` by `text`."""

    start: int
    end: int
    text: str


def convert(path: Path) -> ConvertedFile:
    """Return a rig file in format 2.

    Args:
        path: A rig file in format 1 or 2. It is not changed.

    Returns:
        The text in format 2; without changes if the file is in format 2.

    Raises:
        RigError: The file cannot be read as a rig of either format.
        OSError: The file cannot be read.
    """
    text = file_text(Document(path))
    before = _data(path, text)
    root = yaml.compose(text, Loader=yaml.SafeLoader)  # its marks count characters; those of libyaml do not
    edits: list[_Edit] = []
    changes: list[str] = []
    for edit, change in _changes(text, root):
        edits.append(edit)
        changes += [change] if change else []
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    if _data(path, text) != before:
        what, fix = "would not mean the same in format 2", "Correct what `choroid check` reports, and convert it then"
        raise RigError(path, [Document(path).problem(Finding((), what, fix))])
    return ConvertedFile(text, tuple(changes))


def _data(path: Path, text: str) -> dict[str, Any]:
    """Return the data of a rig file's text in format 2; raises :class:`RigError` for what stands in two forms."""
    document = Document(path)
    fill(document, text)
    findings = [*rename_former_keys(document), *upgrade(document)]
    problems = [*document.problems, *document.problems_of(findings)]
    if problems:
        raise RigError(path, problems)
    return document.data


def _changes(text: str, root: yaml.Node | None) -> Iterator[tuple[_Edit, str]]:
    """Yield the edits, each with what it changes ("" for a part of the one before)."""
    for *around, former in FORMER_KEYS:
        present = FORMER_KEYS[*around, former]
        for key in _keys(root, tuple(around), former):
            yield _replaced(key, present), f"line {_line(key)}: “{former}” is called “{present}”"
    entries = {str(key.value): (key, value) for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}
    if "choroid" not in entries or entries["choroid"][1].value != "1":
        return
    yield _replaced(entries["choroid"][1], "2"), f"line {_line(entries['choroid'][0])}: choroid: 2"
    if ORGANOID in entries:
        key, value = entries[ORGANOID]
        told = f"line {_line(key)}: “{ORGANOID}” is “tissue”, by the name of its chamber"
        yield _replaced(key, "tissue"), told
        for edit in _by_chamber(text, value):
            yield edit, ""


def _keys(node: yaml.Node | None, around: tuple[str, ...], name: str) -> Iterator[yaml.Node]:
    """Yield the nodes of the keys called `name` at a pattern of keys."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if not around and key.value == name:
            yield key
        elif around and around[0] in (ANY, key.value):
            yield from _keys(value, around[1:], name)


def _by_chamber(text: str, tissue: yaml.Node) -> Iterator[_Edit]:
    """Yield the edits that put the keys of the only tissue below the name of its chamber."""
    if not isinstance(tissue, yaml.MappingNode):
        return
    (place,) = [index for index, (key, _) in enumerate(tissue.value) if key.value == "chamber"]
    named = tissue.value[place][1]
    name = text[named.start_mark.index : named.end_mark.index]
    if tissue.flow_style:
        start, end = _entry(text, tissue, place)
        yield _Edit(start, end, "")
        yield _Edit(tissue.start_mark.index, tissue.start_mark.index, f"{{{name}: ")
        yield _Edit(tissue.end_mark.index, tissue.end_mark.index, "}")
        return
    yield from _indented(text, tissue, place, name)


def _entry(text: str, node: yaml.MappingNode, place: int) -> tuple[int, int]:
    """Return where an entry of a mapping in braces begins and ends, with one of the commas around it."""
    key, value = node.value[place]
    if place + 1 < len(node.value):
        return key.start_mark.index, node.value[place + 1][0].start_mark.index
    return text.rindex(",", 0, key.start_mark.index), value.end_mark.index


def _indented(text: str, node: yaml.MappingNode, place: int, name: str) -> Iterator[_Edit]:
    """Yield the edits for a block: its chamber becomes a key above it, and its lines move to the right."""
    first = text.rindex("\n", 0, node.start_mark.index) + 1
    margin = text[first : node.start_mark.index]
    key, value = node.value[place]
    gone_from = text.rindex("\n", 0, key.start_mark.index) + 1
    gone_to = _line_end(text, value.end_mark.index)
    comment = re.search(r"\s+#.*", text[value.end_mark.index : gone_to])
    newline = "\r\n" if text[first - 2 : first] == "\r\n" else "\n"
    head = f"{margin}{name}:{comment[0].rstrip() if comment else ''}{newline}"
    if gone_from == first:
        yield _Edit(first, gone_to, head)
    else:
        yield _Edit(first, first, head + " " * STEP)
        yield _Edit(gone_from, gone_to, "")
    for start in (match.end() for match in re.finditer("\n", text[: _last(node)]) if match.end() > first):
        if not gone_from <= start < gone_to and text[start:].lstrip(" ")[:1] not in ("\r", "\n", ""):
            yield _Edit(start, start, " " * STEP)


def _last(node: yaml.Node) -> int:
    """Return where the last character of a block stands; what follows it may belong to something else."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        return max(_last(value) for _, value in node.value)
    return int(node.end_mark.index) - (getattr(node, "style", None) in ("|", ">"))


def _line_end(text: str, index: int) -> int:
    """Return where the line after the one with a character begins."""
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def _replaced(node: yaml.Node, by: str) -> _Edit:
    return _Edit(node.start_mark.index, node.end_mark.index, by)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
