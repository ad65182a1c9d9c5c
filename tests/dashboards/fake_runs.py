"""A runner for tests of the page: a recycling cycle of some ten minutes, with the real states and the real refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.core.run_states import RunEvent, RunState, after
from controller.recipes.parameters import parse_params
from controller.runs.assay_requests import AssayRequests
from controller.runs.runner import RunnerError
from controller.runs.views import RunView, StepView
from protocols.registry import PROTOCOLS, Recipe, get

Act = Callable[[str, Mapping[str, Any], float], Any]
"""(verb, arguments, share of the step just done 0..1) -> the step's result once the share is 1."""

TICK_S = 1.0

CYCLE: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("kidney.draw", {"volume_ul": 18_000.0}, 180.0),
    ("estimate", {}, 6.0),
    ("measure", {"point": "ph_spent.ph", "settle_s": 60.0}, 60.0),
    ("measure", {"point": "do_loop.oxygen", "settle_s": 0.0}, 6.0),
    ("measure", {"point": "p_filter.pressure", "settle_s": 0.0}, 6.0),
    ("note", {"kind": "grade"}, 1.0),
    ("gut.feed", {"volume_ul": 3_600.0}, 40.0),
    ("liver.add_glucose", {"volume_ul": 640.0}, 20.0),
    ("kidney.give_back", {"volume_ul": 18_000.0}, 180.0),
    ("kidney.discard", {"volume_ul": 3_950.0}, 50.0),
    ("note", {"kind": "recycle"}, 1.0),
    ("sleep_until", {"elapsed_s": 28_800.0}, 1e9),
)


@dataclass
class _Run:
    view: RunView
    task: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class FakeRuns:
    """Stands in for :class:`controller.runs.runner.Runner`."""

    catalogue: Mapping[str, Recipe] = PROTOCOLS

    def __init__(self, act: Act, record: Callable[..., int], utc: Callable[[], str]) -> None:
        self._act = act
        self._record = record
        self._utc = utc
        self._runs: dict[str, _Run] = {}
        self.enter_assay: Callable[..., dict[str, Any]]
        self.requests: AssayRequests
        """Set by the rig, as the one before."""

    @property
    def active(self) -> RunView | None:
        return next((run.view for run in self._runs.values() if not run.view.state.ended), None)

    @property
    def latest(self) -> RunView | None:
        return self.active or next((run.view for run in reversed(self._runs.values())), None)

    def list(self) -> list[RunView]:
        return [run.view for run in self._runs.values()]

    def get(self, run_id: str) -> RunView:
        return self._runs[run_id].view

    async def start(self, protocol: str, params: Mapping[str, str | float], user: str, reason: str) -> str:
        active = self.active
        if active is not None:
            raise RunnerError(
                f"run {active.id} ({active.protocol}) is {active.state}. Likely cause: it was started before."
                " Next: wait until it has ended, or abort it"
            )
        recipe = get(protocol)
        values = parse_params(recipe, params)
        run_id = f"run-{len(self._runs) + 1}"
        view = RunView(run_id, protocol, RunState.RUNNING, 0, self._utc(), values, (), ())
        self._record("run.start", {"protocol": protocol, "params": values, "user": user, "reason": reason}, run=run_id)
        run = self._runs[run_id] = _Run(view)
        run.task = asyncio.create_task(self._live(run), name=run_id)
        return run_id

    async def pause(self, run_id: str, user: str, reason: str) -> None:
        self._go(self._runs[run_id], RunEvent.PAUSE, user, reason)

    async def resume(self, run_id: str, user: str, reason: str) -> None:
        self._go(self._runs[run_id], RunEvent.RESUME, user, reason)

    async def abort(self, run_id: str, user: str, reason: str) -> None:
        self._go(self._runs[run_id], RunEvent.ABORT, user, reason)

    def _go(self, run: _Run, event: RunEvent, user: str = "", reason: str = "") -> None:
        state = after(run.view.state, event)
        why = {"user": user, "reason": reason} if user else {}
        self._record("run.state", {"event": event.value, "from": run.view.state, "to": state, **why}, run=run.view.id)
        run.view = replace(run.view, state=state)
        run.changed.set()

    async def _live(self, run: _Run) -> None:
        for verb, args, seconds in CYCLE:
            n = run.view.step + 1
            step = StepView(n, verb, args, "running", None)
            before = run.view.progress
            run.view = replace(run.view, step=n, progress=(*before, step))
            done_s = 0.0
            while done_s < seconds:
                if not await self._obeyed(run):
                    return
                await asyncio.sleep(TICK_S)
                share = min(TICK_S, seconds - done_s) / seconds
                done_s += TICK_S
                result = self._act(verb, args, share)
            run.view = replace(run.view, progress=(*before, replace(step, state="done", result=result)))

    async def _obeyed(self, run: _Run) -> bool:
        """Hold or end as commanded; False when the run has ended."""
        while run.view.state is not RunState.RUNNING:
            await asyncio.sleep(5 * TICK_S)
            if run.view.state in (RunState.ABORTING, RunState.HOLDING):
                self._act("rest", {}, 0.0)
                self._go(run, RunEvent.RESTED)
            if run.view.state.ended:
                return False
            if run.view.state is RunState.RESTARTING:
                self._go(run, RunEvent.RESTARTED)
            elif run.view.state is RunState.HELD:
                run.changed.clear()
                await run.changed.wait()
        return True

    async def close(self) -> None:
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
