"""Read the recipes of docs/adding.md, and follow one in a copy of the tree."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "adding.md"
COPIED = (
    *("choroid", "controller", "dashboards", "drivers", "grid", "nerves", "protocols", "sim", "verification"),
    *("tests", "docs", "examples", "pyproject.toml"),
)
LEFT_OUT = shutil.ignore_patterns("node_modules", ".pytest_cache", "*.egg-info")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEW_FILE = re.compile(r"(?:#|//|/\*) (\S+\.\w+)(?: \*/)?\n")
"""First line of a block that is a whole file."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One file of a recipe: its whole text, or what is replaced in it; `old` is empty for a new file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class AddingRecipe:
    """What a section of the page says: the files to write by hand, and the commands that follow."""

    edits: tuple[Edit, ...]
    commands: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        """The files that a person writes or changes."""
        return sorted({edit.path for edit in self.edits})


def recipe(title: str) -> AddingRecipe:
    """Return the recipe under the heading `title`."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    edits: list[Edit] = []
    commands: list[str] = []
    for language, text in BLOCK.findall(section):
        if language == "console":
            commands += [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        elif language == "diff":
            edits.append(_change(text))
        elif named := NEW_FILE.match(text):
            edits.append(Edit(named[1], "", text[named.end() :]))
        else:
            raise AssertionError(f"“{title}”: a block names no file: {text[:60]!r}")
    assert edits, f"{PAGE.name} has no recipe “{title}”"
    return AddingRecipe(tuple(edits), tuple(commands))


def _change(text: str) -> Edit:
    first, *lines = text.splitlines(keepends=True)
    old = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
    new = "".join(line[1:] or "\n" for line in lines if not line.startswith("-"))
    return Edit(first.removeprefix("--- ").strip(), old, new)


class Tree:
    """A copy of the tree in which a recipe is followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=LEFT_OUT)
            else:
                shutil.copy2(ROOT / name, folder / name)
        self._python = _environment(folder)

    def follow(self, made: AddingRecipe) -> None:
        """Write the files of a recipe, and run its commands."""
        for edit in made.edits:
            path = self.folder / edit.path
            if not edit.old:
                assert not path.exists(), f"{edit.path} exists already"
                text = edit.new
            else:
                before = path.read_text(encoding="utf-8")
                assert before.count(edit.old) == 1, f"{edit.path} has {before.count(edit.old)} times: {edit.old}"
                text = before.replace(edit.old, edit.new)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for command in made.commands:
            self.run(*shlex.split(command))

    def run(self, *words: str) -> str:
        """Run a command with the packages of the copy; return what it prints. It must end well."""
        program = {"python": [self._python], "choroid": [self._python, "-m", "choroid"]}
        program |= {"pytest": [self._python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]}
        done = subprocess.run(
            [*program[words[0]], *words[1:]],
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
        return done.stdout


def _environment(folder: Path) -> str:
    """Return a Python that imports from the copy, in its child processes as well, and all else from this environment."""
    venv.create(folder / ".venv", symlinks=True)
    python = folder / ".venv" / "bin" / "python"
    (own,) = (folder / ".venv" / "lib").glob("python*/site-packages")
    (own / "copy.pth").write_text(f"{folder}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return str(python)
