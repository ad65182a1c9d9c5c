"""Users of this rig's page and API: an admin issues and revokes tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from controller.journal.terms import JournalUnwritten
from controller.runs.people import COMMAND_LINE, PAGE_LINK, same_person
from dashboards.access import ApiProblem, Controlled, require
from dashboards.auth import Auth, LastAdmin, Role, Unkept, User
from dashboards.models.base import Why
from dashboards.models.users import Invite, IssuedToken, UsersModel

logger = logging.getLogger(__name__)

routes = APIRouter(prefix="/api")

Admin = Annotated[User, Depends(require(Role.ADMIN))]


@routes.get("/users", response_model=UsersModel)
async def users(request: Request, _: Admin) -> dict[str, Any]:
    """Return every user with a token or a session, and the role; never a secret."""
    auth: Auth = request.app.state.auth
    return {"users": auth.users()}


@routes.post("/users", response_model=IssuedToken, status_code=201)
async def invite(request: Request, rig: Controlled, admin: Admin, body: Invite) -> dict[str, str]:
    """Issue a new token. It is shown only in this answer."""
    auth: Auth = request.app.state.auth
    _require_distinct(body.name, [str(user["name"]) for user in auth.users()])
    token = auth.issue(body.name, Role[body.role.upper()])
    try:
        await auth.kept(f"no token was given to {body.name}")
    except Unkept:
        auth.take_back(token)
        raise
    row = {"user": admin.name, "name": body.name, "role": body.role, "reason": body.reason}
    try:
        rig.journal.append("users.issued", row)
        await rig.journal.commit()
    except JournalUnwritten:
        auth.take_back(token)  # no access without a record
        with suppress(JournalUnwritten):
            rig.journal.append("users.revoked", row | {"reason": "its row could not be written"})
        raise
    return {"name": body.name, "role": body.role, "token": token}


def _require_distinct(name: str, known: Iterable[str]) -> None:
    """Refuse a name that reads as another account's: decisions by two people compare names."""
    other = next((each for each in (*known, COMMAND_LINE, PAGE_LINK) if same_person(each, name) and each != name), None)
    if name in (COMMAND_LINE, PAGE_LINK) or other is not None:
        raise ApiProblem(
            409,
            f"“{name}” reads as the account “{other or name}”",
            where="the name",
            cause="another spelling of the same person's name, or the name of a built-in account",
            action="use the name of the existing account, or add a surname",
        )


# A name with a slash comes decoded: such names are given no more, but those that were must be taken back.
@routes.post("/users/{name:path}/revoke", response_model=UsersModel)
async def revoke(request: Request, rig: Controlled, admin: Admin, name: str, body: Why) -> dict[str, Any]:
    """Revoke every token and session of a user at once."""
    auth: Auth = request.app.state.auth
    try:
        count = auth.revoke(name)
    except LastAdmin as error:
        raise ApiProblem(
            409,
            str(error),
            where="the name",
            cause="no user could issue or revoke a token any more",
            action="give another person the role admin first",
        ) from None
    if not count:
        raise ApiProblem(
            404,
            f"there is no user “{name}”",
            where="the name",
            cause="a slip, or their tokens were taken back before",
            action="look at the list of users",
        )
    await auth.kept(f"{name} is kept out until this controller is restarted, and no longer")
    try:
        rig.journal.append("users.revoked", {"user": admin.name, "name": name, "reason": body.reason})
    except JournalUnwritten as error:
        logger.warning("%s took back what %s had, and no row tells of it: %s", admin.name, name, error)
    return {"users": auth.users()}
