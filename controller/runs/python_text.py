"""The text of a Python protocol, and what can be known of it without running it."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from controller.recipes.form import NAME
from protocols.registry import UnknownProtocol, source_hash

MAX_TEXT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class PythonText:
    """The text of a Python protocol as it was read, and the file that it came from."""

    path: Path
    text: bytes

    @classmethod
    def read(cls, path: Path) -> PythonText:
        """Read a file; raise :class:`UnknownProtocol` for one that is too large, OSError if it cannot be read."""
        text = path.read_bytes()
        if len(text) > MAX_TEXT_BYTES:
            raise UnknownProtocol(
                f"{path} has more than {MAX_TEXT_BYTES / 1e6:g} MB. Next: keep data out of the protocol"
            )
        return cls(path.resolve(), text)

    @property
    def sha256(self) -> str:
        """The hash of the text."""
        return hashlib.sha256(self.text).hexdigest()

    @property
    def source_sha256(self) -> str:
        """The hash that a run of it depends on."""
        return source_hash(self.text.decode("utf-8", errors="replace"))

    def declared(self) -> tuple[str, str]:
        """Return name and title; nothing of the text is run.

        Raises:
            UnknownProtocol: It is no Python, or does not state them as plain texts.
        """
        try:
            body = ast.parse(self.text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise UnknownProtocol(f"{self.path.name} is no Python ({error}). Next: correct it") from None
        told = {name: value for node in body if isinstance(node, ast.Assign) for name, value in _plain(node)}
        functions = {node.name for node in body if isinstance(node, ast.AsyncFunctionDef)}
        if not {"NAME", "TITLE"} <= set(told) or "protocol" not in functions or not re.match(NAME, told["NAME"]):
            raise UnknownProtocol(
                f"{self.path.name} lacks NAME = “a-word”, TITLE = “one line” as plain texts, or async def protocol(lab,"
                " params). Next: see examples/protocols"
            )
        return told["NAME"], told["TITLE"][:200]


def _plain(node: ast.Assign) -> list[tuple[str, str]]:
    """Return the names that an assignment gives to a plain text."""
    if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
        return []
    return [(target.id, node.value.value) for target in node.targets if isinstance(target, ast.Name)]
