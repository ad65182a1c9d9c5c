"""Serve the page over the small controller in a process of its own: `python -m tests.dashboards.serve_fake 8123`.

For browser tests and for whoever works on the page. `--trouble` shows it on a bad day, `--locked` asks for a token.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import tempfile
import time
from pathlib import Path

from dashboards.app import create_app
from dashboards.auth import Auth
from dashboards.server import serve
from sim.virtual_time import ScaledLoop, run_scaled
from tests.dashboards.fake_rig import FakeController

SPEED = 60.0


class LoopSpeed:
    """The speed of the loop that everything here runs on."""

    def __init__(self, loop: ScaledLoop) -> None:
        self._loop = loop

    @property
    def speed(self) -> float:
        return self._loop.speed

    def set_speed(self, speed: float) -> None:
        self._loop.set_speed(speed)


async def main(port: int, *, trouble: bool, locked: bool) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ScaledLoop)
    this = asyncio.current_task()
    assert this is not None
    loop.add_signal_handler(signal.SIGTERM, this.cancel)  # ended so, its folder goes too
    begin_s = time.monotonic()
    controller = FakeController(array_clock=lambda: time.monotonic() - begin_s)
    if trouble:
        controller.history.without.add("reglo.heart.flow")  # it has not answered for an hour
        controller.failing["ph_spent.ph"] = "ph_spent: no reply in 1.0 s"
        controller.silent |= {"t_chamber.temperature", "p_heart.pressure"}
        controller.lost["reglo.heart"] = "reglo: no reply in 1.0 s"
        controller.alarms.event("device_lost", "ph_spent", "no reply in 1.0 s for 42 s")
        controller.alarms.event("no_heart_flow", "reglo.heart", "the heart stands since 12 s")
    with tempfile.TemporaryDirectory(prefix="choroid-page-") as folder:
        auth = Auth(Path(folder), demo=not locked)
        app = create_app(controller, auth, speed=LoopSpeed(loop))
        print(auth.link("127.0.0.1", port), flush=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.live())
            group.create_task(serve(app, "127.0.0.1", port, time_scale=loop.speed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--trouble", action="store_true")
    parser.add_argument("--locked", action="store_true")
    chosen = parser.parse_args()
    with contextlib.suppress(asyncio.CancelledError):
        run_scaled(main(chosen.port, trouble=chosen.trouble, locked=chosen.locked), SPEED)
