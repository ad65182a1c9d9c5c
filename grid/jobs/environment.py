"""The environments of jobs: made once from pinned hashes, never at run time (`choroid grid prepare train`, `federated`)."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from controller.core.whole_file import locked, whole_file
from grid.errors import GridError

VARIABLE = "CHOROID_TORCH"
"""Names the Python of another environment, such as one with torch for a GPU. It is checked, and never changed."""
TORCH, FLOWER = "2.13.0", "1.42.0"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
BEGUN, READY = "choroid-begun", "choroid.json"
"""Written first and last: a folder with the first alone was not finished, and is made again."""


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """One of the environments.

    Attributes:
        name: As `choroid grid prepare` takes it; the folder is called after it.
        what: Its name for people.
        package: The package that is of one version at all members, and is there once.
        version: This version.
        variable: Of the surroundings, which names another Python; empty: there is none.
        size: What is fetched.
        lists: Of pinned packages, each with the options of its index.
        imports: Python that fails when something is missing, and fills the dictionary `found`.
    """

    name: str
    what: str
    package: str
    version: str
    variable: str
    size: str
    lists: tuple[tuple[str, tuple[str, ...]], ...]
    imports: str

    @property
    def probe(self) -> str:
        """Return the program that tells what it has, as JSON."""
        return (
            "import importlib.metadata as m, json, sys\n"
            f"own = [d for d in m.distributions() if (d.metadata['Name'] or '').lower() == '{self.package}']\n"
            "found = {'installed': [d.version for d in own], 'python': sys.version.split()[0]}\n"
            f"{self.imports}\nprint(json.dumps(found))"
        )


TRAIN = JobEnvironment(
    "train",
    "the training environment",
    "torch",
    TORCH,
    VARIABLE,
    "about 1 GB",
    (("torch.txt", ("--extra-index-url", TORCH_INDEX)), ("requirements.txt", ())),
    "import torch, numpy, safetensors.torch, torch.distributed as d\n"
    "found |= {'torch': torch.__version__, 'gloo': d.is_gloo_available(), 'gpu': torch.cuda.is_available()}",
)
FEDERATED = JobEnvironment(
    "federated",
    "the environment of federated jobs",
    "flwr",
    FLOWER,
    "",
    "about 100 MB",
    (("flower.txt", ()),),
    "import flwr, numpy, safetensors.numpy, uvicorn\nfound |= {'flwr': flwr.__version__}",
)


def default_folder(kind: JobEnvironment = TRAIN) -> Path:
    """Return where an environment is made."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"choroid-{kind.name}"


def interpreter(folder: Path | None = None, kind: JobEnvironment = TRAIN) -> Path:
    """Return the Python of an environment.

    Args:
        folder: Its folder; None takes the one of `CHOROID_TORCH` (of `train`), or the default.
        kind: Which one.

    Raises:
        GridError: There is none, or it was not finished.
    """
    other = os.environ.get(kind.variable, "") if kind.variable else ""
    if folder is None and other:
        if not os.access(other, os.X_OK):
            raise GridError(
                f"{kind.variable} names {other}, which is no program. Next: name the Python of an environment"
            )
        return Path(other)
    folder = folder or default_folder(kind)
    if not (folder / READY).exists():
        state = "was not finished" if folder.exists() else "is missing"
        raise GridError(f"{kind.what} {folder} {state}. Next: run `choroid grid prepare {kind.name}`")
    return folder / "bin" / "python"


def check(python: Path, kind: JobEnvironment = TRAIN) -> dict[str, object]:
    """Return what an environment has (versions of its package and of Python, whether a GPU is usable).

    Raises:
        GridError: A package is missing, or its package is not of the version that all members of a job have.
    """
    again = f"Next: remove the environment, and run `choroid grid prepare {kind.name}`"
    words = [str(python), "-I", "-c", kind.probe]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise GridError(f"{python} cannot be started ({error}). {again}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise GridError(f"{python} cannot be used ({last[:300]}). Likely cause: it is not complete. {again}")
    found: dict[str, object] = json.loads(done.stdout)
    versions = found.pop("installed")
    if not isinstance(versions, list) or len(versions) != 1:
        raise GridError(f"{python} has two versions of {kind.package} ({versions}). {again}")
    if str(found[kind.package]).partition("+")[0] != kind.version:
        unset = f", or unset {kind.variable} and run" if kind.variable else " with"
        raise GridError(
            f"{python} has {kind.package} {found[kind.package]}; all members of a job have {kind.version}. Next: install"
            f" {kind.version} there{unset} `choroid grid prepare {kind.name}`"
        )
    if not found.get("gloo", True):
        raise GridError(f"torch in {python} was built without Gloo. {again}")
    return found


def prepare(
    folder: Path, python: str = "", say: Callable[[str], None] = lambda _: None, kind: JobEnvironment = TRAIN
) -> None:
    """Make an environment in a folder; one that is ready is left as it is.

    What a killed preparation has left is not used: it is removed, and made again.

    Args:
        folder: Where. It must be new, ready, or left by a killed preparation.
        python: The Python that makes it; empty: this one.
        say: Takes lines of progress.
        kind: Which one.

    Raises:
        GridError: Another preparation runs, a package cannot be fetched or has another hash, or the disk is full.
    """
    if (folder / READY).exists():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            if not (folder / READY).exists():  # another preparation may have ended a moment ago
                _make(folder, python, say, kind)
    except BlockingIOError:
        raise GridError(f"{folder} is being prepared by another process. Next: wait for its end") from None
    except OSError as error:
        raise GridError(
            f"{folder} cannot be written ({error.strerror or error}). Next: free space (2 GB are needed), check its rights"
        ) from None


def _make(folder: Path, python: str, say: Callable[[str], None], kind: JobEnvironment) -> None:
    left = list(folder.iterdir())
    if left and not (folder / BEGUN).exists():
        raise GridError(f"{folder} holds files of others. Next: name a new folder with --folder, or remove it")
    (folder / BEGUN).touch()
    for each in left:
        if each.name != BEGUN:
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    say(f"making {folder}: {kind.size} is fetched and unpacked; this takes some minutes")
    venv = ("-m", "venv", str(folder))
    _run([python, "-P", *venv] if python else [sys.executable, "-P", *venv], "a new environment", kind)
    own = folder / "bin" / "python"
    for name, options in kind.lists:
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
        _run(words, f"the packages of {name}", kind)
    found = check(own, kind)
    with whole_file(folder / READY) as part:
        part.write_text(json.dumps(found))


def _run(words: list[str], what: str, kind: JobEnvironment) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  (of this file)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        here = f"Python {platform.python_version()} on {platform.machine()}"
        other = f", or set {kind.variable} to the Python of an environment with {kind.package} {kind.version}"
        raise GridError(
            f"{what} cannot be installed ({said[:300]}). Likely cause: no network, or {here} is none of those that"
            f" the release has pinned (3.11 on x86_64). Next: try again with --python{other if kind.variable else ''}"
        )
