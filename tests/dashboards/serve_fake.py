"""Serve the page over the small controller in a process of its own: `python -m tests.dashboards.serve_fake 8123`.

For browser tests and for work on the page. `--trouble` shows it on a bad day, `--flood` in a flood of alarms (eight stand,
ten changes a second), `--wanted` with a requested assay, `--zone` sets the rig's time zone,
`--locked` asks for a token, `--rig` serves another rig file.
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
from protocols.assay_requests import ASSAY_WANTED, AssayRequest
from protocols.ldh_requests import ldh_note
from sim.virtual_time import ScaledLoop, run_scaled
from tests.dashboards.fake_rig import BENCH, REQUESTING, FakeController

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


FLOOD = (
    ("no_heart_flow", "reglo.heart"), ("temperature", "t_chamber.temperature"), ("gas_mixture", "gas_co2.flow"),
    ("device_lost", "ph_spent"), ("device_lost", "reglo"), ("sensor_flat", "ph_loop.ph"), ("stock_low", "glucose"),
    ("level_due", "loop"),
)  # fmt: skip
CHANGE_S = 0.1 * SPEED


async def flood(controller: FakeController) -> None:
    """Change every alarm's detail ten times a second; new alarms come and go among them."""
    number = 0
    while True:
        number += 1
        for kind, source in FLOOD:
            # Only present alarms change: otherwise an event would raise an alarm again that was just acknowledged.
            if any(each.id == f"{kind}:{source}" for each in controller.alarms.active()):
                controller.alarms.event(kind, source, f"reading {number}, {'a long detail ' * (number % 4)}")
        controller.alarms.event("command_failed", f"relay.x{number % 40}", "no answer")
        if number > 20:
            passing = f"command_failed:relay.x{(number - 20) % 40}"
            if any(each.id == passing for each in controller.alarms.active()):
                controller.alarms.acknowledge(passing, "the flood")
        await asyncio.sleep(CHANGE_S)


async def main(port: int, *, rig: Path, trouble: bool, flooded: bool, wanted: bool, zone: str, locked: bool) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ScaledLoop)
    this = asyncio.current_task()
    assert this is not None
    loop.add_signal_handler(signal.SIGTERM, this.cancel)  # ended so, its folder goes too
    begin_s = time.monotonic()
    controller = FakeController(rig, array_clock=lambda: time.monotonic() - begin_s)
    controller.rig = controller.rig.model_copy(update={"time_zone": zone})
    for kind, source in FLOOD if flooded else ():
        controller.alarms.event(kind, source, "it has begun")
    if wanted:
        request = AssayRequest(("lactate", "ammonia"), 21_000.0, 64_000.0)
        ldh = ldh_note("the estimate expects a loss of 5% of the viability, which LDH confirms or excludes")
        controller.journal.append(f"note.{ASSAY_WANTED}", request.to_json(), run=REQUESTING)
        controller.journal.append(f"note.{ASSAY_WANTED}", ldh, run=REQUESTING)
        texts = {(ASSAY_WANTED, "loop"): request.text, (ASSAY_WANTED, "tissue"): str(ldh["text"])}
        controller.alarms.levels(texts, 0.0)
    if trouble:
        controller.history.without.add("reglo.heart.flow")  # it has not answered for an hour
        controller.failing["ph_spent.ph"] = "ph_spent: no reply in 1.0 s"
        controller.moving.add("balance.mass")
        controller.silent |= {"t_chamber.temperature", "p_heart.pressure"}
        controller.lost["reglo.heart"] = "reglo: no reply in 1.0 s"
        controller.alarms.event("device_lost", "ph_spent", "no reply in 1.0 s for 42 s")
        controller.alarms.event("no_heart_flow", "reglo.heart", "no flow for 12 s")
    with tempfile.TemporaryDirectory(prefix="choroid-page-") as folder:
        begun = controller.clock.utc()  # in this loop's time the link would end within a minute
        auth = Auth(Path(folder), demo=not locked, utc=lambda: begun)
        app = create_app(controller.as_controller(), auth, speed=LoopSpeed(loop))
        print(auth.link(f"http://127.0.0.1:{port}"), flush=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.live())
            if flooded:
                group.create_task(flood(controller))
            group.create_task(serve(app, "127.0.0.1", port, time_scale=loop.speed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--trouble", action="store_true")
    parser.add_argument("--flood", action="store_true")
    parser.add_argument("--wanted", action="store_true")
    parser.add_argument("--zone", default="UTC")
    parser.add_argument("--locked", action="store_true")
    parser.add_argument("--rig", type=Path, default=BENCH)
    chosen = parser.parse_args()
    with contextlib.suppress(asyncio.CancelledError):
        run_scaled(
            main(
                chosen.port,
                rig=chosen.rig,
                trouble=chosen.trouble,
                flooded=chosen.flood,
                wanted=chosen.wanted,
                zone=chosen.zone,
                locked=chosen.locked,
            ),
            SPEED,
        )
