"""Parsers of commands that are distributions of their own: `choroid grid` and `choroid verify`."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from choroid.common.child import DISTRIBUTIONS, is_installed
from choroid.common.failure import UserError

HELP = {
    "grid": "hub, members and laboratories of a grid",
    "verify": "test Choroid itself: campaigns of faults, kills, benchmarks, soak, conformance score, sensitivity, comparison",
}


def add(commands: Any) -> None:
    """Add the commands of the installed distributions to `commands`, and for each other one how to install it."""
    for name, text in HELP.items():
        parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
        package = "verification" if name == "verify" else name
        if is_installed(package):
            verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
            import_module(f"{package}.commands.parser").add(verbs)
        else:
            parser.add_argument("words", nargs=argparse.REMAINDER, help=f"a verb; needs {DISTRIBUTIONS[package]}")
            parser.set_defaults(handler=_not_installed, name=name, package=package)


def _not_installed(arguments: argparse.Namespace) -> int:
    raise UserError(
        f"choroid {arguments.name} needs the distribution {DISTRIBUTIONS[arguments.package]}, which is not installed. Likely"
        " cause: a rig alone does not need it. Next: pip install it, in a checkout with"
        f" `pip install . ./{arguments.package}`"
    )
