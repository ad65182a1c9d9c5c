"""`choroid commission`: verify wiring and plumbing of a rig by their effects, with a person at the rig."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.running.guarding import GuardFinder
from controller.commissioning.bench import CommissioningRig
from controller.commissioning.procedure import NotReady, commission
from controller.commissioning.record import ROW
from controller.commissioning.terms import Report
from controller.core.clock import Clock
from controller.guard.heartbeat import Heartbeat
from controller.hazards.loading import load_checked_rig
from controller.journal.journal import Journal
from controller.rig.description import Rig
from drivers.registry import MODELS, load_third_party
from drivers.transport.opener import open_real

logger = logging.getLogger(__name__)
YES = ("y", "yes")


def commission_rig(path: Path, *, data: Path, by: str) -> dict[str, Any]:
    """Commission the rig in `path`, with questions on the terminal; return the report of `--json`.

    Raises:
        UserError: The rig is simulated, no guard is available, or the preparations were not confirmed.
        JournalError: A controller uses `data`.
    """
    load_third_party()
    rig = load_checked_rig(path, models=MODELS)
    if rig.simulated:
        raise UserError(
            f"every link of {path} is simulated (sim:): there is no wiring to confirm. Next: `choroid lab serve {path}"
            " --write served.yaml`, then commission served.yaml to see how it goes"
        )
    if len(by.strip()) < 2:
        raise UserError("a responsible person is required. Next: --by NAME")
    data.mkdir(parents=True, exist_ok=True)
    return asyncio.run(_commission(rig, data, by.strip())).to_json()


def as_text(answer: dict[str, Any]) -> str:
    """Return the report as text; each check was reported when it was made."""
    failed = [check for check in answer["checks"] if not check["ok"]]
    if not failed:
        return f"rig {answer['rig']} is commissioned: {len(answer['checks'])} checks passed (wiring {answer['wiring'][:12]})"
    lines = [f"{check['subject']}: {check['detail']}" for check in failed]
    return "\n".join(
        [*lines, f"rig {answer['rig']} is not as its file says: {len(failed)} checks failed. Put no tissue in"]
    )


async def _commission(rig: Rig, data: Path, by: str) -> Report:
    clock = Clock(follow_system=True)
    journal = Journal(data / "journal.db", clock, durable=True, threaded=True)
    try:
        guarded = await GuardFinder(rig, data).guarded()
        bench = await CommissioningRig.open(rig, open_real, journal, clock, _alarm)
        heartbeat = Heartbeat(
            guarded,
            ticks=lambda: bench.ticks,
            devices=bench.verified,
            counts=bench.counted,
            lost=lambda why: _alarm("guard_lost", "guard", why),
            stop=bench.gate.estop,
            end=lambda why: _tell(f"the guard wants this to end: {why}"),
        )
        heartbeat.begin()
        try:
            report = await commission(bench, by=by, utc=clock.utc_text(), ask=_ask, tell=_tell)
            journal.append(ROW, report.to_json())
        except NotReady as error:
            raise UserError(str(error)) from None
        finally:
            heartbeat.ending()
            owing = await bench.close()
            if owing:
                _tell(f"could not be brought to the basal state: {', '.join(owing)}; the guard continues")
                heartbeat.leave()
            else:
                heartbeat.goodbye()
            await heartbeat.close()
    finally:
        journal.close()
    return report


def _alarm(kind: str, source: str, detail: str) -> None:
    _tell(f"ALARM {kind} {source}: {detail}")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def _ask(question: str) -> bool:
    """Ask on the terminal while the control loop continues. The end of the input means no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()
    try:
        loop.add_reader(sys.stdin, _read_answer, answered)
    except (OSError, ValueError):  # a plain file is always ready
        return sys.stdin.readline().strip().lower() in YES
    try:
        return (await answered).strip().lower() in YES
    finally:
        loop.remove_reader(sys.stdin)


def _read_answer(answered: asyncio.Future[str]) -> None:
    if not answered.done():
        answered.set_result(sys.stdin.readline())
