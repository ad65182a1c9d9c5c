"""The messages between a run and the process of its Python protocol: one JSON object a line.

To the process: `start` (parameters, the rig), then, when it is locked in, `text`, then a `reply` for each request. From it:
`locked`, `hello` when the text was loaded, requests (`step`, `together`), `ended` for each branch, `said` for what the text
prints, `place` when it is asked where it computes. A branch is named by the request that began it; the protocol itself is
the branch with the empty name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

MAX_LINE_BYTES = 1_000_000
"""Maximum size of one message of the process."""
MAX_START_BYTES = 16_000_000
"""Maximum size of one message to the process."""
MAX_BRANCHES = 100


def parsed(text: bytes) -> dict[str, Any]:
    """Return the message of one line; raise ValueError for anything else."""
    try:
        message = json.loads(text, parse_constant=_no_number, parse_float=_number)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise ValueError("no message")
    return message


def _number(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def line(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line."""
    return json.dumps(message).encode() + b"\n"
