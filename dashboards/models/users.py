"""Sessions, tokens and users."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from dashboards.models.base import RequestBody


class Invite(RequestBody):
    """A new token for a user."""

    name: str = Field(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f/]+$")
    role: Literal["viewer", "operator", "engineer", "admin"]
    reason: str = Field(default="", max_length=1000)


class Session(BaseModel):
    """Who one is."""

    name: str
    role: str


class IssuedToken(BaseModel):
    """The only time that a token is shown."""

    name: str
    role: str
    token: str


class UserModel(BaseModel):
    """A user, with the number of tokens and sessions."""

    name: str
    role: str
    tokens: int
    sessions: int


class UsersModel(BaseModel):
    """Everybody who may come in."""

    users: list[UserModel]
