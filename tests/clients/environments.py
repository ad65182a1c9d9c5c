"""Other people's client libraries, each in a virtual environment of its own, or as its wheel only: made once, kept next to
pytest's cache.

None of them is a dependency of Choroid, some have licences that it could not take in, and their pins would quarrel.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
KEPT = Path(__file__).resolve().parents[2] / ".pytest_cache" / "clients"
INSTALL_WITHIN_S = 300
ANSWER_WITHIN_S = 60.0


def python_from(minor: int) -> Path | None:
    """An interpreter of Python 3.`minor` or newer: our own, one on the path, or one of pyenv; None if there is none."""
    if sys.version_info >= (3, minor):
        return Path(sys.executable)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for number in range(minor, minor + 4):
        for found in (shutil.which(f"python3.{number}"), *versions.glob(f"3.{number}.*/bin/python3")):
            # a program of pyenv may stand for a version that is not chosen
            if found and not subprocess.run([found, "-P", "-c", ""], capture_output=True).returncode:
                return Path(found)
    return None


def environment(*requirements: str, base: Path | None = None) -> Path:
    """The Python of an environment with exactly these packages; `base`: the interpreter, our own if left out."""
    base = base or Path(sys.executable)
    name = hashlib.sha256("\n".join([sys.version, str(base), *requirements]).encode()).hexdigest()[:12]
    folder = KEPT / name
    python = folder / "bin" / "python"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker of this test run may be making the same one
        if not (folder / "ready").exists():
            subprocess.run([base, "-P", "-m", "venv", "--clear", folder], check=True, timeout=INSTALL_WITHIN_S)
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
                check=True,
                timeout=INSTALL_WITHIN_S,
            )
            (folder / "ready").touch()
    return python


def wheel(requirement: str, python: str) -> Path:
    """The wheel of a package that is read and not run; `python`: the version for which it is."""
    folder = KEPT / hashlib.sha256(f"{requirement} {python}".encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            asked = ["--no-deps", "--only-binary=:all:", "--python-version", python, "--dest", str(folder), requirement]
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *asked],
                check=True,
                timeout=INSTALL_WITHIN_S,
            )
    (found,) = folder.glob("*.whl")
    return found


async def answer(python: Path, script: str, *words: str) -> Any:
    """What a client's script prints as JSON; it runs in a process of its own while the lab's loop goes on."""
    process = await asyncio.create_subprocess_exec(
        str(python),
        str(SCRIPTS / script),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"},
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), ANSWER_WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, err.decode()
    return json.loads(out.decode().splitlines()[-1])
