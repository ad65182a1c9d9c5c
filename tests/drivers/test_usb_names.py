"""A link that names a USB adapter by its serial number finds it whatever the system calls it (C1)."""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from controller.rig.wiring import _is_link
from drivers.errors import LinkDown
from drivers.transport.link import Link
from drivers.transport.opener import open_real
from drivers.transport.url import LineSettings, LinkUrl, LinkUrlError
from drivers.transport.usb import SerialPortInfo, connected, device_of


@dataclass
class FakePort:
    device: str
    serial_number: str | None = None
    location: str | None = None


PORTS: list[SerialPortInfo] = [
    FakePort("/dev/ttyUSB0", "FT4XYZ", "1-1.2:1.0"),
    FakePort("/dev/ttyUSB1", None, "1-1.3:1.0"),
    FakePort("/dev/ttyUSB10", "QUAD7", "1-1.4:1.1"),
    FakePort("/dev/ttyUSB2", "QUAD7", "1-1.4:1.0"),
    FakePort("/dev/ttyACM0", "0001", "1-2:1.0"),
    FakePort("/dev/ttyACM1", "0001", "1-3:1.0"),
]


def test_C1_the_adapter_is_found_by_its_number_and_its_ports_in_their_order() -> None:
    assert device_of("FT4XYZ", 1, "x", lambda: PORTS) == "/dev/ttyUSB0"
    assert device_of("QUAD7", 1, "x", lambda: PORTS) == "/dev/ttyUSB2"
    assert device_of("QUAD7", 2, "x", lambda: PORTS) == "/dev/ttyUSB10"


@pytest.mark.parametrize(
    ("number", "port", "told"),
    [
        ("FT4ABC", 1, "no port 1 of a USB adapter with the serial number FT4ABC.*FT4XYZ at /dev/ttyUSB0"),
        ("QUAD7", 3, "no port 3"),
        ("0001", 1, "2 adapters have the serial number 0001.*/dev/serial/by-path"),
    ],
)
def test_an_adapter_that_is_not_there_or_not_alone_is_told(number: str, port: int, told: str) -> None:
    with pytest.raises(LinkDown, match=told):
        device_of(number, port, "x", lambda: PORTS)


def test_the_systems_own_list_can_be_asked() -> None:
    assert all(port.device for port in connected())


@pytest.mark.parametrize("text", ["serial:usb-serial=FT4XYZ", "serial:usb-serial=FT4XYZ:2?baud=19200&parity=E"])
def test_the_text_of_such_a_link(text: str) -> None:
    url = LinkUrl.parse(text)
    assert str(url) == text
    assert url.usb == ("FT4XYZ", 2 if ":2" in text else 1)
    assert url.line(LineSettings()).baud == (19200 if "baud" in text else 9600)
    assert _is_link(text)


@pytest.mark.parametrize(
    "text", ["serial:usb-serial=", "serial:usb-serial=A B", "serial:usb-serial=A:0", "serial:usb-serial"]
)
def test_a_slip_in_such_a_link_is_told(text: str) -> None:
    with pytest.raises(LinkUrlError, match="usb-serial=FT4XYZ"):
        LinkUrl.parse(text)


@pytest.fixture
def terminals() -> Iterator[list[tuple[int, str]]]:
    """Two raw pseudo-terminals: our end, and the path of the other."""
    pairs = [os.openpty() for _ in range(2)]
    for _, slave in pairs:
        tty.setraw(slave)
    yield [(master, os.ttyname(slave)) for master, slave in pairs]
    for pair in pairs:
        for descriptor in pair:
            os.close(descriptor)


async def test_C1_an_adapter_that_comes_back_under_another_name_is_opened_again(
    terminals: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[FakePort] = []
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda: ports)
    link = Link(LinkUrl.parse("serial:usb-serial=FT4XYZ"), open_real)
    await link.start()
    assert not link.is_open
    for opening, (master, path) in enumerate(terminals, start=1):
        ports[:] = [FakePort(path, "FT4XYZ")]
        async with asyncio.timeout(10):
            while link.opened < opening:
                await asyncio.sleep(0.02)
        asking = asyncio.ensure_future(
            link.exchange(b"who?", lambda buffer: bytes(buffer) or None, timeout_s=5, where="x")
        )
        async with asyncio.timeout(5):
            while True:
                try:
                    os.set_blocking(master, False)
                    assert os.read(master, 100) == b"who?"
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.01)
        os.write(master, b"me")
        assert await asking == b"me"
        ports.clear()
        if opening == 1:
            assert link._writer is not None
            link._writer.close()
            link._lost()  # as a pulled adapter ends the stream
    await link.close()
