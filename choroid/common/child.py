"""Child processes of this program, and the protection of its packages against files of the same names.

Python puts the working directory first among the places that it imports from when it runs `-m`, a script or a notebook; a
stray `drivers.py` there would be imported instead of the drivers. `-P` leaves it out of every process that this program
starts. In a process that a user started, the file that hides a package is found and named before anything of it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from choroid.common.failure import UserError

PACKAGES = ("choroid", "dashboards", "controller", "protocols", "drivers", "nerves", "sim", "grid", "verification")
"""The import packages of this program, side by side in one directory (decision 14)."""
DISTRIBUTIONS = {"grid": "choroid-grid", "verification": "choroid-verification"}
"""Those that are distributions of their own and may be missing."""
REQUIRED = tuple(package for package in PACKAGES if package not in DISTRIBUTIONS)

HOME = Path(__file__).resolve().parents[2]
"""Directory that contains the packages."""


class ShadowedPackage(UserError, ImportError):
    """A file or folder of the user's hides a package of this program."""


def python(module: str, *words: str) -> list[str]:
    """Return the command line that runs `module` of this program in its own Python process."""
    return [sys.executable, "-P", "-m", module, *words]


def keep_safe_path() -> None:
    """Leave the working directory out of the import path of this process and of every Python that it starts."""
    os.environ["PYTHONSAFEPATH"] = "1"  # also for those that multiprocessing starts, with a command of its own
    here = Path.cwd()
    sys.path[:] = [entry for entry in sys.path if (entry and Path(entry) != here) or here == HOME]


def is_installed(package: str) -> bool:
    """Return whether a top-level package would be imported from this program; nothing is imported."""
    return _location(package) == _own(package)


def missing_distribution(package: str, needed_for: str) -> UserError:
    """Return why a package of :data:`DISTRIBUTIONS` cannot be used: hidden by something of its name, or not installed."""
    if _location(package) not in (None, _own(package)):
        try:
            require_own_packages((package,))
        except ShadowedPackage as error:
            return error
    return UserError(
        f"{needed_for} needs the distribution {DISTRIBUTIONS[package]}, which is not installed. Likely cause: a rig alone"
        f" does not need it. Next: pip install {DISTRIBUTIONS[package]}; in a checkout `pip install . ./{package}`"
    )


def require_own_packages(packages: Sequence[str] = REQUIRED) -> None:
    """Check that packages of this program would be imported from this program.

    Nothing is imported: what hides a package is not run.

    Args:
        packages: Names of top-level packages.

    Raises:
        ShadowedPackage: One is hidden by something of the same name, or missing.
    """
    for name in packages:
        found = _location(name)
        if found == _own(name):
            continue
        if found is None:
            raise ShadowedPackage(
                f"the package `{name}` of Choroid cannot be found in {HOME}. Likely cause: the installation is not complete."
                " Next: install Choroid again"
            )
        raise ShadowedPackage(
            f"the package `{name}` of Choroid is hidden by {found}. Likely cause: a file or folder of this name lies next to"
            " your script or notebook, in the working directory or on PYTHONPATH. Next: rename it, or start Python with -P"
            " in another folder, then start again"
        )


def _own(package: str) -> Path:
    return HOME / package / "__init__.py"


def _location(name: str) -> Path | None:
    """Return the file from which `name` is, or would be, imported; None where there is none."""
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None):
        return Path(str(loaded.__file__)).resolve()
    try:
        spec: ModuleSpec | None = find_spec(name)
    except ValueError:  # a module made by hand, without a spec
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve()
