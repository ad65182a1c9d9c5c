"""What a client builds from the answers of a controller."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from choroid.client.calls import parsed
from choroid.client.errors import ConnectionFailed


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with a default of each kind."""

    needed: str
    name: str = "none"
    notes: list[str] = field(default_factory=list)


def test_an_answer_may_lack_what_has_a_default() -> None:
    assert parsed(Answer, {"needed": "x"}, "/api/x") == Answer("x")
    with pytest.raises(ConnectionFailed, match="needed"):
        parsed(Answer, {"name": "x"}, "/api/x")
