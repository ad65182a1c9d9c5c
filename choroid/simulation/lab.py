"""`choroid lab serve`: serve a rig's simulated devices over TCP or pseudo-terminals, in real time or faster, for any
client.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from choroid.common.array_geometry import declared_geometry
from choroid.common.failure import UserError
from choroid.common.ports import MAX_PORT
from choroid.common.signals import stop_on_signals
from choroid.simulation.array_far_end import FAR_ENDS, PORTS, ArrayFarEnd, serve_array
from choroid.simulation.mishaps import Mishaps
from controller.hazards.loading import load_checked_rig
from controller.rig.described import seen_from_anywhere
from controller.rig.description import Rig
from drivers.strict_yaml import load_yaml
from sim.lab import SimulatedLab
from sim.neurons.array import SimulatedArray
from sim.virtual_time import run_scaled

CAMERA = "camera:"
"""Before the name of a camera among the endpoints."""


def lab(
    path: Path,
    *,
    host: str,
    base_port: int,
    pty: bool,
    speed: float,
    seed: int,
    write: Path | None,
    duration_s: float | None,
    as_json: bool,
    faults: Path | None = None,
    by_hand: bool = False,
) -> int:
    """Serve until interrupted (or for `duration_s` real seconds); return the exit status.

    `faults` is a file of faults (docs/faults.md) for the lab; with `by_hand` they can be typed in as well. Events
    are reported on standard error.
    """
    rig = load_checked_rig(path)
    mishaps = Mishaps(rig, faults, by_hand=by_hand, seed=seed)

    async def serve() -> None:
        stop = asyncio.Event()
        stop_on_signals(stop, duration_s)
        bench = SimulatedLab(rig, seed=seed)
        links = len(bench.lines) + PORTS * _has_far_end(rig) + bool(rig.cameras)
        if base_port + links > MAX_PORT + 1:
            raise UserError(
                f"{links} links from port {base_port} on would go beyond {MAX_PORT}. Next: choose a lower --base-port"
            )
        ending = ExitStack()
        try:
            endpoints = await (bench.serve_pty() if pty else bench.serve_tcp(host, base_port))
            array = _serve_array(rig, host, base_port and base_port + len(bench.lines), seed)
            if array is not None and rig.nerves is not None:
                ending.callback(array.close)
                endpoints[rig.nerves.link] = array.link
            cameras = await bench.serve_cameras(host, base_port and base_port + links - 1)
            endpoints |= {f"{CAMERA}{name}": address for name, address in cameras.items()}
            if write is not None:
                text = pointing_at(path, endpoints, array)
                write.write_text(text, encoding="utf-8")  # noqa: ASYNC240  (once, at the start)
            print(json.dumps({"endpoints": endpoints}) if as_json else table(rig, endpoints), flush=True)
            async with mishaps.befalling(bench):
                await stop.wait()
        finally:
            ending.close()
            await bench.close()

    run_scaled(serve(), speed)
    return 0


def _has_far_end(rig: Rig) -> bool:
    """Return whether the rig's electrode card is reached through a server that the lab can stand for."""
    return rig.nerves is not None and rig.nerves.card in FAR_ENDS and rig.nerves.link.startswith("sim:")


def _serve_array(rig: Rig, host: str, base_port: int, seed: int) -> ArrayFarEnd | None:
    """Start what the rig's electrode card connects to; None where it needs nothing."""
    if rig.nerves is None or not _has_far_end(rig):
        return None
    geometry = declared_geometry(rig.nerves)
    positions = None if geometry is None else geometry.positions_um()
    array = SimulatedArray(rig.nerves.electrodes, seed, positions_um=positions)
    return serve_array(rig.nerves.card, array, host=host, base_port=base_port)


def table(rig: Rig, endpoints: dict[str, str]) -> str:
    """Return the endpoints as text: one line per link, with its devices."""
    lines = [f"lab {rig.name}: {len(rig.devices)} simulated devices (Ctrl-C ends)"]
    for link, endpoint in endpoints.items():
        names = [
            f"{name} ({device.model}{' @' + device.address if device.address else ''})"
            for name, device in rig.devices.items()
            if device.link == link
        ]
        if rig.nerves is not None and rig.nerves.link == link:
            names.append(f"nerves ({rig.nerves.card})")
        if link.startswith(CAMERA):
            names.append(f"{link.removeprefix(CAMERA)} (camera)")
        lines.append(f"  {endpoint:<32}{', '.join(names)}")
    return "\n".join(lines)


def pointing_at(path: Path, endpoints: dict[str, str], array: ArrayFarEnd | None = None) -> str:
    """Return the rig file's text with each link replaced by its endpoint (comments are lost)."""
    description: dict[str, Any] = load_yaml(path.read_text(encoding="utf-8"))
    seen_from_anywhere(path, description)
    for device in description["devices"].values():
        device["link"] = as_link(endpoints.get(device["link"], device["link"]))
    for name, camera in (description.get("cameras") or {}).items():
        if (address := endpoints.get(f"{CAMERA}{name}")) is not None:
            camera |= {"model": "http", "settings": {"url": address}}
    if array is None:
        description["mixed"] = True  # the electrode array stays simulated: sim:array
    else:
        nerves = description["nerves"]
        nerves |= {"link": array.link, "options": (nerves.get("options") or {}) | array.options}
    # The served rig is still simulated: its pumps have factory calibration until calibrated.
    description["upkeep"] = {"calibration": "factory"} | (description.get("upkeep") or {})
    header = "# Written by `choroid lab serve`: the same rig, its links pointing at the served simulated devices.\n"
    return header + yaml.safe_dump(description, sort_keys=False, allow_unicode=True)


def as_link(endpoint: str) -> str:
    """Return the link of an endpoint: a pty path becomes a serial link; a TCP endpoint is already one."""
    return endpoint if "://" in endpoint else f"serial://{endpoint}"
