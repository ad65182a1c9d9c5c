"""Sessions, tokens and users."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from dashboards.auth import MAX_TOKEN_DAYS, TOKEN_DAYS
from dashboards.models.base import RequestBody
from dashboards.passwords import MAX_LENGTH


class Invite(RequestBody):
    """A new token for a user."""

    name: str = Field(
        min_length=1, max_length=60, pattern=r"^[^\x00-\x1f/\u202a-\u202e\u2066-\u2069]+$"
    )  # no marks of direction
    role: Literal["viewer", "operator", "engineer", "admin"]
    days: int = Field(default=TOKEN_DAYS, ge=1, le=MAX_TOKEN_DAYS)
    purpose: str = Field(default="", max_length=60, pattern=r"^[^\x00-\x1f]*$")
    reason: str = Field(default="", max_length=1000)


class Session(BaseModel):
    """Who one is."""

    name: str
    role: str


class PasswordSignIn(RequestBody):
    """A name with its password."""

    name: str = Field(min_length=1, max_length=60)
    password: str = Field(min_length=1, max_length=2 * MAX_LENGTH)


class NewPassword(RequestBody):
    """A new password of the user who asks, and the present one where there is one."""

    password: str = Field(min_length=1, max_length=2 * MAX_LENGTH)
    current: str = Field(default="", max_length=2 * MAX_LENGTH)


class SessionModel(BaseModel):
    """A session of a browser. `device` is what the browser says of itself; `opened_with` is the id of a token or password."""

    id: str
    name: str
    role: str
    until_utc: str
    opened_utc: str | None
    used_utc: str | None
    opened_with: str
    device: str
    source: str


class OwnAccount(BaseModel):
    """The user who asks, with the open sessions. `session` is the id of the present one, empty for a token."""

    name: str
    role: str
    shared: bool
    session: str
    password_until_utc: str | None
    sessions: list[SessionModel]


class IssuedToken(BaseModel):
    """The only time that a token is shown."""

    id: str
    name: str
    role: str
    token: str
    until_utc: str


class UserModel(BaseModel):
    """A user, with the number of tokens and sessions."""

    name: str
    role: str
    tokens: int
    sessions: int


class TokenModel(BaseModel):
    """A token or password that is valid now. `purpose` is what it was made for; `used_utc` is its last use."""

    id: str
    name: str
    role: str
    purpose: str
    issued_utc: str
    until_utc: str
    used_utc: str | None
    kind: Literal["token", "password"] = "token"


class FailedSignInsModel(BaseModel):
    """Sign-ins that failed since the page was started, and the last of them."""

    count: int
    last_utc: str | None
    last_source: str


class UsersModel(BaseModel):
    """Everybody who may come in, by which tokens, and who tried."""

    users: list[UserModel]
    tokens: list[TokenModel]
    sessions: list[SessionModel] = []
    failed_sign_ins: FailedSignInsModel
