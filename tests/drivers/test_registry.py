"""The catalogue, the links' text, and line settings (a pty cannot prove parity: they are asserted here)."""

from __future__ import annotations

import asyncio
import os
import socket
from importlib.metadata import EntryPoint

import pytest
import serialx

from drivers import registry
from drivers.commands import Guarantee
from drivers.conformance.peer import Peer
from drivers.device import DeviceConfig
from drivers.errors import LinkDown
from drivers.registry import MODELS, build, catalogue, line_settings, open_link
from drivers.settings import BadSetting
from drivers.transport.capture import Capture
from drivers.transport.opener import open_real, serial_arguments
from drivers.transport.url import LineSettings, LinkUrl, LinkUrlError
from tests.drivers.facts import all_facts
from tests.drivers.fakes import FakeEzo


def test_the_catalogue_is_whole() -> None:
    assert {model.id for model in catalogue()} == set(all_facts()) == set(MODELS)
    for model in catalogue():
        assert model.manual
        assert model.verification
        assert isinstance(model.guarantee, Guarantee)


@pytest.mark.parametrize("model", all_facts())
def test_factory_line_settings(model: str) -> None:
    line = all_facts()[model].line
    assert MODELS[model].line.text == line
    assert line_settings(LinkUrl.parse("serial:///dev/ttyX"), [model]).text == line


def test_the_url_overrides_and_reaches_the_port() -> None:
    line = line_settings(LinkUrl.parse("serial:///dev/ttyX?baud=38400&parity=E&bits=7&stop=2"), ["alicat-mfc"])
    assert line.text == "38400 7E2"
    arguments = serial_arguments(line)
    assert arguments == {
        "baudrate": 38400,
        "byte_size": 7,
        "parity": serialx.Parity.EVEN,
        "stopbits": serialx.StopBits.TWO,
        "exclusive": True,
    }


def test_devices_that_disagree_cannot_share_a_line() -> None:
    with pytest.raises(BadSetting, match="need different line settings"):
        line_settings(LinkUrl.parse("serial:///dev/ttyX"), ["keller-x-line", "alicat-mfc"])
    shared = line_settings(LinkUrl.parse("serial:///dev/ttyX?baud=19200"), ["keller-x-line", "alicat-mfc"])
    assert shared.text == "19200 8N1"


@pytest.mark.parametrize(
    ("text", "scheme", "target"),
    [
        (
            "serial:///dev/serial/by-id/usb-X-if00?baud=9600&parity=N",
            "serial",
            "/dev/serial/by-id/usb-X-if00",
        ),
        ("tcp://127.0.0.1:4001", "tcp", "127.0.0.1:4001"),
        ("tcp://[::1]:4001", "tcp", "[::1]:4001"),
        ("sim:reglo", "sim", "reglo"),
    ],
)
def test_links_are_read_and_written_back(text: str, scheme: str, target: str) -> None:
    url = LinkUrl.parse(text)
    assert (url.scheme, url.target, str(url)) == (scheme, target, text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "reglo",
            "sim:",
            "sim://x",
            "serial://dev/x",
            "tcp://host",
            "tcp://:4001",
            "tcp://h:99999",
            "http://x:1",
        ),
        *("serial:///dev/x?baud=fast", "serial:///dev/x?bauds=1", "serial:///dev/x?parity=Q", "sim:x?stop=3"),
    ],
)
def test_links_that_are_none_say_what_to_write(text: str) -> None:
    with pytest.raises(LinkUrlError, match="link “"):
        LinkUrl.parse(text).line(LineSettings())


@pytest.mark.virtual_time
async def test_a_link_from_the_registry_works_and_unknown_models_are_told() -> None:
    peer = Peer(FakeEzo(b"pH", b"7.35"))
    link = open_link("sim:ph", ["atlas-ezo-ph"], peer.open)
    probe = build("atlas-ezo-ph", link, DeviceConfig("ph_loop"))
    assert await link.start() == {}
    assert await probe.sensors["ph"].read() == 7.35
    assert peer.lines == [LineSettings()]
    await link.close()
    with pytest.raises(BadSetting, match="no driver for model “ezo”"):
        build("ezo", link, DeviceConfig("x"))


async def test_C5_a_real_opener_never_leads_into_the_lab_in_software() -> None:
    with pytest.raises(LinkDown, match="lab in software"):
        await open_real(LinkUrl.parse("sim:reglo"), LineSettings())


async def test_tcp_is_set_to_notice_dead_peers() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, writer = await open_real(LinkUrl.parse(f"tcp://127.0.0.1:{port}"), LineSettings())
    sock = writer.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_a_serial_port_carries_a_whole_conversation(tmp_path: object) -> None:
    """A pty stands for the port: bytes, not parity, are proven here."""
    far, near = os.openpty()
    os.set_blocking(far, False)
    circuit = FakeEzo(b"pH", b"7.35")
    loop = asyncio.get_running_loop()
    received = bytearray()

    def answer() -> None:
        received.extend(os.read(far, 1024))
        while (at := received.find(b"\r")) >= 0:
            request = bytes(received[: at + 1])
            del received[: at + 1]
            for say in circuit(request):
                delay_s, text = say if isinstance(say, tuple) else (0.0, say)
                loop.call_later(delay_s / 2, os.write, far, text)

    loop.add_reader(far, answer)
    link = open_link(f"serial://{os.ttyname(near)}", ["atlas-ezo-ph"])
    probe = build("atlas-ezo-ph", link, DeviceConfig("ph_loop"))
    try:
        assert await link.start() == {}
        assert await probe.sensors["ph"].read() == 7.35
    finally:
        await link.close()
        loop.remove_reader(far)
        os.close(far)
        os.close(near)


async def test_a_missing_port_is_told_with_its_name() -> None:
    link = open_link("serial:///dev/there-is-no-such-port", ["atlas-ezo-ph"])
    build("atlas-ezo-ph", link, DeviceConfig("ph_loop"))
    failures = await link.start()
    assert isinstance(failures["ph_loop"], LinkDown)
    assert "there-is-no-such-port" in str(failures["ph_loop"])
    await link.close()


def test_capture_writes_a_file_on_request(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "bytes.txt"
    capture = Capture(frames=2, path=path)
    for n in range(5):
        capture.add(float(n), ">", b"n%d\r" % n)
    capture.close()
    assert len(capture.frames()) == 2
    assert len(path.read_text().splitlines()) == 5


class _Distribution:
    name, version = "acme-drip", "1.2"


def _entry(value: str) -> EntryPoint:
    entry = EntryPoint("drip", value, registry.ENTRY_POINTS)
    vars(entry)["dist"] = _Distribution()
    return entry


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_package.driver:Drip", "ModuleNotFoundError"),
        ("json:no_such_name", "AttributeError"),
        ("json:dumps", "not a subclass of drivers.device.Device"),
        ("drivers.device:Device", "AttributeError"),
    ],
)
def test_a_broken_third_party_driver_is_one_line_and_no_others_worry(
    value: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: [_entry(value), _entry("drivers.julabo:Julabo")])
    assert registry.load_third_party() == []
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith(f"choroid: acme-drip 1.2: driver “drip” ({value}) cannot be loaded")
    assert why in told
    assert "Next: " in told
    assert "julabo" in registry.MODELS
