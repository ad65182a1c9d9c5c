"""The `choroid` command: parse arguments, call one function, print its answer.

A command is `choroid VERB` or `choroid SUBJECT VERB` (docs/command-line.md). The implementation of each is imported only when
it runs, so that `choroid --help` stays fast. Exit status: 0 done, 1 failed with a message, 2 wrong arguments, 130
interrupted, 141 the reader of its output has closed the pipe.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import select
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from choroid.common.child import keep_safe_path, require_own_packages
from choroid.common.failure import UserError

SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "describe a rig": ("create", "check", "wiring", "bom", "card"),
    "try it on the simulated laboratory": ("demo", "lab", "simulate", "plan", "fit", "validate"),
    "set devices up": ("device", "driver", "commission"),
    "run a rig": (
        "run",
        "guard",
        "service",
        "stop",
        "protocol",
        "alarm",
        "bypass",
        "recording",
        "array",
        "handover",
        "repair",
    ),
    "medium, tissue and parts of a running rig": ("ledger", "vessel", "assay", "tissue", "tubing", "task"),
    "people and agents": ("user", "agent"),
    "records": ("report", "export", "sort", "comparison", "audit"),
    "verify": ("verify",),
    "grid": ("grid",),
    "shell": ("completion",),
}
"""The commands by subject, as the help lists them."""
YOUNG = 10_000
"""So many new objects are searched for garbage at a time; with Python's own 700 a start takes longer."""
UNREAD = 141
"""Exit status where no program reads the output: that of a program which SIGPIPE has ended."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; `argv` defaults to the process's own arguments. Return the exit status."""
    keep_safe_path()
    try:
        require_own_packages()
    except UserError as error:
        print(f"choroid: {error}", file=sys.stderr)
        return 1
    if argv is None:  # a process of its own
        gc.set_threshold(YOUNG)
        atexit.register(gc.freeze)  # else its end searches all that was imported for garbage: a third of a second
    words = sys.argv[1:] if argv is None else argv
    try:
        try:
            arguments = _parser().parse_args(words)
            arguments.words = words
            return int(arguments.handler(arguments))
        finally:
            sys.stdout.flush()  # the interpreter would do it where a failure cannot be handled
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if ExceptionGroup("", [error]).split(BrokenPipeError)[1] is None and _is_unread():
            return UNREAD
        from choroid.common.failure import explain

        text = explain(error)
        if text is None:
            raise
        print(f"choroid: {text}", file=sys.stderr)
        return 1


def _is_unread() -> bool:
    """Return whether the reader of the output has closed the pipe; what is still to be written is then discarded."""
    outputs = select.poll()
    for output in (1, 2):
        outputs.register(output, 0)
    closed = [output for output, _ in outputs.poll(0)]
    for output in closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return bool(closed)


class _GroupedHelp(argparse.ArgumentParser):
    """Lists the commands in its help by their subjects."""

    commands: Any = None

    def format_help(self) -> str:
        """Return the help."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        by_name = {action.dest: action for action in self.commands._choices_actions}
        for subject, names in SUBJECTS.items():
            formatter.start_section(subject)
            formatter.add_arguments([by_name[name] for name in names])
            formatter.end_section()
        formatter.add_text(
            "A command is a verb, or a subject and a verb. choroid COMMAND --help describes one command, or lists the verbs"
            " of a subject."
        )
        return formatter.format_help()


def _parser() -> _GroupedHelp:
    # Not before these are known to be our own packages.
    from choroid.commands import (
        array,
        audit,
        commissioning,
        comparison,
        create,
        device,
        distributions,
        export,
        files,
        fit,
        guards,
        handover,
        ledger,
        live,
        operate,
        recording,
        report,
        sort,
        tissue,
        virtual,
    )
    from choroid.commands.options import command, subject

    parser = _GroupedHelp(prog="choroid", description="Keeps brain organoids alive and lets computers talk with them.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser)
    parser.commands = commands
    groups = (
        live, virtual, files, device, ledger, distributions, handover, report, export, operate, guards,
        commissioning, create, tissue, comparison, recording, sort, array, fit, audit,
    )  # fmt: skip
    for group in groups:
        group.add(commands)
    completion = subject(commands, "completion", "completion of commands and options in a shell")
    show = command(completion, "show", _completion, "print the script that a shell reads")
    show.add_argument("shell", choices=("bash", "fish", "tcsh", "zsh"))
    show.set_defaults(parser=parser)
    return parser


def _completion(arguments: argparse.Namespace) -> int:
    """Print the script that completes commands, options and file names in a shell."""
    import shtab

    waiting: list[argparse.ArgumentParser] = [arguments.parser]
    while waiting:
        for action in waiting.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
            elif action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(arguments.parser, arguments.shell))
    return 0
