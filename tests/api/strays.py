"""A user's folder with files that have the names of Choroid's packages, and Python processes that start in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from choroid.common.child import PACKAGES

FLAT = tuple(name for name in PACKAGES if name != "choroid")
STRAY = "raise SystemExit('a stray file was run')\n"


def strew(folder: Path, *, only: tuple[str, ...] = FLAT) -> None:
    """Put a module for some names, and a package for the others, into `folder`."""
    for number, name in enumerate(only):
        if number % 2:
            (folder / f"{name}.py").write_text(STRAY)
        else:
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(STRAY)


def run(folder: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `code` as a script that lies in `folder`, as a user would; without the working directory of these tests."""
    script = folder / "my_script.py"
    script.write_text(code)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    return subprocess.run(
        [sys.executable, *words, str(script)], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
