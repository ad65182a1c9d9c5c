"""The shapes of requests and answers that every part of the API uses."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator


class RequestBody(BaseModel):
    """The body of a request: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class Projection(BaseModel):
    """An answer whose fields are attributes of an object of the controller: it is read from that object.

    A member of an enumeration becomes its value. In JSON, a number that is not finite becomes null.
    """

    model_config = ConfigDict(from_attributes=True)

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        return value.value if isinstance(value, Enum) else value

    @classmethod
    def plain(cls, found: object) -> dict[str, Any]:
        """Return the answer for an object, or a mapping of such objects, as plain data."""
        return cls.model_validate(found).model_dump()


class Why(RequestBody):
    """The reason for an action, for the record."""

    reason: str = Field(default="", max_length=1000)


class Error(BaseModel):
    """What went wrong, for people."""

    what: str
    where: str
    cause: str
    action: str


class Errored(BaseModel):
    """The body of every answer that is not a success."""

    error: Error
