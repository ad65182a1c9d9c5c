"""Valves and their pumps: a valve that closes against a running pump bursts its line, and a selector that turns misleads it.

The gate calls this before a valve moves. Before it comes to rest, the pumps on the valve's line are stopped, and the valve
stays as it is until each of them is known to stand. A selector is set to a position only while they stand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from controller.gate.outputs import DEBT_FIRST_S, GatedOutput
from controller.safety.terms import Limits
from drivers.commands import Stop


class Valves:
    """The valves of a rig with the pumps on their lines.

    `pay(output)` tries to command the pending state of an output; the caller holds its lock.
    `alarm(kind, source, detail)` is called for what a person must know.
    """

    def __init__(
        self,
        outputs: Mapping[str, GatedOutput],
        limits: Limits,
        now_s: Callable[[], float],
        pay: Callable[[GatedOutput], Awaitable[None]],
        alarm: Callable[[str, str, str], None],
    ) -> None:
        self._pumps: dict[str, list[GatedOutput]] = {}
        for name, pump in limits.pumps.items():
            if pump.valve is not None and name in outputs:
                self._pumps.setdefault(pump.valve, []).append(outputs[name])
        self._selectors: dict[str, list[GatedOutput]] = {}
        """The valves of the selectors on the way of each pump."""
        for valve, selector in limits.selectors.items():
            if valve in outputs:
                self._pumps[valve] = [outputs[name] for name in selector.pumps if name in outputs]
                for name in selector.pumps:
                    self._selectors.setdefault(name, []).append(outputs[valve])
        self._limits = limits
        self._now_s = now_s
        self._pay = pay
        self._alarm = alarm

    def __contains__(self, name: object) -> bool:
        return name in self._pumps

    async def stilled(self, valve: GatedOutput) -> str | None:
        """Stop the pumps of a valve that is to close. Return a pump that is not known to stand after that, or None."""
        for pump in self._behind(valve):
            async with pump.lock:
                if pump.may_pump(self._now_s()):
                    pump.owe(Stop(), f"its valve {valve.name} closes", self._now_s())
                    if pump.due(self._now_s()):
                        await self._pay(pump)
        return self.pressing(valve)

    def pressing(self, valve: GatedOutput) -> str | None:
        """Return the pump that keeps a valve from closing: one that may run, or that is being commanded.

        None if the valve reports closed: closing it then does no harm.
        """
        if valve.seen is not None and not valve.seen.on:
            return None
        return self._running(valve)

    def refusal_to_turn(self, valve: GatedOutput) -> str | None:
        """Return why a selector may not be set to a position now, or None; the caller holds its lock."""
        if valve.name not in self._limits.selectors or (pump := self._running(valve)) is None:
            return None
        return f"selector: {pump} is not known to stand, and {valve.name} moves only while it does"

    def turning(self, pump: GatedOutput) -> str | None:
        """Return why a pump may not dose because a selector on its way moves or has to move, or None."""
        for valve in self._selectors.get(pump.name, ()):
            if valve.lock.locked() or valve.debt is not None:
                return f"selector: {valve.name} is being moved"
        return None

    def _running(self, valve: GatedOutput) -> str | None:
        """Return a pump behind a valve that may run, or that is being commanded."""
        now_s = self._now_s()
        return next((pump.name for pump in self._behind(valve) if pump.lock.locked() or pump.may_pump(now_s)), None)

    def wait(self, valve: GatedOutput, pump: str) -> str:
        """Postpone the closing of a valve until `pump` stands. Return why. The alarm is raised once, the retry each tick."""
        why = f"it stays open: {pump} is not known to stand, and would press against it"
        valve.lease_until_s = None
        if valve.debt is not None:
            if not valve.debt.waits:
                self._alarm("command_failed", valve.name, why)
            valve.debt.waits, valve.debt.next_s = True, self._now_s() + DEBT_FIRST_S
        return why

    def _behind(self, valve: GatedOutput) -> Sequence[GatedOutput]:
        return self._pumps.get(valve.name, ())
