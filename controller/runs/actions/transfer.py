"""Move liquid along the route of a verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, timedelta
from typing import Any

from controller.rig.description import Rig
from controller.rig.selectors import PumpedPath
from controller.runs.action import Action
from controller.runs.context import LiveRun
from controller.runs.paper import Event, Paper, RehearsalOver
from controller.steps.branches import BRANCH, spoken
from controller.steps.chamber_control import ChamberControl, GivenUp
from controller.steps.run_control import RunControl
from controller.steps.steps import StepRecord
from controller.transfers.carry_over import carry_over_refusal
from controller.transfers.routes import Route, route_of
from protocols.chamber_verbs import MAX_CARRY_OVER_PCT
from protocols.host import ProtocolError
from protocols.table import OF_CHAMBERS, TRANSFERS, way_of_step

WEIGHING_S = 12.0
"""Before and after each dose: three readings of the balance."""


class MoveLiquid(Action, verbs=(*TRANSFERS.values(), *OF_CHAMBERS.values())):
    """Moves a volume; `{ul, low, high}`, and `peak_kpa` where it passes the filter and was watched."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        """Move the volume; `failed` says why a dose of one chamber was given up."""
        bench = live.bench
        route = route_of(bench.transfers.routes, way_of_step(step.verb, step.args))
        volume_ul = float(step.args["volume_ul"])
        run: RunControl = live.run
        if step.args.get("alone"):
            run = ChamberControl(live.run, step, str(step.args[OF_CHAMBERS[step.verb].place]))
        async with live.claim(*route.exclusive):
            other_ul = bench.ledger.carry_over_ul
            if not step.acts and (refusal := _carry_over(bench.rig, step, route, volume_ul, other_ul)):
                raise ProtocolError(refusal)
            try:
                ul, low, high = await bench.transfers.transfer(run, step, route, volume_ul)
            except GivenUp as given_up:
                bench.alarm("chamber_left_out", given_up.chamber, given_up.why)
                ul, low, high = step.moved_ul
                return {"ul": ul, "low": low, "high": high, "failed": given_up.why}
        moved: dict[str, Any] = {"ul": ul, "low": low, "high": high}
        return moved if step.peak_kpa is None else {**moved, "peak_kpa": round(step.peak_kpa, 3)}

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        """Book the volume; a dose that would be refused is a breach, and ends the rehearsal."""
        route, volume_ul = route_of(paper.routes, way_of_step(step.verb, step.args)), float(step.args["volume_ul"])
        with paper.using(*route.exclusive):
            _require_possible(paper, step, route, volume_ul)
            begin_s = paper.now_s
            paper.advance(volume_ul / route.flow_ul_min * 60.0 + 2 * WEIGHING_S * route.portions(volume_ul))
        liquid_ul = paper.volumes.liquid_ul(route, volume_ul)
        sd_ul = paper.volumes.move(route, volume_ul)
        if route.path is not None:
            paper.contents.pass_along(route.path, volume_ul)
        place, branch = (route.source, route.target, route.line), spoken(BRANCH.get().path)
        paper.out.events.append(Event(step.n, step.verb, begin_s, paper.now_s, liquid_ul, *place, branch=branch))
        moved: dict[str, Any] = {"ul": volume_ul, "low": volume_ul - 3 * sd_ul, "high": volume_ul + 3 * sd_ul}
        filtered = paper.rig.lines[route.line].filter is not None
        gauge = None if paper.rig.organs.immune is None else paper.rig.organs.immune.pressure
        return {**moved, "peak_kpa": paper.value(gauge)} if filtered and gauge is not None else moved

    def text(self, args: Mapping[str, Any], result: Any) -> None:
        """Return None: its event has volume and places."""


def _carry_over(
    rig: Rig, step: StepRecord, route: Route, volume_ul: float, other_ul: Callable[[PumpedPath, float], float]
) -> str:
    """Return why too much of a dose would be what the shared line held before; empty if it would not."""
    if route.path is None:
        return ""
    bound_pct = float(step.args.get("max_carry_over_pct", MAX_CARRY_OVER_PCT))
    refusal = carry_over_refusal(rig, route.path, volume_ul, other_ul(route.path, volume_ul), bound_pct)
    return refusal and f"step {step.n} ({step.verb}): {refusal}"


def _require_possible(paper: Paper, step: StepRecord, route: Route, volume_ul: float) -> None:
    """End the rehearsal where the run would be held, or the gate refuse the dose: carry-over, room (three standard
    deviations from floor and ceiling, I4), and calibration of the pump at the beginning of each portion (F5).
    """
    breaches, dose = paper.out.breaches, f"step {step.n} ({step.verb}, {volume_ul / 1000:.2f} mL"
    if refusal := _carry_over(paper.rig, step, route, volume_ul, paper.contents.other_ul):
        breaches.append(refusal)
    else:
        at = f"{dose}, {paper.now_s / 3600:.1f} h from the start)"
        breaches += [f"{at}: {breach}" for breach in paper.volumes.breaches(route, volume_ul)]
    portions = route.portions(volume_ul)
    each_s = volume_ul / portions / route.flow_ul_min * 60.0 + 2 * WEIGHING_S
    for portion in range(0 if breaches else portions):
        at_s = paper.now_s + portion * each_s
        utc = paper.began.astimezone(UTC) + timedelta(seconds=at_s)
        why = paper.calibrated(route.pump, utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        if why is not None:
            breaches.append(f"{dose}, {at_s / 3600:.1f} h from the start): calibration: {why}")
            paper.out.uncalibrated = True
            break
    if breaches:
        raise RehearsalOver
