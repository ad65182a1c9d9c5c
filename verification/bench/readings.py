"""Number of corrupted readings that are published as good, by driver, on lines that lose or double bytes."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choroid.common.examples import bench_rig
from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from verification.campaign.readings import ReadingTally, Tap

HOURS = 4.0
SHARE = 0.05
RIGS = ("bench.yaml", "other_makers.yaml")
NOISE = ("lost_byte", "doubled_byte")


def bench_readings() -> dict[str, Any]:
    """Run rigs of two manufacturers' devices while each line in turn loses, then doubles, 5 % of its bytes."""
    folder = bench_rig().parent
    tallies: dict[str, ReadingTally] = {}
    for name in RIGS:
        rig = load_rig(folder / name)
        for kind in NOISE:
            for model, tally in run_virtual(under_noise(rig, kind, hours=HOURS, share=SHARE, seed=1)).items():
                _add(tallies.setdefault(model, ReadingTally()), tally)
    whole = ReadingTally()
    for tally in tallies.values():
        _add(whole, tally)
    return {
        "simulated_h": HOURS * len(RIGS) * len(NOISE),
        "share_of_bytes": SHARE,
        "published_good": whole.good,
        "suspect": whole.suspect,
        "refused_or_lost": whole.failed,
        "wrong_per_million_good": round(whole.wrong_per_million, 2),
        **{
            f"wrong_per_million_good {model}": f"{tally.wrong_per_million:.1f} ({tally.wrong} of {tally.good} good,"
            f" {tally.suspect} suspect, {tally.failed} refused or lost)"
            for model, tally in sorted(tallies.items())
        },
    }


async def under_noise(rig: Rig, kind: str, *, hours: float, share: float, seed: int) -> dict[str, ReadingTally]:
    """Run a rig whose lines are disturbed one after the other; return the outcome of its readings, by model."""
    lab = SimulatedLab(rig, seed=seed)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    with tempfile.TemporaryDirectory() as folder:
        controller = Controller(rig=rig, opener=lab.opener, storage=Storage(Path(folder), durable=False), clock=clock)
        tap = Tap(rig, lab)
        tap.put_on(controller.store)
        await controller.start()
        stop = asyncio.Event()
        ticking = asyncio.create_task(controller.run(stop))
        injector = Injector(lab, [], seed=seed)
        for link in sorted(lab.lines):
            begun = injector.inject(Fault(kind, link, 0.0, 0.0, share))
            await asyncio.sleep(3600.0 * hours / len(lab.lines))
            if begun is not None:
                injector.end(begun)
        stop.set()
        await ticking
        await controller.close()
        await lab.close()
    return tap.tallies


def _add(to: ReadingTally, more: ReadingTally) -> None:
    for name in ("read", "good", "suspect", "failed", "wrong"):
        setattr(to, name, getattr(to, name) + getattr(more, name))
