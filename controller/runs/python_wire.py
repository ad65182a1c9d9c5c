"""The messages between a run and the process of its Python protocol: one JSON object a line.

To the process: `start` (the text, parameters, the rig), then a `reply` for each request. From it: `hello` with the four names
of the protocol, requests (`step`, `together`), `ended` for each branch, `alive` while it computes, `blocked` before it ends
itself. A branch is named by the request that began it; the protocol itself is the branch with the empty name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from protocols.answers import AnswerForm

MAX_LINE_BYTES = 4_000_000
"""Maximum size of one message."""
ALIVE_S = 1.0
"""Time between two signs of life (s)."""
PATIENCE_S = 20.0
"""Maximum time (s) that a protocol computes, or waits for something else than a verb."""
_FORM, _STEP = "$answer_form", "$step"


class StepToken:
    """Stands for the record of the present step, which only the run has."""


STEP = StepToken()


def packed(value: Any) -> Any:
    """Return an argument of an action as plain JSON data."""
    if isinstance(value, AnswerForm):
        return {_FORM: value.to_json()}
    if isinstance(value, StepToken):
        return {_STEP: True}
    return dict(value) if isinstance(value, Mapping) else value


def unpacked(value: Any, step: object) -> Any:
    """Return an argument of an action from JSON data; `step` takes the place of its token."""
    if isinstance(value, dict) and _FORM in value:
        return AnswerForm.from_json(value[_FORM])
    return step if isinstance(value, dict) and _STEP in value else value


def line(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line."""
    return json.dumps(message).encode() + b"\n"
