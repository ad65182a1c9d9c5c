"""Inject faults and undo them, at times on the event loop's clock only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from zlib import crc32

import numpy as np

from sim.faults.conditions import Conditional
from sim.faults.effects import Effects
from sim.faults.kinds import KINDS
from sim.faults.schedule import Fault
from sim.faults.targets import targets
from sim.lab import SimulatedLab

FOR_GOOD_S = 1e9
"""Duration of a fault of a host that has no end (three decades)."""
LOOK_S = 1.0
"""Period at which conditions are checked."""


class Host(Protocol):
    """The computer on which the controller runs; a fault with a duration ends there by itself.

    `services` are those that it sends readings to; faults of other services do not concern this host.
    """

    @property
    def services(self) -> Collection[str]:
        """Return those of "broker" and "store" to which the host sends readings."""

    def kill(self, at_journal_row: int | None = None) -> None:
        """Kill the controller: at once, or at the `at_journal_row`-th row from now."""

    def stall(self, for_s: float) -> None:
        """Stop the controller's process for a time."""

    def step_clock(self, by_s: float) -> None:
        """Set the computer's clock forward, or back."""

    def disk_full(self, for_s: float) -> None:
        """Make every write fail."""

    def disk_slow(self, for_s: float, delay_s: float) -> None:
        """Make every row take `delay_s` to write."""

    def lock_database(self, for_s: float) -> None:
        """Keep the databases locked."""

    def service_down(self, service: str, for_s: float) -> None:
        """Make a service unreachable."""

    def flood(self, for_s: float) -> None:
        """Send requests and commands without pause."""

    def careless(self, output: str, for_s: float) -> None:
        """Request again and again what `output` must not do."""


@dataclass(slots=True)
class Applied:
    """A fault that was injected: when it began, and when it ended (s since the start; None while it is active)."""

    fault: Fault
    begun_s: float
    ended_s: float | None = None


class Injector:
    """Inject faults into one lab; times count from the creation of the injector.

    The faults of `schedule` begin at their times while :meth:`run` runs, those of `conditions` when these are met. What
    is random in a fault (which byte is hit) depends on `seed` and on that fault alone, so that removing one fault
    changes no other. `told` is called when a fault begins, and again when it ends.
    Raises ValueError for a fault of unknown kind or target, or one that needs a host where there is none.
    """

    def __init__(
        self,
        lab: SimulatedLab,
        schedule: Iterable[Fault],
        host: Host | None = None,
        *,
        conditions: Iterable[Conditional] = (),
        seed: int = 0,
        told: Callable[[Applied], None] | None = None,
    ) -> None:
        self.applied: list[Applied] = []
        self._lab = lab
        self._host = host
        self._seed = seed
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._start_s = self._loop.time()
        self._schedule = sorted(schedule, key=lambda fault: fault.at_s)
        self._conditions = tuple(conditions)
        self._open: dict[int, tuple[Applied, Callable[[], None], asyncio.TimerHandle | None]] = {}
        self._failure: Exception | None = None
        self._ended = asyncio.Event()
        self._protocols: dict[str, str] = {}
        """The protocol of each run in the journal."""
        self._effects = Effects(lab)
        for fault in (*self._schedule, *(each.fault for each in self._conditions)):
            self._check(fault)

    @property
    def now_s(self) -> float:
        """Return the seconds since the start."""
        return self._loop.time() - self._start_s

    async def run(self) -> None:
        """Inject every fault of the schedule and undo it; return when the last has ended.

        With conditions that may be met again it never returns by itself. Cancelling it leaves active faults active; see
        :meth:`clear`. Raises the error of a fault that could not be injected.
        """
        # All timers are set here, so that the order of things at one moment does not depend on what else there is.
        due = [self._loop.call_at(self._start_s + fault.at_s, self._due, fault) for fault in self._schedule]
        try:
            await self._watch()
            begun_s = self._start_s + max((fault.at_s for fault in self._schedule), default=0.0)
            await asyncio.sleep(max(0.0, begun_s - self._loop.time()))
            while any(timer is not None for _, _, timer in self._open.values()):
                self._ended.clear()
                await self._ended.wait()
            self._raise()
        finally:
            for timer in due:
                timer.cancel()

    async def _watch(self) -> None:
        """Inject a fault when its condition is met; return when no condition is left."""
        watched = list(self._conditions)
        for each in watched:
            each.begin()
        while watched:
            await asyncio.sleep(LOOK_S)
            self._raise()
            for condition in [each for each in watched if each.met(self._lab)]:
                self.inject(condition.fault_at(self.now_s))
                if not condition.again:
                    watched.remove(condition)

    def _due(self, fault: Fault) -> None:
        try:
            self.inject(fault)
        except Exception as error:
            self._failure = error

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def inject(self, fault: Fault) -> Applied | None:
        """Inject `fault` now, ignoring its `at_s`; return None when it does not concern this host."""
        self._check(fault)
        if KINDS[fault.kind].target == "service" and self._host and fault.target not in self._host.services:
            return None
        applied = Applied(fault, self.now_s)
        undo = self._begin(fault)
        self.applied.append(applied)
        if KINDS[fault.kind].momentary:
            applied.ended_s = applied.begun_s
        if self._told is not None:
            self._told(applied)
        if KINDS[fault.kind].momentary:
            return applied
        key = id(applied)
        timer = self._loop.call_later(fault.for_s, self._end, key) if fault.for_s > 0 else None
        self._open[key] = (applied, undo, timer)
        return applied

    def end(self, applied: Applied) -> None:
        """Undo one fault now; do nothing when it is over."""
        if id(applied) in self._open:
            self._end(id(applied))

    def clear(self) -> None:
        """Undo every active fault of the lab. A host ends its own faults, at their times."""
        for key in list(self._open):
            self._end(key)

    def on_row(self, seq: int, kind: str, body: Mapping[str, Any], run: str | None) -> None:
        """Pass a journal row to the conditions that wait for a step of a run."""
        if kind == "run.start" and run is not None:
            self._protocols[run] = str(body["protocol"])
        for condition in self._conditions:
            condition.on_row(kind, body, self._protocols.get(run or ""))

    # --- inside -----------------------------------------------------------------------------------------

    def _end(self, key: int) -> None:
        applied, undo, timer = self._open.pop(key)
        if timer is not None:
            timer.cancel()
        applied.ended_s = self.now_s
        undo()
        self._ended.set()
        if self._told is not None:
            self._told(applied)

    def _check(self, fault: Fault) -> None:
        kind = KINDS.get(fault.kind)
        if kind is None:
            raise ValueError(f"there is no fault “{fault.kind}”; there are {', '.join(KINDS)}")
        allowed = targets(fault.kind, self._lab.rig)
        if fault.target not in allowed:
            raise ValueError(
                f"{fault.kind} cannot occur on “{fault.target}”;"
                f" on this rig it can occur on {', '.join(allowed) or 'nothing'}"
            )
        if self._host is None and kind.group in ("host", "network"):
            raise ValueError(
                f"{fault.kind} is a fault of the controller's computer, which is not part of this lab."
                " Next: leave it out here, or run a campaign, which has one"
            )
        if kind.amount is not None and not kind.amount.minimum <= kind.amount.of(fault) <= kind.amount.maximum:
            raise ValueError(
                f"{fault.kind}: {fault.amount:g} is not an amount ({kind.amount.meaning}) from"
                f" {kind.amount.minimum:g} to {kind.amount.maximum:g} {kind.amount.unit}".rstrip()
            )

    def _begin(self, fault: Fault) -> Callable[[], None]:
        kind = KINDS[fault.kind]
        amount = kind.amount.of(fault) if kind.amount is not None else 0.0
        if self._host is not None and kind.group in ("host", "network"):
            return _on_host(self._host, fault, amount)
        text = f"{fault.kind}|{fault.target}|{fault.at_s!r}|{fault.for_s!r}"
        rng = np.random.default_rng([self._seed, crc32(text.encode())])
        return self._effects.begin(fault, amount, rng)


def _on_host(host: Host, fault: Fault, amount: float) -> Callable[[], None]:
    """Inject a fault into the host, and return what undoes it. The host ends all but a step of its clock by itself."""
    if fault.kind in ("clock_step", "dst"):
        by_s = amount if fault.kind == "clock_step" else 3600.0
        host.step_clock(by_s)
        return lambda: host.step_clock(-by_s)
    if (act := _HOST_ACTS.get(fault.kind)) is not None:
        act(host, fault, fault.for_s or FOR_GOOD_S, amount)
    return lambda: None


_HOST_ACTS: dict[str, Callable[[Host, Fault, float, float], None]] = {
    "kill": lambda host, _fault, _for_s, amount: host.kill(int(amount) or None),
    "stall": lambda host, _fault, for_s, _amount: host.stall(for_s),
    "disk_full": lambda host, _fault, for_s, _amount: host.disk_full(for_s),
    "disk_slow": lambda host, _fault, for_s, amount: host.disk_slow(for_s, amount),
    "database_locked": lambda host, _fault, for_s, _amount: host.lock_database(for_s),
    "broker_down": lambda host, fault, for_s, _amount: host.service_down(fault.target, for_s),
    "store_down": lambda host, fault, for_s, _amount: host.service_down(fault.target, for_s),
    "flood": lambda host, _fault, for_s, _amount: host.flood(for_s),
    "careless": lambda host, fault, for_s, _amount: host.careless(fault.target, for_s),
}
"""What a kind of fault does to a host: host, fault, duration (s), amount."""
