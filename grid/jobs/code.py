"""Code packages: their hash, and which of them the operator of a member has allowed."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

from controller.core.whole_file import whole_folder
from grid.errors import GridError
from grid.jobs.manifest import RELEASE

SHIPPED = "organoid_lm"
ALLOWED = "code"
ENTRY = "package.py"
MAX_BYTES = 4_000_000


def engines() -> Path:
    """Return the folder of the engines."""
    return Path(str(files("grid.engines")))


def federated() -> Path:
    """Return the folder of the programs that run in Flower's environment."""
    return Path(str(files("grid.federated")))


def shipped() -> Path:
    """Return the folder of the code package that comes with Choroid."""
    return Path(str(files("grid"))) / SHIPPED


def code_files(folder: Path) -> dict[str, bytes]:
    """Return the Python files of a code package by path. Raises :class:`GridError` when it is none."""
    try:
        found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.py"))}
    except OSError as error:
        raise GridError(f"{folder} cannot be read ({error.strerror or error}). Next: check its rights") from None
    if ENTRY not in found or sum(map(len, found.values())) > MAX_BYTES:
        raise GridError(
            f"{folder} is no code package: it needs {ENTRY}, and at most {MAX_BYTES / 1e6:g} MB of Python. Next: see"
            " docs/training.md"
        )
    return found


def code_hash(folder: Path) -> str:
    """Return the hash of a code package: SHA-256 of the paths and hashes of its Python files, in order."""
    rows = (f"{hashlib.sha256(data).hexdigest()} {path}\n" for path, data in code_files(folder).items())
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def allow(data: Path, folder: Path) -> str:
    """Keep a copy of a code package among those that may run here; return its hash.

    Args:
        data: Data folder of the member.
        folder: The package, which its operator has read.

    Raises:
        GridError: It is no code package, or the disk is full.
    """
    found, name = code_files(folder), code_hash(folder)
    kept = data / ALLOWED / name
    if kept.exists():
        return name
    try:
        with whole_folder(kept) as part:
            for path, content in found.items():
                (part / path).parent.mkdir(parents=True, exist_ok=True)
                (part / path).write_bytes(content)
    except OSError as error:
        raise GridError(f"{kept} cannot be written ({error.strerror or error}). Next: free space, try again") from None
    return name


def allowed(data: Path, code: str) -> Path:
    """Return the folder of the code package of a job.

    Args:
        data: Data folder of the member.
        code: As the manifest says: a hash, or `release`.

    Raises:
        GridError: It is not allowed here, or its files have changed since.
    """
    folder = shipped() if code == RELEASE or ((shipped() / ENTRY).exists() and code_hash(shipped()) == code) else None
    if folder is None:
        folder = data / ALLOWED / code
        if not folder.exists():
            raise GridError(
                f"the code package {code[:16]} may not run here. Next: its operator reads it and allows it with"
                " `choroid grid job allow FOLDER`"
            )
        if code_hash(folder) != code:
            raise GridError(f"{folder} has changed since it was allowed. Next: remove it, and allow the package again")
    if not (folder / ENTRY).exists():
        raise GridError(f"{folder} is missing. Likely cause: the installation is not complete. Next: install it again")
    return folder
