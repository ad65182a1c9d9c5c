"""`choroid demo`: a simulated rig, its controller and its page in one process, at 60 times real time.

Everything but the electrode engine shares one scaled loop; the engine is a separate process and stays in real time,
whatever the demo's speed. Nothing here can reach a real device.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from choroid.cameras.engines import simulated_cameras
from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from choroid.common.signals import stop_on_signals, stop_rig_on_usr1
from choroid.demo.faults import LabFaults
from choroid.running.data_folder import ENDPOINT
from choroid.running.endpoint import leave_endpoint
from choroid.running.listening import EngineNerves, follow_tissue
from choroid.simulation.twin import plant_of
from controller.core.clock import Clock
from controller.hazards.loading import load_checked_rig
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.edges import Up
from controller.process.outside import with_cameras, with_nerves
from controller.recipes.on_rig import preferred
from controller.rig.description import Rig
from dashboards.admission import more_descriptors
from dashboards.app import create_app
from dashboards.auth import Auth
from dashboards.server import serve
from drivers.registry import MODELS
from sim.lab import SimulatedLab
from sim.plant.parameters import PlantParameters
from sim.virtual_time import MAX_SPEED, ScaledLoop, run_scaled

SHOWN = {"recycle": {"min_batch": "18 mL", "every": "2 h"}, "exchange": {"every": "2 h"}}
"""Parameters of the demonstration run: good medium would be left alone for days, here it moves within two minutes."""


def demo(
    *,
    rig_path: Path | None,
    port: int,
    duration_s: float | None,
    speed: float,
    seed: int,
    data: Path | None,
    tissue: str = "reference",
) -> int:
    """Run until interrupted, or for `duration_s` real seconds; return the exit status.

    `tissue` is a kind of tissue or a twin file (:func:`choroid.simulation.twin.plant_of`).
    """
    plant = plant_of(tissue)
    path = rig_path or bench_rig()
    rig = load_checked_rig(path, models=MODELS)
    if not rig.simulated:
        raise UserError(f"{path} has real links; the demo only ever runs simulated rigs. Next: use `choroid run`")
    more_descriptors()
    with contextlib.ExitStack() as stack:
        folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="choroid-demo-")))
        folder.mkdir(parents=True, exist_ok=True)
        run_scaled(_demo(rig, port, duration_s, speed, seed, folder, plant), speed)
    return 0


POUR_EVERY_S = 10.0


async def pour(lab: SimulatedLab, controller: Controller, stop: asyncio.Event) -> None:
    """Apply to the simulated vessels what a user enters on the page: a demo has no hands."""
    seen = controller.journal.next_seq - 1
    while not stop.is_set():
        await asyncio.sleep(POUR_EVERY_S)
        for row in controller.journal.entries(kinds=("ledger.loaded", "ledger.reconciled"), after=seen):
            seen = row.seq
            vessel, ul = row.body["vessel"], row.body["ul"]
            true_ul = lab.plant.truth().volumes_ul[vessel]
            on_top = not row.body.get("replaces", False)
            if row.kind == "ledger.reconciled":
                lab.plant.take(vessel, true_ul - ul)
                ul = max(ul - true_ul, 0.0)
            room_ul = lab.rig.vessels[vessel].capacity_ul - on_top * true_ul
            if lab.rig.vessels[vessel].contains is not None:
                lab.plant.fill(vessel, min(ul, max(room_ul, 0.0)), on_top=on_top)


class LoopSpeed:
    """Speed control, which only a simulated rig has."""

    def __init__(self, loop: ScaledLoop) -> None:
        self._loop = loop

    @property
    def speed(self) -> float:
        """Speed factor."""
        return self._loop.speed

    def set_speed(self, speed: float) -> None:
        """Change the speed; raise ValueError outside 1 to 600."""
        self._loop.set_speed(speed)


async def _demo(
    rig: Rig, port: int, duration_s: float | None, speed: float, seed: int, folder: Path, plant: PlantParameters
) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ScaledLoop)  # noqa: S101  (run_scaled gave it)
    stop = asyncio.Event()
    stop_on_signals(stop, duration_s)
    lab = SimulatedLab(rig, seed=seed, parameters=plant)
    nerves = EngineNerves(rig, folder, seed) if rig.nerves else None
    clock = Clock(follow_system=False, epoch=_now())
    controller = Controller(
        rig=rig,
        opener=lab.opener,
        storage=Storage(folder, durable=False),
        clock=clock,
        stimulator=nerves,
        parts=(
            with_nerves(nerves),
            with_cameras(simulated_cameras(rig, lab)),
        ),
    )
    stop_rig_on_usr1(controller)
    auth = Auth(demo=True, utc=clock.utc)
    faults = LabFaults(rig, lab, seed)

    async def page(up: Up) -> None:
        def opened(port: int) -> None:
            print(f"Open http://127.0.0.1:{port}/ in a browser (Ctrl-C ends)", file=sys.stderr, flush=True)
            leave_endpoint(folder, f"http://127.0.0.1:{port}", auth.command_line_token())
            up()

        app = create_app(
            controller,
            auth,
            speed=LoopSpeed(loop),
            mishaps=faults,
            agents=nerves.agents if nerves else None,
            recordings=nerves.recordings if nerves else None,
            array=nerves,
        )
        await serve(app, "127.0.0.1", port, time_scale=MAX_SPEED, opened=opened)

    async def hands(up: Up) -> None:
        up()
        await pour(lab, controller, stop)

    async def culture(up: Up) -> None:
        up()
        if nerves is not None:
            await follow_tissue(nerves, lab.plant, stop)

    try:
        await controller.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run(stop))
            protocol = preferred(rig)
            reason = f"the demo shows {protocol}"
            if controller.runs.active is None:  # the run of a demo before it goes on with its --data
                await controller.runs.start(protocol, SHOWN.get(protocol, {}), user="demo", reason=reason)
            print(f"Choroid demo: rig {rig.name}, simulated, {speed:g} × real time", file=sys.stderr)
            controller.edges.keep("page", page)
            controller.edges.keep("hands", hands)
            if nerves is not None:
                nerves.start(controller.edges)
                controller.edges.keep("culture", culture)
    finally:
        (folder / ENDPOINT).unlink(missing_ok=True)
        faults.clear()
        await controller.close()
        if nerves is not None:
            await nerves.close()
        await lab.close()


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)  # noqa: TID251  (the start of the demo's own calendar)
