"""What a question of a protocol accepts as its answer: a number with unit and range, one of several choices, or a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Answer = float | str
"""A validated answer: a number in its internal unit, a choice or a text."""

NUMBER, CHOICE, TEXT = "number", "choice", "text"
KINDS = (NUMBER, CHOICE, TEXT)
LONGEST_TEXT = 500
NO_TEXT = "none"
"""Text that a plan assumes for a question without a default."""
LONGEST_CHOICE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """The kind of an answer, and its limits."""

    kind: Literal["number", "choice", "text"]
    unit: str = ""
    """Unit in which people write a number; empty for a plain number and for other kinds."""
    internal: str = ""
    """Internal unit of the number."""
    scale: float = 1.0
    """Internal units in one `unit`."""
    low: float | None = None
    """Smallest number, in the internal unit; None: no limit."""
    high: float | None = None
    choices: tuple[str, ...] = ()
    default: Answer | None = None
    """Answer that a plan, a simulation and a rehearsal assume."""

    @property
    def assumed(self) -> Answer:
        """Answer that a plan assumes: the default, the middle of the range, the first choice, or :data:`NO_TEXT`."""
        if self.default is not None:
            return self.default
        if self.kind == NUMBER:
            low, high = self.low or 0.0, self.high or 0.0
            return (low + high) / 2.0
        return self.choices[0] if self.choices else NO_TEXT

    @property
    def assumed_because(self) -> str:
        """Where :attr:`assumed` comes from."""
        if self.default is not None:
            return "the declared default"
        return {NUMBER: "the middle of the range", CHOICE: "the first choice", TEXT: "no default is declared"}[
            self.kind
        ]

    @property
    def wants(self) -> str:
        """What has to be answered, for people: `a number in mM, 0 to 50`."""
        if self.kind == CHOICE:
            return f"one of {', '.join(self.choices)}"
        if self.kind == TEXT:
            return f"a text of at most {LONGEST_TEXT} characters"
        unit = f" in {self.unit}" if self.unit else ""
        if self.low is not None and self.high is not None:
            return f"a number{unit}, {self.low / self.scale:.12g} to {self.high / self.scale:.12g}"
        if self.low is not None:
            return f"a number{unit}, at least {self.low / self.scale:.12g}"
        return f"a number{unit}" + ("" if self.high is None else f", at most {self.high / self.scale:.12g}")

    def text(self, value: Answer) -> str:
        """Return an answer as people write it: `8.2 mM`."""
        return value if isinstance(value, str) else f"{value / self.scale:.12g} {self.unit}".strip()

    def to_json(self) -> dict[str, Any]:
        """Return plain data; what is not given is left out."""
        data: dict[str, Any] = {"kind": self.kind}
        if self.kind == NUMBER:
            data |= {"unit": self.unit, "internal": self.internal, "scale": self.scale}
            data |= {key: value for key, value in (("low", self.low), ("high", self.high)) if value is not None}
        if self.choices:
            data["choices"] = list(self.choices)
        return data if self.default is None else {**data, "default": self.default}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AnswerForm:
        """Return the form that :meth:`to_json` has written."""
        return cls(**{**data, "choices": tuple(data.get("choices", ()))})
