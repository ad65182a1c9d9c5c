"""Alarms, the emergency stop, and bypasses of interlocks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from fastapi import APIRouter

from controller.alarms.states import Alarm
from controller.gate.bypass import Bypass
from controller.process.controller import Controller
from controller.rig.quantities import parse_quantity
from dashboards.access import ApiProblem, Controlled, Engineer, Operator, Viewer
from dashboards.models.base import Why
from dashboards.models.safety import (
    AlarmModel,
    AlarmsModel,
    BypassesModel,
    BypassModel,
    BypassRequest,
    ChannelsModel,
    ChannelTests,
    EmergencyModel,
    Shelved,
)
from nerves.summary import life_s

routes = APIRouter(prefix="/api")

CONFIRM_S = 5.0
"""Maximum time (s of real time) that the answer to an emergency stop waits for the devices."""
_stopping: set[asyncio.Task[None]] = set()
"""Emergency stops in progress. They continue after the answer, and after the client has gone."""


@routes.get("/alarms", response_model=AlarmsModel)
async def alarms(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the announced alarms, the most urgent first, and the shelved, suppressed and out-of-service ones."""
    return _listed(rig)


def _listed(rig: Controller) -> dict[str, Any]:
    return {
        "alarms": rig.alarms.active(),
        "suppressed": rig.alarms.suppressed(),
    }


@routes.get("/alarms/channels", response_model=ChannelsModel)
async def channels(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return every channel over which alarms are sent to people."""
    return {"channels": [] if rig.people is None else rig.people.status()}


@routes.post("/alarms/channels/test", response_model=ChannelTests)
async def send_test(rig: Controlled, user: Operator, body: Why) -> dict[str, Any]:
    """Send a test message over every channel now; return which confirmed it."""
    if rig.people is None:
        raise ApiProblem(
            409,
            "this rig sends its alarms to no one",
            where="the rig file",
            cause="it has no part `alarms: notify:`",
            action="add the channels to the rig file (docs/alarms.md) and restart the controller",
        )
    rig.journal.append("notice.test", {"user": user.name, "reason": body.reason})
    return {"channels": await rig.people.test(user.name)}


@routes.post("/alarms/{alarm_id}/acknowledge", response_model=AlarmModel)
async def acknowledge(rig: Controlled, user: Operator, alarm_id: str, body: Why) -> Alarm:
    """Acknowledge an alarm. The user is recorded, and the reason if one is given."""
    try:
        alarm = rig.alarms.acknowledge(alarm_id, user.name)
    except KeyError:
        raise ApiProblem(
            404,
            f"no alarm “{alarm_id}” is active",
            where="the alarm's id",
            cause="its cause is gone and it was acknowledged",
            action="look at the list again",
        ) from None
    if body.reason:
        rig.journal.append("alarm.reason", {"alarm": alarm_id, "user": user.name, "reason": body.reason})
    return alarm


@routes.post("/alarms/{alarm_id}/shelve", response_model=AlarmsModel)
async def shelve(rig: Controlled, user: Operator, alarm_id: str, body: Shelved) -> dict[str, Any]:
    """Shelve an alarm: do not announce it for a limited time. Interlocks act as before."""
    rig.alarms.shelve(alarm_id, parse_quantity(body.for_, "s"), user.name, body.reason)
    return _listed(rig)


@routes.post("/alarms/{alarm_id}/out-of-service", response_model=AlarmsModel)
async def out_of_service(rig: Controlled, user: Engineer, alarm_id: str, body: Why) -> dict[str, Any]:
    """Take an alarm out of service: do not announce it until it is returned to service."""
    rig.alarms.take_out_of_service(alarm_id, user.name, body.reason)
    return _listed(rig)


@routes.post("/alarms/{alarm_id}/return", response_model=AlarmsModel)
async def bring_back(rig: Controlled, user: Operator, alarm_id: str, body: Why) -> dict[str, Any]:
    """End shelving or out of service; an alarm whose cause is present is announced again."""
    rig.alarms.bring_back(alarm_id, user.name)
    return _listed(rig)


@routes.post("/estop", response_model=EmergencyModel)
async def estop(rig: Controlled, user: Operator, body: Why) -> dict[str, Any]:
    """Stop everything but the basal circulation, and all stimulation, until it is reset. No reason is required.

    The answer comes at the latest after 5 s. A device that has not confirmed by then does not keep the caller waiting: the
    stop is in force, `confirmed` is false, and the gate goes on with that device.
    """
    stop = rig.emergency_stop(user.name, body.reason or "emergency stop on the page")
    confirmed = await _within(stop, life_s(CONFIRM_S))
    return {"emergency": rig.gate.emergency, "confirmed": confirmed}


@routes.post("/estop/reset", response_model=EmergencyModel)
async def reset(rig: Controlled, user: Operator, body: Why) -> dict[str, Any]:
    """End an emergency stop; the reason is required (I5)."""
    if not body.reason:
        raise ApiProblem(
            422,
            "a reset needs a reason",
            where="reason",
            cause="it was left empty",
            action="say why it is safe to go on",
        )
    await rig.emergency_reset(user.name, body.reason)
    return {"emergency": rig.gate.emergency, "confirmed": True}


@routes.get("/bypasses", response_model=BypassesModel)
async def bypasses(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return every present bypass of an interlock."""
    return {"bypasses": list(rig.gate.bypasses.active())}


@routes.post("/bypasses/{interlock}", response_model=BypassModel)
async def bypass(rig: Controlled, user: Engineer, interlock: str, body: BypassRequest) -> Bypass:
    """Bypass an interlock for at most an hour; the bypass ends by itself (I6)."""
    return await rig.gate.bypasses.begin(interlock, user.name, body.reason, body.minutes * 60.0)


@routes.delete("/bypasses/{interlock}", status_code=204)
async def act_again(rig: Controlled, user: Operator, interlock: str) -> None:
    """End a bypass: the interlock acts again at once."""
    rig.gate.bypasses.end(interlock, user.name)


async def _within(stop: Coroutine[Any, Any, None], within_s: float) -> bool:
    """Begin `stop`; return whether it has ended within `within_s` (s of the loop). Raises what it raises until then."""
    task = asyncio.create_task(stop, name="emergency stop")
    _stopping.add(task)
    task.add_done_callback(_stopping.discard)
    done, _ = await asyncio.wait((task,), timeout=within_s)
    if not done:
        return False
    await task
    return True
