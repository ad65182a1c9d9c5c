"""`choroid create`: ask, write the rig file, and check it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.new_rig.questions import Ask, RigQuestion, gather
from choroid.new_rig.writing import write
from choroid.rig_file.check import check_rig
from drivers.strict_yaml import YamlTextError, load_yaml


def new_rig(output: Path, given: Mapping[str, str], ask: Ask | None) -> dict[str, Any]:
    """Write a new rig file and check it.

    Args:
        output: The file to write; it must not exist.
        given: Answers that are known, by the key of their question.
        ask: Asks for each other one; None = take the defaults.

    Returns:
        What `choroid check --json` says of the file, and `answers`.

    Raises:
        UserError: An answer does not fit, or the file exists.
        OSError: The file cannot be written.
    """
    if output.exists():
        raise UserError(f"{output} exists. Next: name another file with --output")
    answers = gather(given, ask)
    with output.open("x", encoding="utf-8") as file:
        file.write(write(answers))
    return {**check_rig(output), "answers": answers}


def answers_in(path: Path) -> dict[str, str]:
    """Return the answers of a YAML or JSON file: a mapping from questions to answers; a list counts as one with commas."""
    try:
        data = load_yaml(path.read_text(encoding="utf-8"))
    except (YamlTextError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}). Next: write lines such as “count: 4”") from None
    if not isinstance(data, dict):
        raise UserError(f"{path} is not a mapping. Next: write lines such as “count: 4”")
    return {
        str(key): ", ".join(map(str, value)) if isinstance(value, list) else str(value) for key, value in data.items()
    }


def on_terminal(question: RigQuestion, default: str, wrong: str) -> str:
    """Ask on standard error, and read the answer from standard input.

    Raises:
        UserError: The input has ended.
    """
    choices = f" ({', '.join(question.choices)})" if question.choices else ""
    print(
        f"{wrong}\n" if wrong else "",
        f"{question.text}{choices} [{default}]: ",
        sep="",
        end="",
        file=sys.stderr,
        flush=True,
    )
    line = sys.stdin.readline()
    if not line:
        raise UserError(
            "the input ended before all questions were answered; nothing was written. Next: answer them, or add --defaults"
        )
    return line


def as_text(answer: dict[str, Any]) -> str:
    """Return what the check says, and what to do next."""
    file = answer["file"]
    if answer["ok"]:
        return (
            f"{file} is written: rig {answer['rig']} is valid (hash {answer['hash'][:12]}).\n"
            f"Next: correct amounts and tubing to your bench; `choroid check --hazards --capabilities {file}`"
        )
    problems = [
        f"{each['file']}:{each['line']}: {each['key']}: {each['what']}. {each['fix']}" for each in answer["problems"]
    ]
    return "\n".join(
        [
            f"{file} is written, and these hazards remain. Correct them in the file, and run `choroid check {file}`:",
            *problems,
        ]
    )
