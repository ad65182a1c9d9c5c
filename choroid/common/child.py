"""Child processes of this program: started so that nothing in the working directory takes the place of a module of it.

Python puts the working directory first among the places that it imports from when it runs `-m`; a stray `drivers.py` there
would be imported instead of the drivers. `-P` leaves it out.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from choroid.common.failure import UserError

PACKAGES = ("choroid", "dashboards", "controller", "protocols", "drivers", "sim")
"""The import packages of this program, which lie side by side (decision 14)."""


def python(module: str, *words: str) -> list[str]:
    """Return the command that runs `module` of this program in a Python of its own."""
    return [sys.executable, "-P", "-m", module, *words]


HOME = Path(__file__).resolve().parents[2]
"""Where the packages lie."""


def keep_safe_path() -> None:
    """Leave the working directory out of the import path of this process and of every Python that it starts."""
    os.environ["PYTHONSAFEPATH"] = "1"  # also for those that multiprocessing starts, with a command of its own
    here = Path.cwd()
    sys.path[:] = [entry for entry in sys.path if (entry and Path(entry) != here) or here == HOME]


def require_own_packages() -> None:
    """Raise :class:`UserError` when a package of this program is shadowed by something of the same name."""
    for name in PACKAGES:
        spec = find_spec(name)
        found = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
        if found != HOME / name / "__init__.py":
            raise UserError(
                f"the package `{name}` of this program is shadowed by {found}. Likely cause: a file or folder of this name"
                " lies on PYTHONPATH or in the folder of the program. Next: rename it, or unset PYTHONPATH"
            )
