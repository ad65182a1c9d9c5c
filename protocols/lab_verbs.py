"""Records of the verbs that have a method of their own in :mod:`protocols.language`, and arguments that several steps share.

Transfers and readings are attributes of the organs there. :mod:`protocols.table` collects all of them.
"""

from __future__ import annotations

from dataclasses import replace

from protocols.answers import DECISIONS as DECIDED
from protocols.answers import KINDS, ROLES
from protocols.assay import ANALYTES
from protocols.verbs import (
    MAX_WAIT_S,
    READING_UNITS,
    SAVE_AS,
    SETTLE,
    Argument,
    Policy,
    SavedValue,
    StepForm,
    Verb,
    interval_values,
)

ANY_PERSON, OTHER_PERSON = "any", "other_than_starter"
"""Who may approve."""
DECISIONS = ("ask", "go_on", "end")
"""What a recipe may do if a value is missing, a wait has timed out or a person has rejected."""
ESTIMATED = ("glucose", "lactate", "ammonia")
"""Substances of an estimate that a recipe saves for `loop` and `spent` (mM)."""
PROBE_VALID_S = 7 * 86_400.0
"""Maximum age of a probe's calibration, unless a recipe gives another."""


def _question(name: str, says: str, form: StepForm) -> Verb:
    """Return a verb that holds the run until a person has answered its message."""
    return Verb(name=name, policy=Policy.REDO, says=says, words=frozenset(("message",)), form=form)


MEASURE = Verb(
    name="measure",
    policy=Policy.REDO,
    says="Measure",
    form=StepForm(
        "measure",
        "a settled reading of any sensor of the rig",
        {
            "point": Argument("point", "device.point as in the rig file", required=True),
            "settle": SETTLE,
            "unit": Argument("choice", "unit of the reading, if the point has no standard name", choices=READING_UNITS),
            "as": SAVE_AS,
        },
        "point",
        interval_values(""),
    ),
)
CALIBRATE = Verb(
    name="liver.calibrate",
    policy=Policy.REDO,
    says="Calibrate the batch's pH probe",
    form=StepForm(
        "liver.calibrate",
        "calibrate the batch's pH probe, which a person has put into a buffer",
        {
            "place": Argument(
                "choice",
                "point of the calibration",
                required=True,
                choices=("mid", "low", "high"),
                parameter="place",
            ),
            "ph": Argument(
                "quantity",
                "pH of the buffer at its temperature",
                required=True,
                minimum=0.0,
                maximum=14.0,
                parameter="ph",
            ),
            "valid": Argument(
                "quantity", "validity of the calibration (default 7 d)", "s", default=PROBE_VALID_S, parameter="valid_s"
            ),
            "as": SAVE_AS,
        },
        saves={"": SavedValue("after", ""), ".before": SavedValue("before", ""), ".places": SavedValue("places", "")},
    ),
)
BARRIER = Verb(name="immune.barrier", policy=Policy.REDO, says="Check the filter's passes")
ESTIMATE = Verb(
    name="estimate",
    policy=Policy.REDO,
    says="Estimate the medium",
    form=StepForm(
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
DECIDE = Verb(name="decide", policy=Policy.REDO, says="Decide")
"""A decision of a protocol: on record, so that a run that is taken up follows it."""
SLEEP = Verb(
    name="sleep",
    policy=Policy.DEADLINE,
    says="Wait",
    form=StepForm(
        "wait",
        "wait",
        {"time": Argument("quantity", "duration", "s", required=True, maximum=MAX_WAIT_S, parameter="seconds")},
        "time",
    ),
)
SLEEP_UNTIL = Verb(name="sleep_until", policy=Policy.DEADLINE, says="Wait for the next cycle")
ZONE = Argument("zone", "time zone, for example Europe/Berlin")
WEEKDAYS = Argument("days", "weekdays, for example [mon, wed, fri] (default: every day)")
EXCLUDED = Argument("dates", "local dates that do not count, for example [2026-12-25]")
SLEEP_UNTIL_CLOCK = Verb(
    name="sleep_until_clock",
    policy=Policy.DEADLINE,
    says="Wait for the time of day",
    form=StepForm(
        "wait_for_clock",
        "wait for the next time of day on the given weekdays, or until quiet hours are over",
        {
            "at": Argument("clock", "local time, for example “09:00”"),
            "zone": replace(ZONE, required=True),
            "days": WEEKDAYS,
            "except": EXCLUDED,
            "quiet": Argument("hours", "instead of “at”: quiet hours to wait for the end of, such as “20:00-07:00”"),
        },
    ),
)
ASK = _question(
    "ask",
    "Ask a person",
    StepForm(
        "ask_operator",
        "hold until a person has read the message and resumed, or has given the answer that the step asks for",
        {
            "message": Argument("text", "instruction; {expression} shows a value", required=True, parameter="message"),
            "answer": Argument("choice", "kind of the answer (default: none)", choices=KINDS),
            "unit": Argument("literal", "unit of a number, such as mM (default: a plain number)"),
            "min": Argument("literal", "smallest number, with its unit"),
            "max": Argument("literal", "largest number, with its unit"),
            "choices": Argument("texts", "possible answers of a choice"),
            "types": Argument("texts", "permitted types of a photo or file, such as [jpg, png]"),
            "max_size": Argument("literal", "largest size of a photo or file, such as 5 MB (default 16 MB)"),
            "default": Argument("literal", "answer that plan and simulate assume (default: the middle of the range)"),
            "as": Argument("name", "save the answer under this name"),
        },
        "message",
        {"": SavedValue("", "")},
    ),
)
ASSAY_STEP = _question(
    "assay",
    "Assay",
    StepForm(
        "assay",
        "hold until a person has entered the laboratory result of a sample; it counts in the estimate like any assay",
        {
            "analyte": Argument("choice", "what is measured", required=True, choices=tuple(ANALYTES)),
            "vessel": Argument("literal", "where the sample is taken: loop, spent, or a vessel's name", required=True),
            "message": Argument("text", "instruction; {expression} shows a value"),
            "default": Argument("literal", "result that plan and simulate assume (default: the simulated one)"),
            "as": Argument("name", "save the result under this name"),
        },
        saves={"": SavedValue("", "mM")},
    ),
)
APPROVE = _question(
    "approve",
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
)
ASKING = (ASK, ASSAY_STEP, APPROVE)
"""Verbs that hold a run until a person has answered."""
NOTE = Verb(
    name="note",
    policy=Policy.REDO,
    says="Record",
    form=StepForm(
        "note",
        "write values or a text to the journal",
        {
            "kind": Argument("name", "the note's kind", required=True),
            "text": Argument("text", "text to write; {expression} shows a value"),
            "values": Argument("values", "values to write", None),
        },
        "kind",
    ),
)
TOGETHER = Verb(name="together", policy=Policy.BRANCHES, says="Run branches")
