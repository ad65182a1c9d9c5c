"""`choroid driver replay FILE`: check that the same calls of the drivers still give the same bytes.

Each link of a capture is rebuilt in virtual time, with the captured replies at its far end: the same calls are
made at the same times, and every byte string that is sent is compared with the captured one. Nothing is opened.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.tools.playback import Playback, ReplayedDevice
from choroid.tools.recording import FORMAT
from drivers.device import ChannelConfig, DeviceConfig
from drivers.registry import build, load_third_party, open_link
from drivers.transport.capture import printable
from sim.virtual_time import VirtualTimeLoop


@dataclass(slots=True)
class _Track:
    """The content of a capture for one link."""

    link: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)
    cut_s: float = math.inf
    """Loop time at which the capture breaks off (s): later bytes may be missing. Infinite if it was ended properly."""


def replay(path: Path) -> dict[str, Any]:
    """Replay the capture in `path`.

    Returns:
        `{"links": [{link, requests, calls, same, difference}], "same": bool, "whole": bool}`. A capture that is
            not whole breaks off, and what was sent after that is not judged.

    Raises:
        UserError: The file is not a capture.
    """
    load_third_party()
    tracks = _read(path)
    links = [_replayed(track) for track in tracks]
    whole = all(track.cut_s == math.inf for track in tracks)
    return {"file": str(path), "links": links, "same": all(link["same"] for link in links), "whole": whole}


def as_text(answer: dict[str, Any]) -> str:
    """Return the verdict as text."""
    lines = []
    for link in answer["links"]:
        verdict = "all the same bytes" if link["same"] else link["difference"]
        lines.append(f"{link['link']}: {link['calls']} calls, {link['requests']} requests: {verdict}")
    if not answer["whole"]:
        lines.append(
            "The capture breaks off. Likely cause: the program that wrote it was killed. It is replayed up to there."
        )
    return "\n".join(lines)


def _head(path: Path, line: str) -> list[_Track]:
    """Return a track for each link of a capture, from its first line."""
    try:
        head = json.loads(line)
        if head["choroid_capture"] != FORMAT:
            raise UserError(
                f"{path} is a capture of format {head['choroid_capture']}; this version reads"
                f" format {FORMAT}. Next: replay it with the version that wrote it"
            )
        tracks = [_Track(link) for link in head["links"]]
        for device in head["devices"]:
            tracks[device.pop("link")].devices.append(device)
    except (ValueError, KeyError, TypeError, IndexError):
        raise UserError(
            f"{path} is not a capture. Likely cause: a wrong file. Next: make one with `choroid run RIG --capture FILE`"
        ) from None
    return tracks


def _read(path: Path) -> list[_Track]:
    with path.open(encoding="ascii", errors="replace") as file:
        tracks = _head(path, file.readline())
        last_s, ended = -math.inf, False
        for line in file:
            try:
                row = json.loads(line)
                ended = "end" in row
                last_s = row["t"]
                if not ended:
                    tracks[row.pop("link")].rows.append(row)
            except (ValueError, KeyError, TypeError, IndexError):
                break  # the capturing program was killed while it wrote its last line
    if not ended:
        for track in tracks:
            track.cut_s = last_s
    return tracks


def _replayed(track: _Track) -> dict[str, Any]:
    calls = sum("call" in row for row in track.rows)
    wanted = [row[">"] for row in track.rows if ">" in row]
    result: dict[str, Any] = {"link": track.link, "requests": len(wanted), "calls": calls}
    result |= {"same": True, "difference": ""}
    if not track.rows:
        return result
    loop = VirtualTimeLoop(start_s=track.rows[0]["t"])
    try:
        sent = loop.run_until_complete(_play(track))
    finally:
        loop.close()
    difference = _difference(wanted, sent, track.cut_s)
    return result if difference is None else result | {"same": False, "difference": difference}


def _difference(wanted: list[str], sent: list[tuple[float, str]], cut_s: float) -> str | None:
    """Return the first difference of the requests, or None; requests after the capture's end at `cut_s` are ignored."""
    for number in range(max(len(wanted), len(sent))):
        was = wanted[number] if number < len(wanted) else None
        at_s, now = sent[number] if number < len(sent) else (math.inf, None)
        if was is None and at_s >= cut_s:
            break
        if was != now:
            return f"request {number + 1} was {_shown(was)} and is now {_shown(now)}"
    return None


async def _play(track: _Track) -> list[tuple[float, str]]:
    """Make the captured requests at their times; return every byte string that was sent, with its time, in
    hexadecimal.
    """
    far = ReplayedDevice()
    link = open_link(track.link, [device["model"] for device in track.devices], far.open)
    devices = {device["name"]: build(device["model"], link, _config(device)) for device in track.devices}
    playback = Playback(track.rows, far, devices)
    starting = asyncio.get_running_loop().create_task(link.start())
    await playback.play()
    sent = [(at_s, data.hex()) for at_s, data in far.sent]
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await playback.close()
    await link.close()
    return sent


def _config(device: Mapping[str, Any]) -> DeviceConfig:
    channels = {number: ChannelConfig(each["point"], each["settings"]) for number, each in device["channels"].items()}
    return DeviceConfig(device["name"], device["address"], device["settings"], channels, device.get("gas", ""))


def _shown(data: str | None) -> str:
    if data is None:
        return "not there"
    raw = bytes.fromhex(data)
    return f"{raw.hex(' ')} ({printable(raw)})"
