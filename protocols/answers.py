"""What a question of a protocol accepts as its answer: a number, one of several choices, a text, a photo or another file,
the result of an assay, or the approval of a person with a role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Answer = float | str
"""A validated answer: a number in its internal unit, a choice, a text, the sha256 of a file, or a decision."""

NUMBER, CHOICE, TEXT, PHOTO, FILE = "number", "choice", "text", "photo", "file"
KINDS = (NUMBER, CHOICE, TEXT, PHOTO, FILE)
"""Kinds of an answer that a recipe may ask an operator for."""
ASSAY, APPROVAL = "assay", "approval"
UPLOADED = (PHOTO, FILE)
"""Kinds that are answered by an upload; the value is the sha256 of its content."""
LONGEST_TEXT = 500
NO_TEXT = "none"
"""Text that a plan assumes for a question without a default."""
LONGEST_CHOICE = 60

MEDIA_TYPES: Mapping[str, str] = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "tif": "image/tiff",
    "pdf": "application/pdf",
    "csv": "text/csv",
    "txt": "text/plain",
    "json": "application/json",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""Types of files that can be uploaded: name in a recipe → media type."""
PHOTO_TYPES = ("jpg", "png", "webp")
MAX_FILE_BYTES = 16_000_000
"""Maximum size of an upload; a recipe may set a lower one."""

APPROVED, REJECTED = "approved", "rejected"
DECISIONS = (APPROVED, REJECTED)
ROLES = ("operator", "engineer", "admin")
"""Roles that can approve; each includes the ones before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """The kind of an answer, and its limits."""

    kind: Literal["number", "choice", "text", "photo", "file", "assay", "approval"]
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
    types: tuple[str, ...] = ()
    """Types of an upload, keys of :data:`MEDIA_TYPES`."""
    max_bytes: int = MAX_FILE_BYTES
    """Maximum size of an upload."""
    analyte: str = ""
    """What an assay measures."""
    vessel: str = ""
    """Where the sample of an assay is taken."""
    role: str = ""
    """Lowest role that may approve, one of :data:`ROLES`."""
    other_person: bool = False
    """Whether the person who approves must be another one than the person who started the run."""
    default: Answer | None = None
    """Answer that a plan, a simulation and a rehearsal assume."""

    @property
    def assumed(self) -> Answer:
        """Answer that a plan assumes: the default, the middle of the range, the first choice, or :data:`NO_TEXT`."""
        if self.default is not None:
            return self.default
        if self.kind in (NUMBER, ASSAY):
            low, high = self.low or 0.0, self.high or 0.0
            return (low + high) / 2.0
        if self.kind == APPROVAL:
            return APPROVED
        return self.choices[0] if self.choices else NO_TEXT

    @property
    def assumed_because(self) -> str:
        """Where :attr:`assumed` comes from."""
        if self.default is not None:
            return "the declared default"
        reasons = {NUMBER: "the middle of the range", ASSAY: "the middle of the range", CHOICE: "the first choice"}
        return reasons.get(self.kind, "no default is declared")

    @property
    def wants(self) -> str:
        """What has to be answered, for people: `a number in mM, 0 to 50`."""
        if self.kind == CHOICE:
            return f"one of {', '.join(self.choices)}"
        if self.kind == TEXT:
            return f"a text of at most {LONGEST_TEXT} characters"
        if self.kind in UPLOADED:
            return f"a {self.kind} ({', '.join(self.types)}) of at most {self.max_bytes / 1e6:g} MB"
        if self.kind == APPROVAL:
            other = ", by another person than the one who started the run" if self.other_person else ""
            return f"approval or rejection by the role {self.role} or above{other}"
        if self.kind == ASSAY:
            return f"{self.analyte} in “{self.vessel}”: {self._number_wanted}"
        return self._number_wanted

    @property
    def _number_wanted(self) -> str:
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
        if self.kind in (NUMBER, ASSAY):
            data |= {"unit": self.unit, "internal": self.internal, "scale": self.scale}
            data |= {key: value for key, value in (("low", self.low), ("high", self.high)) if value is not None}
        if self.kind in UPLOADED:
            data |= {"types": list(self.types), "max_bytes": self.max_bytes}
        if self.kind == ASSAY:
            data |= {"analyte": self.analyte, "vessel": self.vessel}
        if self.kind == APPROVAL:
            data |= {"role": self.role, "other_person": self.other_person}
        if self.choices:
            data["choices"] = list(self.choices)
        return data if self.default is None else {**data, "default": self.default}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AnswerForm:
        """Return the form that :meth:`to_json` has written."""
        lists = {key: tuple(data.get(key, ())) for key in ("choices", "types")}
        return cls(**{**data, **lists})


@dataclass(frozen=True, slots=True)
class Approval:
    """The decision of a person."""

    decision: str
    """:data:`APPROVED` or :data:`REJECTED`."""
    user: str
    reason: str

    @property
    def approved(self) -> bool:
        """Whether the person approved."""
        return self.decision == APPROVED
