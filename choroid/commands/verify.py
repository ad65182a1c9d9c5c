"""Parser of `choroid verify`, whose subcommands are in a distribution of their own."""

from __future__ import annotations

import argparse
from typing import Any

from choroid.common.child import VERIFICATION, is_installed
from choroid.common.failure import UserError


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    text = (
        "test Choroid itself: campaigns of faults, kills, benchmarks, soak, conformance score, sensitivity, comparison"
    )
    parser: argparse.ArgumentParser = commands.add_parser("verify", help=text, description=text)
    if not is_installed(VERIFICATION):
        parser.add_argument("words", nargs=argparse.REMAINDER, help="a subcommand; needs choroid-verification")
        parser.set_defaults(handler=_not_installed)
        return
    from verification import commands as verbs

    verbs.add(parser.add_subparsers(title="verbs", metavar="VERB", required=True))


def _not_installed(arguments: argparse.Namespace) -> int:
    raise UserError(
        "choroid verify needs the distribution choroid-verification, which is not installed. Likely cause: a laboratory's"
        " machine does not need it. Next: pip install ./verification in a checkout of the same version"
    )
