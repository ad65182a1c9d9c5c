"""`choroid check`: is a rig file sound? Everything that is wrong, at once, with file, line and the likely fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.rig.loading import RigError, effective_hash, load_rig
from drivers.registry import MODELS, load_third_party


def check(path: Path) -> dict[str, Any]:
    """Return `{ok, file, rig, hash, problems}`; a problem has file, line, key, what and fix."""
    load_third_party()
    try:
        rig = load_rig(path, models=MODELS)
    except RigError as error:
        problems = [
            {"file": str(path), "line": p.line, "key": p.key, "what": p.what, "fix": p.fix} for p in error.problems
        ]
        return {"ok": False, "file": str(path), "rig": None, "hash": None, "problems": problems}
    return {"ok": True, "file": str(path), "rig": rig.name, "hash": effective_hash(rig), "problems": []}


def as_text(answer: dict[str, Any]) -> str:
    """The verdict for people."""
    if answer["ok"]:
        return f"{answer['file']}: rig {answer['rig']} is sound (hash {answer['hash'][:12]})"
    lines = [f"{p['file']}:{p['line']}: {p['key']}: {p['what']}. {p['fix']}" for p in answer["problems"]]
    count = len(lines)
    return "\n".join([*lines, f"{count} problem{'s' * (count != 1)}; nothing was opened or moved"])
