"""Parsers of commands that are distributions of their own: `choroid grid` and `choroid verify`.

None of them can keep the other commands from working: one that is missing, hidden or of another version says so when it is
used.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from types import ModuleType
from typing import Any

from choroid.common.child import DISTRIBUTIONS, is_installed, missing_distribution
from choroid.common.failure import UserError

COMMANDS = {
    "grid": ("grid", "hub, members and laboratories of a grid"),
    "verify": (
        "verification",
        "test Choroid itself: campaigns of faults, kills, benchmarks, soak, conformance score, sensitivity, comparison",
    ),
}
"""Command → its package, and what it is for."""


def add(commands: Any) -> None:
    """Add the commands of the installed distributions to `commands`, and for each other one why it cannot be used."""
    for name, (package, text) in COMMANDS.items():
        parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
        found = _parser_of(package, name)
        if isinstance(found, UserError):
            parser.add_argument("words", nargs=argparse.REMAINDER, help=f"a verb; needs {DISTRIBUTIONS[package]}")
            parser.set_defaults(handler=_unusable, trouble=found)
        else:
            found.add(parser.add_subparsers(title="verbs", metavar="VERB", required=True))


def _parser_of(package: str, name: str) -> ModuleType | UserError:
    """Return the module with the verbs of a distribution, or why it cannot be used."""
    if not is_installed(package):
        return missing_distribution(package, f"choroid {name}")
    try:
        return import_module(f"{package}.commands.parser")
    except ImportError as error:
        return UserError(
            f"{DISTRIBUTIONS[package]} does not fit this Choroid ({error}). Likely cause: the two are of different versions."
            f" Next: install {DISTRIBUTIONS[package]} in the version of choroid"
        )


def _unusable(arguments: argparse.Namespace) -> int:
    trouble: UserError = arguments.trouble
    raise trouble
