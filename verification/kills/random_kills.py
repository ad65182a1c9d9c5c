"""`choroid verify kills --random N`: kill processes of a running rig N times at random, in real time, and measure the
effects.

Measured from the lab's truth: time until every output is in its basal state, and the volume of the dose. From
outside: time until the controller answers again. Between two strikes the rig keeps running.
"""

from __future__ import annotations

import contextlib
import json
import math
import queue
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.operating.remote import call
from controller.hazards.loading import load_checked_rig
from controller.transfers.delivery import tolerance
from controller.transfers.routes import Trust, routes_of
from drivers.registry import MODELS
from protocols.organs import Liver
from verification.kills.rigged import LINE, RECIPE, REQUESTED_UL, RigFailed, Rigged, now_s, pause
from verification.kills.strikes import RESTS, Strike, Struck, draw, judge, table

FIRST_PORT, PORTS = 21_000, 2_000
SETTLE_S = 90.0
BASAL_WITHIN_S = 20.0
BACK_WITHIN_S = 60.0
STOPPED_LAB_S = 3.0
ENGINE_WITHIN_S = {"kill": 20.0, "stop": 5.0}
"""Maximum wait for a new engine (s); a stopped one that is not replaced is then continued."""
SLACK_UL = 10.0
"""Tolerance (µL): a drip, and the lab's rounding."""


def random_kills(count: int, *, seed: int, rig: Path, jobs: int = 1, resume: Path | None = None) -> dict[str, Any]:
    """Strike `count` times; return the content of :func:`~verification.kills.strikes.as_text`, with all outcomes.

    With `resume`, passed strikes are stored in that folder and not repeated. Raises :class:`UserError` for a rig without the
    pumps of a small dose.
    """
    organs = load_checked_rig(rig, models=MODELS).organs
    if organs.kidney is None or organs.liver is None or not organs.hearts:
        raise UserError(
            f"{rig}: a strike needs a heart, a kidney and a liver: it hits a small weighed dose. Next: use such a rig, or"
            " `choroid verify kills` without --random, which runs the recipes that the rig supports"
        )
    with contextlib.ExitStack() as stack:
        folder = resume or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="choroid-strikes-")))
        folder.mkdir(parents=True, exist_ok=True)
        outcomes: dict[int, Struck] = {}
        waiting: queue.Queue[Strike] = queue.Queue()
        for strike in draw(count, seed):
            kept = _kept(folder, strike)
            if kept is not None:
                outcomes[strike.number] = kept
            else:
                waiting.put(strike)
        _strike_all(
            [
                threading.Thread(target=_work, args=(number, waiting, outcomes, folder, rig), daemon=True)
                for number in range(max(jobs, 1))
            ],
            waiting,
        )
    found = [outcomes[number] for number in sorted(outcomes)]
    return {
        "strikes": len(found),
        "seed": seed,
        "table": table(found),
        "failed": [asdict(each) for each in found if each.problems],
        "outcomes": [asdict(each) for each in found],
    }


def _kept(folder: Path, strike: Strike) -> Struck | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        kept = Struck(**json.loads((folder / f"strike-{strike.number}.json").read_text(encoding="utf-8")))
        same = (kept.victim, kept.method, kept.instant, kept.share) == (
            strike.victim,
            strike.method,
            strike.instant,
            strike.share,
        )
        return kept if same and not kept.problems else None
    return None


def _strike_all(works: Sequence[threading.Thread], waiting: queue.Queue[Strike]) -> None:
    """Run the threads until no strike waits; an interruption only waits for running strikes."""
    for work in works:
        work.start()
    try:
        for work in works:
            while work.is_alive():
                work.join(1.0)
    except KeyboardInterrupt:
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.get_nowait()
        for work in works:
            work.join()
        raise


def _work(number: int, waiting: queue.Queue[Strike], outcomes: dict[int, Struck], folder: Path, rig: Path) -> None:
    """Execute strikes on one rig; a rig on which something failed is replaced by a new one."""
    rigged: Rigged | None = None
    made = 0
    try:
        while True:
            try:
                strike = waiting.get_nowait()
            except queue.Empty:
                return
            begun_s = now_s()
            struck = Struck(strike.number, strike.victim, strike.method, strike.instant, strike.share)
            try:
                if rigged is None:
                    made += 1
                    home = folder / f"rig-{number}-{made}"
                    shutil.rmtree(home, ignore_errors=True)
                    home.mkdir(parents=True)
                    rigged = Rigged(rig, home, first_port=FIRST_PORT + PORTS * number)
                carry_out(rigged, strike, struck)
                judge(struck)
            except (RigFailed, UserError, OSError) as error:
                struck.problems.append(f"{type(error).__name__}: {error}")
            struck.real_s = round(now_s() - begun_s, 1)
            outcomes[strike.number] = struck
            (folder / f"strike-{strike.number}.json").write_text(json.dumps(asdict(struck), indent=1), encoding="utf-8")
            verdict = "; ".join(struck.problems) or "passed"
            print(
                f"{len(outcomes)} {strike.victim} {strike.method} {strike.instant}: {verdict} ({struck.real_s:.0f} s)",
                file=sys.stderr,
            )
            if struck.problems and rigged is not None:
                rigged.end()
                rigged = None
    finally:
        if rigged is not None:
            rigged.end()


def _into_dose(rigged: Rigged, strike: Strike, struck: Struck, before_ul: float) -> str:
    """Start a run and wait for the instant of the strike in its dose; return the run.

    Args:
        before_ul: True volume through the line before the dose (µL).
    """
    acts = len(rigged.rows("step.act"))
    run = str(call(rigged.endpoint(), "POST", "/api/runs", {"protocol": RECIPE, "params": {}, "reason": "kills"})["id"])
    struck.requested_ul = REQUESTED_UL
    if strike.instant == "announced":
        rigged.until(lambda: len(rigged.rows("step.act")) > acts, "the dose is announced", SETTLE_S, 0.01)
    else:
        share_ul = strike.share * REQUESTED_UL
        rigged.until(
            lambda: rigged.truth["moved_ul"][LINE] - before_ul >= share_ul, "the dose is given", SETTLE_S, 0.01
        )
    return run


def carry_out(rigged: Rigged, strike: Strike, struck: Struck) -> None:
    """Bring the rig to the instant, strike it, measure, and verify that it works again; raise :class:`RigFailed`
    otherwise.
    """
    if strike.method in ("namespace", "port"):
        _restart(
            rigged,
            namespace=strike.method == "namespace",
            page_port=rigged.free_port() if strike.method == "port" else 0,
        )
    before_ul, run = 0.0, ""
    if strike.instant != "starting" or strike.in_dose:
        rigged.until(rigged.has_all_readings, "every device has a reading", BACK_WITHIN_S)
    if strike.in_dose:
        before_ul = rigged.truth["moved_ul"][LINE]
        run = _into_dose(rigged, strike, struck, before_ul)
    old = set(rigged.pids(strike.victim if strike.victim in ("engine", "guard") else "controller"))
    watches = rigged.watches()
    at_s = now_s()
    _strike(rigged, strike)
    if (strike.victim, strike.method) in RESTS:
        struck.basal_s = _basal_s(rigged, at_s, struck)
    _come_back(rigged, strike, old)
    rigged.until(rigged.answers, "the controller answers again", BACK_WITHIN_S)
    if strike.victim in ("controller", "guard", "both"):
        rigged.until(lambda: rigged.watches() > watches, "a guard watches the controller again", BACK_WITHIN_S)
    struck.restart_s = round(now_s() - at_s, 2)
    rigged.page_port = 0
    if strike.in_dose:
        _finish(rigged, run, struck)
        if (strike.victim, strike.method) != ("lab", "kill"):  # a new lab does not know what the old one moved
            pause(0.2)
            struck.delivered_ul = round(rigged.truth["moved_ul"][LINE] - before_ul, 1)
        struck.stated_ul = round(_stated_ul(rigged, run), 1)


def _restart(rigged: Rigged, *, namespace: bool, page_port: int) -> None:
    """Restart the controller in a PID namespace of its own, or with its page at a port that another program can take."""
    rigged.namespace, rigged.page_port = namespace, page_port
    rigged.stop_service("controller")
    rigged.until(lambda: not rigged.answers(), "the controller ends", BACK_WITHIN_S)
    rigged.until(rigged.answers, "the controller answers", BACK_WITHIN_S)
    rigged.namespace = False  # the next controller starts outside: from inside it could not end a guard outside


def _strike(rigged: Rigged, strike: Strike) -> None:
    victims = ("controller", "guard") if strike.victim == "both" else (strike.victim,)
    for victim in victims:
        match strike.method:
            case "service":
                rigged.stop_service(victim)
            case "stop":
                rigged.signal(victim, signal.SIGSTOP)
            case "port":
                rigged.signal(victim, signal.SIGKILL)
                rigged.take_port()
            case _:  # in a namespace of its own the controller is process 1, and all of it ends with it
                rigged.signal(victim, signal.SIGKILL)


def _basal_s(rigged: Rigged, at_s: float, struck: Struck) -> float | None:
    """Return the time until every output is in its basal state (s), by the lab's truth."""
    while (truth := rigged.truth)["at_s"] < at_s + BASAL_WITHIN_S:
        if truth["at_s"] > at_s:
            restless = rigged.restless(truth)
            if not restless:
                return round(float(truth["at_s"]) - at_s, 3)
            struck.last = restless
        pause(0.01)
    return None


def _come_back(rigged: Rigged, strike: Strike, old: set[int]) -> None:
    """Verify that the struck process is replaced, or continues."""
    gone: dict[str, Callable[[], bool]] = {
        "guard": lambda: bool(set(rigged.pids("guard")) - old) and not set(rigged.pids("guard")) & old,
        "controller": lambda: not set(rigged.pids("controller")) & old,
        "both": lambda: not set(rigged.pids("controller")) & old,
    }
    if strike.victim == "lab":
        pause(STOPPED_LAB_S)
        if strike.method == "kill":
            rigged.start_lab_again()
        rigged.let_go_on()
        rigged.until(rigged.has_all_readings, "every device has a reading again", BACK_WITHIN_S)
    elif strike.victim == "engine":
        replaced = False
        with contextlib.suppress(RigFailed):
            rigged.until(lambda: bool(set(rigged.pids("engine")) - old), "a new engine", ENGINE_WITHIN_S[strike.method])
            replaced = True
        if not replaced and strike.method == "kill":
            raise RigFailed("no new engine was started")
        rigged.let_go_on()
    else:
        rigged.until(gone[strike.victim], f"the {strike.victim} is replaced", BACK_WITHIN_S)
        rigged.stopped.clear()
        if strike.method == "port":
            rigged.until(
                lambda: not rigged.basal(rigged.truth), "care goes on without the port of the page", BACK_WITHIN_S
            )
            rigged.give_port_back()


def _record_hold(struck: Struck, message: str) -> None:
    if not struck.held or struck.held[-1] != message:
        struck.held.append(message)


def _is_complete(rigged: Rigged, view: Mapping[str, Any] | None) -> bool:
    """Return whether the journal has the end of the run; raise :class:`RigFailed` for a run that ended otherwise.

    The row of a complete run reaches the journal's file a moment after the API reports it.
    """
    done = [row["to"] for row in rigged.rows("run.state")]
    if done and done[-1] == "complete":
        return True
    if view is not None and view["state"] != "complete":
        raise RigFailed(f"the run is {view['state']}")
    return False


def _finish(rigged: Rigged, run: str, struck: Struck) -> None:
    """Follow the run to its end; record its holds and accept them."""
    deadline_s = now_s() + SETTLE_S
    while now_s() < deadline_s:
        with contextlib.suppress(OSError, ValueError, UserError):
            runs = call(rigged.endpoint(), "GET", "/api/runs")["runs"]
            view = next((each for each in runs if each["id"] == run), None)
            if view is None or view["ended"]:
                if _is_complete(rigged, view):
                    return
            elif view["state"] == "held":
                _record_hold(struck, (view["messages"] or ["nothing was said"])[-1])
                call(rigged.endpoint(), "POST", f"/api/runs/{run}/resume", {"reason": "looked at"})
        pause(0.15)
    raise RigFailed(f"the run did not come to its end within {SETTLE_S:g} s")


def _stated_ul(rigged: Rigged, run: str) -> float:
    """Return the stated uncertainty of the dose (µL), with that of every weighing that it took."""
    route = routes_of(load_checked_rig(rigged.served, models=MODELS))[Liver.add_glucose.name]
    limits = tolerance(route, Trust(1.0, route.rel_sd, route.dose_sd_ul, "factory"), REQUESTED_UL)
    doses = len(rigged.rows_of(run, "moved"))
    return limits.pump_ul + limits.weighing_ul * math.sqrt(max(doses, 1)) + SLACK_UL
