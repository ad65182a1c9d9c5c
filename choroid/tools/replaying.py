"""`choroid replay FILE`: do the same wishes still give the same bytes?

Each link of a capture is built again in virtual time, with what was heard then at its far end: the same wishes are made
at the same moments, and every request is compared, byte for byte, with the one that was captured. Nothing is opened.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from choroid.failure import UserError
from choroid.tools.recording import FORMAT
from drivers.commands import Command, Dispense, Level, Run, Stop, Switch
from drivers.conformance.peer import Peer
from drivers.device import ChannelConfig, Device, DeviceConfig, DeviceError
from drivers.registry import build, load_third_party, open_link
from drivers.transport.capture import printable
from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl
from sim.virtual_time import VirtualTimeLoop

COMMANDS: Mapping[str, type[Command]] = {each.__name__: each for each in (Run, Dispense, Switch, Level, Stop)}
LEEWAY_S = 1e-9


@dataclass(slots=True)
class _Track:
    """What a capture holds of one link."""

    link: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)


def replay(path: Path) -> dict[str, Any]:
    """`{"links": [{link, requests, wishes, same, difference}], "same": bool}`; raises :class:`UserError` for no capture."""
    load_third_party()
    links = [_replayed(track) for track in _read(path)]
    return {"file": str(path), "links": links, "same": all(link["same"] for link in links)}


def as_text(answer: dict[str, Any]) -> str:
    """The verdict for people."""
    lines = []
    for link in answer["links"]:
        told = "all the same bytes" if link["same"] else link["difference"]
        lines.append(f"{link['link']}: {link['wishes']} wishes, {link['requests']} requests: {told}")
    return "\n".join(lines)


def _read(path: Path) -> list[_Track]:
    with path.open(encoding="ascii", errors="replace") as file:
        try:
            head = json.loads(file.readline())
            if head["choroid_capture"] != FORMAT:
                raise UserError(f"{path} is a capture of format {head['choroid_capture']}; this version reads {FORMAT}")
            tracks = [_Track(link) for link in head["links"]]
            for device in head["devices"]:
                tracks[device.pop("link")].devices.append(device)
        except (ValueError, KeyError, TypeError, IndexError):
            raise UserError(
                f"{path} is no capture. Likely cause: another file. Next: make one with `choroid run RIG --capture FILE`"
            ) from None
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                break  # the program that captured was killed while it wrote its last line
            tracks[row.pop("link")].rows.append(row)
    return tracks


def _replayed(track: _Track) -> dict[str, Any]:
    wishes = sum("wish" in row for row in track.rows)
    wanted = [row[">"] for row in track.rows if ">" in row]
    told = {"link": track.link, "requests": len(wanted), "wishes": wishes, "same": True, "difference": ""}
    if not track.rows:
        return told
    loop = VirtualTimeLoop(start_s=track.rows[0]["t"])
    try:
        sent = loop.run_until_complete(_play(track))
    finally:
        loop.close()
    for number in range(max(len(wanted), len(sent))):
        was = wanted[number] if number < len(wanted) else None
        now = sent[number] if number < len(sent) else None
        if was != now:
            difference = f"request {number + 1} was {_shown(was)} and is now {_shown(now)}"
            return told | {"same": False, "difference": difference}
    return told


async def _play(track: _Track) -> list[str]:
    """Make the captured wishes at their moments; every request that was sent, in hexadecimal."""
    loop = asyncio.get_running_loop()
    far = _FarEnd(track.rows)
    link = open_link(track.link, [device["model"] for device in track.devices], far.open)
    devices = {device["name"]: build(device["model"], link, _config(device)) for device in track.devices}
    starting = loop.create_task(link.start())
    tasks: dict[int, asyncio.Task[None]] = {}
    for row in track.rows:
        if row["t"] > loop.time():
            await asyncio.sleep(row["t"] - loop.time())
        if "wish" in row:
            tasks[row["wish"]] = loop.create_task(_made(devices, row))
            await asyncio.sleep(0)
        elif "dropped" in row and row["dropped"] in tasks:
            tasks[row["dropped"]].cancel()
            await asyncio.sleep(0)
    await asyncio.sleep(LEEWAY_S)
    sent = [data.hex() for data in far.peer.sent]
    starting.cancel()
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(starting, *tasks.values(), return_exceptions=True)
    await link.close()
    return sent


class _FarEnd:
    """Says what was heard then: each piece as long after its request as it came then."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.peer = Peer(self._answers)
        self._openings: list[bool] = [row["open"] for row in rows if "open" in row]
        self._after: list[list[tuple[float, bytes | None]]] = [[]]
        """For each request (and before the first) what followed it: delay (s), and bytes or None for a lost line."""
        since_s = rows[0]["t"]
        self._first_s = since_s
        for row in rows:
            if ">" in row:
                self._after.append([])
                since_s = row["t"]
            elif "<" in row or "lost" in row:
                data = bytes.fromhex(row["<"]) if "<" in row else None
                self._after[-1].append((row["t"] - since_s, data))
        self._requests = 0
        self._began = False

    async def open(self, url: LinkUrl, line: LineSettings) -> Streams:
        """Open as often as it could be opened then."""
        if not (self._openings and self._openings.pop(0)):
            raise ConnectionRefusedError("it could not be opened when this was captured")
        streams = await self.peer.open(url, line)
        if not self._began:
            self._began = True
            self._say(0)
        return streams

    def _answers(self, request: bytes) -> None:
        self._requests += 1
        if self._requests < len(self._after):
            self._say(self._requests)

    def _say(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        for delay_s, data in self._after[number]:
            if data is None:
                loop.call_later(delay_s, self.peer.hang_up)
            else:
                loop.call_later(delay_s, self.peer.say, data)


async def _made(devices: Mapping[str, Device], row: Mapping[str, Any]) -> None:
    device = devices[row["device"]]
    try:
        match row["do"]:
            case "read":
                await device.sensors[row["point"]].read()
            case "status":
                await device.actuators[row["point"]].status()
            case "apply":
                words = dict(row["command"])
                await device.actuators[row["point"]].apply(COMMANDS[words.pop("command")](**words))
    except DeviceError:
        pass  # so it may have been then: the bytes tell


def _config(device: Mapping[str, Any]) -> DeviceConfig:
    channels = {number: ChannelConfig(each["point"], each["settings"]) for number, each in device["channels"].items()}
    return DeviceConfig(device["name"], device["address"], device["settings"], channels)


def _shown(data: str | None) -> str:
    if data is None:
        return "not there"
    raw = bytes.fromhex(data)
    return f"{raw.hex(' ')} ({printable(raw)})"
