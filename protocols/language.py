"""The language of protocols: organs with verbs that are awaited, each a journalled step (decision 11).

A protocol is `async def name(lab: Lab, params: Mapping[str, float]) -> None`. After a restart the function runs again
from its beginning, and every verb that was finished before returns what was recorded. So a protocol must take times,
volumes and readings only from `lab`; it must not read files, clocks or random numbers.

A verb returns when its work is done and measured. After a temporary refusal it waits and tries again; any other refusal
holds the run until a person resumes it, and then the verb continues with the remainder. Only abort and stop end a protocol
from outside, as :class:`RunEnded`, which it must not catch.

Each verb is declared by one record (:mod:`protocols.verbs`). Those of an organ are its attributes
(:mod:`protocols.organs`), those of no organ are attributes of :class:`Lab`. docs/adding.md says how one is added.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from protocols.answers import DECISIONS as DECIDED
from protocols.answers import KINDS, ROLES, Answer, AnswerForm, Approval
from protocols.assay import ANALYTES
from protocols.calendar import Calendar
from protocols.chamber_verbs import RINSE
from protocols.chambers import Chambers, Doser
from protocols.grading import RuleSet
from protocols.host import Facts, ProtocolError, ProtocolHost
from protocols.host import RunEnded as RunEnded  # protocols of laboratories import it from here
from protocols.organs import Gut, Heart, Immune, Kidney, Liver, Lung, Skin, VerbHolder
from protocols.prices import Prices
from protocols.results import NOTHING as NOTHING  # protocols of laboratories import it from here
from protocols.results import Amount, VesselVolume
from protocols.soft_sensor import MediaEstimate
from protocols.targets import Targets
from protocols.verbs import MAX_WAIT_S, SAVE_AS, Argument, Policy, SavedValue, StepForm, Verb, action

VERSION = 1
"""Increased when a run that began before must not go on under the present verbs: part of every protocol's hash."""
ANY_PERSON, OTHER_PERSON = "any", "other_than_starter"
"""Who may approve."""
DECISIONS = ("ask", "go_on", "end")
"""What a recipe may do if a value is missing, a wait has timed out or a person has rejected."""
ESTIMATED = ("glucose", "lactate", "ammonia")
"""Substances of an estimate that a recipe saves for `loop` and `spent` (mM)."""
ZONE = Argument("zone", "time zone, for example Europe/Berlin")
WEEKDAYS = Argument("days", "weekdays, for example [mon, wed, fri] (default: every day)")
EXCLUDED = Argument("dates", "local dates that do not count, for example [2026-12-25]")
TOGETHER = Verb(name="together", policy=Policy.BRANCHES, says="Run branches")


class Lab(VerbHolder):
    """The interface of a protocol: the organs, and verbs that belong to no organ."""

    def __init__(self, host: ProtocolHost, facts: Facts) -> None:
        super().__init__(host, facts)
        self.heart = Heart(host, facts)
        self.kidney = Kidney(host, facts)
        self.gut = Gut(host, facts)
        self.liver = Liver(host, facts)
        self.immune = Immune(host, facts)
        self.lung = Lung(host, facts)
        self.skin = Skin(host, facts)
        self.doser = Doser(host, facts)
        self.chambers = Chambers(self.doser)
        self.targets: Targets = facts.targets
        self.rules: RuleSet = facts.rules
        self.prices: Prices = facts.prices

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
        return await self.host.together(works, named)

    async def rinse(self, selector: str, volume_ul: float, *, source: str = "") -> Amount:
        """Rinse the shared line of a selector to waste; `source` names the vessel or medium, if several lead to it."""
        return await self.doser.move(RINSE, volume_ul, {RINSE.place: selector, RINSE.source: source})

    @action(
        "Estimate the medium",
        StepForm(
            "estimate",
            "estimate of the composition of loop and batch by the soft sensor",
            {"as": SAVE_AS},
            "as",
            {
                f".{vessel}.{substance}{end}": SavedValue(f"{vessel}.{substance}_mm.{end[1:] or 'value'}", "mM")
                for vessel in ("loop", "spent")
                for substance in ESTIMATED
                for end in ("", ".low", ".high")
            },
        ),
    )
    async def estimate(self) -> MediaEstimate:
        """Return the soft sensor's estimate from the latest readings: composition of loop and batch, with bounds."""
        return MediaEstimate.from_json(await self.host.act(Lab.estimate, {}))

    @action("Decide", unrecorded=frozenset(("choose",)))
    async def decide(self, what: str, choose: Callable[[], Any]) -> Any:
        """Return what `choose` returns (JSON), as a step: a run that is taken up follows its record, also after an update."""
        return await self.host.act(Lab.decide, {"what": what, "choose": choose})

    @action(
        "Wait",
        StepForm(
            "wait",
            "wait",
            {"time": Argument("quantity", "duration", "s", required=True, maximum=MAX_WAIT_S, parameter="seconds")},
            "time",
        ),
        policy=Policy.DEADLINE,
    )
    async def sleep(self, seconds: float) -> None:
        """Wait. The deadline is absolute: a restart does not extend it."""
        await self.host.act(Lab.sleep, {"seconds": seconds})

    @action("Wait for the next cycle", policy=Policy.DEADLINE)
    async def sleep_until(self, elapsed_s: float) -> float:
        """Wait until `elapsed_s` after the run's start; return how late it ended (s; 0 if it waited as planned)."""
        return float(await self.host.act(Lab.sleep_until, {"elapsed_s": elapsed_s}))

    @action(
        "Wait for the time of day",
        StepForm(
            "wait_for_clock",
            "wait for the next time of day on the given weekdays, or until quiet hours are over",
            {
                "at": Argument("clock", "local time, for example “09:00”"),
                "zone": replace(ZONE, required=True),
                "days": WEEKDAYS,
                "except": EXCLUDED,
                "quiet": Argument(
                    "hours", "instead of “at”: quiet hours to wait for the end of, such as “20:00-07:00”"
                ),
            },
        ),
        policy=Policy.DEADLINE,
    )
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

        return str(await self.host.act(Lab.sleep_until_clock, args))

    @action(
        "Ask a person",
        StepForm(
            "ask_operator",
            "hold until a person has read the message and resumed, or has given the answer that the step asks for",
            {
                "message": Argument("text", "instruction; {expression} shows a value", required=True),
                "answer": Argument("choice", "kind of the answer (default: none)", choices=KINDS),
                "unit": Argument("literal", "unit of a number, such as mM (default: a plain number)"),
                "min": Argument("literal", "smallest number, with its unit"),
                "max": Argument("literal", "largest number, with its unit"),
                "choices": Argument("texts", "possible answers of a choice"),
                "types": Argument("texts", "permitted types of a photo or file, such as [jpg, png]"),
                "max_size": Argument("literal", "largest size of a photo or file, such as 5 MB (default 16 MB)"),
                "default": Argument(
                    "literal", "answer that plan and simulate assume (default: the middle of the range)"
                ),
                "as": Argument("name", "save the answer under this name"),
            },
            "message",
            {"": SavedValue("", "")},
        ),
        words=frozenset(("message",)),
    )
    async def ask(self, message: str, answer: AnswerForm | None = None) -> Answer | None:
        """Hold the run until a person has read `message`, done what it says, and resumed.

        With `answer` the run waits until a person has given a valid answer, and returns it: a number in the internal unit,
        or a text.
        """
        result = await self._asked(Lab.ask, message, answer)
        return None if result is None else result["value"]

    @action(
        "Assay",
        StepForm(
            "assay",
            "hold until a person has entered the laboratory result of a sample; it counts in the estimate like any assay",
            {
                "analyte": Argument("choice", "what is measured", required=True, choices=tuple(ANALYTES)),
                "vessel": Argument(
                    "literal", "where the sample is taken: loop, spent, or a vessel's name", required=True
                ),
                "message": Argument("text", "instruction; {expression} shows a value"),
                "default": Argument("literal", "result that plan and simulate assume (default: the simulated one)"),
                "as": Argument("name", "save the result under this name"),
            },
            saves={"": SavedValue("", "mM")},
        ),
        words=frozenset(("message",)),
    )
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
        result = await self._asked(Lab.assay, message or f"Assay {analyte} in “{vessel}”", form)
        return float(result["value"])

    @action(
        "Wait for approval",
        StepForm(
            "approve",
            "hold until a person with the role has approved or rejected, with a reason",
            {
                "message": Argument("text", "what is approved; {expression} shows a value", required=True),
                "role": Argument("choice", "lowest role that may decide (default: engineer)", choices=ROLES),
                "person": Argument("choice", "who may decide (default: any)", choices=(ANY_PERSON, OTHER_PERSON)),
                "on_reject": Argument("choice", "what to do after a rejection (default: end)", choices=DECISIONS),
                "default": Argument("choice", "decision that plan and simulate assume", choices=DECIDED),
                "as": Argument("name", "save the decision under this name: approved or rejected"),
            },
            "message",
            {"": SavedValue("", "")},
        ),
        words=frozenset(("message",)),
    )
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
        if role not in ROLES or default not in (None, *DECIDED):
            raise ProtocolError(
                f"approve(role={role!r}, default={default!r}) is not possible. Next: choose the role among"
                f" {', '.join(ROLES)} and the default among {', '.join(DECIDED)}"
            )
        form = AnswerForm(kind="approval", role=role, other_person=other_person, default=default)
        result = await self._asked(Lab.approve, message, form)
        return Approval(str(result["value"]), str(result["user"]), str(result["reason"]))

    @action(
        "Record",
        StepForm(
            "note",
            "write values or a text to the journal",
            {
                "kind": Argument("name", "the note's kind", required=True),
                "text": Argument("text", "text to write; {expression} shows a value"),
                "values": Argument("values", "values to write", None),
            },
            "kind",
        ),
        unrecorded=frozenset(("data",)),
    )
    async def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write data to the journal, as kind `note.<kind>`."""
        await self.host.act(Lab.note, {"kind": kind, "data": dict(data)})

    async def _asked(self, verb: Verb, message: str, form: AnswerForm | None) -> Any:
        """Carry out a verb that waits for an answer of `form`."""
        return await self.host.act(verb, {"message": message} | ({} if form is None else {"answer": form.to_json()}))

    def min_ul(self, verb: str) -> float:
        """Return the minimum volume (µL) of a transfer verb by its name; `lab.kidney.draw.min_ul` is the same."""
        return self.host.route(verb).min_ul

    def volumes(self) -> Mapping[str, VesselVolume]:
        """Return the vessel volumes as of the end of the branch's last step, by role: `loop`, `spent`, `waste`."""
        return self.host.volumes_now()


ASKING = (Lab.ask, Lab.assay, Lab.approve)
"""Verbs that hold a run until a person has answered."""
ProtocolFunction = Callable[[Lab, Mapping[str, float]], Awaitable[None]]
