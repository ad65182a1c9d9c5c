"""The language of protocols: organs with verbs that are awaited, each a journalled step (decision 11).

A protocol is `async def name(lab: Lab, params: Mapping[str, float]) -> None`. After a restart the function runs again
from its beginning, and every verb that was finished before returns what was recorded. So a protocol must take times,
volumes and readings only from `lab`; it must not read files, clocks or random numbers.

A verb returns when its work is done and measured. After a temporary refusal it waits and tries again; any other refusal
holds the run until a person resumes it, and then the verb continues with the remainder. Only abort and stop end a protocol
from outside, as :class:`RunEnded`, which it must not catch.

Each verb is declared by one record (:mod:`protocols.verbs`). Transfers and readings are attributes of the organs
(:mod:`protocols.organs`) and need no code; other verbs are a record in :mod:`protocols.lab_verbs` and a method here.
"Add a verb" in docs/protocols.md says how.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from protocols.answers import DECISIONS, ROLES, Answer, AnswerForm, Approval
from protocols.assay import ANALYTES
from protocols.calendar import Calendar
from protocols.chamber_verbs import RINSE
from protocols.chambers import Chambers, Doser
from protocols.grading import RuleSet
from protocols.host import Actions, Facts, ProtocolError, StepRunner
from protocols.host import RunEnded as RunEnded  # protocols of laboratories import it from here
from protocols.lab_verbs import (
    APPROVE,
    ASK,
    ASSAY_STEP,
    DECIDE,
    ESTIMATE,
    NOTE,
    SLEEP,
    SLEEP_UNTIL,
    SLEEP_UNTIL_CLOCK,
)
from protocols.organs import Gut, Heart, Immune, Kidney, Liver, Lung, Organ, Skin
from protocols.prices import Prices
from protocols.results import NOTHING as NOTHING  # protocols of laboratories import it from here
from protocols.results import Amount, Measurement, VesselVolume
from protocols.soft_sensor import MediaEstimate
from protocols.targets import Targets
from protocols.verbs import Verb

VERSION = 1
"""Increased when a run that began before must not go on under the present verbs: part of every protocol's hash."""


class Lab:
    """The interface of a protocol: the organs, and verbs that belong to no organ."""

    def __init__(self, steps: StepRunner, actions: Actions, facts: Facts) -> None:
        self._steps = steps
        self._actions = actions
        self._any = Organ(steps, actions, facts)
        self.heart = Heart(steps, actions, facts)
        self.kidney = Kidney(steps, actions, facts)
        self.gut = Gut(steps, actions, facts)
        self.liver = Liver(steps, actions, facts)
        self.immune = Immune(steps, actions, facts)
        self.lung = Lung(steps, actions, facts)
        self.skin = Skin(steps, actions, facts)
        self.doser = Doser(steps, actions, facts)
        self.chambers = Chambers(self.doser)
        self.targets: Targets = facts.targets
        self.rules: RuleSet = facts.rules
        self.prices: Prices = facts.prices

    @property
    def host(self) -> tuple[StepRunner, Actions]:
        """What carries out the verbs, for a protocol that computes in a process of its own."""
        return self._steps, self._actions

    async def together(self, *works: Coroutine[Any, Any, Any], names: Sequence[str] = ()) -> list[Any]:
        """Run coroutines that use this lab as branches, at the same time; return their results in order.

        `names` (default 1, 2, …) are for people and the journal. Transfers that share a vessel, and readings in the
        spent vessel, take turns in the order of their requests; if the order matters, write them in one branch. A hold,
        a question, a stop and an error apply to the whole run.
        """
        named = [str(name) for name in names or range(1, len(works) + 1)]
        if len(named) != len(works) or len(set(named)) != len(named) or any("." in name for name in named):
            for work in works:
                work.close()
            raise ProtocolError(
                f"together() got {len(works)} branches and the names {', '.join(named)}. Next: give each branch its own name"
                " without a dot, or no names"
            )
        return await self._steps.together(works, named)

    async def measure(self, point: str, settle_s: float = 0.0) -> Measurement:
        """Take a settled reading of any sensor `device.point`."""
        return await self._any.measure(point, settle_s)

    async def rinse(self, selector: str, volume_ul: float, *, source: str = "") -> Amount:
        """Rinse the shared line of a selector to waste; `source` names the vessel or medium, if several lead to it."""
        return await self.doser.move(RINSE, volume_ul, {RINSE.place: selector, RINSE.source: source})

    async def sleep(self, seconds: float) -> None:
        """Wait. The deadline is absolute: a restart does not extend it."""

        async def perform(step: Any) -> None:
            await self._actions.slept(step, seconds)

        await self._steps.step(SLEEP, {"seconds": seconds}, perform)

    async def sleep_until(self, elapsed_s: float) -> float:
        """Wait until `elapsed_s` after the run's start; return how late it ended (s; 0 if it waited as planned)."""

        async def perform(step: Any) -> float:
            return await self._actions.slept_until(step, elapsed_s)

        return float(await self._steps.step(SLEEP_UNTIL, {"elapsed_s": elapsed_s}, perform))

    async def sleep_until_clock(
        self, at: str, zone: str, *, after: str | None = None, calendar: Calendar | None = None
    ) -> str:
        """Wait until it is `at` (HH:MM) in the time zone `zone` (IANA); return that time (UTC, ISO 8601).

        Args:
            at: Time of day; an empty text: wait only while it is quiet by the calendar.
            zone: Name of the time zone.
            after: Result of the call before: each date occurs once, even after a clock step.
            calendar: Weekdays, excluded dates and quiet hours; by default every day counts.
        """
        args = {"at": at, "zone": zone, "after": after, **({} if calendar is None else calendar.to_json())}

        async def perform(step: Any) -> str:
            return await self._actions.slept_until_clock(step)

        return str(await self._steps.step(SLEEP_UNTIL_CLOCK, args, perform))

    async def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write data to the journal, as kind `note.<kind>`."""

        async def perform(step: Any) -> None:
            self._actions.noted(step, kind, data)

        await self._steps.step(NOTE, {"kind": kind}, perform)

    async def decide(self, what: str, choose: Callable[[], Any]) -> Any:
        """Return what `choose` returns (JSON), as a step: a run that is taken up follows its record, also after an update."""

        async def perform(step: Any) -> Any:
            return choose()

        return await self._steps.step(DECIDE, {"what": what}, perform)

    async def ask(self, message: str, answer: AnswerForm | None = None) -> Answer | None:
        """Hold the run until a person has read `message`, done what it says, and resumed.

        With `answer` the run waits until a person has given a valid answer, and returns it: a number in the internal unit,
        or a text.
        """

        async def perform(step: Any) -> dict[str, Any] | None:
            return await self._actions.asked(step, message, answer)

        args: dict[str, Any] = {"message": message}
        if answer is not None:
            args["answer"] = answer.to_json()
        result = await self._steps.step(ASK, args, perform)
        return None if result is None else result["value"]

    async def assay(self, analyte: str, vessel: str, message: str = "", *, default: float | None = None) -> float:
        """Hold the run until a person has entered a laboratory result; return it in the unit of the analyte.

        The result counts in the estimate of the medium like any assay that a person enters.

        Args:
            analyte: What is measured: a key of :data:`protocols.assay.ANALYTES`.
            vessel: Where the sample is taken: `loop`, `spent`, or a vessel of the rig.
            message: Instruction for people.
            default: Result that plan and simulate assume, in the unit of the analyte.
        """
        known = ANALYTES.get(analyte)
        if known is None:
            raise ProtocolError(f"“{analyte}” is not assayed. Next: choose among {', '.join(ANALYTES)}")
        form = AnswerForm(
            kind="assay",
            unit=known.unit,
            internal=known.unit,
            low=known.low,
            high=known.high,
            analyte=analyte,
            vessel=vessel,
            default=default,
        )
        result = await self._asked(ASSAY_STEP, message or f"Assay {analyte} in “{vessel}”", form)
        return float(result["value"])

    async def approve(
        self, message: str, role: str = "engineer", *, other_person: bool = False, default: str | None = None
    ) -> Approval:
        """Hold the run until a person has approved or rejected; return the decision with its reason.

        Args:
            message: What is approved.
            role: Lowest role that may decide: one of :data:`protocols.answers.ROLES`.
            other_person: Whether it must be another person than the one who started the run.
            default: Decision that plan and simulate assume (default: approved).
        """
        if role not in ROLES or default not in (None, *DECISIONS):
            raise ProtocolError(
                f"approve(role={role!r}, default={default!r}) is not possible. Next: choose the role among"
                f" {', '.join(ROLES)} and the default among {', '.join(DECISIONS)}"
            )
        form = AnswerForm(kind="approval", role=role, other_person=other_person, default=default)
        result = await self._asked(APPROVE, message, form)
        return Approval(str(result["value"]), str(result["user"]), str(result["reason"]))

    async def _asked(self, verb: Verb, message: str, form: AnswerForm) -> dict[str, Any]:
        """Carry out a verb that waits for an answer of `form`."""

        async def perform(step: Any) -> dict[str, Any] | None:
            return await self._actions.asked(step, message, form)

        result: dict[str, Any] = await self._steps.step(verb, {"message": message, "answer": form.to_json()}, perform)
        return result

    async def estimate(self) -> MediaEstimate:
        """Return the soft sensor's estimate from the latest readings: composition of loop and batch, with bounds."""

        async def perform(step: Any) -> dict[str, Any]:
            return await self._actions.estimated()

        return MediaEstimate.from_json(await self._steps.step(ESTIMATE, {}, perform))

    def min_ul(self, verb: str) -> float:
        """Return the minimum volume (µL) of a transfer verb by its name; `lab.kidney.draw.min_ul` is the same."""
        return self._actions.route(verb).min_ul

    def volumes(self) -> Mapping[str, VesselVolume]:
        """Return the vessel volumes as of the end of the branch's last step, by role: `loop`, `spent`, `waste`."""
        return self._steps.volumes_now()


ProtocolFunction = Callable[[Lab, Mapping[str, float]], Awaitable[None]]
