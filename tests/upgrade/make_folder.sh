#!/usr/bin/env bash
# Make tests/upgrade/c0b9dcd.tar.xz: a data folder of release c0b9dcd, killed in the middle of a transfer.
#
# The program below runs on the code of that commit and on no other, so it is text here and not a module of the suite.
# It is deterministic in virtual time. It needs a Python environment in which that commit runs:
#
#     PYTHON=.venv/bin/python tests/upgrade/make_folder.sh
set -euo pipefail
commit=c0b9dcd
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'git -C "$here" worktree remove --force "$work/tree" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
git -C "$here" worktree add --quiet --detach "$work/tree" "$commit"
cat > "$work/make.py" <<'PYTHON'
import asyncio, json, shutil, sqlite3, sys, tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from choroid.data_folder import open_folder
from choroid.guarding import write_plan
from choroid.journal_opening import JOURNAL, open_journal
from choroid.nerves_process import simulated_array
from choroid.run import _sinks
from controller.calibrations import Calibration, keep
from controller.clock import Clock
from controller.delivery.people import people_of
from controller.execution.batches import Batch
from controller.execution.states import RunState
from controller.guarding import guard_plan
from controller.hazards import load_checked_rig
from controller.memory.history import History
from nerves import ledger as stimulation
from nerves.governor import Decision, Reason, Request
from nerves.device import Phase
from controller.process import Controller
from dashboards.auth import Auth, Role
from drivers.registry import MODELS
from sim.lab import Lab
from sim.virtual_time import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TELEMETRY = """\
telemetry:
  mqtt: {broker: "127.0.0.1:1", prefix: choroid}
alarms:
  notify:
    channels:
      display: {mqtt: true, min_priority: low}
    escalation: [[display]]
"""
OWN = """\
recipe: 1
name: own
title: A recipe of the laboratory's own
parameters:
  volume: {default: 1 mL, least: 0.5 mL, most: 2 mL, help: fresh medium}
steps:
  - gut.feed: {volume: volume, as: fresh}
  - ask_operator: "Look at the spent vessel, then resume."
  - kidney.discard: spent.volume - spent.target
  - note: {kind: looked, values: {fresh: fresh}}
"""


def stimulated(path):
    book = stimulation.Ledger(path, simulated_array(electrodes=32, seed=1).info, "2026-01-01T00:00:00+00:00")
    pulse = (Phase(200.0, -2.0), Phase(200.0, 2.0))
    for number in range(20):
        frame = 25_000 * (number + 1)
        request = Request("anna", "lease-1", (number % 32,), pulse)
        if number % 5 == 4:
            book.decided(request, Decision(False, (Reason("rate", "too soon"),)), frame)
            continue
        _, pulses = book.decided(request, Decision(True, (), (frame + 5,), 25, 10, 0.4), frame)
        for each in pulses:
            book.fates([(each.id, "handed", None, "")])
            if number < 18:
                book.fates([(each.id, "delivered", each.at_frame + 1, "")])
    book.commit()
    book.close()


def last_row(path):
    """Number and hash of the last row, from a copy: what opens the file changes it."""
    with tempfile.TemporaryDirectory() as folder:
        for each in path.parent.glob("journal.db*"):
            shutil.copy(each, folder)
        with closing(sqlite3.connect(Path(folder) / path.name)) as db:
            return db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()


async def until(true, within_s=7200.0):
    loop = asyncio.get_running_loop()
    latest_s = loop.time() + within_s
    while not true():
        assert loop.time() < latest_s, "it did not come to pass"
        await asyncio.sleep(1.0)


async def main(tree, out):
    data = out / "data"
    text = (tree / "examples/rigs/bench.yaml").read_text(encoding="utf-8")
    (out / "rig.yaml").write_text(text[: text.index("telemetry:")] + TELEMETRY, encoding="utf-8")
    rig = load_checked_rig(out / "rig.yaml", models=MODELS)
    (data / "recipes").mkdir(parents=True)
    (data / "recipes" / "own.yaml").write_text(OWN, encoding="utf-8")
    lab = Lab(rig, seed=1)
    clock = Clock(follow_system=False, epoch=EPOCH)
    folder = open_folder(data, guard_plan(rig).to_json())
    journal = open_journal(data / JOURNAL, clock, folder.problem, threaded=False)
    auth = Auth(data, demo=False)
    write_plan(rig, data)
    keep(
        data,
        Calibration(
            "reglo.draw", "pump", "balance", "anna", "2025-12-31T10:00:00.000Z", "2026-06-01T00:00:00.000Z", rig.name,
            1.02, "uL", ((2000.0, 2040.0), (2000.0, 2050.0), (2000.0, 2030.0)), 1.02, 0.0, 0.005,
        ),
    )
    outboxes, sinks = _sinks(rig, data)
    controller = Controller(
        rig=rig, opener=lab.opener, data_dir=data, clock=clock, sinks=sinks, journal=journal,
        people=people_of(rig, data, clock, journal.append),
    )
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    runs = controller.runs
    await asyncio.sleep(60.0)

    # What people do to a rig.
    token = auth.issue("anna", Role.ENGINEER)
    journal.append("users.issued", {"name": "anna", "role": "engineer", "by": "command line"})
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
    lab.lines["sim:t_chamber"].unplug()
    await asyncio.sleep(60.0)
    lab.lines["sim:t_chamber"].plug()
    await until(lambda: not controller.gate.trips)
    controller.alarms.shelve("stock_low:glucose", 3600.0, "anna", "it is being made")
    await asyncio.sleep(60.0)

    # Runs that end: one of the laboratory's own with a question, and one that is paused and aborted.
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
    first = await runs.start("recycle", {"batch": "4 mL", "least": "4 mL", "cycles": "1"}, "anna", "a batch")
    await until(lambda: runs.get(first).state.ended, within_s=20_000.0)
    await controller.emergency_stop("anna", "a drill")
    await asyncio.sleep(30.0)
    await controller.emergency_reset("anna", "the drill is over")
    await until(lambda: not controller.gate.trips)
    await asyncio.sleep(120.0)
    controller.ledger.reconcile(
        "spent", lab.plant.truth().volumes_ul["spent"], 20.0, user="anna", reason="weighed after the drill"
    )

    # The run that is killed in the middle of its second draw: steps to replay, and a dose to find out about.
    recycle = await runs.start("recycle", {"batch": "6 mL", "least": "6 mL", "cycles": "1"}, "anna", "the night's run")

    def drawing():
        row = journal.last("step.act", run=recycle)
        return row is not None and row.body["line"] == "draw" and row.body["ul"] > 3000.0

    await until(drawing)
    await asyncio.sleep(30.0)
    stimulated(data / "stimulation.db")
    for name in ("history.db", "journal.db"):
        assert (data / f"{name}-wal").stat().st_size, "all of it is in the file: no kill -9 looks so"
    shutil.copytree(data, out / "killed")
    known = {
        "utc": clock.utc_text(),
        "journal": list(last_row(out / "killed" / "journal.db")),
        "volumes_ul": {name: [volume.ul, volume.sd_ul] for name, volume in controller.ledger.volumes().items()},
        "lots": sorted(controller.ledger.whereabouts.batches),
        "alarms": sorted([alarm.kind, alarm.source, alarm.state.value] for alarm in controller.alarms.active()),
        "out_of_service": sorted(alarm.id for alarm in controller.alarms.set_aside()),  # wording: former name
        "gain": controller.upkeep.trust("reglo.draw").gain,
        "assays": [row["text"] for row in controller.assays.recent()],
        "run": recycle,
        "steps": [step.verb for step in runs.get(recycle).progress],
        "ended": {own: runs.get(own).state.value, feed: runs.get(feed).state.value, first: runs.get(first).state.value},
        "dose": dict(journal.last("step.act", run=recycle).body),
        "token": token,
        "stimulation": [
            [record.requester, record.accepted, [pulse.state for pulse in record.pulses]]
            for record in stimulation.read(data / "stimulation.db")
        ],
        "waiting_messages": len(outboxes[0]),
        "kinds": sorted({row.kind for row in journal.entries()}),
    }

    # The controller is dead; the pump ends its dose by itself. This is the world that the next start finds.
    stop.set()
    await ticking
    await controller.close(leave_running=True)
    await asyncio.sleep(180.0)
    reglo = lab.devices["reglo"].channels
    known["world"] = {
        "volumes_ul": dict(lab.plant.truth().volumes_ul),
        "reglo_total_ml": {number: channel.total_ml for number, channel in reglo.items()},
    }
    for outbox in outboxes:
        outbox.close()
    await lab.close()
    shutil.copy(out / "killed" / "history.db", out / "look.db")
    shutil.copy(out / "killed" / "history.db-wal", out / "look.db-wal")
    history = History(out / "look.db", clock)
    ends = EPOCH.timestamp(), EPOCH.timestamp() + 86_400.0
    known["history"] = {
        point: [history.series()[point], len(found), round(sum(each.mean for each in found), 6)]
        for point in sorted(history.series())
        if (found := history.query(point, *ends, 100_000))
    }
    history.close()
    (out / "known.json").write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


tree, out = map(Path, sys.argv[1:])
out.mkdir()
run_virtual(main(tree, out))
PYTHON
cd "$work"
PYTHONPATH="$work/tree" PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-python3}" -P "$work/make.py" "$work/tree" "$work/out"
rm -f "$work"/out/killed/*-shm
mv "$work/out/killed" "$work/out/folder"
tar --create --xz --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
  --file "$here/$commit.tar.xz" --directory "$work/out" folder rig.yaml known.json
ls -l "$here/$commit.tar.xz"
