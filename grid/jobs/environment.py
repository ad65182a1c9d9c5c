"""The training environment: made once from pinned hashes, never at run time (`choroid grid prepare train`)."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from controller.core.whole_file import locked, whole_file
from grid.errors import GridError

VARIABLE = "CHOROID_TORCH"
"""Names the Python of another environment, such as one with torch for a GPU. It is checked, and never changed."""
TORCH = "2.13.0"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
PARTS = (("torch.txt", ("--extra-index-url", TORCH_INDEX)), ("requirements.txt", ()))
"""Lists of pinned packages, each with the options of its index."""
BEGUN, READY = "choroid-begun", "choroid.json"
"""Written first and last: a folder with the first alone was not finished, and is made again."""
PROBE = (
    "import importlib.metadata as m, json, sys\n"
    "found = [d.version for d in m.distributions() if (d.metadata['Name'] or '').lower() == 'torch']\n"
    "import torch, numpy, safetensors.torch, torch.distributed as d\n"
    "print(json.dumps({'torch': torch.__version__, 'installed': found, 'gloo': d.is_gloo_available(),"
    " 'python': sys.version.split()[0], 'gpu': torch.cuda.is_available()}))"
)


def default_folder() -> Path:
    """Return where the environment is made."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "choroid-train"


def interpreter(folder: Path | None = None) -> Path:
    """Return the Python of the training environment.

    Args:
        folder: Its folder; None takes the one of `CHOROID_TORCH`, or the default.

    Raises:
        GridError: There is none, or it was not finished.
    """
    other = os.environ.get(VARIABLE, "")
    if folder is None and other:
        if not os.access(other, os.X_OK):
            raise GridError(f"{VARIABLE} names {other}, which is no program. Next: name the Python of an environment")
        return Path(other)
    folder = folder or default_folder()
    if not (folder / READY).exists():
        state = "was not finished" if folder.exists() else "is missing"
        raise GridError(f"the training environment {folder} {state}. Next: run `choroid grid prepare train`")
    return folder / "bin" / "python"


def check(python: Path) -> dict[str, object]:
    """Return what an environment has (versions of torch and Python, whether a GPU is usable).

    Raises:
        GridError: A package is missing, or torch is not of the version that all members of a job have.
    """
    again = "Next: remove the environment, and run `choroid grid prepare train`"
    words = [str(python), "-I", "-c", PROBE]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise GridError(f"{python} cannot be started ({error}). {again}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise GridError(f"{python} cannot train ({last[:300]}). Likely cause: it is not complete. {again}")
    found: dict[str, object] = json.loads(done.stdout)
    versions = found.pop("installed")
    if not isinstance(versions, list) or len(versions) != 1:
        raise GridError(f"{python} has two versions of torch ({versions}). {again}")
    if str(found["torch"]).partition("+")[0] != TORCH:
        raise GridError(
            f"{python} has torch {found['torch']}; all members of a job have {TORCH}. Next: install {TORCH} there, or unset"
            f" {VARIABLE} and run `choroid grid prepare train`"
        )
    if not found["gloo"]:
        raise GridError(f"torch in {python} was built without Gloo. {again}")
    return found


def prepare(folder: Path, python: str = "", say: Callable[[str], None] = lambda _: None) -> None:
    """Make the environment in a folder; one that is ready is left as it is.

    What a killed preparation has left is not used: it is removed, and made again.

    Args:
        folder: Where. It must be new, ready, or left by a killed preparation.
        python: The Python that makes it; empty: this one.
        say: Takes lines of progress.

    Raises:
        GridError: Another preparation runs, a package cannot be fetched or has another hash, or the disk is full.
    """
    if (folder / READY).exists():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            if not (folder / READY).exists():  # another preparation may have ended a moment ago
                _make(folder, python, say)
    except BlockingIOError:
        raise GridError(f"{folder} is being prepared by another process. Next: wait for its end") from None
    except OSError as error:
        raise GridError(
            f"{folder} cannot be written ({error.strerror or error}). Next: free space (2 GB are needed), check its rights"
        ) from None


def _make(folder: Path, python: str, say: Callable[[str], None]) -> None:
    left = list(folder.iterdir())
    if left and not (folder / BEGUN).exists():
        raise GridError(f"{folder} holds files of others. Next: name a new folder with --folder, or remove it")
    (folder / BEGUN).touch()
    for each in left:
        if each.name != BEGUN:
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    say(f"making {folder}: about 1 GB is fetched and unpacked; this takes some minutes")
    venv = ("-m", "venv", str(folder))
    _run([python, "-P", *venv] if python else [sys.executable, "-P", *venv], "a new environment")
    own = folder / "bin" / "python"
    for name, options in PARTS:
        say(f"installing {name.removesuffix('.txt')}, by pinned hashes")
        pinned = str(files("grid.jobs") / name)
        words = [
            str(own),
            "-P",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            *options,
            "-r",
            pinned,
        ]
        _run(words, f"the packages of {name}")
    found = check(own)
    with whole_file(folder / READY) as part:
        part.write_text(json.dumps(found))


def _run(words: list[str], what: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  (of this file)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        here = f"Python {platform.python_version()} on {platform.machine()}"
        raise GridError(
            f"{what} cannot be installed ({said[:300]}). Likely cause: no network, or {here} is none of those that"
            f" the release has pinned (3.11 on x86_64). Next: try again with --python, or set {VARIABLE} to the Python of an"
            f" environment with torch {TORCH}"
        )
