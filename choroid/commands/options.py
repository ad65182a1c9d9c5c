"""What commands have in common: options that many take, and how an answer is printed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any

from choroid.common.ports import MAX_PORT

Handler = Callable[[argparse.Namespace], int]


def emit(answer: Mapping[str, Any], *, as_json: bool, text: str) -> None:
    """Print one JSON object alone, or the text for people."""
    print(json.dumps(answer, ensure_ascii=False) if as_json else text)


def command(commands: Any, name: str, handler: Handler, help_text: str) -> argparse.ArgumentParser:
    """Add a subcommand that `handler` carries out."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(handler=handler, json=False)
    return parser


def json_option(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, nothing else there")


def params_option(parser: argparse.ArgumentParser) -> None:
    """`--set NAME=QUANTITY`."""
    parser.add_argument(
        "--set",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=QUANTITY",
        help='say batch="18 mL"; repeatable',
    )


def named(params: list[str]) -> dict[str, str]:
    """What :func:`params_option` gathered, by name."""
    named = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise SystemExit(f'choroid: --set {text}: write NAME=QUANTITY, for example --set batch="18 mL"')
        named[name.strip()] = value.strip()
    return named


MOST_SPEED = 600.0
"""Times life; what the scaled loop takes."""


def port(text: str) -> int:
    """The type of a TCP port; 0 is any free one."""
    return _whole(text, 0, MAX_PORT, f"a port from 0 to {MAX_PORT}")


def seed(text: str) -> int:
    """The type of a seed."""
    return _whole(text, 0, 2**63 - 1, "a whole number from 0 on")


def speed(text: str) -> float:
    """The type of a speed, times life."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1.0 <= number <= MOST_SPEED:
        raise argparse.ArgumentTypeError(f"“{text}” is not possible; write a number from 1 to {MOST_SPEED:g}")
    return number


def _whole(text: str, least: int, most: int, wanted: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"“{text}” is not possible; write {wanted}")
    return number


def seconds(text: str | None) -> float | None:
    """A time written with its unit."""
    if text is None:
        return None
    from controller.rig.quantities import parse_quantity

    return parse_quantity(text, "s")
