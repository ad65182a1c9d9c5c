"""Valves and the pumps behind them: a valve that closes against a running pump bursts its line.

The gate asks here before a valve comes to rest. What pumps through it is stopped first, and the valve stays open until
each pump is known to stand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from controller.gate.outputs import DEBT_FIRST_S, GatedOutput
from controller.safety.terms import Limits
from drivers.commands import Stop


class Valves:
    """The valves of a rig by what presses against them.

    `pay(output)` tries to bring an output, whose lock is held, to what it owes; `alarm(kind, source, detail)` is called for
    what a person must know.
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
        self._now_s = now_s
        self._pay = pay
        self._alarm = alarm

    def __contains__(self, name: object) -> bool:
        return name in self._pumps

    async def stilled(self, valve: GatedOutput) -> str | None:
        """Stop what pumps through a valve that is to close; returns the pump that is not known to stand after that."""
        for pump in self._behind(valve):
            async with pump.lock:
                if pump.may_pump(self._now_s()):
                    pump.owe(Stop(), f"its valve {valve.name} closes", self._now_s())
                    if pump.due(self._now_s()):
                        await self._pay(pump)
        return self.pressing(valve)

    def pressing(self, valve: GatedOutput) -> str | None:
        """The pump that keeps a valve from closing: one behind it that may run, or that somebody is commanding.

        None when the valve says that it is closed already: then closing it does no harm.
        """
        if valve.seen is not None and not valve.seen.on:
            return None
        now_s = self._now_s()
        return next((pump.name for pump in self._behind(valve) if pump.lock.locked() or pump.may_pump(now_s)), None)

    def wait(self, valve: GatedOutput, pump: str) -> str:
        """Let a valve's debt wait for `pump`; returns why. It is looked at again with each tick; people are told once."""
        why = f"it stays open: {pump} is not known to stand, and would press against it"
        valve.lease_until_s = None
        if valve.debt is not None:
            if not valve.debt.waits:
                self._alarm("command_failed", valve.name, why)
            valve.debt.waits, valve.debt.next_s = True, self._now_s() + DEBT_FIRST_S
        return why

    def _behind(self, valve: GatedOutput) -> Sequence[GatedOutput]:
        return self._pumps.get(valve.name, ())
