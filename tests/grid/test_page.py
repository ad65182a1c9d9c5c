"""The hub's page as a process: what it shows, what it refuses, and that it changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from choroid.cli import main
from controller.signed_log import merkle
from controller.signed_log.notes import Checkpoint, NoteKey, signature_time
from grid.errors import GridError
from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.store import Store
from grid.identity.keys import KEY_FILE
from grid.page.app import page_app
from grid.page.reading import HubReader, spans
from tests.browser.pages import Server, free_port
from tests.grid.filled_hub import HOSTILE, MODEL, SECRET, fill

WITHIN_S = 60.0
"""Of an answer: it takes milliseconds on a machine without other work."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub's folder without its key, which the page neither needs nor makes."""
    found = tmp_path_factory.mktemp("page") / "hub"
    fill(found)
    (found / KEY_FILE).rename(found.parent / KEY_FILE)
    return found


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Server]:
    port = free_port()
    server = Server(("choroid", "grid", "page", "serve", "--data", str(folder), "--port", str(port)), port)
    try:
        yield server
    finally:
        server.end()


def ask(page: Server, path: str, *, method: str = "GET", host: str = "") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=WITHIN_S)
    try:
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{page.port}"})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def state(page: Server) -> Any:
    status, _, body = ask(page, "/api/state")
    assert status == 200
    return json.loads(body)


def test_it_shows_members_tissue_work_boards_and_log(page: Server) -> None:
    found = state(page)
    assert (found["hub"], found["members_count"], len(found["members"])) == ("hub.example.org/log", 5, 5)
    assert found["members"][0]["state"] == "pending"
    member = next(each for each in found["members"] if each["name"] == "member-0")
    assert {"label": "matrix products", "value": 5.21e11, "unit": "flop/s"} in member["figures"]
    assert member["roles"] == ["compute", "relay", "agent_host"]
    assert member["work"] == ["grading", f"stimulates o1 of lab-1: {HOSTILE}"]
    (tissue,) = found["tissues"]
    (holder,), (waiting,) = tissue["holders"], tissue["queue"]
    assert (holder["member"], holder["electrodes"], holder["state"]) == ("member-0", "0–3, 7", "active")
    assert (waiting["member"], waiting["position"]) == ("member-1", 1)
    (job,) = found["work"]
    assert (job["job"], job["holder"], job["state"], job["outer_steps"]) == (HOSTILE, "member-1", "active", 200)
    assert [(each["member"], each["outer"], each["loss"], each["state"]) for each in job["ranks"]] == [
        ("member-1", 7, 0.25, "trains"),
        ("member-2", 7, None, "trains"),
    ]
    assert [each["scores"] for each in job["ranks"]] == [{"accuracy": 0.25, "loss": 0.5}, {"loss": 0.5}]
    board = next(each for each in found["boards"] if each["key"].startswith("decode-stimulus@"))
    (row,) = board["rows"]
    assert (row["rank"], row["name"], row["member"], row["score"]) == (1, "first-model", "member-0", 0.875)
    assert [each["name"] for each in board["baselines"]] == ["zero"]
    (witness,) = found["log"]["witnesses"]
    assert (witness["name"], witness["rows"]) == ("witness.example.org/log", found["log"]["rows"])


def test_no_answer_has_a_model_or_a_secret(page: Server) -> None:
    text = ask(page, "/api/state")[2]
    for hidden in (SECRET, SECRET.hex().encode(), MODEL, hashlib.sha256(MODEL).hexdigest().encode()):
        assert hidden not in text
    for path in ("/boards.db", "/hub.sqlite", "/static/../../../hub.sqlite", "/static/%2e%2e/app.py", "/identity.key"):
        assert ask(page, path)[0] == 404, path


def test_X6_the_page_shows_the_signed_checkpoint_without_the_key(page: Server, folder: Path) -> None:
    head = state(page)["log"]
    assert ask(page, "/log/checkpoint")[2].decode() == head["checkpoint"]
    assert signature_time(head["checkpoint"], NoteKey.parse(head["key"])) == 0
    assert Checkpoint.parse(head["checkpoint"]).size == head["rows"] > 0
    assert not (folder / KEY_FILE).exists()
    reader = Store(folder)
    with pytest.raises(GridError, match="only reads the log"):
        reader.log.signature(b"")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.database.execute("DELETE FROM log")
    reader.close()


def test_a_folder_whose_hub_was_cut_off_at_its_start_is_shown_after_it_has_started(tmp_path: Path) -> None:
    store = owned(tmp_path)
    store.database.executescript("DROP TABLE checkpoint; DELETE FROM meta WHERE key = 'public key'")
    store.close()
    with pytest.raises(GridError, match="start the hub"):
        HubReader(tmp_path)
    owned(tmp_path).close()
    reader = HubReader(tmp_path)
    assert Checkpoint.parse(reader.read().log.checkpoint).size == 0
    reader.close()


def test_a_database_that_cannot_be_read_is_named_and_read_again_later(tmp_path: Path) -> None:
    fill(tmp_path)
    reader = HubReader(tmp_path)
    size = Checkpoint.parse(reader.checkpoint()).size
    app = page_app(reader)

    async def answers() -> list[tuple[int, bytes]]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
            paths = ("/api/state", "/log/checkpoint", f"/log/tile/0/000.p/{size}")
            return [(answer.status_code, answer.content) for answer in [await client.get(path) for path in paths]]

    reader._store.database.set_progress_handler(lambda: 1, 1)
    for status, body in asyncio.run(answers()):
        assert (status, b"cannot be read" in body, b"Next: " in body) == (503, True, True)
    reader._store.database.set_progress_handler(None, 1)
    assert [status for status, _ in asyncio.run(answers())] == [200, 200, 200]
    reader.close()


def test_a_row_that_is_too_long_for_a_tile_is_named(tmp_path: Path) -> None:
    store = owned(tmp_path)
    with store.transaction():
        store.note("long", {"text": "x" * 70_000})
    store.close()
    reader = HubReader(tmp_path)
    with pytest.raises(GridError, match=r"row 0 of the log has 70\d\d\d bytes"):
        reader.tile("tile/entries/000.p/1")
    reader.close()


def test_removed_rows_are_named_on_the_page(tmp_path: Path) -> None:
    store = owned(tmp_path)
    with store.transaction():
        store.note("a", {})
        store.note("b", {})
    store.database.execute("DELETE FROM log WHERE number = 1")
    store.close()
    reader = HubReader(tmp_path)
    with pytest.raises(GridError, match="rows were removed"):
        reader.read()
    reader.close()


def test_a_hub_does_not_start_with_another_key_or_without_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        owned(tmp_path / name).close()
    (tmp_path / "a" / KEY_FILE).replace(tmp_path / "b" / KEY_FILE)
    with pytest.raises(GridError, match="not that of the hub"):
        owned(tmp_path / "b")
    with pytest.raises(GridError, match="is missing"):
        owned(tmp_path / "a")
    assert not (tmp_path / "a" / KEY_FILE).exists()


def test_a_hub_without_boards_and_members_is_shown_as_empty(tmp_path: Path) -> None:
    owned(tmp_path / "hub").close()
    reader = HubReader(tmp_path / "hub")
    found = reader.read()
    reader.close()
    assert (found.members, found.tissues, found.log.rows, found.log.witnesses) == ([], [], 0, [])
    assert found.boards
    assert all(board.rotation is None for board in found.boards)


def test_a_folder_named_as_a_board_is_ignored_and_a_malformed_board_is_named(tmp_path: Path) -> None:
    owned(tmp_path).close()
    (tmp_path / "boards" / "folder.yaml").mkdir(parents=True)
    reader = HubReader(tmp_path)
    assert reader.read().boards
    (tmp_path / "boards" / "mine.yaml").write_text("board: mine")
    with pytest.raises(GridError, match=r"mine\.yaml"):
        reader.read()
    reader.close()


def test_every_answer_has_the_headers_and_another_host_is_refused(page: Server) -> None:
    for path in ("/", "/api/state", "/static/js/main.js", "/log/checkpoint", "/nothing"):
        headers = ask(page, path)[1]
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    status, headers, body = ask(page, "/api/state", host="evil.example.org")
    assert (status, b"member" in body) == (400, False)
    assert "content-security-policy" in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_it_accepts_no_change(page: Server, folder: Path, method: str) -> None:
    before = (folder / "hub.sqlite").read_bytes()
    for path in ("/", "/api/state", "/log/checkpoint"):
        assert ask(page, path, method=method)[0] == 405
    assert (folder / "hub.sqlite").read_bytes() == before


def test_a_change_at_the_hub_is_shown(page: Server, folder: Path) -> None:
    (folder.parent / KEY_FILE).rename(folder / KEY_FILE)
    store = owned(folder)
    Members(store).decide("member-2", "revoke", "operator", "a lost key")
    store.close()
    (folder / KEY_FILE).rename(folder.parent / KEY_FILE)
    deadline = time.monotonic() + WITHIN_S
    while True:
        member = next(each for each in state(page)["members"] if each["name"] == "member-2")
        if member["state"] == "revoked":
            break
        assert time.monotonic() < deadline
    assert member["reason"] == "a lost key"


def test_the_log_is_served_in_the_form_of_tiles(page: Server) -> None:
    note = ask(page, "/log/checkpoint")[2].decode()
    checkpoint = Checkpoint.parse(note)
    assert signature_time(note, NoteKey.parse(state(page)["log"]["key"])) == 0
    leaves = ask(page, f"/log/tile/0/000.p/{checkpoint.size}")[2]
    nodes: dict[tuple[int, int], bytes] = {}
    for number in range(checkpoint.size):
        leaf = leaves[32 * number : 32 * number + 32]
        for level, index, found in merkle.completed(number, leaf, lambda at, of: nodes[at, of]):
            nodes[level, index] = found
    assert merkle.root(checkpoint.size, lambda at, of: nodes[at, of]) == checkpoint.root
    assert ask(page, "/log/tile/0/999")[0] == 404
    assert ask(page, f"/log/tile/0/{'x999/' * 8}999")[0] == 404
    entries = ask(page, f"/log/tile/entries/000.p/{checkpoint.size}")[2]
    assert merkle.leaf_hash(entries[2 : 2 + int.from_bytes(entries[:2], "big")]) == leaves[:32]


@pytest.mark.parametrize("sends", [b"", b"GET /api/state HT", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
def test_300_idle_sockets_do_not_stop_it(page: Server, sends: bytes) -> None:
    idle = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(300)]
    try:
        for each in idle:
            each.sendall(sends)
        assert ask(page, "/health")[0] == 200
    finally:
        for each in idle:
            each.close()


def test_errors_say_what_to_do(page: Server, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grid", "page", "serve", "--data", str(tmp_path)]) == 1
    assert "no folder of a hub" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main(["grid", "page", "serve", "--data", str(folder), "--port", str(page.port)]) == 1
    assert "choose another with --port" in capsys.readouterr().err
    assert main(["grid", "page", "serve", "--data", str(folder), "--name", "a*"]) == 1
    assert "Next: give each name" in capsys.readouterr().err


def test_it_ends_with_sigterm(folder: Path) -> None:
    words = [sys.executable, "-P", "-m", "choroid", "grid", "page", "serve", "--data", str(folder), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("page: http://127.0.0.1:")
    process.terminate()
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0


def test_spans() -> None:
    assert spans([]) == ""
    assert spans([0, 1, 2, 5, 7, 8]) == "0–2, 5, 7–8"


def test_the_page_that_is_taken_over_cannot_read_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # as the command does before its imports
    fill(tmp_path)
    (tmp_path / "boards").mkdir()
    port = free_port()
    page = Server(
        ("tests.grid.page_intruder", "grid", "page", "serve", "--data", str(tmp_path), "--port", str(port)), port
    )
    try:
        key, board = str(tmp_path / KEY_FILE), str(tmp_path / "boards")
        asked = (key, str(tmp_path / "hub.sqlite"), board, str(tmp_path), "/etc/passwd")
        query = "&".join(f"{number}={path}" for number, path in enumerate(asked))
        found = json.loads(ask(page, f"/health?{query}")[2])
        denied = "PermissionError"
        assert found == {
            key: [denied, denied],
            asked[1]: ["done", denied],
            board: ["done", "done"],
            asked[3]: [denied, denied],
            asked[4]: [denied, denied],
        }
        before = state(page)
        assert before["boards"]
        assert before["members_count"] == 5
        store = owned(tmp_path)
        Members(store).decide("member-2", "revoke", "operator", "a lost key")
        store.close()
        deadline = time.monotonic() + WITHIN_S
        while next(each for each in state(page)["members"] if each["name"] == "member-2")["state"] != "revoked":
            assert time.monotonic() < deadline
        assert ask(page, "/static/js/main.js")[0] == 200
    finally:
        page.end()


def test_the_page_says_when_it_is_not_confined(tmp_path: Path) -> None:
    words = [sys.executable, "-c", UNCONFINED, "grid", "page", "serve", "--port", "0", "--data", str(tmp_path)]
    fill(tmp_path)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    process.terminate()
    process.wait(WITHIN_S)
    process.stdout.close()
    assert said.startswith("the page can read every file of this user, the hub's keys included: ")
    assert "3 threads" in said


UNCONFINED = """
import sys, threading
for _ in range(2):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
from choroid.cli import main
sys.exit(main(sys.argv[1:]))
"""
