"""The help of the command and its completion in a shell."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from choroid.cli import SUBJECTS, _parser, main


def test_the_help_lists_each_command_under_one_subject(capsys: pytest.CaptureFixture[str]) -> None:
    listed = Counter(name for names in SUBJECTS.values() for name in names)
    assert listed == Counter(list(_parser().commands.choices))
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.index("run a rig:") < text.index("\n  run ") < text.index("verify:") < text.index("\n  verify ")
    assert "check        validate a rig file" in text


SERVICES = {
    "completion", "demo", "grid demo", "grid hub", "grid join", "grid lab", "grid page", "guard", "lsl", "run", "talk",
}  # fmt: skip
"""They go on until they are ended, ask at a terminal, or print a script: one JSON object would say nothing."""


def commands(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, set[str]]]:
    """Return each command with its options."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for name, each in action.choices.items():
            yield from commands(each, *words, name)
    if not below:
        yield " ".join(words), {option for action in parser._actions for option in action.option_strings}


def test_each_command_that_ends_answers_in_json() -> None:
    assert {name for name, options in commands(_parser()) if "--json" not in options} == SERVICES


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "keller-x-line", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["failures"] == 0
    assert "1 of 1: keller-x-line" in printed.err


def test_the_help_of_one_command_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["users", "--help"])
    text = capsys.readouterr().out
    assert "revoke" in text
    assert "run a rig:" not in text


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("choroid cali", ["calibrate"]),
        ("choroid verify camp", ["campaign"]),
        ("choroid users re", ["remove", "revoke"]),
        ("choroid verify campaign --fau", ["--faults", "--faults-a-day"]),
        ("choroid check exam", ["examples"]),
    ],
)
def test_bash_completes_commands_options_and_files(
    typed: str, completed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "choroid.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    (tmp_path / "examples").mkdir()
    words = shlex.split(typed)
    asked = (
        f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'; _shtab_choroid;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == completed
