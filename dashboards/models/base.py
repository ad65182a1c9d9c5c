"""The shapes of requests and answers that every part of the API uses."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class RequestBody(BaseModel):
    """The body of a request: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


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
