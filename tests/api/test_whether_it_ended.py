"""A client calls a controller ended only when its process is gone; a live one is busy, or has no page at present (B2)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

import choroid
from choroid.client.connection import ENDPOINT
from choroid.common.failure import UserError
from choroid.operating.remote import call, endpoint_of

SERVER = (
    "import http.server, sys\nserver = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
    "print(server.server_port, flush=True)\nserver.serve_forever()"
)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that listens, with its address in the data folder as a controller leaves it."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        leave(tmp_path, f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid)
        yield process
    finally:
        process.kill()
        process.communicate()


def leave(folder: Path, url: str, pid: int) -> None:
    (folder / ENDPOINT).write_text(json.dumps({"url": url, "token": "t", "pid": pid}), encoding="utf-8")


def said(folder: Path) -> str:
    """Return what a script and a command say; it is the same."""
    with pytest.raises(choroid.ClientError) as script:
        choroid.connect(data=folder, timeout_s=1.0)
    with pytest.raises(UserError) as command:
        call(endpoint_of(folder), "GET", "/api/rig", timeout_s=1.0)
    one, other = str(script.value), str(command.value)
    assert one.partition(". ")[2] == other.partition(". ")[2]
    assert "Next: " in one
    return one


def test_B2_a_controller_that_gets_no_processor_is_busy(tmp_path: Path, page: subprocess.Popen[str]) -> None:
    os.kill(page.pid, signal.SIGSTOP)
    text = said(tmp_path)
    assert "its machine or the network is busy; it may well run" in text
    assert "ended" not in text


def test_B2_a_controller_whose_process_is_gone_has_ended(tmp_path: Path, page: subprocess.Popen[str]) -> None:
    page.kill()
    page.wait()
    text = said(tmp_path)
    assert f"Its process {page.pid} has ended" in text
    assert "start `choroid run` again" in text


def test_B2_a_controller_whose_page_has_failed_has_not_ended(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    leave(tmp_path, f"http://127.0.0.1:{port}", os.getpid())
    text = said(tmp_path)
    assert "its page has failed, and is started again" in text
    assert "ended" not in text
    leave(tmp_path, "", os.getpid())
    text = said(tmp_path)
    assert "has no page at present" in text
    assert "ended" not in text
    assert "`choroid run`" not in text, "it runs"


def test_B2_a_page_that_takes_no_more_connections_is_busy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def close_each() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                connection.recv(65_536)
                connection.close()

        closing = Thread(target=close_each)
        closing.start()
        leave(tmp_path, f"http://127.0.0.1:{listening.getsockname()[1]}", os.getpid())
        text = said(tmp_path)
        closing.join()
    assert "its page takes no more connections at present" in text
    assert "is no controller" not in text


def test_B2_nothing_is_known_of_a_controller_at_a_bare_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(choroid.ConnectionFailed, match="it has ended, or its page has failed and is started again"):
        choroid.connect(f"http://127.0.0.1:{port}", token="t")
