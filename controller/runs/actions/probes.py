"""Read a sensor, or the flow that a heart's pump reports; calibrate the batch's pH probe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.recipes.form import POINT_UNITS
from controller.rig.description import DeviceSpec, Rig
from controller.rig.organs import HeartConfig
from controller.rig.places import at
from controller.runs.action import Action
from controller.runs.context import LiveRun
from controller.runs.paper import Paper
from controller.safety.probe_rules import ProbeIntent
from controller.steps.recovery import StepProblem, Trouble
from controller.steps.steps import StepRecord
from controller.transfers.weighing import ACCURACY_SD, settled
from drivers.commands import Calibrate, PumpStatus
from protocols.host import ProtocolError
from protocols.interval import Interval
from protocols.language import Lab
from protocols.organs import Liver, flow_point

MEASURE_PATIENCE_S = 60.0


class Measure(Action, verbs=(Lab.measure,), needs=("point", "settle_s")):
    """Reads a point."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for a settled reading; start over when the run was held in between. During another branch's dose, a reading
        in the vessel of the batches would be of no one medium.
        """
        point, settle_s, run = args["point"], args["settle_s"], live.run
        if (heart := _heart(live.bench.rig, point)) is not None:
            return await _flow(live, live.bench.rig.lines[heart.line].pump or "", point)
        device = _device(live.bench.rig, point)
        async with live.claim(live.batch if device.at == live.batch else None):
            while True:
                await run.checkpoint()
                await run.wait(settle_s) if settle_s > 0 else None
                if run.interrupted:
                    continue
                patience_s = max(MEASURE_PATIENCE_S, 6 * device.every_s)
                reading = await settled(live.bench.store, point, every_s=device.every_s, patience_s=patience_s)
                if not run.interrupted:
                    break
        interval = None if reading.value is None else Interval.around(reading.value, reading.sd).to_json()
        return {"point": point, "unit": reading.unit, "interval": interval, "detail": reading.detail}

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the latest reading, else the set-point where there is one."""
        point, rig = args["point"], paper.rig
        if (heart := _heart(rig, point)) is not None:
            return _flow_reading(point, heart.flow_ul_min)
        device = _device(rig, point)
        with paper.using(paper.batch if device.at == paper.batch else None):
            paper.advance(args["settle_s"] + 3 * device.every_s)
        value = paper.value(point)
        unit = POINT_UNITS.get(point.rpartition(".")[2], "mL/min") or "pH"
        interval = None if value is None else Interval.around(value, ACCURACY_SD.get(unit, 0.0)).to_json()
        return {"point": point, "unit": unit, "interval": interval, "detail": "" if interval else "rehearsed"}


class CalibrateProbe(Action, verbs=(Liver.calibrate,), needs=("place", "value", "valid_s")):
    """Calibrates the probe through the gate; `{before, after, places}`. Twice in the same buffer is as once."""

    async def perform(self, live: LiveRun, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        point = at(live.bench.rig, Liver.ph.sensor) or ""
        command = Calibrate(args["place"], args["value"])
        intent = ProbeIntent(point, command, args["valid_s"], f"run:{live.run.id}", f"step {step.n} {step.verb}")
        tries: dict[Trouble, int] = {}
        async with live.claim(live.batch):
            while True:
                await live.run.checkpoint()
                found = await live.bench.gate.calibrate(intent)
                if found.accepted and found.error is None and found.status is not None:
                    return {"before": found.before, "after": found.after, "places": found.status.places}
                trouble = Trouble.WORN if found.worn else Trouble.FAILED if found.accepted else Trouble.REFUSED
                problem = StepProblem(trouble, point, found.reasons or (found.error or "it gave no answer",))
                before = tries.get(trouble, 0)
                tries[trouble] = before + 1
                await live.run.trouble(problem, before)

    async def rehearse(self, paper: Paper, step: StepRecord, args: Mapping[str, Any]) -> dict[str, Any]:
        with paper.using(paper.batch):
            paper.advance(3 * paper.rig.devices[str(at(paper.rig, Liver.ph.sensor)).partition(".")[0]].every_s)
        return {"before": args["value"], "after": args["value"], "places": 1}


def _device(rig: Rig, point: str) -> DeviceSpec:
    device = rig.devices.get(point.partition(".")[0])
    if device is None:
        raise ProtocolError(f"no sensor is called “{point}”. Next: use device.point as in the rig file")
    return device


def _heart(rig: Rig, point: str) -> HeartConfig | None:
    """Return the heart whose pump reports its flow under this point; None for any other point."""
    pumps = ((rig.lines[heart.line].pump, heart) for heart in rig.organs.hearts.values())
    return next((heart for pump, heart in pumps if pump is not None and flow_point(pump) == point), None)


async def _flow(live: LiveRun, pump: str, point: str) -> dict[str, Any]:
    """Return the flow that a pump reported at its last poll (µL/min)."""
    store, deadline_s = live.bench.store, live.now_s + MEASURE_PATIENCE_S
    while pump not in store.actuators and live.now_s < deadline_s:
        await live.run.wait(1.0)  # right after the start it has not been asked yet
    seen = store.actuators.get(pump)
    if seen is None or not isinstance(seen.status, PumpStatus):
        return {"point": point, "unit": "uL/min", "interval": None, "detail": f"{pump} never answered"}
    return _flow_reading(point, seen.status.flow_ul_min)


def _flow_reading(point: str, flow_ul_min: float) -> dict[str, Any]:
    interval = Interval.around(flow_ul_min, ACCURACY_SD["uL/min"]).to_json()
    return {"point": point, "unit": "uL/min", "interval": interval, "detail": ""}
