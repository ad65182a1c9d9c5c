"""`python -m tests.rigs.outcomes`: write what `choroid check` says of each rig here into the file next to it.

Review the difference before it is committed: these files are what the tests expect.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from choroid.rig_file.check import check_rig

FOLDER = Path(__file__).parent
RIGS = sorted(FOLDER.glob("*.yaml"))


def outcome(path: Path) -> dict[str, Any]:
    """Return the hazards for which a rig is refused, or its functions and the shipped recipes that it supports."""
    answer = check_rig(path)
    if not answer["ok"]:
        return {"refused": sorted(row["hazard"] for row in answer["hazards"] if row["verdict"] == "gap")}
    return {
        "functions": sorted(each["function"] for each in answer["capabilities"] if each["available"]),
        "recipes": sorted(name for name, lacks in answer["recipes"].items() if not lacks),
    }


def expected(path: Path) -> Path:
    """Return the file with the expected outcome."""
    return path.with_suffix(".json")


if __name__ == "__main__":
    for rig in RIGS:
        expected(rig).write_text(json.dumps(outcome(rig), indent=1) + "\n", encoding="utf-8")
