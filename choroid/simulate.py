"""`choroid simulate`: the whole, unchanged stack on the simulated lab, in virtual time.

The controller, drivers and protocols are those of a real run; only the loop and the links differ. The answer sets
what the controller believes (ledger, grades, score) beside what the plant knows (truth).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choroid.failure import UserError
from choroid.rates import RateNerves
from controller.clock import Clock
from controller.process import Controller
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from drivers.registry import MODELS
from sim.lab import Lab
from sim.virtual_time import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""Where virtual UTC begins: fixed, so that the same seed gives the same journal."""

DAY_S = 86_400.0


def simulate(
    path: Path,
    *,
    protocol: str,
    params: dict[str, str],
    days: float,
    seed: int,
    data: Path | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Run `protocol` for `days` of life; returns the figures named in `choroid simulate --json`.

    Raises :class:`UserError` when the rig has links that are not simulated.
    """
    rig = load_rig(path, models=MODELS)
    if not rig.simulated:
        raise UserError(
            f"{path} has real links, and a simulation never opens those. Next: simulate a rig whose links are all sim:"
        )
    started = time.perf_counter()  # noqa: TID251  (the real cost is the figure asked for)
    if data is not None:
        answer = run_virtual(_run(rig, protocol, params, days, seed, data, progress))
    else:
        with tempfile.TemporaryDirectory(prefix="choroid-") as folder:
            answer = run_virtual(_run(rig, protocol, params, days, seed, Path(folder), progress))
    wall_s = time.perf_counter() - started  # noqa: TID251
    answer["wall_s"] = round(wall_s, 3)
    answer["speed"] = round(answer["simulated_s"] / wall_s, 1)
    return answer


async def _run(
    rig: Rig, protocol: str, params: dict[str, str], days: float, seed: int, data: Path, progress: bool
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    lab = Lab(rig, seed=seed)
    electrodes = rig.nerves.electrodes if rig.nerves else 0
    nerves = RateNerves(lab.plant, electrodes=electrodes, seed=seed) if electrodes else None
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(
        rig=rig, opener=lab.opener, data_dir=data, clock=clock, nerves_source=nerves, durable=False
    )
    begin_s = loop.time()
    end_s = begin_s + days * DAY_S
    stop = asyncio.Event()
    try:
        await controller.start()
        ticking = asyncio.create_task(controller.run(stop))
        run_id = await controller.runs.start(protocol, params, user="simulate", reason="choroid simulate")
        while loop.time() < end_s and not ticking.done():
            await asyncio.sleep(min(end_s - loop.time(), DAY_S / 24))
            if progress:
                done = (loop.time() - begin_s) / (end_s - begin_s)
                print(f"\r{done:6.1%} of {days:g} d", end="", file=sys.stderr, flush=True)
        if progress:
            print(file=sys.stderr)
        answer = figures(rig, lab, controller, run_id)
        stop.set()
        await ticking
    finally:
        await controller.close()
        await lab.close()
    answer |= {"simulated_s": round(loop.time() - begin_s, 3), "seed": seed, "protocol": protocol, "rig": rig.name}
    return answer
