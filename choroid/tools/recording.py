"""`--capture FILE`: record every byte of every link, and every call of a driver, as lines of JSON.

The first line says which rig it was. Then, in the order in which they happened, each with its loop time `t` (s) and the
number of its link: `open` (whether the line could be opened), `>` and `<` (bytes in hexadecimal), `lost`, and the calls of
drivers: `call` (a number, device, point and what was called), `ended` (a call that returned or failed) and `dropped` (a call
that was cancelled). The last line says `end`; without it the program was killed. A file is meant for
:mod:`choroid.tools.replaying`, and for people who want to know what happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from choroid.common.failure import UserError
from controller.links.connect import device_config
from controller.rig.description import Rig
from drivers.commands import Command
from drivers.device import Actuator, Device, DeviceConfig, Sensor
from drivers.probe_health import ProbeHealth
from drivers.registry import MODELS
from drivers.transport.capture import printable
from drivers.transport.link import Link
from drivers.transport.opener import Opener, Streams
from drivers.transport.url import LineSettings, LinkUrl

FORMAT = 1


class Recording:
    """One capture file. `opener` wraps the real one; `watched` records the calls of every driver that is built meanwhile."""

    def __init__(self, path: Path, rig: Rig) -> None:
        self._links = list(dict.fromkeys(spec.link for spec in rig.devices.values()))
        self._calls = 0
        self._openings = 0
        try:
            self._file: TextIO | None = path.open("x", encoding="ascii")
        except FileExistsError:
            raise UserError(
                f"{path} exists already, and a capture is never written over another. Next: name a new file"
            ) from None
        devices = []
        for name, spec in rig.devices.items():
            config = device_config(name, spec)
            devices.append({"link": self._links.index(spec.link), "model": spec.model, **asdict(config)})
        self._write({"choroid_capture": FORMAT, "rig": rig.name, "links": self._links, "devices": devices})

    def _write(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(row, separators=(",", ":"), default=dict) + "\n")

    def note(self, link: str, **row: Any) -> None:
        """Record an event of `link` at the present time."""
        self._write({"t": asyncio.get_running_loop().time(), "link": self._links.index(link), **row})

    def close(self) -> None:
        """End the file; later events are not recorded."""
        with contextlib.suppress(RuntimeError):  # no loop: it ends by an error, before or after its time
            self._write({"t": asyncio.get_running_loop().time(), "end": True})
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def opener(self, opener: Opener) -> Opener:
        """Return `opener` with every opening and every byte recorded."""

        async def opening(url: LinkUrl, line: LineSettings) -> Streams:
            link = str(url)
            try:
                reader, writer = await opener(url, line)
            except (Exception, asyncio.CancelledError):  # cancelled: it took too long
                self.note(link, open=False)
                raise
            self.note(link, open=True)
            plain = writer.write

            def write(data: bytes | bytearray | memoryview) -> None:
                self.note(link, **{">": bytes(data).hex(), "text": printable(bytes(data))})
                try:
                    plain(data)
                except Exception:
                    self.note(link, lost=True)
                    raise

            writer.write = write  # type: ignore[method-assign]
            return _Reader(reader, lambda data: self._note_received(link, data)), writer

        return opening

    def _note_received(self, link: str, data: bytes) -> None:
        if data:
            self.note(link, **{"<": data.hex(), "text": printable(data)})
        else:
            self.note(link, lost=True)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Record the calls of every driver that is built within this context."""
        plain = dict(MODELS)
        try:
            for name, driver in plain.items():
                MODELS[name] = self._watching(driver)
            yield
        finally:
            MODELS.update(plain)

    def _watching(self, driver: type[Device]) -> type[Device]:
        recording = self

        def build(device: Device, link: Link, config: DeviceConfig) -> None:
            driver.__init__(device, link, config)
            for point, sensor in device.sensors.items():
                recording.watch(str(link.url), config.name, point, sensor)
            for point, actuator in device.actuators.items():
                recording.watch(str(link.url), config.name, point, actuator)
            if device.health is not None:
                recording.watch(str(link.url), config.name, device.health.point, device.health)

        return type(driver.__name__, (driver,), {"__init__": build, "__doc__": driver.__doc__})

    def watch(self, link: str, device: str, point: str, part: Sensor | ProbeHealth | Actuator) -> None:
        """Record every call of `part`."""
        if isinstance(part, Sensor | ProbeHealth):
            read, do = part.read, "read" if isinstance(part, Sensor) else "health"
            part.read = lambda: self._call(link, read(), device, point, do)  # type: ignore[method-assign]
            return
        apply, status = part.apply, part.status

        async def applied(command: Command) -> None:
            words = {"command": type(command).__name__, **asdict(command)}
            await self._call(link, apply(command), device, point, "apply", words)

        part.apply = applied  # type: ignore[method-assign]
        part.status = lambda: self._call(link, status(), device, point, "status")  # type: ignore[method-assign]

    async def _call(
        self, link: str, work: Awaitable[Any], device: str, point: str, do: str, command: dict[str, Any] | None = None
    ) -> Any:
        self._calls += 1
        number = self._calls
        row = {"call": number, "device": device, "point": point, "do": do}
        self.note(link, **row, **({} if command is None else {"command": command}))
        try:
            answer = await work
        except asyncio.CancelledError:
            self.note(link, dropped=number)
            raise
        except BaseException:
            self.note(link, ended=number)
            raise
        self.note(link, ended=number)
        return answer


class _Reader(asyncio.StreamReader):
    """Precedes a line's reader and records what passes, by either path of a link."""

    def __init__(self, inner: asyncio.StreamReader, received: Callable[[bytes], None]) -> None:
        super().__init__()
        self._inner = inner
        self._note_received = received

    async def read(self, n: int = -1) -> bytes:
        try:
            chunk = await self._inner.read(n)
        except Exception:  # a line that breaks with an error is lost like one that ends
            self._note_received(b"")
            raise
        self._note_received(chunk)
        return chunk

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "feed_data":
            super().__setattr__(name, value)
            return

        def feed(data: bytes) -> None:
            self._note_received(bytes(data))
            value(data)

        self._inner.feed_data = feed  # type: ignore[method-assign, assignment]


@contextlib.contextmanager
def recorded(path: Path | None, rig: Rig, opener: Opener) -> Iterator[Opener]:
    """Yield `opener` itself, or, with a `path`, one that records every byte and call there."""
    if path is None:
        yield opener
        return
    recording = Recording(path, rig)
    try:
        with recording.watched():
            yield recording.opener(opener)
    finally:
        recording.close()
