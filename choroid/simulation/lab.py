"""`choroid lab`: serve a rig's simulated devices over TCP or pseudo-terminals, in real time or faster, for any
client.
"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import yaml

from choroid.common.failure import UserError
from choroid.common.ports import MAX_PORT
from choroid.simulation.mishaps import Mishaps
from controller.hazards.loading import load_checked_rig
from controller.rig.described import seen_from_anywhere
from controller.rig.description import Rig
from sim.lab import SimulatedLab
from sim.virtual_time import run_scaled


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
        if base_port + len(bench.lines) > MAX_PORT + 1:
            raise UserError(
                f"{len(bench.lines)} links from port {base_port} on would go beyond {MAX_PORT}. Next: choose a lower"
                " --base-port"
            )
        try:
            endpoints = await (bench.serve_pty() if pty else bench.serve_tcp(host, base_port))
            if write is not None:
                write.write_text(pointing_at(path, endpoints), encoding="utf-8")  # noqa: ASYNC240  (once, at the start)
            print(json.dumps({"endpoints": endpoints}) if as_json else table(rig, endpoints), flush=True)
            async with mishaps.befalling(bench):
                await stop.wait()
        finally:
            await bench.close()

    run_scaled(serve(), speed)
    return 0


def stop_on_signals(stop: asyncio.Event, duration_s: float | None) -> None:
    """Set `stop` on SIGINT, SIGTERM, or after `duration_s` real seconds (whatever the loop's speed)."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        loop.add_signal_handler(number, stop.set)
    if duration_s is not None:
        signal.setitimer(signal.ITIMER_REAL, duration_s)


def table(rig: Rig, endpoints: dict[str, str]) -> str:
    """Return the endpoints as text: one line per link, with its devices."""
    lines = [f"lab {rig.name}: {len(rig.devices)} simulated devices (Ctrl-C ends)"]
    for link, endpoint in endpoints.items():
        names = [
            f"{name} ({device.model}{' @' + device.address if device.address else ''})"
            for name, device in rig.devices.items()
            if device.link == link
        ]
        lines.append(f"  {endpoint:<32}{', '.join(names)}")
    return "\n".join(lines)


def pointing_at(path: Path, endpoints: dict[str, str]) -> str:
    """Return the rig file's text with each device's link replaced by its endpoint (comments are lost)."""
    description: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    seen_from_anywhere(path, description)
    for device in description["devices"].values():
        device["link"] = as_link(endpoints.get(device["link"], device["link"]))
    description["mixed"] = True  # the electrode array stays simulated: sim:array
    # The served rig is still simulated: its pumps have factory calibration until calibrated.
    description["upkeep"] = {"calibration": "factory"} | (description.get("upkeep") or {})
    header = "# Written by `choroid lab`: the same rig, its links pointing at the served simulated devices.\n"
    return header + yaml.safe_dump(description, sort_keys=False, allow_unicode=True)


def as_link(endpoint: str) -> str:
    """Return the link of an endpoint: a pty path becomes a serial link; a TCP endpoint is already one."""
    return endpoint if "://" in endpoint else f"serial://{endpoint}"
