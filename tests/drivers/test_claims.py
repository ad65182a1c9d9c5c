"""One master on one line: claims that other processes of this host see (A12)."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivers.transport import claims
from drivers.transport.claims import ClaimHeld
from drivers.transport.opener import open_real, open_unclaimed
from drivers.transport.url import LineSettings, LinkUrl

HOLD = """
import sys
from pathlib import Path
from drivers.transport import claims
claims.PLACES = (Path(sys.argv[1]),)
claims.introduce("controller of rig other", Path("/srv/other"))
held = claims.take(sys.argv[2], "it")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(claims, "PLACES", (tmp_path / "lock",))
    return tmp_path / "lock"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server


def other(place: Path, key: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place), key], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_A12_a_claim_of_another_process_is_refused_and_ends_with_it(place: Path) -> None:
    process = other(place, "tcp 192.0.2.7 4001")
    try:
        for _ in range(2):
            with pytest.raises(ClaimHeld) as refused:
                claims.take("tcp 192.0.2.7 4001", "link tcp://192.0.2.7:4001")
            told = str(refused.value)
            assert told.startswith("link tcp://192.0.2.7:4001: it is in use by process ")
            assert f"process {process.pid} (controller of rig other, with its data in /srv/other)" in told
            assert "Next: use the controller that runs, or end that process first" in told
        claims.take("tcp 192.0.2.7 4002", "another line").release()
        os.kill(process.pid, signal.SIGSTOP)  # a stopped holder keeps what it has
        with pytest.raises(ClaimHeld):
            claims.take("tcp 192.0.2.7 4001", "it")
    finally:
        ended(process)
    claims.take("tcp 192.0.2.7 4001", "it").release()


def test_A12_one_process_shares_its_claims_and_lets_go_with_the_last(place: Path) -> None:
    first, second = claims.take("a", "it"), claims.take("a", "it")
    assert first is second
    del first, second
    gc.collect()
    ended(other(place, "a"))


async def test_A12_every_way_to_write_a_line_is_the_same_line(tmp_path: Path) -> None:
    async def keys(text: str) -> list[str]:
        return [key for key, _ in await claims.link_keys(LinkUrl.parse(text))]

    primary, secondary = os.openpty()
    try:
        path = os.ttyname(secondary)
        (tmp_path / "by-id").symlink_to(path)
        assert await keys(f"serial://{path}") == await keys(f"serial://{tmp_path}/by-id?baud=19200")
        assert await keys(f"serial://{path}") != await keys("serial:///dev/null")
    finally:
        os.close(primary)
        os.close(secondary)
    assert set(await keys("tcp://127.0.0.1:4001")) <= set(await keys("tcp://localhost:4001"))
    assert await keys("tcp://[::ffff:127.0.0.1]:4001") == await keys("tcp://127.0.0.1:4001")
    assert await keys("tcp://127.0.0.1:4001") != await keys("tcp://127.0.0.1:4002")
    assert await keys("sim:reglo") == []
    assert claims.rig_key("a", ["x", "y"]) == claims.rig_key("a", ["y", "x", "x"])
    assert claims.rig_key("a", ["x"]) != claims.rig_key("b", ["x"])


async def test_A12_an_opened_line_is_claimed_as_long_as_its_writer(place: Path, listening: socket.socket) -> None:
    url = LinkUrl.parse(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
    key = f"tcp 127.0.0.1 {url.port}"
    _, writer = await open_real(url, LineSettings())
    process = subprocess.run(
        [sys.executable, "-c", HOLD, str(place), key], capture_output=True, text=True, check=False, input=""
    )
    assert f"it is in use by process {os.getpid()}" in process.stderr
    writer.close()
    await writer.wait_closed()
    del writer
    gc.collect()
    process2 = other(place, key)
    try:
        with pytest.raises(ClaimHeld):
            await open_real(url, LineSettings())
        _, second = await open_unclaimed(url, LineSettings())
        second.close()
        waiting = asyncio.create_task(claims.take_all([(key, "it")], wait_s=20.0))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        ended(process2)
        (claim,) = await waiting
        claim.release()
    finally:
        ended(process2)


def test_A12_links_and_odd_files_in_the_place_are_not_followed(place: Path, tmp_path: Path) -> None:
    claims.take("a", "it").release()
    assert place.stat().st_mode & 0o7777 == 0o1777
    (file,) = place.iterdir()
    assert file.stat().st_mode & 0o777 == 0o666
    target = tmp_path / "precious"
    target.write_text("precious")
    file.unlink()
    file.symlink_to(target)
    claims.take("a", "it").release()  # it goes on without a claim rather than through the link
    assert target.read_text() == "precious"
    file.unlink()
    os.mkfifo(file)
    claims.take("a", "it").release()
    file.unlink()
    os.link(target, file)
    claims.take("a", "it").release()
    assert target.read_text() == "precious"
    place.rename(tmp_path / "away")
    place.symlink_to(tmp_path / "away")
    claims.take("b", "it").release()
    assert len(list((tmp_path / "away").iterdir())) == 1


def test_A12_what_a_holder_says_of_itself_is_not_trusted(place: Path) -> None:
    process = other(place, "a")
    try:
        (file,) = place.iterdir()
        for text in (
            "",
            "nonsense",
            "[]",
            '{"pid": "x"}',
            '{"pid": 1, "program": "\\u001b[2J", "data": "' + "x" * 3000,
        ):
            file.write_text(text)
            with pytest.raises(ClaimHeld) as refused:
                claims.take("a", "it")
            assert "\x1b" not in str(refused.value)
    finally:
        ended(process)
