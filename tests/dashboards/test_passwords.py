"""Passwords and the list of sessions: sign-in by name, limits of attempts, and what ends with what."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher

import dashboards.passwords
from dashboards.auth import FILE, Auth, Role, User
from dashboards.passwords import PasswordRefused, require_strong
from tests.dashboards.world import BASE, World, world

GOOD, OTHER = "kettle Orbit seventeen moss", "lantern ferry Ukulele nine"
NOW = datetime(2026, 5, 4, tzinfo=UTC)
ANNA = User("Anna Å", Role.OPERATOR)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash with little work; the parameters stand in each hash."""
    monkeypatch.setattr(dashboards.passwords, "HASHER", PasswordHasher(1, 8, 1))


def password(auth: Auth, token: str, user: User = ANNA, text: str = GOOD) -> None:
    auth.set_password(user, dashboards.passwords.HASHER.hash(text), secret=token)


async def signed_in(auth: Auth, name: str = "anna å", text: str = GOOD) -> str | None:
    found = await auth.sign_in_with_password(name, text, device="Firefox", source="10.0.0.7")
    return found and found[1]


@pytest.mark.parametrize(
    "weak",
    ["short", "a" * 20, "ab" * 10, "Anna Å" * 4, "password password 1", "choroidchoroidchoroid12", "x" * 129],
)
def test_weak_passwords_are_refused(weak: str) -> None:
    with pytest.raises(PasswordRefused, match="Next: "):
        require_strong(weak, ANNA.name)
    require_strong(GOOD, ANNA.name)


@pytest.mark.virtual_time
async def test_P5_a_password_opens_sessions_survives_a_restart_and_ends_with_the_access(tmp_path: Path) -> None:
    utc = [NOW]
    auth = Auth(tmp_path, demo=False, utc=lambda: utc[0])
    token = auth.issue(ANNA.name, ANNA.role, days=30)
    password(auth, token)
    assert GOOD not in (tmp_path / FILE).read_text(encoding="utf-8")
    for each in (auth, Auth(tmp_path, demo=False, utc=lambda: utc[0])):
        cookie = await signed_in(each)
        assert cookie is not None
        assert each.by_session(cookie) == ANNA
        assert await signed_in(each, text=GOOD.lower()) is None
        assert await signed_in(each, name="ben") is None
        assert each.by_token(GOOD) is None
        assert [(each.device, each.source) for each in each.sessions(ANNA.name)] == [("Firefox", "10.0.0.7")]
    utc[0] += timedelta(days=29)
    password(auth, token, text=OTHER)  # a new one prolongs nothing
    assert await signed_in(auth) is None
    assert (cookie := await signed_in(auth, text=OTHER)) is not None
    utc[0] += timedelta(days=1)
    assert await signed_in(auth, text=OTHER) is None
    assert auth.by_session(cookie) is None


@pytest.mark.virtual_time
async def test_P5_a_new_password_ends_the_sessions_of_the_former_but_for_the_present_one(tmp_path: Path) -> None:
    auth = Auth(tmp_path, demo=False, utc=lambda: NOW)
    token = auth.issue(ANNA.name, ANNA.role)
    by_token = auth.sign_in(token)
    assert by_token is not None
    password(auth, token)
    here, there = await signed_in(auth), await signed_in(auth)
    assert here is not None
    assert there is not None
    password(auth, here, text=OTHER)
    assert [auth.by_session(each) is not None for each in (here, there, by_token[1])] == [True, False, True]
    auth.revoke_token(auth.password_of(ANNA.name).id)  # type: ignore[union-attr]
    assert [auth.by_session(each) is not None for each in (here, by_token[1])] == [False, True]


@pytest.mark.virtual_time
@pytest.mark.parametrize("changed", [False, True])
async def test_P5_the_password_set_with_a_lost_token_ends_with_it(tmp_path: Path, changed: bool) -> None:
    auth = Auth(tmp_path, demo=False, utc=lambda: NOW)
    lost, kept = auth.issue(ANNA.name, ANNA.role), auth.issue(ANNA.name, ANNA.role)
    password(auth, lost)
    cookie = await signed_in(auth)
    assert cookie is not None
    if changed:
        password(auth, cookie)
    again = Auth(tmp_path, demo=False, utc=lambda: NOW)
    id_ = again.find(lost)
    assert id_ is not None
    again.revoke_token(id_.id)
    assert again.by_session(cookie) is None
    assert await signed_in(again) is None
    assert again.by_token(kept) == ANNA


def test_a_file_without_passwords_is_read(tmp_path: Path) -> None:
    auth = Auth(tmp_path, demo=False, utc=lambda: NOW)
    cookie = auth.open_session(ANNA)
    body = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    del body["passwords"]
    for row in body["sessions"]:
        for key in ("opened", "used", "device", "source"):
            del row[key]
    (tmp_path / FILE).write_text(json.dumps(body), encoding="utf-8")
    again = Auth(tmp_path, demo=False, utc=lambda: NOW)
    assert again.problem == ""
    assert again.by_session(cookie) == ANNA


async def account(w: World, name: str = "bob", role: str = "operator") -> str:
    """Return the `Authorization` header of a new user's token."""
    async with w.http(Role.ADMIN) as admin:
        given = (await admin.post("/api/users", json={"name": name, "role": role})).json()
    return f"Bearer {given['token']}"


@pytest.mark.virtual_time
async def test_P5_a_person_sets_a_password_signs_in_and_ends_the_session_of_another_device() -> None:
    async with world() as w:
        async with w.http(authorization=await account(w)) as bob:
            assert (await bob.get("/api/session")).json()["password_until_utc"] is None
            weak = await bob.put("/api/session/password", json={"password": "short"})
            assert weak.status_code == 422
            assert weak.json()["error"]["action"]
            assert (await bob.put("/api/session/password", json={"password": GOOD})).status_code == 204
            wrong = await bob.put("/api/session/password", json={"password": OTHER, "current": "guess"})
            assert wrong.status_code == 409
        cookies = []
        for device in ("Tablet\t 5", "Phone"):
            async with w.http(Origin=BASE) as browser:
                answer = await browser.post(
                    "/api/session/password",
                    json={"name": "bob", "password": GOOD},
                    headers={"user-agent": device},
                )
                assert answer.json() == {"name": "bob", "role": "operator"}
                assert "httponly" in answer.headers["set-cookie"].lower()
                cookies.append(answer.cookies["choroid_session_8080"])
        async with w.http(Origin=BASE, Cookie=f"choroid_session_8080={cookies[1]}") as browser:
            mine = (await browser.get("/api/session")).json()
            rows = {row["device"]: row for row in mine["sessions"]}
            assert rows.keys() == {"Tablet 5", "Phone"}
            assert rows["Phone"]["id"] == mine["session"]
            assert (await browser.delete(f"/api/session/{rows['Tablet 5']['id']}")).status_code == 204
            assert (await browser.delete("/api/session/000000000000")).status_code == 404
        for cookie, status in zip(cookies, (401, 200), strict=True):
            async with w.http(Cookie=f"choroid_session_8080={cookie}") as browser:
                assert (await browser.get("/api/rig")).status_code == status
        async with w.http(Role.ADMIN) as admin:
            users = (await admin.get("/api/users")).json()
            assert [row["device"] for row in users["sessions"]] == ["Phone"]
            (own,) = [row for row in users["tokens"] if row["kind"] == "password"]
            assert [row["tokens"] for row in users["users"] if row["name"] == "bob"] == [1]
            for id_ in (users["sessions"][0]["id"], own["id"]):
                assert (await admin.post(f"/api/tokens/{id_}/revoke", json={})).status_code == 200
        async with w.http(Cookie=f"choroid_session_8080={cookies[1]}") as browser:
            assert (await browser.get("/api/rig")).status_code == 401
        kinds = [row.kind for row in w.controller.journal.rows if row.kind.startswith("users.")]
        assert kinds == ["users.issued", "users.password_set", "users.revoked", "users.revoked"]


@pytest.mark.virtual_time
async def test_P5_who_is_removed_while_a_password_is_hashed_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as w, w.http(authorization=await account(w)) as bob:

        async def hashed(_: str) -> str:
            w.app.state.auth.revoke("bob")
            return dashboards.passwords.HASHER.hash(GOOD)

        monkeypatch.setattr(w.app.state.auth.passwords, "hashed", hashed)
        assert (await bob.put("/api/session/password", json={"password": GOOD})).status_code == 401
        assert w.app.state.auth.password_of("bob") is None


@pytest.mark.virtual_time
async def test_S1_no_session_of_another_user_is_seen_or_ended() -> None:
    async with world() as w:
        bob, eve = await account(w), await account(w, "eve", "engineer")
        async with w.http(authorization=bob) as browser:
            await browser.post("/api/session")
            (own,) = (await browser.get("/api/session")).json()["sessions"]
        async with w.http(authorization=eve) as other:
            assert (await other.get("/api/session")).json()["sessions"] == []
            assert (await other.delete(f"/api/session/{own['id']}")).status_code == 404


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", ["bob", "unknown here"])
async def test_P5_wrong_passwords_are_counted_and_bounded_and_a_token_still_works(name: str) -> None:
    async with world() as w:
        bob = await account(w)
        async with w.http(authorization=bob) as client:
            await client.put("/api/session/password", json={"password": GOOD})
        async with w.http(Origin=BASE) as guesser:
            answers = [
                await guesser.post("/api/session/password", json={"name": name, "password": f"{OTHER} {i}"})
                for i in range(12)
            ]
            assert [each.status_code for each in answers] == [401] * 10 + [429] * 2
            assert len({each.json()["error"]["what"] for each in answers}) == 2  # nothing tells which names there are
            right = await guesser.post("/api/session/password", json={"name": "bob", "password": GOOD})
            assert right.status_code == 429
        assert w.app.state.failures.count == 13
        async with w.http(authorization=bob) as client:
            assert (await client.get("/api/rig")).status_code == 200


@pytest.mark.virtual_time
async def test_P5_many_addresses_cannot_guess_at_one_account() -> None:
    auth = Auth(demo=False, utc=lambda: NOW)
    password(auth, auth.issue(ANNA.name, ANNA.role))
    outcomes: list[Any] = []
    for i in range(30):
        try:
            outcomes.append(await auth.sign_in_with_password(ANNA.name, "a guess", source=f"10.0.0.{i}"))
        except Exception as error:
            outcomes.append(type(error).__name__)
    assert outcomes == [None] * 20 + ["TooManyAttempts"] * 10


@pytest.mark.virtual_time
async def test_shared_accounts_have_no_password() -> None:
    async with world() as w:
        cookie = w.app.state.auth.open_session(User("admin", Role.ADMIN))
        async with w.http(Origin=BASE, Cookie=f"choroid_session_8080={cookie}") as browser:
            assert (await browser.get("/api/session")).json()["shared"]
            assert (await browser.put("/api/session/password", json={"password": GOOD})).status_code == 409
