"""Read board files: strict YAML or JSON; every mistake with file, line and what to do."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from drivers.strict_yaml import MisreadError, scalar_value
from grid.boards.board import Board

SHIPPED = Path(__file__).parent / "shipped"
OWN = "boards"
"""Folder of a hub's own boards, in its data folder."""
SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 262_144
MAX_DEPTH = 16

Lines = dict[tuple[str | int, ...], int]


@dataclass(frozen=True, slots=True)
class BoardProblem:
    """A mistake of a board file, where it is, and how to correct it."""

    file: str
    line: int
    key: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key or 'file'}: {self.what}. Next: {self.fix}"


class BoardError(Exception):
    """A board file that cannot be used; `problems` has every mistake, by line."""

    def __init__(self, problems: Sequence[BoardProblem]) -> None:
        self.problems = sorted(problems, key=lambda problem: (problem.file, problem.line, problem.key))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnknownBoard(Exception):
    """A board that this hub does not have."""


def load_board(path: Path) -> Board:
    """Return the board that a file describes.

    Raises:
        BoardError: The file is not YAML or JSON, or not a sound board.
        OSError: The file cannot be read.
    """
    content = path.read_bytes()
    return parse_board(content, str(path))


def parse_board(content: bytes, file: str) -> Board:
    """Return the board in `content`; `file` is its name in messages. Raise :class:`BoardError` for any mistake."""
    if len(content) > MAX_FILE_BYTES:
        raise BoardError([_problem(file, 1, "", f"the file has {len(content)} bytes", "a board has at most 256 KiB")])
    node = _composed(content, file)
    lines: Lines = {}
    value = _plain(node, (), lines, file)
    try:
        return Board.model_validate(value)
    except ValidationError as error:
        raise BoardError([_explained(file, lines, each) for each in error.errors()]) from None


def load_boards(folder: Path = SHIPPED) -> dict[str, Board]:
    """Return the boards of a folder by their key (`name@version`); raise :class:`BoardError` with all mistakes."""
    found: dict[str, Board] = {}
    problems: list[BoardProblem] = []
    files = [path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES and path.is_file()]
    for path in files:
        try:
            board = load_board(path)
        except BoardError as error:
            problems += error.problems
            continue
        if board.key in found:
            fix = "raise the version of the newer file"
            problems.append(_problem(str(path), 1, "version", f"another file has {board.key} as well", fix))
        found[board.key] = board
    if problems:
        raise BoardError(problems)
    return found


def boards_of(data: Path) -> dict[str, Board]:
    """Return the boards of a hub: those that come with Choroid, and those in the folder `boards` of its data folder.

    Raises:
        BoardError: A file is not a sound board, or has the name and version of another.
    """
    own = data / OWN
    found = load_boards()
    for key, board in (load_boards(own) if own.is_dir() else {}).items():
        if key in found:
            what = f"Choroid comes with another board {key}"
            raise BoardError([_problem(str(own), 1, "version", what, "choose another name for yours")])
        found[key] = board
    return found


def newest(boards: dict[str, Board], name: str) -> Board:
    """Return the newest version of a board; raise :class:`UnknownBoard`."""
    versions = [board for board in boards.values() if board.board == name]
    if not versions:
        known = sorted({board.board for board in boards.values()})
        raise UnknownBoard(f"there is no board “{name}”. {_meant(name, known)}")
    return max(versions, key=lambda board: board.version)


def board_hash(board: Board) -> str:
    """Return the SHA-256 of a board's content, whatever its file's layout."""
    text = json.dumps(board.model_dump(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _problem(file: str, line: int, key: str, what: str, fix: str) -> BoardProblem:
    return BoardProblem(file, line, key, what, fix)


def _composed(content: bytes, file: str) -> yaml.Node:
    try:
        text = content.decode("utf-8")
        if "&" in text or "*" in text:
            _refuse_aliases(text, file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BoardError([_problem(file, line, "", "this is not UTF-8 text", "save the file as UTF-8")]) from None
    except (yaml.MarkedYAMLError, yaml.reader.ReaderError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        what = f"this is not YAML ({getattr(error, 'problem', None) or 'it cannot be read'})"
        raise BoardError([_problem(file, line, "", what, "correct the syntax of this line")]) from None
    if not isinstance(node, yaml.MappingNode):
        fix = "begin with `board: NAME`; the boards in grid/boards/shipped are examples"
        raise BoardError([_problem(file, 1, "", "the file has no keys", fix)])
    return node


def _refuse_aliases(text: str, file: str) -> None:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            line = 1 if event.start_mark is None else event.start_mark.line + 1
            raise BoardError([_problem(file, line, "", "anchors and aliases are not used here", "write it out")])


def _plain(node: yaml.Node, place: tuple[str | int, ...], lines: Lines, file: str) -> Any:
    """Return the plain value of a node, and note the line of each place."""
    line = node.start_mark.line + 1
    lines.setdefault(place, line)
    if len(place) > MAX_DEPTH:
        raise BoardError([_problem(file, line, _dotted(place), "too deeply nested", "a board has few levels")])
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each, (*place, n), lines, file) for n, each in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return dict(_pairs(node, place, lines, file))
    try:
        return scalar_value(node)
    except MisreadError as error:
        raise BoardError([_problem(file, line, _dotted(place), error.what, error.fix)]) from None
    except (yaml.YAMLError, ValueError):
        what = f"“{node.value}” cannot be read as {node.tag.rpartition(':')[2]}"
        raise BoardError([_problem(file, line, _dotted(place), what, "write plain text or a number")]) from None


def _pairs(node: yaml.MappingNode, place: tuple[str | int, ...], lines: Lines, file: str) -> Iterator[tuple[str, Any]]:
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in seen:
            what = f"the key occurs twice (first on line {seen[key]})"
            raise BoardError([_problem(file, line, _dotted((*place, key)), what, "remove one of them")])
        seen[key] = line
        lines[(*place, key)] = line
        yield key, _plain(value_node, (*place, key), lines, file)


def _dotted(place: Sequence[str | int]) -> str:
    return ".".join(str(part) for part in place)


def _explained(file: str, lines: Lines, error: ErrorDetails) -> BoardProblem:
    place = tuple(error["loc"])
    known = place
    while known not in lines and known:
        known = known[:-1]
    line = lines.get(known, 1)
    if error["type"] == "extra_forbidden":
        return _problem(file, line, _dotted(place), "this key is unknown", _meant(str(place[-1]), _keys_at(place)))
    if error["type"] == "missing":
        return _problem(file, line, _dotted(place), "this key is missing", f"add `{place[-1]}:`")
    what = error["msg"].removeprefix("Value error, ").rstrip(".")
    given = error.get("input")
    shown = f"; it is {given!r}" if isinstance(given, str | int | float | bool) else ""
    return _problem(file, line, _dotted(place), f"{what[:1].lower()}{what[1:]}{shown}", "correct this value")


def _keys_at(place: Sequence[str | int]) -> list[str]:
    """Return the keys that the schema knows where an unknown one was found."""
    schema = Board.model_json_schema()
    here: dict[str, Any] = schema
    for part in place[:-1]:
        here = here.get("items", {}) if isinstance(part, int) else here.get("properties", {}).get(part, {})
        if "$ref" in here:
            here = schema["$defs"][here["$ref"].rpartition("/")[2]]
    return sorted(here.get("properties", {}))


def _meant(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"Did you mean “{close[0]}”?" if close else f"Known: {', '.join(known) or 'none'}"
