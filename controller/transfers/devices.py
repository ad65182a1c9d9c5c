"""The pumps and valves of transfer lines, commanded through the safety gate."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from controller.core.state import StateStore
from controller.gate.gate import Gate
from controller.safety.terms import Intent
from controller.steps.recovery import StepProblem, Trouble
from controller.transfers.routes import Route
from drivers.commands import (
    Command,
    Guarantee,
    Level,
    LevelStatus,
    PumpStatus,
    Status,
    Stop,
    Switch,
    SwitchStatus,
)
from drivers.errors import DeviceError

POLL_S = 2.0
"""Time between two status reads of a pump (s)."""


SILENCE_S = 120.0
"""Maximum time (s) without an answer of a pump before that is a problem."""


class LineDevices:
    """Access to the pump and the valve of a route."""

    def __init__(self, gate: Gate, store: StateStore, routes: Mapping[str, Route]) -> None:
        self._gate = gate
        self._store = store
        self._switches = {route.valve for route in routes.values()}

    async def pump_status(self, route: Route) -> PumpStatus:
        """Read the status of a route's pump. Raises DeviceError."""
        status = await self._gate.status(route.pump)
        if not isinstance(status, PumpStatus):
            raise TypeError(f"{route.pump} answered {type(status).__name__}, a pump's status was asked")
        return status

    async def status_or_none(self, route: Route) -> PumpStatus | None:
        """Read the status of a route's pump; None if it does not answer."""
        try:
            return await self.pump_status(route)
        except DeviceError:
            return None

    async def stands(self, route: Route, *, since_s: float, ask: bool) -> bool:
        """Return whether the pump has reported rest after `since_s` (loop s). `ask` reads it now instead of its last poll."""
        if ask:
            status = await self.status_or_none(route)
            return status is not None and not status.running
        seen = self._store.actuators.get(route.pump)
        if seen is None or seen.at_s <= since_s:
            return False
        return isinstance(seen.status, PumpStatus) and not seen.status.running

    def ends_itself(self, route: Route) -> bool:
        """Return whether the pump ends a dose without the controller."""
        view = self._store.actuators.get(route.pump)
        return view is not None and view.guarantee is Guarantee.DEVICE

    async def switch(self, valve: str, on: bool, who: str, why: str) -> StepProblem | None:
        """Open or close a valve. Return the problem if it was refused or failed."""
        return await self._command(valve, Switch(on), who, why)

    async def _command(self, valve: str, command: Command, who: str, why: str) -> StepProblem | None:
        outcome = await self._gate.submit(Intent(valve, command, who, why))
        if not outcome.accepted:
            return StepProblem(Trouble.REFUSED, valve, outcome.reasons)
        if outcome.error is not None:
            return StepProblem(Trouble.FAILED, valve, (outcome.error,))
        return None

    async def open(self, route: Route, who: str, why: str) -> StepProblem | None:
        """Set the selectors of a route whose pump stands, and open its valve. Return the first problem, with all at rest."""
        for valve, level in route.levels.items():
            # A selector at its port of rest is not moved; where it stands is read, and the gate compares.
            problem = await self._command(valve, Level(level) if level else Stop(), who, why)
            if problem is not None:
                await self.close(route, who, why)
                return problem
        if route.valve is None or (problem := await self.switch(route.valve, True, who, why)) is None:
            return None
        await self.close(route, who, why)
        return problem

    async def close(self, route: Route, who: str, why: str) -> None:
        """Close the valve of a route whose pump stands, and bring its selectors to rest.

        What does not follow is an alarm of the gate.
        """
        if route.valve is not None:
            await self.switch(route.valve, False, who, why)
        for valve in route.levels:
            await self._gate.stop(valve, why, requester=who)

    async def to_rest(self, name: str, who: str, reason: str) -> None:
        """Stop a pump, close a valve, or bring a selector to rest."""
        if name in self._switches:
            await self.switch(name, False, who, reason)
        else:
            await self._gate.stop(name, reason, requester=who)

    async def at_rest(
        self, route: Route, latest_s: float, who: str, why: str, *, give_up: bool
    ) -> PumpStatus | StepProblem | None:
        """Wait until the pump stands, and return its status; None if it cannot be had and `give_up` is set."""
        loop = asyncio.get_running_loop()
        while True:
            status = await self._patient_status(route, give_up=give_up)
            if not isinstance(status, PumpStatus) or not status.running:
                return status
            if loop.time() - latest_s > SILENCE_S:
                return None if give_up else _silent(route, "it was commanded to stop and still runs")
            if route.valve is not None or not self.ends_itself(route) or loop.time() > latest_s:
                await self._gate.stop(route.pump, why, requester=who)
            await asyncio.sleep(POLL_S)

    async def _patient_status(self, route: Route, *, give_up: bool) -> PumpStatus | StepProblem | None:
        """Read the pump's status, with retries for `SILENCE_S`."""
        loop = asyncio.get_running_loop()
        silent_since_s: float | None = None
        while True:
            try:
                return await self.pump_status(route)
            except DeviceError as error:
                silent_since_s = loop.time() if silent_since_s is None else silent_since_s
                if loop.time() - silent_since_s > SILENCE_S:
                    return None if give_up else _silent(route, str(error))
            await asyncio.sleep(POLL_S)


def _silent(route: Route, reason: str) -> StepProblem:
    return StepProblem(Trouble.SILENT, route.pump, (reason,))


def active(status: Status) -> bool:
    """Return whether a pump runs, a valve is open, or a selector stands elsewhere than at rest."""
    match status:
        case PumpStatus(running=on) | SwitchStatus(on=on):
            return on
        case LevelStatus(setpoint=level):
            return level != 0.0
