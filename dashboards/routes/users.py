"""Users of this rig's page and API: an admin issues and revokes tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from controller.journal.terms import JournalUnwritten
from controller.process.controller import Controller
from controller.runs.people import COMMAND_LINE, PAGE_LINK, plain_name, reads_as_command_line, same_person
from dashboards.access import ApiProblem, Controlled, require
from dashboards.auth import Auth, LastAdmin, Role, Unkept, User
from dashboards.models.base import Why
from dashboards.models.users import FailedSignInsModel, Invite, IssuedToken, TokenModel, UsersModel
from dashboards.routes.session import session_model
from dashboards.sign_ins import FailedSignIns

logger = logging.getLogger(__name__)

routes = APIRouter(prefix="/api")

Admin = Annotated[User, Depends(require(Role.ADMIN))]


@routes.get("/users", response_model=UsersModel)
async def users(request: Request, _: Admin) -> UsersModel:
    """Return every user with a token or a session, and every token, with its role, end and last use; never a secret."""
    return _view(request)


@routes.post("/users", response_model=IssuedToken, status_code=201)
async def invite(request: Request, rig: Controlled, admin: Admin, body: Invite) -> dict[str, str]:
    """Issue a new token, which ends after `days`. It is shown only in this answer."""
    auth: Auth = request.app.state.auth
    _require_distinct(body.name, [str(user["name"]) for user in auth.users()])
    token = auth.issue(body.name, Role[body.role.upper()], days=body.days, purpose=body.purpose)
    kept = auth.find(token)
    assert kept is not None  # noqa: S101  (it was issued now)
    try:
        await auth.kept(f"no token was given to {body.name}")
    except Unkept:
        auth.take_back(token)
        raise
    given = {"name": body.name, "role": body.role, "id": kept.id, "until_utc": kept.until.isoformat()}
    row = {"user": admin.name, **given, "purpose": body.purpose, "reason": body.reason}
    try:
        rig.journal.append("users.issued", row)
        await rig.journal.commit()
    except JournalUnwritten:
        auth.take_back(token)  # no access without a record
        with suppress(JournalUnwritten):
            rig.journal.append("users.revoked", row | {"reason": "its row could not be written"})
        raise
    return {**given, "token": token}


def _require_distinct(name: str, known: Iterable[str]) -> None:
    """Refuse a name that reads as another account's: decisions by two people compare names."""
    other = next((each for each in (*known, COMMAND_LINE, PAGE_LINK) if same_person(each, name) and each != name), None)
    if name == PAGE_LINK or not plain_name(name) or reads_as_command_line(name) or other is not None:
        raise ApiProblem(
            409,
            f"“{name}” reads as the account “{other or name}”",
            where="the name",
            cause="another spelling of the same person's name, the name of a built-in account, or one that is not seen",
            action="use the name of the existing account, or add a surname",
        )


# A name with a slash comes decoded: such names are given no more, but those that were must be taken back.
@routes.post("/users/{name:path}/revoke", response_model=UsersModel)
async def revoke(request: Request, rig: Controlled, admin: Admin, name: str, body: Why) -> UsersModel:
    """Revoke every token and session of a user at once."""
    auth: Auth = request.app.state.auth
    with _another_admin_stays():
        count = auth.revoke(name)
    if not count:
        raise _unknown(f"there is no user “{name}”", where="the name")
    return await _revoked(request, rig, {"user": admin.name, "name": name, "reason": body.reason}, name)


@routes.post("/tokens/{token_id}/revoke", response_model=UsersModel)
async def revoke_token(request: Request, rig: Controlled, admin: Admin, token_id: str, body: Why) -> UsersModel:
    """Revoke one token, password or session by its id, and what was opened with it; all else of the user stays."""
    auth: Auth = request.app.state.auth
    with _another_admin_stays():
        token = auth.revoke_token(token_id) or auth.revoke_session(token_id)
    if token is None:
        raise _unknown(f"there is no token, password or session “{token_id[:100]}”", where="the id")
    row = {"user": admin.name, "name": token.user.name, "id": token.id, "reason": body.reason}
    return await _revoked(request, rig, row, f"the token {token.id} of {token.user.name}")


async def _revoked(request: Request, rig: Controller, row: dict[str, str], what: str) -> UsersModel:
    """Wait until a revocation is kept, and record it."""
    auth: Auth = request.app.state.auth
    await auth.kept(f"{what} is kept out until this controller is restarted, and no longer")
    try:
        rig.journal.append("users.revoked", row)
    except JournalUnwritten as error:
        logger.warning("%s revoked %s, and no row tells of it: %s", row["user"], what, error)
    return _view(request)


@contextmanager
def _another_admin_stays() -> Iterator[None]:
    try:
        yield
    except LastAdmin as error:
        raise ApiProblem(
            409,
            str(error),
            where="the name",
            cause="no user could issue or revoke a token any more",
            action="give another person the role admin first",
        ) from None


def _unknown(what: str, *, where: str) -> ApiProblem:
    return ApiProblem(
        404, what, where=where, cause="a slip, or it was revoked or has ended", action="look at the list of users"
    )


def _view(request: Request) -> UsersModel:
    auth: Auth = request.app.state.auth
    failures: FailedSignIns = request.app.state.failures
    tokens = [
        TokenModel(
            id=token.id,
            name=token.user.name,
            role=token.user.role.word,
            purpose=token.purpose,
            issued_utc=token.issued.isoformat(),
            until_utc=token.until.isoformat(),
            used_utc=token.used and token.used.isoformat(),
            kind="password" if token.hashed else "token",
        )
        for token in auth.tokens()
    ]
    failed = FailedSignInsModel(
        count=failures.count,
        last_utc=failures.last and failures.last.isoformat(),
        last_source=failures.last_source,
    )
    sessions = [session_model(each) for each in auth.sessions()]
    return UsersModel(users=auth.users(), tokens=tokens, sessions=sessions, failed_sign_ins=failed)
