"""The help of the command and its completion in a shell."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from choroid.cli import SUBJECTS, UNREAD, _parser, main

ROOT = Path(__file__).resolve().parents[1]


def test_the_help_lists_each_command_under_one_subject(capsys: pytest.CaptureFixture[str]) -> None:
    listed = Counter(name for names in SUBJECTS.values() for name in names)
    assert listed == Counter(list(_parser().commands.choices))
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.index("run a rig:") < text.index("\n  run ") < text.index("verify:") < text.index("\n  verify ")
    assert "check       validate a rig file" in text


@pytest.mark.parametrize("command", ["--help", "device list", "card list", "completion show bash", "check {rig}"])
@pytest.mark.parametrize("buffered", [True, False])
def test_a_command_ends_without_a_message_when_its_reader_closes_the_pipe(command: str, buffered: bool) -> None:
    words = command.format(rig=ROOT / "examples" / "rigs" / "bench.yaml").split()
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "choroid", *words],
        env={**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    ignored = command == "--help" and not buffered  # argparse does so
    assert (done.returncode, done.stderr) == (0 if ignored else UNREAD, "")


SERVICES = {
    "array stream", "completion show", "demo", "device talk", "grid demo", "grid hub run", "grid join", "grid lab join",
    "grid page serve", "grid relay", "guard", "run",
}  # fmt: skip
"""They go on until they are ended, ask at a terminal, or print a script: one JSON object would say nothing."""

VERBS = {
    "abort", "accept", "acknowledge", "add", "allow", "answer", "approve", "calibrate", "certify", "check", "commission",
    "confirm", "create", "demo", "end", "enter", "evaluate", "export", "federated", "fit", "guard", "handover", "install",
    "join", "keep", "list", "load", "make", "measure", "move", "pause", "place", "plan", "play", "probe", "prove", "psth",
    "put", "refuse", "register", "reject", "relay", "release", "remove", "renew", "repair", "replace", "replay", "replicate",
    "report", "resume", "return", "revoke", "run", "serve", "shelve", "show", "simulate", "sort", "start", "status", "stop",
    "stream", "submit", "take", "talk", "test", "train", "try", "tune", "validate", "verify", "watch", "withdraw", "witness",
}  # fmt: skip
"""Every verb of the command line. `status` and `psth` are verbs by custom, `federated` is the engine of a job, and `handover`
is one because a shipped protocol, whose hash is kept, tells people to use it."""
DISTRIBUTIONS = {"grid": True, "verify": False}
"""Whether the grammar holds below them; below `verify` each noun is a test."""


def faults(parser: argparse.ArgumentParser, *words: str) -> Iterator[str]:
    """Return what contradicts the grammar of docs/command-line.md."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for name, each in action.choices.items():
            full = " ".join((*words, name))
            has_verbs = any(isinstance(below, argparse._SubParsersAction) for below in each._actions)
            if not words and name in DISTRIBUTIONS:
                yield from faults(each, name) if DISTRIBUTIONS[name] else ()
            elif not has_verbs and name.split("-")[0] not in VERBS:
                yield f"{full}: its last word is no verb"
            elif has_verbs and (name in VERBS or (name.endswith("s") and not name.endswith("ss"))):
                yield f"{full}: a subject is a noun in the singular"
            elif has_verbs and [word for word in words if word not in DISTRIBUTIONS]:
                yield f"{full}: a subject below a subject"
            elif has_verbs:
                yield from faults(each, *words, name)


def test_each_command_follows_the_grammar() -> None:
    assert list(faults(_parser())) == []
    used = {name.rpartition(" ")[2].split("-")[0] for name, _ in commands(_parser())}
    assert VERBS - used == set(), "no command has it"


@pytest.mark.parametrize(
    "words",
    ["wiring", "users list", "export list", "alarm out-of-service", "grid members", "grid hub log show", "a b show"],
)
def test_a_command_against_the_grammar_is_named(words: str) -> None:
    parser = argparse.ArgumentParser()
    below = parser
    for word in words.split():
        below = below.add_subparsers().add_parser(word)
    assert len(list(faults(parser))) == 1


STREAMS = {"events", "frames", "spikes"}
"""Second words of the names of LSL streams."""


def unknown(told: str, parser: argparse.ArgumentParser) -> bool:
    """Return whether words such as `alarm list --json` name no command; `alarm …` and `alarm` name a subject."""
    below: Any = parser
    for word in told.split():
        verbs = next((each for each in below._actions if isinstance(each, argparse._SubParsersAction)), None)
        if verbs is None or not re.fullmatch(r"[a-z][a-z-]*", word):
            return False
        if word not in verbs.choices:
            return word not in STREAMS
        below = verbs.choices[word]
    return False


def others(told: str) -> list[str]:
    """Return the commands that a comment such as `# also pause, device talk` adds; a single word is a verb of the subject."""
    listed = re.search(r"# also ([a-z, -]+)$", told)
    names = listed[1].split(", ") if listed else []
    return [name if " " in name else f"{told.split()[0]} {name}" for name in names]


def test_each_command_that_a_text_names_exists() -> None:
    files = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "*.js", "*.yaml"], cwd=ROOT, capture_output=True, text=True
    )
    named = re.compile(r"`choroid +([^`\n{]+)|^(?:\.venv/bin/)?choroid +(.+)", re.MULTILINE)
    parser = _parser()
    wrong = {
        f"{file}: choroid {told}"
        for file in files.stdout.splitlines()
        for match in named.finditer((ROOT / file).read_text(encoding="utf-8"))
        for told in (match[1] or match[2], *others(match[2] or ""))
        if unknown(told, parser)
    }
    assert wrong == set()
    assert unknown("users list", parser)
    assert not unknown("user …", parser)
    assert [each for each in others("alarm list --data x  # also return, ack") if unknown(each, parser)] == [
        "alarm ack"
    ]


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
    assert main(["driver", "test", "keller-x-line", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["failures"] == 0
    assert "1 of 1: keller-x-line" in printed.err


def test_the_help_of_one_command_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["user", "--help"])
    text = capsys.readouterr().out
    assert "revoke" in text
    assert "run a rig:" not in text


@pytest.mark.parametrize("shell", ["bash", "fish", "tcsh", "zsh"])
def test_the_completion_of_each_shell_knows_each_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "show", shell]) == 0
    script = capsys.readouterr().out
    assert [name for name, _ in commands(_parser()) if name.rpartition(" ")[2] not in script] == []


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("choroid driv", ["driver"]),
        ("choroid device cali", ["calibrate-pump", "calibrate-sensor"]),
        ("choroid verify camp", ["campaign"]),
        ("choroid user re", ["remove", "revoke"]),
        ("choroid grid member refu", ["refuse", "refuse-waiting"]),
        ("choroid verify campaign --fau", ["--faults", "--faults-a-day"]),
        ("choroid check exam", ["examples"]),
    ],
)
def test_bash_completes_commands_options_and_files(
    typed: str, completed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "show", "bash"]) == 0
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
