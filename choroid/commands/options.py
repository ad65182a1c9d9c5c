"""Options shared by many commands, and printing of answers."""

from __future__ import annotations

import argparse
import ipaddress
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from choroid.common.ports import MAX_PORT

Handler = Callable[[argparse.Namespace], int]


def emit(answer: Mapping[str, Any], *, as_json: bool, text: str) -> None:
    """Print one JSON object only, or the text for people."""
    print(json.dumps(answer, ensure_ascii=False) if as_json else text)


def command(commands: Any, name: str, handler: Handler, help_text: str) -> argparse.ArgumentParser:
    """Add a subcommand that `handler` executes."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(handler=handler, json=False)
    return parser


def subject(commands: Any, name: str, help_text: str) -> Any:
    """Add a subject, on which several verbs act, and return the group to which they are added."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def json_option(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output and nothing else")


def params_option(parser: argparse.ArgumentParser) -> None:
    """Add `--set NAME=QUANTITY`."""
    parser.add_argument(
        "--set",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=QUANTITY",
        help='parameter, such as batch="18 mL"; repeatable',
    )


def named(params: list[str]) -> dict[str, str]:
    """Return the values of :func:`params_option`, by name."""
    named = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise SystemExit(f'choroid: --set {text}: write NAME=QUANTITY, for example --set batch="18 mL"')
        named[name.strip()] = value.strip()
    return named


MAX_SPEED = 600.0
"""Maximum speed factor; limit of the scaled loop."""


def port(text: str) -> int:
    """Return `text` as a TCP port; 0 stands for any free port."""
    return _whole(text, 0, MAX_PORT, f"a port from 0 to {MAX_PORT}")


def host_and_port(text: str) -> tuple[str, int]:
    """Return `text`, an IP address and a port such as 0.0.0.0:8443 or [::]:8443, as both."""
    host, _, number = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise argparse.ArgumentTypeError(f"“{text}” is no IP address with a port, such as 0.0.0.0:8443") from None
    return host, port(number)


def seed(text: str) -> int:
    """Return `text` as a seed."""
    return _whole(text, 0, 2**63 - 1, "a whole number, 0 or more")


def positive(text: str) -> int:
    """Return `text` as a whole number above 0."""
    return _whole(text, 1, 2**31 - 1, "a whole number, 1 or more")


def speed(text: str) -> float:
    """Return `text` as a speed factor."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1.0 <= number <= MAX_SPEED:
        raise argparse.ArgumentTypeError(f"“{text}” is not possible; write a number from 1 to {MAX_SPEED:g}")
    return number


def length(text: str) -> float:
    """Return a number of days or hours above zero, as the type of an option."""
    try:
        length = float(text)
    except ValueError:
        length = math.nan
    if not 0.0 < length < math.inf:
        raise argparse.ArgumentTypeError(f"“{text}” is no length of time. Next: write a number above 0, such as 1.5")
    return length


def _whole(text: str, least: int, most: int, wanted: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"“{text}” is not possible; write {wanted}")
    return number


def seconds(text: str | None) -> float | None:
    """Return a time with unit in seconds."""
    if text is None:
        return None
    from controller.rig.quantities import parse_quantity

    return parse_quantity(text, "s")
