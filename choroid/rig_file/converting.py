"""`choroid convert`: write a rig file in the present format, and check that it describes the same rig."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from controller.rig.convert import convert
from controller.rig.loading import load_rig
from controller.rig.problems import RigError


def convert_rig(path: Path, output: Path | None) -> dict[str, Any]:
    """Convert a rig file to format 2.

    Args:
        path: The rig file; it is read only.
        output: Where to write the text; None = nowhere. It may be `path` itself, but no other existing file.

    Returns:
        `file`, `output`, `changes` (a line of text each) and `text`, the file in format 2.

    Raises:
        UserError: `output` exists, or would not describe the same rig.
        RigError: The file is not sound.
        OSError: A file cannot be read or written.
    """
    conversion = convert(path)
    answer = {
        "file": str(path),
        "output": None if output is None else str(output),
        "changes": list(conversion.changes),
        "text": conversion.text,
    }
    if output is None:
        return answer
    if output.exists() and not output.samefile(path):
        raise UserError(f"{output} exists. Next: name a new file, or the rig file itself")
    _write(path, output, conversion.text)
    return answer


def _write(path: Path, output: Path, text: str) -> None:
    """Replace `output` by `text` at once, after it was loaded from the same folder."""
    handle, name = tempfile.mkstemp(prefix=f".{output.name}-", suffix=".yaml", dir=output.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        if _meaning(draft) != _meaning(path):
            raise UserError(f"{output} would not describe the same rig. Likely cause: {_CAUSE}. Next: {_NEXT}")
        draft.chmod(path.stat().st_mode & 0o777)
        draft.replace(output.resolve())
    finally:
        draft.unlink(missing_ok=True)


_CAUSE = "the rig file names other files, whose paths start from its own folder"
_NEXT = "write it into the same folder"


def _meaning(path: Path) -> object:
    """Return the rig; None for a file that is not sound, of which :func:`convert` has compared the data."""
    try:
        return load_rig(path)
    except RigError:
        return None


def as_text(answer: dict[str, Any]) -> str:
    """Return what was changed; the text of the file if it was written nowhere."""
    if answer["output"] is None:
        return str(answer["text"]).rstrip("\n")
    changes = answer["changes"] or ["it is in format 2: nothing to change"]
    return "\n".join([*(f"{answer['file']}: {change}" for change in changes), f"{answer['output']} is written"])
