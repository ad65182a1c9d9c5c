"""`make mutate`: change the code that safety rests on in small ways, and see whether a test notices each change.

`python -m tests.mutate [GROUP ...] [--floor 95] [--jobs 2] [--every N] [--json FILE]`

mutmut makes the changes (mutants) and runs, for each, the tests that call the changed function. It works in a copy of the
checkout, so nothing is left behind. The score is the share of mutants that a test detects; a mutant that no test reaches
counts as undetected. Fails below the floor. `--every N` tries one mutant in N: a sample, and said to be one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from choroid.common.child import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
FLOOR = 95.0
"""Minimum share of mutants that must be detected (%)."""
SURVIVED, UNREACHED, UNTRIED = 0, (5, 33), None
"""Exit codes that mutmut keeps for a mutant: tests passed; no test reaches it; not run."""
TIMED_OUT = (36, 24, -24, 152, 255)
"""The tests did not end in time. That counts as detected: an endless loop. On a busy machine it may be a survivor."""


@dataclass(frozen=True, slots=True)
class Group:
    """Files to mutate, and the tests that are asked."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    leave_out: tuple[str, ...] = ()
    """Tests that judge the text of the code itself, which every mutant changes."""


_TEXT = (
    "tests/controller/safety/test_kernel.py::test_the_kernel_is_small",
    "tests/controller/safety/test_kernel.py::test_the_kernel_imports_only_plain_data",
)
GROUPS: Mapping[str, Group] = {
    "kernel": Group(("controller/safety/kernel.py", "controller/safety/heat.py"), ("tests/controller/safety",), _TEXT),
    "interlocks": Group(("controller/safety/interlocks.py",), ("tests/controller/safety",), _TEXT),
    "limits": Group(
        ("controller/safety/limits.py",),
        ("tests/controller/safety/test_record.py", "tests/controller/safety/test_limits.py"),
    ),
    "transfers": Group(
        (
            "controller/transfers/delivery.py",
            "controller/transfers/judgement.py",
            "controller/ledger/witnesses.py",
            "controller/transfers/transfers.py",
        ),
        (
            "tests/execution/test_delivery.py",
            "tests/execution/test_judged_doses.py",
            "tests/execution/test_judgement.py",
            "tests/execution/test_witnesses.py",
            "tests/execution/test_delivered.py",
            "tests/execution/test_slipped_tube.py",
            "tests/execution/test_dead_pumps.py",
            "tests/execution/test_commands.py",
            "tests/execution/test_recovery.py",
            "tests/execution/test_failed_doses.py",
            "tests/execution/test_transfer_rest.py",
        ),
    ),
    "conformance": Group(("drivers/conformance/*.py",), ("tests/conformance",)),
}


@dataclass(frozen=True, slots=True)
class Score:
    """What came of one group's mutants; `survivors` names those that no test detected."""

    group: str
    mutants: int
    detected: int
    survivors: tuple[str, ...]
    untried: int = 0
    timed_out: int = 0
    """How many of the detected ones only by a test that did not end in time."""

    @property
    def share(self) -> float:
        """The share that was detected (%); 0 when nothing was tried."""
        return 100.0 * self.detected / self.mutants if self.mutants else 0.0


def score(group: str, exit_codes: Mapping[str, int | None]) -> Score:
    """Judge mutmut's exit code of each mutant."""
    tried = {name: code for name, code in exit_codes.items() if code is not UNTRIED}
    survivors = tuple(sorted(name for name, code in tried.items() if code == SURVIVED or code in UNREACHED))
    timed_out = sum(code in TIMED_OUT for code in tried.values())
    return Score(group, len(tried), len(tried) - len(survivors), survivors, len(exit_codes) - len(tried), timed_out)


def sources_of(group: Group) -> list[str]:
    """Return the files to mutate, one by one: to mutmut, a star would stand for files of subfolders, too."""
    return sorted(str(path.relative_to(ROOT)) for name in group.files for path in ROOT.glob(name))


def config(group: Group) -> str:
    """mutmut's settings for a group, as a section of pyproject.toml."""
    sources = sorted({Path(name).parts[0] for name in group.files})
    packages = (*PACKAGES, "examples", "docs", "tests")
    settings = {
        "source_paths": sources,
        "only_mutate": sources_of(group),
        "also_copy": [name for name in packages if name not in sources] + ["README.md", "Makefile", "CHANGELOG.md"],
        "pytest_add_cli_args": [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--hypothesis-profile=mutants",
            *(f"--deselect={name}" for name in group.leave_out),
        ],
        "pytest_add_cli_args_test_selection": list(group.tests),
    }
    # JSON's strings and lists are TOML's.
    return "\n[tool.mutmut]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())


def run(name: str, jobs: int, every: int) -> Score:
    """Try the mutants of a group in a copy of the checkout."""
    with tempfile.TemporaryDirectory(prefix="choroid-mutants-") as folder:
        copy = Path(folder) / "checkout"
        _copy(copy)
        with (copy / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(config(GROUPS[name]))
        chosen = _mutants(copy)[::every] if every > 1 else []
        words = [sys.executable, "-m", "mutmut", "run", "--max-children", str(jobs), *chosen]
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
        subprocess.run(words, cwd=copy, env=environment, stdout=sys.stderr, check=False)
        codes = _exit_codes(copy)
    return score(name, codes)


def _copy(target: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def _mutants(copy: Path) -> list[str]:
    """Return the names of all mutants, in the order of files and functions: for a sample of each function."""
    words = [sys.executable, "-m", "mutmut", "run", "no-such-mutant"]
    subprocess.run(words, cwd=copy, capture_output=True, check=False)
    return list(_exit_codes(copy))


def _exit_codes(copy: Path) -> dict[str, int | None]:
    codes: dict[str, int | None] = {}
    for meta in sorted((copy / "mutants").rglob("*.meta")):
        codes |= json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
    return codes


def main(words: Sequence[str] | None = None) -> int:
    """Try the groups; returns 1 when one of them is below the floor."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (default: all)")
    parser.add_argument("--floor", type=float, default=FLOOR, help=f"minimum score in %% (default {FLOOR:g})")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--every", type=int, default=1, help="try one mutant in so many (default 1: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores there as well")
    arguments = parser.parse_args(words)
    unknown = sorted(set(arguments.groups) - set(GROUPS))
    if unknown:
        parser.error(f"no group is called {', '.join(unknown)}; choose among {', '.join(GROUPS)}")
    scores = [run(name, arguments.jobs, arguments.every) for name in arguments.groups or GROUPS]
    for each in scores:
        verdict = "" if each.share >= arguments.floor else f"  BELOW {arguments.floor:g} %"
        sample = f" (a sample; {each.untried} not tried)" if each.untried else ""
        late = f" ({each.timed_out} by a test that did not end)" if each.timed_out else ""
        counts = f"{each.detected:>6} of {each.mutants:>5} detected{each.share:8.1f} %"
        print(f"{each.group:<14}{counts}{verdict}{late}{sample}")
        for name in each.survivors:
            print(f"  survived  {name}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(each) | {"share": each.share} for each in scores], indent=1))
    return 0 if all(each.share >= arguments.floor for each in scores) else 1


if __name__ == "__main__":
    sys.exit(main())
