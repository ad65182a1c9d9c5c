"""Rows of the journal as events of the tissue's timeline: kind, subject, value with unit and uncertainty, person, text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.figures.story import HELD, person_actions
from controller.journal.terms import Entry
from controller.rig.description import Rig
from controller.rig.organ_lines import organ_lines
from controller.vitals.score_rows import ROW as SCORE_ROW

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One event. `sd` is a standard deviation and `low` to `high` an interval, in `unit`; None where nothing is known."""

    kind: str
    what: str = ""
    value: float | None = None
    unit: str = ""
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    text: str = ""


LEFT_OUT: Mapping[str, str] = {
    "step": "a step of a protocol; what it moved is a row `moved`",
    "step.accepted": "as step",
    "step.act": "the begin of a transfer; its end is a row `moved`",
    "step.done": "as step",
    "tubing.turned": "a count of revolutions each hour",
    "baseline": "an hourly mean from which later estimates are computed",
    "baseline.electrodes": "as baseline",
    "agreement.reference": "a reference of the regulation",
    "probe.health": "the self-test of a probe",
    "ledger.opened": "the volumes of the rig file",
    "ledger.balanced": "a weighing by the machine",
    "ledger.weighed": "as ledger.balanced",
    "ledger.tared": "as ledger.balanced",
    "alarm.return_to_normal_unacknowledged": "a state of an alarm; its begin and its end are in the timeline",
    "alarm.unacknowledged": "as above",
    "notice.sent": "a message to people",
    "clock.stepped": "a correction of the clock",
    "page.signed_in": "concerns the page",
    "page.sign_ins_failed": "concerns the page",
    "users.issued": "concerns access",
    "users.password_set": "concerns access",
    "users.revoked": "concerns access",
}
"""Kinds of rows that are no event of the tissue's life, and why."""

ORGAN_UNITS: Mapping[str, str] = {
    "hz": "Hz", "mm": "mM", "pct": "%", "c": "degC", "mosm": "mOsm/kg", "d": "umol/d", "share": "1", "uptake": "1",
    "ph": "pH", "volume": "mm3", "ldh": "1", "viability": "1",
}  # fmt: skip
"""Units by the last word of a quantity's name."""
TRANSFERS: Mapping[str, str] = {
    "draw": "draw", "return": "recycle return", "discard": "discard", "feed": "exchange", "glucose": "dose", "base": "dose",
    "dialyse": "dialysate",
}  # fmt: skip
"""Kinds of transfers by the purpose of their line."""


class Events:
    """Turns rows of one rig's journal into events."""

    def __init__(self, rig: Rig) -> None:
        self._lines = rig.lines
        self._purposes = {each.line: each.key for each in organ_lines(rig)}
        kidney = rig.organs.kidney
        if kidney is not None and kidney.dialyse is not None:
            self._purposes[kidney.dialyse] = "dialyse"

    def of(self, row: Entry) -> list[TimelineEvent]:
        """Return what a row says; nothing for a row that is no event. A kind that is not known is an event `other`."""
        if row.kind in LEFT_OUT or (row.kind == "act" and _continuous(row.body)):
            return []
        if row.kind == "act.outcome":
            failed = _text(row.body, "error")
            return [TimelineEvent("failure", _text(row.body, "actuator"), text=failed)] if failed else []
        if row.kind == "moved":
            return [self._moved(row.body)]
        if (read := _READ.get(row.kind)) is not None:
            return list(read(row.body))
        done = person_actions([row])
        return [TimelineEvent("other", row.kind, text=done[0].what if done else "")]

    def places(self, body: Body) -> set[str]:
        """Return the vessels that a row names."""
        named = {str(body[key]) for key in ("chamber", "target", "vessel", "where", "place", "of") if key in body}
        if (line := self._lines.get(str(body.get("line", "")))) is not None:
            named |= {line.from_, line.to}
        return named

    def _moved(self, body: Body) -> TimelineEvent:
        line = str(body["line"])
        kind = TRANSFERS.get(self._purposes.get(line, ""), "transfer")
        ul = float(body.get("liquid_ul", body["ul"]))
        return TimelineEvent(
            kind, line, ul, "uL", float(body["sd_ul"]), text=f"{body['source']}; {body.get('end', '')}".rstrip("; ")
        )


def person(body: Body) -> str:
    """Return the person that a row names; empty without one."""
    for key in ("user", "by", "person", "who"):
        if isinstance(who := body.get(key), str) and who and ":" not in who and who != "gate":
            return who
    return ""


def _continuous(body: Body) -> bool:
    """Return whether a command is one of a regulator or of the gate, of which there are thousands a day."""
    return str(body.get("by", "")).partition(":")[0] in ("regulator", "gate")


def _text(body: Body, *keys: str) -> str:
    return "; ".join(str(body[key]) for key in keys if body.get(key) not in (None, "", []))


def _interval(found: Any) -> tuple[float | None, float | None, float | None]:
    if not isinstance(found, Mapping):
        return None, None, None
    return found.get("value"), found.get("low"), found.get("high")


def _tissue(kind: str) -> Callable[[Body], Iterator[TimelineEvent]]:
    def read(body: Body) -> Iterator[TimelineEvent]:
        what = str(body.get("target", body["chamber"]))
        yield TimelineEvent(kind, what, float(body["count"]), "organoids", text=_text(body, "reason"))

    return read


def _vessel(kind: str) -> Callable[[Body], Iterator[TimelineEvent]]:
    def read(body: Body) -> Iterator[TimelineEvent]:
        told = (
            _text(body, "lot", "medium", "reason")
            if isinstance(body.get("medium"), str)
            else _text(body, "lot", "reason")
        )
        yield TimelineEvent(kind, str(body["vessel"]), float(body["ul"]), "uL", body.get("sd_ul"), text=told)

    return read


def _said(kind: str, what: str, *keys: str) -> Callable[[Body], Iterator[TimelineEvent]]:
    """Return the reader of an event whose subject stands under `what`, and its words under `keys`."""

    def read(body: Body) -> Iterator[TimelineEvent]:
        yield TimelineEvent(kind, _text(body, what), text=_text(body, *keys))

    return read


def _assay(body: Body) -> Iterator[TimelineEvent]:
    told = _text(body, "method", "reason")
    what, unit = f"{body['where']}.{body['analyte']}", str(body.get("unit", ""))
    kind = "assay" if body.get("used", True) else "assay not used"
    yield TimelineEvent(kind, what, body["value"], unit, body.get("sd"), text=told)


def _image(body: Body) -> Iterator[TimelineEvent]:
    features = body.get("features") or {}
    camera, defects = str(body["camera"]), body.get("defects") or ()
    kind = "image not used" if defects else "image"
    told = "; ".join([*(str(each).replace("_", " ") for each in defects), *filter(None, [_text(body, "note")])])
    for name, unit in (("diameter_mm", "mm"), ("area_mm2", "mm2")):
        if features.get(name) is not None:
            yield TimelineEvent(kind, f"{camera}.{name}", float(features[name]), unit, text=told)
    if not features:
        yield TimelineEvent(kind, camera, text=told)


def _scores(body: Body) -> Iterator[TimelineEvent]:
    estimate = body.get("viability")
    if isinstance(estimate, Mapping):
        causes = ", ".join(estimate.get("causes", ()))
        told = f"{estimate.get('version', '')}; {causes}".rstrip("; ")
        value, low, high = _interval(estimate)
        yield TimelineEvent("viability", "viability", value, "1", None, low, high, told)
    if isinstance(rating := body.get("care_rating"), Mapping):
        yield TimelineEvent(
            "care rating",
            "care_rating",
            rating["score"],
            "1",
            None,
            rating["low"],
            rating["high"],
            _text(rating, "version"),
        )


def _look(body: Body) -> Iterator[TimelineEvent]:
    for name, found in body["look"].items():
        value, low, high = _interval(found)
        if value is not None:
            yield TimelineEvent("look", name, value, _unit(name), None, low, high)


def _estimate(body: Body) -> Iterator[TimelineEvent]:
    for name, found in _intervals("", body.get("estimate") or {}):
        value, low, high = _interval(found)
        yield TimelineEvent("estimate", name, value, _unit(name), None, low, high)


def _unit(name: str) -> str:
    """Return the unit of a quantity such as `loop.glucose_mm`; empty for one whose name does not tell."""
    return ORGAN_UNITS.get(name.rpartition(".")[2].rpartition("_")[2], "")


def _intervals(name: str, found: Any) -> Iterator[tuple[str, Body]]:
    """Yield each quantity with an interval, at any depth, with its path."""
    if not isinstance(found, Mapping):
        return
    if "value" in found and "low" in found:
        yield name, found
        return
    for key, each in found.items():
        yield from _intervals(f"{name}.{key}".lstrip("."), each)


def _run_state(body: Body) -> Iterator[TimelineEvent]:
    kind = "hold" if body["to"] in HELD else "protocol state"
    yield TimelineEvent(kind, str(body["to"]), text=_text(body, "event", "why", "reason", "text"))


def _started_run(body: Body) -> Iterator[TimelineEvent]:
    yield TimelineEvent("protocol", str(body["protocol"]), text=_text(body, "reason", "source_sha256"))


def _retreat(body: Body) -> Iterator[TimelineEvent]:
    yield TimelineEvent("retreat", "recycle", text=_text(body, "text", "why"))


def _decision(body: Body) -> Iterator[TimelineEvent]:
    decision = body.get("decision") or {}
    yield TimelineEvent("decision", str(body.get("action", "")), text=_text(decision, "reason"))


def _command(body: Body) -> Iterator[TimelineEvent]:
    words = body.get("command") or ()
    number = next((float(each) for each in words if isinstance(each, int | float)), None)
    told = " ".join(str(each) for each in words)
    yield TimelineEvent(
        "command", str(body["actuator"]), number, text=f"{told}; {body.get('by')}; {_text(body, 'why')}"
    )


_READ: Mapping[str, Callable[[Body], Iterator[TimelineEvent]]] = {
    "tissue.placed": _tissue("placed"),
    "tissue.moved": _tissue("moved"),
    "tissue.removed": _tissue("removed"),
    "ledger.loaded": _vessel("medium lot"),
    "ledger.reconciled": _vessel("volume set"),
    "ledger.level": _vessel("level read"),
    "ledger.sampled": _vessel("sample"),
    "assay": _assay,
    "image.taken": _image,
    "image.failed": _said("image failed", "camera", "error"),
    SCORE_ROW: _scores,
    "tissue.look": _look,
    "estimate": _estimate,
    "run.start": _started_run,
    "run.state": _run_state,
    "run.message": _said("message", "from", "text"),
    "note.recycle_retreat": _retreat,
    "note.recycle": _decision,
    "note.grade": _said("grade", "grade", "limiting"),
    "alarm.raised": _said("alarm", "alarm", "priority", "detail"),
    "alarm.acknowledged": _said("alarm acknowledged", "alarm", "reason"),
    "alarm.shelved": _said("alarm shelved", "alarm", "reason"),
    "alarm.out_of_service": _said("alarm out of service", "alarm", "reason"),
    "alarm.normal": _said("alarm ended", "alarm"),
    "safety.trip": _said("interlock", "interlock", "point", "detail"),
    "safety.latch": _said("interlock", "interlock", "detail"),
    "safety.clear": _said("interlock ended", "interlock", "point"),
    "safety.bypass": _said("bypass", "interlock", "reason", "until_utc"),
    "safety.bypass_ended": _said("bypass ended", "interlock", "why"),
    "safety.estop": _said("emergency stop", "", "reason"),
    "safety.reset": _said("reset", "", "reason"),
    "safety.stimulation_stopped": _said("stimulation stopped", "how", "why"),
    "safety.stimulation_allowed": _said("stimulation allowed", ""),
    "act": _command,
    "act.refused": _said("refused", "actuator", "reasons"),
    "step.refused": _said("refused", "n", "reasons"),
    "command.refused": _said("refused", "actuator", "reasons"),
    "calibration.taken": _said("calibration", "pump", "at_utc", "gain"),
    "calibration.set": _said("calibration", "point", "reason"),
    "tubing.installed": _said("tubing", "pump", "reason"),
    "task.done": _said("task", "task", "note"),
    "controller.started": _said("controller started", "rig", "version"),
    "controller.stopped": _said("controller stopped", ""),
}
"""Readers by the kind of the row."""

KINDS = frozenset({
    "alarm", "alarm acknowledged", "alarm ended", "alarm out of service", "alarm shelved", "assay", "assay not used",
    "bypass", "bypass ended", "calibration", "care rating", "command", "controller started", "controller stopped", "decision",
    "described", "emergency stop", "estimate", "failure", "grade", "hold", "image", "image failed", "image not used",
    "interlock", "interlock ended", "level read", "look", "medium lot", "message", "moved", "other", "placed", "protocol",
    "protocol state", "refused", "removed", "reset", "retreat", "sample", "stimulation", "stimulation allowed",
    "stimulation stopped", "task", "transfer", "tubing", "viability", "volume set", *TRANSFERS.values(),
})  # fmt: skip
"""Kinds of the events of a timeline."""
