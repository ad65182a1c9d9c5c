"""Parser of `choroid verify conformance`."""

from __future__ import annotations

import argparse
from typing import Any

from choroid.commands.options import command, emit, json_option


def add(commands: Any) -> None:
    """Add the subcommand to `commands`."""
    text = "score of the conformance kit: which broken drivers it detects, and by which property"
    parser = command(commands, "conformance", _score, text)
    parser.add_argument("models", nargs="*", help="models (default: all installed ones)")
    parser.add_argument("--every", action="store_true", help="each broken driver on every model it fits")
    json_option(parser)


def _score(arguments: argparse.Namespace) -> int:
    from verification.conformance.score import as_text, score

    answer = score(arguments.models, every=arguments.every)
    emit(answer, as_json=arguments.json, text=as_text(answer))
    return 0 if answer["caught"] == answer["of"] and not answer["sound"] else 1
