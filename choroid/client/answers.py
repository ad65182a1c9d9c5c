"""Answers of the controller's HTTP API as plain data. Every quantity has its unit in its name or in a field `unit`.

A field that a newer controller adds is ignored; one that an older controller does not send is an error that names it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from choroid.client.errors import ConnectionFailed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HealthInfo:
    """Whether the control loop runs; `reasons` says why it does not.

    `tick_age_s` is the time since its last tick (s); None in the live feed, which is sent by that loop.
    """

    ok: bool
    reasons: list[str]
    tick_age_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReadingInfo:
    """One reading. `value` is None where there is none; `quality` is good, suspect, stale or missing.

    `stable` is false while the device says that the value moves, as a balance does.
    """

    value: float | None
    unit: str
    quality: str
    stable: bool
    at_s: float | None
    detail: str


@dataclass(frozen=True, slots=True)
class VolumeInfo:
    """An estimated volume with its standard deviation (µL)."""

    ul: float
    sd_ul: float


@dataclass(frozen=True, slots=True)
class TripInfo:
    """An interlock that holds actuators in their basal state."""

    interlock: str
    point: str
    detail: str
    since_s: float | None
    actuators: list[str]
    latched: bool


@dataclass(frozen=True, slots=True)
class ActuatorInfo:
    """One actuator: its own status, the last command, its basal state, and who enforces that (device, guard or host).

    `fault` says why it does not answer; it is empty while it does.
    """

    status: dict[str, Any] | None
    commanded: dict[str, Any] | None
    basal: dict[str, Any]
    guarantee: str
    at_s: float | None
    lease_until_s: float | None
    fault: str


@dataclass(frozen=True, slots=True)
class StateInfo:
    """One snapshot of the rig. `at_s` is monotonic rig time, `utc` ISO 8601."""

    at_s: float
    utc: str
    readings: dict[str, ReadingInfo]
    actuators: dict[str, ActuatorInfo]
    volumes: dict[str, VolumeInfo]
    trips: list[TripInfo]
    links: dict[str, str]


@dataclass(frozen=True, slots=True)
class TissueInfo:
    """The living tissue of one chamber."""

    chamber: str
    count: int
    diameter_mm: float
    age_d: float
    batch: str
    cell_line: str


@dataclass(frozen=True, slots=True)
class RigInfo:
    """The rig that the controller runs, and who the client is there (`user`, `role`).

    `mass_point` is None on a rig without a kidney.
    """

    name: str
    description: str
    time_zone: str
    simulated: bool
    electrodes: int
    mass_point: str | None
    periods_s: dict[str, float]
    user: str
    role: str
    tissue: list[TissueInfo]


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One parameter of a recipe; `default`, `low` and `high` in `unit`."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    help: str


@dataclass(frozen=True, slots=True)
class RecipeInfo:
    """One recipe that can be started."""

    name: str
    title: str
    params: list[ParameterInfo]


@dataclass(frozen=True, slots=True)
class StepInfo:
    """One step of a run. `result` is `{ul, low_ul, high_ul}`, `{value, low, high, unit}` or None."""

    n: int
    verb: str
    args: dict[str, Any]
    state: str
    result: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class QuestionInfo:
    """The question that a held run waits for. `kind` is number, choice, text, or empty: the run is only to be resumed.

    `wants` says what is a valid answer; `default` is the declared default as text, or empty.
    """

    step: int
    message: str
    kind: str
    wants: str
    unit: str
    choices: list[str]
    default: str


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of a recipe. `state` is an ISA-88 state; `progress` holds the latest steps."""

    id: str
    protocol: str
    state: str
    ended: bool
    step: int
    started_utc: str
    params: dict[str, float]
    progress: list[StepInfo]
    messages: list[str]
    question: QuestionInfo | None = None


@dataclass(frozen=True, slots=True)
class AlarmInfo:
    """One alarm: what it is, the consequence if no operator acts, what to do, and how long there is.

    `suppressed_by`, `suppression_reason` and `until_utc` tell who shelved it or took it out of service, why and until when.
    """

    id: str
    kind: str
    source: str
    state: str
    priority: str
    detail: str
    raised_utc: str
    consequence: str
    response: str
    respond_within: str
    acknowledged_by: str
    suppressed_by: str
    suppression_reason: str
    until_utc: str


@dataclass(frozen=True, slots=True)
class AlarmsInfo:
    """Alarms that are announced, the most urgent first, and those that are shelved, suppressed or out of service."""

    alarms: list[AlarmInfo]
    suppressed: list[AlarmInfo]


@dataclass(frozen=True, slots=True)
class VesselInfo:
    """What one vessel holds, with its standard deviation (mL)."""

    name: str
    ml: float
    sd_ml: float


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """Where the medium went in the `days` since the journal began (mL); `saved_fraction` of the scheduled fresh medium.

    `bound_ml` is the mass-balance bound of fresh medium and `bound_ratio` the fresh medium by it; None while unknown.
    """

    fresh_ml: float
    drawn_ml: float
    given_back_ml: float
    recycled_ml: float
    discarded_ml: float
    glucose_ml: float
    base_ml: float
    evaporated_ml: float
    mass_balance_error_ml: float
    mass_balance_uncertainty_ml: float
    days: float
    scheduled_ml: float
    saved_fraction: float | None
    bound_ml: float | None
    bound_ratio: float | None
    vessels: list[VesselInfo]


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """One row of the journal."""

    seq: int
    utc: str
    kind: str
    run: str | None
    body: dict[str, Any]
    sha256: str


def parsed(kind: type[T], value: Any, where: str) -> T:
    """Build a dataclass from decoded JSON.

    Args:
        kind: The dataclass.
        value: The JSON object.
        where: The address of the request, for the error.

    Returns:
        The object; keys that the dataclass does not have are ignored.

    Raises:
        ConnectionFailed: The value is not of this form.
    """
    try:
        built: T = _built(kind, value)
        return built
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConnectionFailed(
            f"the answer of {where} has another form than expected ({type(error).__name__}: {error}). Likely cause: the"
            " controller is of another release than this client, or another program has its port. Next: install the same"
            " release on both sides"
        ) from None


def _built(kind: Any, value: Any) -> Any:
    """Convert `value` to the annotation `kind`: dataclasses, list, dict and optional ones of them; all else is kept."""
    if is_dataclass(kind) and isinstance(kind, type):
        known = _fields(kind).items()
        return kind(**{name: _built(of, value[name]) for name, (of, needed) in known if needed or name in value})
    return _built_generic(kind, value)


def _built_generic(kind: Any, value: Any) -> Any:
    """Convert `value` to an optional, a list or a dict of dataclasses; return any other value unchanged."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _built(next(each for each in inner if each is not type(None)), value)
    if origin is list:
        return [_built(inner[0], each) for each in value]
    if origin is dict and isinstance(value, Mapping):
        return {key: _built(inner[1], each) for key, each in value.items()}
    return value


@cache
def _fields(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """Return the annotation of each field, and whether it has to be there."""
    hints = get_type_hints(kind)
    return {each.name: (hints[each.name], each.default is MISSING) for each in fields(kind)}
