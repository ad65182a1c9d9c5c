"""Who may do what: tokens, roles, sessions, and requests that come from elsewhere."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.journal.terms import JournalUnwritten
from dashboards.auth import (
    FILE,
    MAX_SESSIONS,
    SESSION_AGE,
    TICKET_AGE,
    TOKEN_DAYS,
    Auth,
    CredentialsError,
    LastAdmin,
    Role,
    User,
)
from tests.dashboards.world import BASE, World, world

NOW = datetime(2026, 5, 4, tzinfo=UTC)
URL = "http://127.0.0.1:8080"


def now() -> datetime:
    """The time at which nothing has aged."""
    return NOW


class Hours:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.utc = NOW

    def __call__(self) -> datetime:
        return self.utc


SAMPLES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/api/runs"): {"protocol": "recycle"},
    ("PUT", "/api/speed"): {"speed": 10},
    ("POST", "/api/estop/reset"): {"reason": "because"},
    ("POST", "/api/faults"): {"kind": "unplug", "target": "sim:gas"},
    ("POST", "/api/session/password"): {"name": "bob", "password": "a guess"},
    ("PUT", "/api/session/password"): {"password": "kettle Orbit seventeen moss"},
    ("POST", "/api/users"): {"name": "bob", "role": "viewer"},
    ("POST", "/api/bypasses/temperature"): {"reason": "because", "minutes": 5},
}
OPEN = {("GET", "/health")}


def routes(w: World) -> list[tuple[str, str]]:
    """Every route of the OpenAPI document, with its path filled in."""
    found = []
    for path, verbs in w.app.openapi()["paths"].items():
        filled = path.replace("{run_id}", "run-1").replace("{alarm_id}", "device_lost:ph_loop")
        filled = filled.replace("{name}", "bob").replace("{number}", "1")
        filled = filled.replace("{interlock}", "temperature").replace("{electrode}", "3")
        found += [(verb.upper(), filled) for verb in verbs]
    assert len(found) > 20
    return found


async def ask(client: Any, verb: str, path: str) -> Any:
    if path == "/api/history":
        path += "?point=ph_loop.ph"
    body = None if verb in ("GET", "DELETE") else SAMPLES.get((verb, path), {"reason": "because"})
    return await client.request(verb, path, json=body)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer " + "x" * 5000},
        {"Authorization": "Basic YWRtaW46YWRtaW4="},
        {"Cookie": "choroid_session_8080=guess; choroid_session_80=guess", "Origin": BASE},
    ],
)
async def test_S1_no_route_answers_or_acts_without_a_credential(headers: dict[str, str]) -> None:
    async with world() as w:
        w.controller.alarms.event("device_lost", "ph_loop", "no reply")
        before = w.changes()
        async with w.http(None, **headers) as unknown:
            for verb, path in routes(w):
                answer = await ask(unknown, verb, path)
                if (verb, path) in OPEN:
                    continue
                assert answer.status_code == 401, (verb, path)
                assert answer.json()["error"]["action"]
        assert w.changes() == before


@pytest.mark.virtual_time
async def test_S2_a_viewer_sees_everything_and_operates_nothing() -> None:
    async with world() as w:
        w.controller.alarms.event("device_lost", "ph_loop", "no reply")
        before = w.changes()
        async with w.http(Role.VIEWER) as viewer:
            for verb, path in routes(w):
                if path.startswith("/api/session"):
                    continue
                answer = await ask(viewer, verb, path)
                if path.startswith(("/api/users", "/api/tokens", "/api/agents")):
                    assert answer.status_code == 403, (verb, path)
                    assert "admin" in answer.json()["error"]["cause"]
                elif verb == "GET":
                    assert answer.status_code in (200, 404), (verb, path)  # 404: there is no run-1
                else:
                    assert answer.status_code == 403, (verb, path)
                    needed = (
                        "engineer"
                        if path.endswith(
                            ("/out-of-service", "/bypasses/temperature", "/review", "/release", "/withdraw")
                        )
                        and verb == "POST"
                        else "operator"
                    )
                    assert needed in answer.json()["error"]["cause"]
        assert w.changes() == before


@pytest.mark.virtual_time
async def test_I6_S2_only_an_engineer_bypasses_an_interlock_and_every_user_sees_it() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator, w.http(Role.ENGINEER) as engineer:
        asked: dict[str, Any] = {"reason": "the probe is being replaced", "minutes": 5}
        assert (await operator.post("/api/bypasses/temperature", json=asked)).status_code == 403
        assert (await engineer.post("/api/bypasses/temperature", json=asked | {"reason": " "})).status_code == 422
        assert (await engineer.post("/api/bypasses/volumes", json=asked)).status_code == 409
        begun = await engineer.post("/api/bypasses/temperature", json=asked)
        assert begun.status_code == 200
        assert begun.json()["user"] == "a engineer"
        async with w.http(Role.VIEWER) as viewer:
            assert (await viewer.get("/api/bypasses")).json()["bypasses"] == [begun.json()]
        assert (await operator.delete("/api/bypasses/temperature")).status_code == 204, "tightening needs less"
        assert (await operator.delete("/api/bypasses/temperature")).status_code == 409


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("headers", "where"),
    [
        ({"Host": "rig.evil.example"}, "the Host header"),
        ({"Host": "127.0.0.1.evil.example:8080"}, "the Host header"),
        ({"Host": "[::1"}, "the Host header"),
        ({"Origin": "http://evil.example"}, "the Origin header"),
        ({"Origin": "http://127.0.0.1:9999"}, "the Origin header"),
        ({"Origin": "null"}, "the Origin header"),
        ({"Origin": "http://[::1"}, "the Origin header"),
    ],
)
async def test_S1_a_request_meant_for_another_host_or_made_by_another_page_is_refused(
    headers: dict[str, str], where: str
) -> None:
    async with world() as w:
        before = w.changes()
        async with w.http(Role.ADMIN, **headers) as admin:
            answer = await admin.post("/api/estop", json={})
            assert answer.status_code == 403
            assert answer.json()["error"]["where"] == where
        assert w.changes() == before


@pytest.mark.virtual_time
async def test_S1_a_cookie_alone_does_not_act_without_an_origin() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        cookie = (await operator.post("/api/session")).cookies.get("choroid_session_8080")
        assert cookie
        async with w.http(Cookie=f"choroid_session_8080={cookie}") as browser:
            assert (await browser.get("/api/state")).status_code == 200
            assert (await browser.post("/api/estop", json={})).status_code == 403
            assert w.controller.gate.emergency is None
            acted = await browser.post("/api/estop", json={}, headers={"Origin": BASE})
            assert acted.status_code == 200


@pytest.mark.virtual_time
async def test_a_session_cookie_is_out_of_reach_of_scripts_and_ends() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        answer = await viewer.post("/api/session")
        set_cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in set_cookie
        assert "SameSite=strict" in set_cookie
        value = answer.cookies["choroid_session_8080"]
        headers = {"Cookie": f"choroid_session_8080={value}", "Origin": BASE}
        async with w.http(None, **headers) as browser:
            assert (await browser.get("/api/rig")).json()["role"] == "viewer"
            assert (await browser.delete("/api/session")).status_code == 204
            assert (await browser.get("/api/rig")).status_code == 401


@pytest.mark.virtual_time
async def test_S2_a_user_with_very_many_sessions_signs_out_no_other() -> None:
    """A viewer once signed everybody out by opening 520 of them."""
    async with world() as w, w.http(Role.ADMIN) as admin, w.http(Role.VIEWER) as viewer:
        person = (await admin.post("/api/session")).cookies["choroid_session_8080"]
        opened = [(await viewer.post("/api/session")).cookies["choroid_session_8080"] for _ in range(520)]
        async with w.http(Cookie=f"choroid_session_8080={person}") as browser:
            assert (await browser.get("/api/rig")).json()["role"] == "admin"
        assert [value for value in opened if w.auth.by_session(value)] == opened[-MAX_SESSIONS:]


async def test_the_demo_lets_only_this_machine_in() -> None:
    async with world(demo=True) as w, w.http() as browser:
        page = await browser.get("/")
        assert page.status_code == 200
        assert "choroid_session_8080" in page.cookies
        assert (await browser.get("/api/rig")).json()["role"] == "operator"
        async with w.http() as program:
            assert (await program.get("/api/rig")).status_code == 401
    async with world() as w, w.http() as browser:
        assert "set-cookie" not in (await browser.get("/")).headers


async def test_every_answer_forbids_foreign_scripts_and_frames() -> None:
    async with world() as w, w.http() as unknown:
        for path in ("/", "/static/js/main.js", "/health", "/api/rig"):
            headers = (await unknown.get(path)).headers
            policy = headers["content-security-policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/js"])
async def test_S5_no_path_leads_out_of_the_pages_own_folder(path: str) -> None:
    async with world() as w, w.http(Role.ADMIN) as admin:
        answer = await admin.get(path)
        assert answer.status_code == 404
        assert "create_app" not in answer.text


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "evil", ["run-1'; DROP TABLE entries;--", "../../../etc/passwd", "$(reboot)", "%00", "ü" * 300]
)
async def test_S5_names_from_outside_are_only_compared(evil: str) -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        before = w.changes()
        for path in (f"/api/runs/{evil}/pause", f"/api/alarms/{evil}/acknowledge"):
            answer = await operator.post(path, json={})
            assert answer.status_code in (404, 405)
        assert (await operator.get("/api/history", params={"point": evil})).status_code in (404, 422)
        assert w.controller.history.asked == []
        assert w.changes() == before


def test_S4_credentials_are_kept_hashed_and_for_their_owner_alone(tmp_path: Path) -> None:
    utc = Hours()
    auth = Auth(tmp_path, demo=False, utc=utc)
    token = auth.issue("admin", Role.ADMIN)
    signed_in = auth.sign_in(token)
    assert signed_in is not None
    text = (tmp_path / FILE).read_text()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert token not in text
    assert signed_in[1] not in text
    again = Auth(tmp_path, demo=False, utc=utc)
    assert again.by_token(token) == User("admin", Role.ADMIN)
    utc.utc += timedelta(days=1)
    assert again.by_session(signed_in[1]) == User("admin", Role.ADMIN)
    utc.utc = NOW + SESSION_AGE
    assert again.by_session(signed_in[1]) is None


def test_P5_the_first_link_opens_one_session_within_an_hour_and_later_links_let_in_an_engineer(tmp_path: Path) -> None:
    """Its token was once an admin's for good."""
    utc = Hours()
    late = Auth(tmp_path, demo=False, utc=utc)
    assert late.link("http://[::1]:8080").startswith("http://[::1]:8080/#token=")
    ticket = _secret(late)
    utc.utc += TICKET_AGE
    assert late.sign_in(ticket) is None
    assert late.sign_in(ticket) is None

    auth = Auth(tmp_path, demo=False, utc=utc)
    ticket = _secret(auth)
    assert auth.by_token(ticket) is None, "it is good for a sign-in alone"
    signed_in = auth.sign_in(ticket)
    assert signed_in is not None, "no admin has come in yet, so this link is a first one too"
    assert signed_in[0] == User("admin", Role.ADMIN)
    assert auth.by_session(signed_in[1]) == signed_in[0]
    assert auth.sign_in(ticket) is None
    assert ticket not in (tmp_path / FILE).read_text()

    again = Auth(tmp_path, demo=False, utc=utc)
    earlier, ticket = _secret(again), _secret(again)
    assert again.sign_in(earlier) is None, "a new link ends the one before"
    signed_in = again.sign_in(ticket)
    assert signed_in is not None
    assert signed_in[0] == User("page link", Role.ENGINEER)
    assert again.tokens() == []


def test_P5_each_token_ends_and_its_sessions_with_it(tmp_path: Path) -> None:
    utc = Hours()
    auth = Auth(tmp_path, demo=False, utc=utc)
    short, long = auth.issue("anna", Role.VIEWER, days=1), auth.issue("anna", Role.VIEWER)
    signed_in = auth.sign_in(short)
    assert signed_in is not None
    utc.utc += timedelta(days=1)
    for each in (auth, Auth(tmp_path, demo=False, utc=utc)):
        assert each.by_token(short) is None
        assert each.by_session(signed_in[1]) is None
        assert each.by_token(long) == User("anna", Role.VIEWER)
        assert [token.until for token in each.tokens()] == [NOW + timedelta(days=TOKEN_DAYS)]


def test_P5_the_last_use_of_a_token_is_kept(tmp_path: Path) -> None:
    utc = Hours()
    auth = Auth(tmp_path, demo=False, utc=utc)
    token = auth.issue("anna", Role.VIEWER, purpose="Grafana")
    assert [each.used for each in auth.tokens()] == [None]
    utc.utc += timedelta(hours=3)
    auth.by_token(token)
    assert [(each.purpose, each.used) for each in auth.tokens()] == [("Grafana", utc.utc)]
    again = Auth(tmp_path, demo=False, utc=utc)
    assert [(each.purpose, each.used) for each in again.tokens()] == [("Grafana", utc.utc)]


@pytest.mark.virtual_time
async def test_P5_one_token_is_revoked_alone_with_the_sessions_that_it_opened() -> None:
    async with world() as w, w.http(Role.ADMIN) as admin:
        body = {"name": "bob", "role": "viewer", "days": 30}
        lost = (await admin.post("/api/users", json={**body, "purpose": "laptop"})).json()
        kept = (await admin.post("/api/users", json=body)).json()
        cookies = []
        for given in (lost, kept):
            async with w.http(authorization=f"Bearer {given['token']}") as bob:
                cookies.append((await bob.post("/api/session")).cookies["choroid_session_8080"])
        listed = {row["id"]: row for row in (await admin.get("/api/users")).json()["tokens"]}
        row = listed[lost["id"]]
        assert (row["name"], row["role"], row["purpose"], row["until_utc"]) == (
            "bob", "viewer", "laptop", lost["until_utc"],
        )  # fmt: skip
        assert row["used_utc"] is not None
        gone = await admin.post(f"/api/tokens/{lost['id']}/revoke", json={"reason": "the laptop was lost"})
        assert gone.status_code == 200
        assert lost["id"] not in {row["id"] for row in gone.json()["tokens"]}
        for given, cookie, status in ((lost, cookies[0], 401), (kept, cookies[1], 200)):
            async with w.http(authorization=f"Bearer {given['token']}") as bob:
                assert (await bob.get("/api/rig")).status_code == status
            async with w.http(Cookie=f"choroid_session_8080={cookie}") as browser:
                assert (await browser.get("/api/rig")).status_code == status
        last = [row for row in w.controller.journal.rows if row.kind.startswith("users.")][-1]
        assert (last.kind, last.body["id"], last.body["user"]) == ("users.revoked", lost["id"], "a admin")
        assert (await admin.post(f"/api/tokens/{lost['id']}/revoke", json={})).status_code == 404


def full(folder: Path) -> None:
    """The credentials can be written no more."""
    (folder / FILE).with_suffix(".new").mkdir()


def test_D2_on_a_full_disk_a_session_is_kept_in_memory_and_written_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    auth = Auth(tmp_path, demo=False, utc=now)
    full(tmp_path)
    signed_in = auth.sign_in(_secret(auth))
    assert signed_in is not None
    user, value = signed_in
    assert auth.by_session(value) == user
    assert "Next: look at free space" in caplog.text
    (tmp_path / FILE).with_suffix(".new").rmdir()
    auth.issue("anna", Role.VIEWER)
    assert Auth(tmp_path, demo=False, utc=now).by_session(value) == user


def unwritten(*_: object, **__: object) -> int:
    """A journal's row on a full disk."""
    raise JournalUnwritten(sqlite3.OperationalError("database or disk is full"))


@pytest.mark.virtual_time
async def test_D2_a_new_user_signs_in_although_neither_credentials_nor_journal_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as w, w.http(Role.OPERATOR) as operator:
        full(tmp_path)
        monkeypatch.setattr(w.controller.journal, "append", unwritten)
        answer = await operator.post("/api/session")
        assert answer.status_code == 200, answer.text
        cookie = answer.cookies["choroid_session_8080"]
        async with w.http(Cookie=f"choroid_session_8080={cookie}") as browser:
            assert (await browser.get("/api/rig")).json()["user"] == "a operator"
        assert "a operator (operator) signed in" in caplog.text


@pytest.mark.virtual_time
async def test_P1_a_name_that_reads_as_another_account_is_refused() -> None:
    async with world() as w, w.http(Role.ADMIN) as admin:
        bob = {"name": "Bob Miller", "role": "viewer"}
        assert (await admin.post("/api/users", json=bob)).status_code == 201
        assert (await admin.post("/api/users", json=bob)).status_code == 201, "a second token of the same account"
        own = (
            "command line",
            "Page Link",
            "command line (root)",
            "сommand line",
            "Command\u2060 Line (ada)",
            "сommand line (ada)",
        )
        looks = (
            "Воb Miller",
            "B0b Miller",
            "Bob Mi11er",
            "Bob\u200d Miller",
            "Bob Ｍiller",
        )
        for name in ("bob miller", "Bob  Miller", "\u200b", *own, *looks):
            refused = await admin.post("/api/users", json={**bob, "name": name})
            assert (refused.status_code, "reads as the account" in refused.text) == (409, True), name
        assert (await admin.post("/api/users", json={**bob, "name": "Bob Miller jr"})).status_code == 201


@pytest.mark.virtual_time
async def test_D2_on_a_full_disk_a_token_is_not_given_and_one_that_is_taken_back_says_for_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path) as w, w.http(Role.ADMIN) as admin:
        bob = {"name": "bob", "role": "viewer", "reason": "a new colleague"}
        token = (await admin.post("/api/users", json=bob)).json()["token"]
        with monkeypatch.context() as patched:
            patched.setattr(w.controller.journal, "append", unwritten)
            assert (await admin.post("/api/users", json={**bob, "name": "eve"})).status_code == 503
        assert "eve" not in (await admin.get("/api/users")).text, "only users on record are let in"
        full(tmp_path)
        refused = await admin.post("/api/users", json={**bob, "name": "eve"})
        assert refused.status_code == 507
        assert "no token was given to eve" in refused.text
        assert "eve" not in (await admin.get("/api/users")).text
        monkeypatch.setattr(w.controller.journal, "append", unwritten)
        taken = await admin.post("/api/users/bob/revoke", json={"reason": "left"})
        assert taken.status_code == 507
        assert "until this controller is restarted" in taken.text
        async with w.http(authorization=f"Bearer {token}") as gone:
            assert (await gone.get("/api/rig")).status_code == 401
        (tmp_path / FILE).with_suffix(".new").rmdir()
        assert (await admin.post("/api/users/bob/revoke", json={"reason": "left"})).status_code == 404
        w.auth.issue("ann", Role.VIEWER)  # any change writes all of them
        assert Auth(tmp_path, demo=False, utc=now).by_token(token) is None


def test_the_command_line_token_ends_with_the_process(tmp_path: Path) -> None:
    auth = Auth(tmp_path, demo=False, utc=now)
    token = auth.command_line_token()
    assert auth.by_token(token) == User("command line", Role.ADMIN)
    assert Auth(tmp_path, demo=False, utc=now).by_token(token) is None


def test_a_revoked_name_is_forgotten(tmp_path: Path) -> None:
    auth = Auth(tmp_path, demo=False, utc=now)
    token = auth.issue("wall", Role.VIEWER)
    session = auth.open_session(User("wall", Role.VIEWER))
    assert auth.revoke("wall") == 2
    assert auth.by_token(token) is None
    assert auth.by_session(session) is None


def test_A11_a_damaged_file_admits_only_the_page_link_and_says_what_to_do(tmp_path: Path) -> None:
    """It once stopped the rig's controller."""
    token = Auth(tmp_path, demo=False, utc=now).issue("ann", Role.ADMIN)
    body = json.loads((tmp_path / FILE).read_text())
    body["tokens"][0]["role"] = "king"
    (tmp_path / FILE).write_text(json.dumps(body))
    damaged = (tmp_path / FILE).read_bytes()
    auth = Auth(tmp_path, demo=False, utc=now)
    assert "restore it" in auth.problem
    assert auth.by_token(token) is None
    assert signed_in(auth) == User("page link", Role.ADMIN)
    assert signed_in(auth) == User("page link", Role.ADMIN), "each link does so until the file is restored"
    given = auth.issue("anna", Role.VIEWER)
    assert auth.by_token(given) == User("anna", Role.VIEWER)
    assert (tmp_path / FILE).read_bytes() == damaged, "it is evidence"


def test_A11_a_folder_that_takes_no_credentials_is_no_reason_to_stop(tmp_path: Path) -> None:
    auth = Auth(tmp_path / "gone", demo=False, utc=now)
    assert "cannot be written" in auth.problem
    assert signed_in(auth) == User("page link", Role.ADMIN)


def signed_in(auth: Auth) -> User:
    """The user whom the page link lets in."""
    found = auth.sign_in(_secret(auth))
    assert found is not None
    return found[0]


def _secret(auth: Auth) -> str:
    return auth.link(URL).partition("#token=")[2]


def test_the_demo_writes_nothing(tmp_path: Path) -> None:
    auth = Auth(tmp_path, demo=True, utc=now)
    auth.demo_session()
    assert list(tmp_path.iterdir()) == []
    assert auth.link(URL) == f"{URL}/"
    with pytest.raises(CredentialsError):
        Auth(tmp_path, demo=False, utc=now).demo_session()


@pytest.mark.virtual_time
async def test_an_admin_gives_and_takes_back_tokens_and_both_are_recorded() -> None:
    async with world() as w, w.http(Role.ADMIN) as admin:
        given = await admin.post("/api/users", json={"name": "bob", "role": "viewer", "reason": "a new colleague"})
        assert given.status_code == 201
        token = given.json()["token"]
        bearer = {"Authorization": f"Bearer {token}"}
        async with w.http(None, **bearer) as bob:
            assert (await bob.get("/api/state")).status_code == 200
            assert (await bob.post("/api/estop", json={})).status_code == 403
            listed = (await admin.get("/api/users")).json()["users"]
            assert {"name": "bob", "role": "viewer", "tokens": 1, "sessions": 0} in listed
            assert token not in str(listed)
            left = await admin.post("/api/users/bob/revoke", json={"reason": "has left"})
            assert left.status_code == 200
            assert "bob" not in {user["name"] for user in left.json()["users"]}
            assert (await bob.get("/api/state")).status_code == 401
        again = await admin.post("/api/users/bob/revoke", json={})
        assert again.status_code == 404
        given_and_taken = [row for row in w.controller.journal.rows if row.kind.startswith("users.")]
        rows = [(row.kind, row.body["user"], row.body["name"]) for row in given_and_taken]
        assert rows == [("users.issued", "a admin", "bob"), ("users.revoked", "a admin", "bob")]
        assert token not in str([row.body for row in w.controller.journal.rows])


@pytest.mark.virtual_time
async def test_a_name_with_a_slash_can_be_revoked() -> None:
    async with world() as w, w.http(Role.ADMIN) as admin:
        w.auth.issue("Ann/Bob", Role.VIEWER)
        left = await admin.post("/api/users/Ann%2FBob/revoke", json={"reason": "has left"})
        assert left.status_code == 200, left.text
        assert "Ann/Bob" not in {user["name"] for user in left.json()["users"]}


def test_the_last_admin_cannot_be_forgotten(tmp_path: Path) -> None:
    auth = Auth(tmp_path, demo=False, utc=now)
    signed_in(auth)
    with pytest.raises(LastAdmin, match="only admin"):
        auth.revoke("admin")
    auth.issue("anna", Role.ADMIN)
    assert auth.revoke("admin") == 1
    (only,) = auth.tokens()
    with pytest.raises(LastAdmin, match="only admin"):
        auth.revoke_token(only.id)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "", "role": "viewer"},
        {"name": "x", "role": "king"},
        {"name": "x\ny", "role": "admin"},
        {"name": "x/y", "role": "viewer"},
        {"name": "x", "role": "viewer", "days": 0},
        {"name": "x", "role": "viewer", "days": 401},
        {"name": "\u202eanna", "role": "viewer"},
    ],
)
async def test_an_invitation_that_makes_no_sense_is_refused(body: dict[str, Any]) -> None:
    async with world() as w, w.http(Role.ADMIN) as admin:
        before = w.changes()
        assert (await admin.post("/api/users", json=body)).status_code == 422
        assert w.changes() == before


SLOW_S = 1.0
"""How long the disk takes for each fsync in the tests of R2 (s)."""


async def test_R2_a_slow_disk_delays_tokens_and_sign_ins_and_never_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sign-in once waited for the disk on the control loop."""

    def slow(descriptor: int) -> None:
        time.sleep(SLOW_S)

    async def beat() -> None:
        while True:
            begun_s = time.monotonic()
            await asyncio.sleep(0.01)
            lags_s.append(time.monotonic() - begun_s - 0.01)

    lags_s: list[float] = []
    async with world(tmp_path, threaded=True) as w, w.http(Role.ADMIN) as admin:
        await w.auth.kept("")
        monkeypatch.setattr("os.fsync", slow)
        beating = asyncio.create_task(beat())
        signed_in = await admin.post("/api/session")
        assert signed_in.status_code == 200
        bob = {"name": "bob", "role": "viewer", "reason": "a new colleague"}
        begun_s = time.monotonic()
        given = await admin.post("/api/users", json=bob)
        assert given.status_code == 201
        assert time.monotonic() - begun_s > SLOW_S, "the token is on the disk before it is given"
        taken = await admin.post("/api/users/bob/revoke", json={"reason": "left"})
        assert taken.status_code == 200
        beating.cancel()
        assert max(lags_s) < SLOW_S / 2
        again = Auth(tmp_path, demo=False, utc=now)
        assert again.by_token(given.json()["token"]) is None
        assert again.by_session(signed_in.cookies["choroid_session_8080"]) is not None


async def test_R2_D2_what_the_thread_cannot_write_is_refused_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, threaded=True) as w, w.http(Role.ADMIN) as admin:
        await w.auth.kept("")
        full(tmp_path)
        bob = {"name": "eve", "role": "viewer", "reason": "a new colleague"}
        refused = await admin.post("/api/users", json=bob)
        assert refused.status_code == 507
        assert "no token was given to eve" in refused.text
        assert "eve" not in (await admin.get("/api/users")).text
        gone = await admin.post("/api/users/a viewer/revoke", json={"reason": "left"})
        assert gone.status_code == 507
        assert "until this controller is restarted" in gone.text
