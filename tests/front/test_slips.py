"""Plausible slips at the `choroid` command: each is answered in words, in a line or with the usage; no tracebacks."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from choroid.commands import options
from choroid.common.failure import explain
from choroid.running.data_folder import ENDPOINT
from choroid.running.endpoint import leave_endpoint
from sim.virtual_time import MAX_SPEED

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


def choroid(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "choroid", *words], capture_output=True, text=True, timeout=120, check=False
    )


def answered(done: subprocess.CompletedProcess[str], status: int, says: str) -> None:
    """In words: `status`, and one line; argparse's has its usage before it."""
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == status, done.stderr
    lines = done.stderr.strip().splitlines()
    assert says in lines[-1]
    assert len(lines) == 1 or (status == 2 and lines[0].startswith("usage:"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("demo", "--port", "99999"), "a port from 0 to 65535"),
        (("demo", "--port", "-1"), "a port from 0 to 65535"),
        (("run", "rig.yaml", "--port", "65536"), "a port from 0 to 65535"),
        (("lab", "serve", "rig.yaml", "--base-port", "http"), "a port from 0 to 65535"),
        (("demo", "--speed", "1000"), "from 1 to 600"),
        (("lab", "serve", str(BENCH), "--speed", "1000"), "from 1 to 600"),
        (("lab", "serve", str(BENCH), "--speed", "nan"), "from 1 to 600"),
        (("verify", "kills", "--speed", "0.5"), "from 1 to 600"),
        (("demo", "--seed", "-1"), "0 or more"),
        (("lab", "serve", str(BENCH), "--seed", "-1"), "0 or more"),
        (("simulate", str(BENCH), "--seed", "-1"), "0 or more"),
        (("plan", str(BENCH), "recycle", "--seed", "1.5"), "0 or more"),
        (("verify", "campaign", "--seed", "-1"), "0 or more"),
        (("verify", "sensitivity", "--seed", "-1"), "0 or more"),
        (("simulate", str(BENCH), "--days", "nan"), "a number above 0"),
        (("simulate", str(BENCH), "--days", "0"), "a number above 0"),
        (("verify", "campaign", "--days", "inf"), "a number above 0"),
    ],
)
def test_a_number_that_is_not_possible_is_refused_with_what_is(words: tuple[str, ...], says: str) -> None:
    answered(choroid(*words), 2, says)


def test_a_lab_whose_ports_would_go_beyond_the_last_says_so() -> None:
    answered(choroid("lab", "serve", str(BENCH), "--base-port", "65535"), 1, "lower --base-port")


def test_the_speeds_that_are_taken_are_those_of_the_loop() -> None:
    assert options.MAX_SPEED == MAX_SPEED


class Elsewhere(BaseHTTPRequestHandler):
    """Knows no run, and what it answers on /api/users is no JSON."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        page = self.path == "/api/users"
        self.send_response(200 if page else 404)
        self.end_headers()
        error = {"what": "there is no such run", "where": "", "cause": "", "action": "look"}
        self.wfile.write(b"<html>" if page else json.dumps({"error": error}).encode())

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[list[str]]:
    """What is asked of a server that `tmp_path` names as its controller."""
    handler = type("Handler", (Elsewhere,), {"asked": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        leave_endpoint(tmp_path, f"http://127.0.0.1:{server.server_port}", "token")
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield handler.asked  # type: ignore[attr-defined]
        server.shutdown()
        serving.join()


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("status", "r 1"), "/api/runs/r%201"),
        (("pause", "lauf-ü"), "/api/runs/lauf-%C3%BC/pause"),
        (("abort", "a/../b?c#d"), "/api/runs/a%2F..%2Fb%3Fc%23d/abort"),
    ],
)
def test_a_runs_name_reaches_the_controller_as_it_was_typed(
    words: tuple[str, ...], path: str, tmp_path: Path, asked: list[str]
) -> None:
    answered(choroid("protocol", *words, "--data", str(tmp_path)), 1, "there is no such run")
    assert asked == [path]


def test_another_program_on_the_controllers_port_is_not_believed(tmp_path: Path, asked: list[str]) -> None:
    answered(choroid("user", "list", "--data", str(tmp_path)), 1, "is no controller")
    assert asked == ["/api/users"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"url": "http://127.0.0.1:1"}', '{"url": 5, "token": "x"}']
)
def test_an_endpoint_file_that_makes_no_sense_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / ENDPOINT).write_text(text)
    answered(choroid("protocol", "status", "--data", str(tmp_path)), 1, f"{ENDPOINT} cannot be read")


@pytest.mark.parametrize(
    "words",
    [("user", "list"), ("assay", "enter", "lactate", "8 mM", "--vessel", "loop", "--taken", "10:40")],
)
def test_every_command_to_a_running_rig_tells_of_an_empty_endpoint_file(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / ENDPOINT).write_bytes(b"")
    answered(choroid(*words, "--data", str(tmp_path)), 1, f"{ENDPOINT} cannot be read")


def test_the_endpoint_file_is_whole_or_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    leave_endpoint(tmp_path, "http://127.0.0.1:1", "old")
    assert stat.S_IMODE((tmp_path / ENDPOINT).stat().st_mode) == 0o600
    monkeypatch.setattr(json, "dump", no_room)
    leave_endpoint(tmp_path, "http://127.0.0.1:2", "new")
    assert "No space left on device" in capsys.readouterr().err
    assert json.loads((tmp_path / ENDPOINT).read_text())["token"] == "old"


def test_a_journal_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_text("garbage " * 200)
    answered(choroid("plan", str(BENCH), "recycle", "--data", str(tmp_path)), 1, "file is not a database")


@pytest.mark.parametrize("words", [("check", "nowhere.yaml"), ("plan", "recycle", str(BENCH))], ids=["path", "order"])
def test_a_file_that_is_not_there_is_named_with_the_next_action(words: tuple[str, ...]) -> None:
    done = choroid(*words)
    answered(done, 1, f"No such file or directory: {words[1]}. Likely cause: a slip in the path")
    assert "Next: check the path" in done.stderr


def test_what_only_a_defect_of_this_program_raises_keeps_its_traceback() -> None:
    assert explain(sqlite3.OperationalError("database is locked")) is not None
    assert explain(sqlite3.ProgrammingError("Cannot operate on a closed database.")) is None
