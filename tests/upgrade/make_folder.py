"""Store a data folder of this release: `python -m tests.upgrade.make_folder` writes `tests/upgrade/VERSION.tar.xz`.

The folder is that of a controller which was killed in the middle of a transfer. `known.json` has what this release knew
of it, and `interfaces.json` the interfaces of this release. Virtual time makes it deterministic, but for secrets. It is made
once, when a release is made; the tests open the folder of each release with the present code.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import tempfile
import tomllib
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from choroid.common.examples import bench_rig
from choroid.running.data_folder import open_folder
from choroid.running.guarding import write_plan
from choroid.running.journal_opening import JOURNAL, open_journal
from choroid.running.simulated_card import simulated_card
from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.delivery.store import NoticeStore
from controller.guard.guarding import guard_plan
from controller.hazards.loading import load_checked_rig
from controller.ledger.batches import Batch
from controller.memory.calibrations import Calibration, keep
from controller.memory.history import History
from controller.memory.identity import kept_identity
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import Rig
from controller.rig.loading import effective_hash
from controller.runs.people import Person
from controller.telemetry.outbox import Outbox
from dashboards.auth import Auth, Role
from drivers.registry import MODELS
from nerves import ledger as stimulation
from nerves.cards.contract import Phase
from nerves.credentials import AgentCredentials, AgentRole
from nerves.governor import Reason, Request, StimulationDecision
from sim.devices.ismatec_reglo_icc import IsmatecRegloIcc
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from tests.upgrade.interfaces import interfaces

HERE = Path(__file__).parent
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
OWN = """\
recipe: 1
name: own
title: A recipe of the laboratory's own
parameters:
  volume: {default: 1 mL, min: 0.5 mL, max: 2 mL, help: fresh medium}
steps:
  - gut.feed: {volume: volume, as: fresh}
  - ask_operator: "Look at the spent vessel, then resume."
  - kidney.discard: spent.volume - spent.target
  - note: {kind: looked, values: {fresh: fresh}}
"""
KEPT = OWN.replace("name: own", "name: kept")
"""A recipe in the library of uploaded protocols."""

NOTICES = {"channel:page": {"sent": 3}}


def stimulated(path: Path) -> None:
    """Write a stimulation ledger with refusals, and with pulses of unknown fate."""
    info = simulated_card(electrodes=32, seed=1).info
    book = stimulation.StimulationLedger(path, info, EPOCH.isoformat())
    pulse = (Phase(200.0, -2.0), Phase(200.0, 2.0))
    for number in range(20):
        frame = 25_000 * (number + 1)
        request = Request("agent", "lease-1", (number % 32,), pulse)
        if number % 5 == 4:
            book.decided(request, StimulationDecision(False, (Reason("rate", "too soon", 1.0),)), frame)
            continue
        _, pulses = book.decided(request, StimulationDecision(True, (), (frame + 5,), 25, 10, 0.4), frame)
        for each in pulses:
            book.fates([(each.id, "handed", None, "")])
            if number < 18:
                book.fates([(each.id, "delivered", each.at_frame + 1, "")])
    book.commit()
    book.close()


def last_row(path: Path) -> list[Any]:
    """Return number and hash of the journal's last row, from a copy: what opens the file changes it."""
    with tempfile.TemporaryDirectory() as folder:
        for each in path.parent.glob(f"{path.name}*"):
            shutil.copy(each, folder)
        with closing(sqlite3.connect(Path(folder) / path.name)) as db:
            return list(db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone())


async def until(true: Callable[[], bool], within_s: float = 7200.0) -> None:
    """Wait in virtual time."""
    loop = asyncio.get_running_loop()
    latest_s = loop.time() + within_s
    while not true():
        assert loop.time() < latest_s, "it did not come to pass"
        await asyncio.sleep(1.0)


async def people_act(controller: Controller, lab: SimulatedLab) -> None:
    """Do what people do to a rig: alarms, a bypass, bottles, readings, tubing, an assay, a protocol for the library."""
    clock, library = controller.clock, controller.library
    lab.lines["sim:do_loop"].unplug()
    await asyncio.sleep(60.0)
    lab.lines["sim:do_loop"].plug()
    for alarm in controller.alarms.active():
        controller.alarms.acknowledge(alarm.id, "anna")
    controller.alarms.take_out_of_service("stock_low:base", "anna", "another bottle is on its way")
    await controller.gate.bypasses.begin("over_pressure_filter", "anna", "the sensor is changed", 30.0)
    batch = Batch("lot-7", "fresh", clock.utc_text(), "reservoir", expires_utc="2026-02-01T00:00:00.000Z", by="anna")
    controller.ledger.load(batch, 500_000.0, 2_500.0, replaces=True, user="anna", reason="a new bottle")
    controller.ledger.level("loop", 40_000.0, 300.0, user="anna", reason="read at the glass")
    controller.ledger.reconcile("waste", 100.0, 50.0, user="anna", reason="rinsed")
    controller.upkeep.install("reglo.heart", material="pharmed-bpt", bore_mm=1.02, user="anna", reason="new", lot="t-3")
    controller.assays.enter("lactate", "0.5 mM", vessel="loop", taken=clock.utc_text(), user="anna", sure=True)
    kept = library.submit("kept.yaml", KEPT.encode(), Person("anna", "engineer"), "for the night")
    library.review(kept.sha256, accept=True, by=Person("ben", "engineer"), reason="read it")
    await library.release(kept.sha256, Person("ben", "engineer"), "released")
    lab.lines["sim:t_chamber"].unplug()
    await asyncio.sleep(60.0)
    lab.lines["sim:t_chamber"].plug()
    await until(lambda: not controller.gate.trips)
    controller.alarms.shelve("stock_low:glucose", 3600.0, "anna", "it is being made")
    await asyncio.sleep(60.0)


async def runs_end(controller: Controller) -> dict[str, str]:
    """Let runs end: one with a question, one that is paused and aborted, and a cycle. Return the state of each."""
    runs, journal = controller.runs, controller.journal
    own = await runs.start("own", {}, "anna", "a look at the vessel")
    await until(lambda: runs.get(own).state is RunState.HELD)
    await runs.resume(own, "anna", "looked at it")
    await until(lambda: runs.get(own).state.ended)
    feed = await runs.start("partial-exchange", {"share": "20 %"}, "anna", "fresh medium")
    await until(lambda: journal.last("moved", run=feed) is not None)
    await runs.pause(feed, "anna", "a visitor")
    await until(lambda: runs.get(feed).state is RunState.HELD)
    await runs.abort(feed, "anna", "enough")
    await until(lambda: runs.get(feed).state.ended)
    cycle = await runs.start("recycle", {"batch": "4 mL", "min_batch": "4 mL", "cycles": "1"}, "anna", "a batch")
    await until(lambda: runs.get(cycle).state.ended, within_s=20_000.0)
    return {run: runs.get(run).state.value for run in (own, feed, cycle)}


async def stopped(controller: Controller, lab: SimulatedLab) -> None:
    """Stop the rig in an emergency, and start it again."""
    await controller.emergency_stop("anna", "a drill")
    await asyncio.sleep(30.0)
    await controller.emergency_reset("anna", "the drill is over")
    await until(lambda: not controller.gate.trips)
    await asyncio.sleep(120.0)
    spent_ul = lab.plant.truth().volumes_ul["spent"]
    controller.ledger.reconcile("spent", spent_ul, 20.0, user="anna", reason="weighed after the drill")


async def killed_run(controller: Controller) -> str:
    """Begin a run, and return its name in the middle of its second draw."""
    run = await controller.runs.start(
        "recycle", {"batch": "6 mL", "min_batch": "6 mL", "cycles": "1"}, "anna", "the night's run"
    )

    def drawing() -> bool:
        row = controller.journal.last("step.act", run=run)
        return row is not None and row.body["line"] == "draw" and row.body["ul"] > 3000.0

    await until(drawing)
    await asyncio.sleep(30.0)
    return run


def others(data: Path) -> None:
    """Write the files of other processes: stimulation, messages that wait, credentials of an agent."""
    stimulated(data / "stimulation.db")
    with closing(Outbox(data / "outbox.db")) as outbox:
        for number in range(5):
            outbox.put(f"message {number}".encode())
    AgentCredentials(data, lambda: "2026-01-01T00:00:00.000Z").issue("tutor", AgentRole.AGENT, token="tutor's token")


def prepared(data: Path, rig: Rig) -> None:
    """Write what is in the folder before the controller starts."""
    (data / "recipes").mkdir(parents=True)
    (data / "recipes" / "own.yaml").write_text(OWN, encoding="utf-8")
    write_plan(rig, data)
    kept_identity(data)
    keep(
        data,
        Calibration(
            "reglo.draw", "pump", "balance", "anna", "2025-12-31T10:00:00.000Z", "2026-06-01T00:00:00.000Z", rig.name,
            1.02, "uL", ((2000.0, 2040.0), (2000.0, 2050.0), (2000.0, 2030.0)), 1.02, 0.0, 0.005,
        ),
    )  # fmt: skip


def known_of(controller: Controller, data: Path, run: str, ended: dict[str, str]) -> dict[str, Any]:
    """Return what this release knows of the folder `data`, a copy of that of `controller`."""
    dose = controller.journal.last("step.act", run=run)
    assert dose is not None
    return {
        "utc": controller.clock.utc_text(),
        "rig_hash": effective_hash(controller.rig),
        "journal": last_row(data / JOURNAL),
        "volumes_ul": {name: [volume.ul, volume.sd_ul] for name, volume in controller.ledger.volumes().items()},
        "lots": sorted(controller.ledger.whereabouts.batches),
        "alarms": sorted([alarm.kind, alarm.source, alarm.state.value] for alarm in controller.alarms.active()),
        "suppressed": sorted([alarm.id, alarm.state.value] for alarm in controller.alarms.suppressed()),
        "gain": controller.upkeep.trust("reglo.draw").gain,
        "assays": [row["text"] for row in controller.assays.recent()],
        "run": run,
        "steps": [step.verb for step in controller.runs.get(run).progress],
        "ended": ended,
        "dose": dict(dose.body),
        "stimulation": [
            [record.requester, record.accepted, [pulse.state for pulse in record.pulses]]
            for record in stimulation.read(data / "stimulation.db")
        ],
        "kinds": sorted({row.kind for row in controller.journal.entries()}),
    }


def read_history(file: Path, clock: Clock) -> dict[str, Any]:
    """Return unit, number of readings and their sum for each series, from a copy of the history."""
    with tempfile.TemporaryDirectory() as folder:
        for each in file.parent.glob(f"{file.name}*"):
            shutil.copy(each, folder)
        with closing(History(Path(folder) / file.name, clock)) as history:
            ends = EPOCH.timestamp(), EPOCH.timestamp() + 86_400.0
            return {
                point: [history.series()[point], len(found), round(sum(each.mean for each in found), 6)]
                for point in sorted(history.series())
                if (found := history.query(point, *ends, 100_000))
            }


async def main(out: Path) -> None:
    """Write the folder, the rig file and what is known of them into `out`."""
    data = out / "data"
    shutil.copy(bench_rig(), out / "rig.yaml")
    rig = load_checked_rig(out / "rig.yaml", models=MODELS)
    prepared(data, rig)
    lab = SimulatedLab(rig, seed=1)
    clock = Clock(follow_system=False, epoch=EPOCH)
    folder = open_folder(data, guard_plan(rig).to_json())
    journal = open_journal(data / JOURNAL, clock, folder.problem, threaded=False)
    auth = Auth(data, demo=False, utc=clock.utc)
    token = auth.issue("anna", Role.ENGINEER, purpose="the laboratory's tablet")
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(data, journal=journal), clock=clock)
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(60.0)
    await people_act(controller, lab)
    ended = await runs_end(controller)
    await stopped(controller, lab)
    run = await killed_run(controller)
    others(data)
    for name in ("history.db", "journal.db"):
        assert (data / f"{name}-wal").stat().st_size, "all of it is in the file: no kill -9 looks so"
    shutil.copytree(data, out / "folder")
    known = known_of(controller, out / "folder", run, ended) | {"token": token}

    # The controller is dead; the pump ends its dose by itself. This is the world that the next start finds.
    stop.set()
    await ticking
    await controller.close(leave_running=True)
    await asyncio.sleep(180.0)
    reglo = lab.devices["reglo"]
    assert isinstance(reglo, IsmatecRegloIcc)
    known["world"] = {
        "volumes_ul": dict(lab.plant.truth().volumes_ul),
        "reglo_total_ml": {number: channel.total_ml for number, channel in reglo.channels.items()},
    }
    await lab.close()
    known["history"] = read_history(out / "folder" / "history.db", clock)
    (out / "known.json").write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    archive = HERE / f"{project['version']}.tar.xz"
    with tempfile.TemporaryDirectory(prefix="choroid-upgrade-") as work:
        out = Path(work)
        (out / "data").mkdir()
        asyncio.run(NoticeStore(out / "data" / "notices.db").save(NOTICES))
        run_virtual(main(out))
        (out / "empty").mkdir()
        found = asyncio.run(interfaces(out / "rig.yaml", out / "empty"))
        (out / "interfaces.json").write_text(json.dumps(found, sort_keys=True) + "\n", encoding="utf-8")
        for each in (out / "folder").glob("*-shm"):
            each.unlink()
        parts = ("folder", "rig.yaml", "known.json", "interfaces.json")
        subprocess.run(
            [
                *("tar", "--create", "--xz", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"),
                *("--file", str(archive), "--directory", str(out), *parts),
            ],
            check=True,
        )
    print(f"wrote {archive.name}, {archive.stat().st_size / 1000:.0f} kB")
