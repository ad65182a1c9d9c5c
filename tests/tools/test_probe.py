"""`choroid device probe`: each model is recognised, nothing else is claimed, and nothing but questions is ever sent."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import tty
from contextlib import suppress
from pathlib import Path

import pytest

from choroid.cli import main
from choroid.tools.conformance.benches import all_benches
from choroid.tools.conformance.lab_end import LabEnd
from choroid.tools.probe import ENDS, QUESTIONS, Found, probe, unasked
from drivers.conformance.bench import Bench
from drivers.conformance.peer import Peer
from drivers.registry import MODELS
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.devices.masterflex_ls import MasterflexLs

PORT = LinkUrl.parse("serial:///dev/ttyUSB9")
ASKED = [bench for bench in all_benches() if bench.model not in unasked()]


class Port:
    """A port with `end` on it, which receives only what is sent at its own line setting."""

    def __init__(self, end: LabEnd, line: LineSettings) -> None:
        self.peer = Peer(lambda data: end.receive(data) if self.line_fits else None)
        self.line = line
        self.line_fits = False
        end.connect(self.peer.say)

    async def open(self, url: LinkUrl, line: LineSettings) -> Streams:
        self.line_fits = line.text == self.line.text
        return await self.peer.open(url, line)


async def found_on(bench: Bench) -> tuple[list[Found], LabEnd, Peer]:
    end = bench.far_end(bench.config)
    assert isinstance(end, LabEnd)
    port = Port(end, bench.driver.line)
    await asyncio.sleep(2)
    resting = dict(end.outputs())
    found = await probe(PORT, port.open)
    assert dict(end.outputs()) == resting
    return found, end, port.peer


@pytest.mark.virtual_time
@pytest.mark.parametrize("bench", ASKED, ids=str)
async def test_each_model_is_recognised_and_no_output_moves(bench: Bench) -> None:
    found, _, peer = await found_on(bench)
    assert len(found) == 1
    assert bench.model in found[0].model.split(" or ")
    assert found[0].line == bench.driver.line.text
    assert set(peer.sent) <= {question.request for question in QUESTIONS} | set(ENDS)


NEVER_OVER_TCP = {"masterflex-usb", "masterflex-ls"}
"""Their questions may mean something else to another maker's drive, and over TCP all of them would receive it."""


@pytest.mark.virtual_time
@pytest.mark.parametrize("bench", [bench for bench in ASKED if bench.model not in NEVER_OVER_TCP], ids=str)
async def test_each_model_is_recognised_over_tcp_where_every_question_is_received(bench: Bench) -> None:
    """Alicat and Watson-Marlow were missed: binary questions stayed in their line buffers, and silence ended the retries."""
    end = bench.far_end(bench.config)
    assert isinstance(end, LabEnd)
    peer = Peer(end.receive)
    end.connect(peer.say)
    await asyncio.sleep(2)
    resting = dict(end.outputs())
    progress: list[str] = []
    found = await probe(LinkUrl.parse("tcp://192.0.2.7:4001"), peer.open, progress=progress.append)
    assert [bench.model in each.model.split(" or ") for each in found] == [True]
    assert dict(end.outputs()) == resting
    assert set(peer.sent) <= {question.request for question in QUESTIONS if not question.serial_only} | set(ENDS)
    # A request that stands in both rounds is asked in both.
    rounds = [
        {question.request for question in QUESTIONS if question.last is last and not question.serial_only}
        for last in (False, True)
    ]
    only_last = all(question.last for question in QUESTIONS if bench.model in question.model.split(" or "))
    assert len(progress) == len(rounds[0]) + (len(rounds[1]) if only_last else 0)


@pytest.mark.virtual_time
async def test_a_satellite_drive_is_found_fresh_and_with_its_number_and_gets_none_from_the_probe() -> None:
    (bench,) = [bench for bench in ASKED if bench.model == "masterflex-ls"]
    end = bench.far_end(bench.config)
    assert isinstance(end, LabEnd)
    drive = end.device
    assert isinstance(drive, MasterflexLs)
    port = Port(end, bench.driver.line)
    (fresh,) = await probe(PORT, port.open)
    assert fresh.answered == "P?0"
    assert drive.number is None
    drive.number = 1
    (numbered,) = await probe(PORT, port.open)
    assert numbered.asked == "02 50 30 31 49 0d"
    assert drive.number == 1


@pytest.mark.virtual_time
async def test_a_device_that_identifies_itself_over_modbus_is_found_and_an_echo_is_not() -> None:
    asked = bytes.fromhex("012B0E01007077")
    told = bytes.fromhex("012B0E0101000001") + b"\x00\x04Acme\x12\x34"
    peer = Peer(lambda request: asked + told if request == asked else None)
    (found,) = await probe(LinkUrl.parse("tcp://192.0.2.7:4001"), peer.open)
    assert found.model == "modbus-generic"
    echo = Peer(lambda request: request)
    assert "modbus-generic" not in [
        each.model for each in await probe(LinkUrl.parse("tcp://192.0.2.7:4001"), echo.open)
    ]


def test_every_model_is_asked() -> None:
    assert unasked() == []


@pytest.mark.virtual_time
async def test_silence_and_babble_are_no_device() -> None:
    for babble in (b"", b"7.35\r", b"\xff" * 30, b"OK\r\n", b"?\r\n"):
        peer = Peer(lambda request, babble=babble: babble)  # type: ignore[misc]
        assert await probe(PORT, peer.open) == []
        assert {line.text for line in peer.lines} == {question.line.text for question in QUESTIONS}


@pytest.mark.virtual_time
async def test_an_option_in_the_link_is_the_only_setting_tried() -> None:
    peer = Peer(lambda request: None)
    await probe(LinkUrl.parse("serial:///dev/ttyUSB9?baud=4800&parity=N&bits=8&stop=1"), peer.open)
    assert {line.text for line in peer.lines} == {"4800 8N1"}


def test_only_the_makers_settings_are_tried() -> None:
    for question in QUESTIONS:
        for model in question.model.split(" or "):
            makers = {MODELS[model].line.text} | ({"38400 8N1"} if model == "alicat-mfc" else set())
            assert question.line.text in makers, model


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device", "probe", str(tmp_path / "ttyUSB9")]) == 1
    assert "there is no port" in capsys.readouterr().err
    assert main(["device", "probe", "sim:reglo"]) == 1
    assert "simulated link" in capsys.readouterr().err


@pytest.mark.long
def test_on_a_real_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An EZO circuit on a pseudo-terminal, answered by another thread."""
    near, far = os.openpty()
    tty.setraw(far)

    def circuit() -> None:
        with suppress(OSError):  # the test is over
            while data := os.read(near, 100):
                if data == b"i\r":
                    os.write(near, b"?I,pH,2.15\r*OK\r")

    thread = threading.Thread(target=circuit, daemon=True)
    thread.start()
    try:
        assert main(["device", "probe", os.ttyname(far), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert [(each["model"], each["answered"]) for each in answer["found"]] == [("atlas-ezo-ph", "2.15")]
    finally:
        os.close(far)
        thread.join(5)
        os.close(near)
