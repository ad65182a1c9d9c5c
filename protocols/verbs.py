"""Records of verbs: one record describes a verb completely.

The verbs are declared in :mod:`protocols.organs`, :mod:`protocols.language` and :mod:`protocols.chamber_verbs`; steps that
only recipes have (`if`, `repeat`, …) in :mod:`protocols.steps` and :mod:`protocols.blocks`. Recipe form, JSON schema, methods
of the organs, routes, resume policies, page texts and the table in docs/protocols.md are derived from these records.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from protocols.results import Amount, Measurement

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Policy(StrEnum):
    """Says how a step continues after the controller has ended during it."""

    RESUME = "resume"
    """Find out what was delivered, then deliver the remainder (transfers)."""
    REDO = "redo"
    """Repeat it: nothing was moved, or a repetition has the same effect (readings, settings)."""
    DEADLINE = "deadline"
    """Wait for the same absolute time (waits)."""
    BRANCHES = "branches"
    """Run its branches again, each with its recorded results. Every step in them has its own policy."""


UNITS = ("uL", "s", "uL/min", "mM", "kPa", "degC", "g", "uS/cm", "%")
"""Internal units of quantities in a recipe, in the order in which they are tried."""
READING_UNITS = (*UNITS, "mL/min", "pH")
"""Units that a recipe may give for a reading."""

Kind = Literal[
    "quantity",
    "condition",
    "name",
    "part",
    "group",
    "text",
    "texts",
    "literal",
    "point",
    "choice",
    "steps",
    "values",
    "clock",
    "zone",
    "days",
    "dates",
    "hours",
    "recipe",
]
"""Kind of an argument; `part`: the name of a part of the rig; `group`: of a group of chambers; `literal`: a quantity or a
text without expressions; `texts`: a list of texts."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a recipe step."""

    kind: Kind
    help: str
    unit: str | None = ""
    """Internal unit of a quantity; None: any unit."""
    required: bool = False
    choices: tuple[str, ...] = ()
    default: float = 0.0
    """Value of a quantity that is left out, in its internal unit."""
    minimum: float | None = None
    """Smallest permitted value; volumes and times may never be negative."""
    maximum: float | None = None
    parameter: str = ""
    """Parameter of the verb's method that it fills; empty: of its own name."""

    @property
    def min_value(self) -> float | None:
        """Smallest permitted value in the internal unit, or None."""
        return 0.0 if self.minimum is None and self.unit in ("uL", "s") else self.minimum

    def out_of_range(self, value: float) -> str:
        """Return the range that `value` (internal unit) is out of, such as `≥ 0`; an empty text if it is within."""
        low, high = self.min_value, self.maximum
        if low is not None and value < low:
            return f"≥ {low:g}"
        return f"≤ {high:g}" if high is not None and value > high else ""


@dataclass(frozen=True, slots=True)
class SavedValue:
    """One value that a step saves: its attribute of the verb's result, and its unit."""

    attribute: str
    """Empty if the step computes it."""
    unit: str


@dataclass(frozen=True, slots=True)
class StepForm:
    """How a recipe writes a step. `short` is the argument that a bare value fills (`wait: 10 min`)."""

    step: str
    help: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    short: str | None = None
    saves: Mapping[str, SavedValue] = field(default_factory=dict)
    """Suffix of the name after `as` → value: `.low` of `as: drawn` is saved as `drawn.low`."""
    any_names: Literal["", "values", "steps"] = ""
    """What the step accepts under names that the recipe chooses, instead of arguments."""

    @property
    def required(self) -> list[str]:
        """Names of the arguments that must be given."""
        return [name for name, argument in self.arguments.items() if argument.required]


def interval_values(unit: str) -> dict[str, SavedValue]:
    """Return the values that a reading saves: mean and bounds."""
    ends = {"": "value", ".low": "low", ".high": "high"}
    return {end: SavedValue(f"interval.{attribute}", unit) for end, attribute in ends.items()}


MAX_WAIT_S = 366 * 86_400.0
"""Longest wait that a recipe may have (s)."""
SAVE_AS = Argument("name", "save the result under this name")
SETTLE = Argument("quantity", "wait before the reading", "s")


@dataclass(eq=False, kw_only=True)
class Verb:
    """One verb of the lab: each call is one journalled step.

    A :class:`TransferVerb` or a :class:`ReadingVerb` needs only its record; an :class:`ActionVerb` has code of its own.
    """

    name: str = ""
    """Name in the journal: `organ.method`, or the method of :class:`protocols.language.Lab`."""
    policy: Policy
    says: str
    """Text on the page, before volume, sensor or time of the step."""
    form: StepForm | None = None
    """Its form in a recipe; None if recipes do not have it."""
    words: frozenset[str] = frozenset()
    """Arguments that are texts for people: other words do not make it another step."""
    unrecorded: frozenset[str] = frozenset()
    """Arguments that are not recorded with the step: data that another row has, or code."""

    def recorded(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a call that are recorded with its step."""
        return {key: value for key, value in args.items() if key not in self.unrecorded} if self.unrecorded else args

    def way(self, args: Mapping[str, Any]) -> str:
        """Return the name of the way that a step with these arguments takes: the verb's own."""
        return self.name

    def same(self, args: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
        """Return whether two calls are the same except for :attr:`words`."""
        return all(args.get(key) == others.get(key) for key in {*args, *others} - self.words)

    def of(self, lab: object) -> Callable[..., Awaitable[Any]]:
        """Return this verb's method of `lab`."""
        method: Callable[..., Awaitable[Any]] = attrgetter(self.name)(lab)
        return method


class Way(Protocol):
    """Route of a transfer verb on this rig."""

    @property
    def flow_ul_min(self) -> float:
        """Flow (µL/min)."""

    @property
    def min_ul(self) -> float:
        """Smallest volume (µL)."""

    def refusal(self, volume_ul: float) -> str:
        """Return why `volume_ul` (µL) cannot be requested; an empty text if it can."""


class VerbOwner(Protocol):
    """The organ on which a verb is declared: it knows its route on the rig and carries it out."""

    @classmethod
    def verb_name(cls, method: str) -> str: ...  # noqa: D102 (documented in protocols.organs.VerbHolder)
    def route(self, verb: TransferVerb) -> Way: ...  # noqa: D102 (documented in protocols.organs.Organ)
    async def move(self, verb: TransferVerb, volume_ul: float) -> Amount: ...  # noqa: D102
    async def read(self, verb: AnyReadingVerb, settle_s: float, heart: str = "") -> Measurement: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class BoundTransfer:
    """A transfer verb of one lab."""

    verb: TransferVerb
    organ: VerbOwner

    def __call__(self, volume_ul: float) -> Coroutine[Any, Any, Amount]:
        """Move `volume_ul` (µL, > 0). Raises :class:`protocols.host.ProtocolError` if the pump cannot deliver it."""
        return self.organ.move(self.verb, volume_ul)

    @property
    def min_ul(self) -> float:
        """Minimum volume of the pump (µL)."""
        return self.organ.route(self.verb).min_ul


@dataclass(eq=False, kw_only=True)
class TransferVerb(Verb):
    """A verb that moves liquid along a line. Places are keys below `organs` in the rig description (`kidney.draw`).

    Declared as an attribute of an organ, which gives it its name; called as `await lab.kidney.draw(volume_ul)`.
    """

    help: str
    line: str
    """Place of the line."""
    flow: str
    """Place of the flow (µL/min)."""
    min_dose: str = ""
    """Place of the smallest dose (µL); empty: the pump's own."""
    needs: str
    """What a rig must have for it."""
    dialyses: bool = False
    """Whether it exchanges solutes of the batch instead of moving the batch; recipes save `.exchanged` as well."""
    policy: Policy = Policy.RESUME

    def __set_name__(self, organ: type[VerbOwner], method: str) -> None:
        self.name = organ.verb_name(method)
        saves = {
            "": SavedValue("ul", "uL"),
            ".low": SavedValue("low", "uL"),
            ".high": SavedValue("high", "uL"),
            ".peak_pressure": SavedValue("peak_kpa", "kPa"),
        }
        if self.dialyses:
            saves[".exchanged"] = SavedValue("", "%")
        volume = Argument("quantity", "how much", "uL", required=True, parameter="volume_ul")
        self.form = StepForm(self.name, self.help, {"volume": volume, "as": SAVE_AS}, "volume", saves)

    @overload
    def __get__(self, organ: None, owner: type[VerbOwner]) -> TransferVerb: ...
    @overload
    def __get__(self, organ: VerbOwner, owner: type[VerbOwner]) -> BoundTransfer: ...
    def __get__(self, organ: VerbOwner | None, owner: type[VerbOwner]) -> TransferVerb | BoundTransfer:
        return self if organ is None else BoundTransfer(self, organ)


@dataclass(eq=False, kw_only=True)
class ChamberVerb(Verb):
    """A verb that moves liquid into a chamber, out of one, or through a selector; its path follows from the rig's graph.

    Called as `await lab.chambers["w01"].dispense(volume_ul)` or `await lab.rinse("supply", volume_ul)`.
    """

    what: str
    """What it does with its place: `into` or `out of` a chamber, `through` a selector."""
    place: str
    """Argument that names the chamber or selector."""
    source: str = ""
    """Argument that names the vessel or medium, where there may be several."""
    needs: str
    """What a rig must have for it."""
    policy: Policy = Policy.RESUME

    def way(self, args: Mapping[str, Any]) -> str:
        """Return the name of the way: that of its chamber."""
        named = (self.name, args[self.place], args.get(self.source, ""))
        return " ".join(str(each) for each in named if each)


@dataclass(frozen=True, slots=True)
class BoundReading:
    """A reading verb of one lab."""

    verb: ReadingVerb
    organ: VerbOwner

    async def __call__(self, settle_s: float | None = None, *, heart: str = "") -> Measurement:
        """Wait `settle_s` (s; None: the default of the verb), then read; `heart` names one of several hearts."""
        return await self.organ.read(self.verb, self.verb.settle_s if settle_s is None else settle_s, heart)


@dataclass(frozen=True, slots=True)
class BoundInstantReading:
    """A reading verb of one lab that needs no settling."""

    verb: InstantReadingVerb
    organ: VerbOwner

    async def __call__(self, *, heart: str = "") -> Measurement:
        """Read; `heart` names one of several hearts."""
        return await self.organ.read(self.verb, 0.0, heart)


@dataclass(eq=False, kw_only=True)
class AnyReadingVerb(Verb):
    """Common part of both kinds of readings. Exactly one of `sensor`, `pump_of` and `probe` is given.

    A reading is journalled as a step of the verb `measure`.
    """

    help: str
    unit: str
    """Internal unit of the value; empty for pH."""
    sensor: str = ""
    """Place of the sensor."""
    pump_of: str = ""
    """Place of the line whose pump reports its flow."""
    probe: str = ""
    """Quantity of a probe in `vessel`; not every rig has one."""
    vessel: str = ""
    """Place of the vessel of the probe."""
    absent: str = ""
    """Why there is no value, on a rig without the sensor."""
    of_all: Literal["", "lowest", "highest"] = ""
    """Of a heart's reading: the value that stands for all hearts if the call names none."""
    policy: Policy = Policy.REDO
    says: str = ""

    def __set_name__(self, organ: type[VerbOwner], method: str) -> None:
        self.name = organ.verb_name(method)
        self.form = StepForm(self.name, self.help, self._arguments(), "as", interval_values(self.unit))

    def _arguments(self) -> dict[str, Argument]:
        if not self.of_all:
            return {"as": SAVE_AS}
        which = f"name of the heart (default: all are read, and the {self.of_all} value counts)"
        return {"heart": Argument("part", which), "as": SAVE_AS}


@dataclass(eq=False, kw_only=True)
class InstantReadingVerb(AnyReadingVerb):
    """A reading that needs no settling; called as `await lab.heart.flow()`."""

    @overload
    def __get__(self, organ: None, owner: type[VerbOwner]) -> InstantReadingVerb: ...
    @overload
    def __get__(self, organ: VerbOwner, owner: type[VerbOwner]) -> BoundInstantReading: ...
    def __get__(self, organ: VerbOwner | None, owner: type[VerbOwner]) -> InstantReadingVerb | BoundInstantReading:
        return self if organ is None else BoundInstantReading(self, organ)


@dataclass(eq=False, kw_only=True)
class ReadingVerb(AnyReadingVerb):
    """A settled reading of a sensor; called as `await lab.lung.oxygen(settle_s)`."""

    settle_s: float = 0.0
    """Default wait of a Python protocol before the reading (s); the default of a recipe is 0."""

    def _arguments(self) -> dict[str, Argument]:
        return {"settle": SETTLE, **AnyReadingVerb._arguments(self)}

    @overload
    def __get__(self, organ: None, owner: type[VerbOwner]) -> ReadingVerb: ...
    @overload
    def __get__(self, organ: VerbOwner, owner: type[VerbOwner]) -> BoundReading: ...
    def __get__(self, organ: VerbOwner | None, owner: type[VerbOwner]) -> ReadingVerb | BoundReading:
        return self if organ is None else BoundReading(self, organ)


@dataclass(eq=False, kw_only=True)
class ActionVerb(Verb, Generic[Given, Result]):
    """A verb with code of its own: a method of an organ or of the lab that :func:`action` declares.

    What it does on the rig and in a rehearsal is a class in controller/runs/actions.
    """

    method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]]
    """Checks the arguments, calls :meth:`protocols.host.ProtocolHost.act`, and returns the result in its own type."""

    def __set_name__(self, holder: type[VerbOwner], method: str) -> None:
        self.name = holder.verb_name(method)

    @overload
    def __get__(self, holder: None, owner: type[object]) -> ActionVerb[Given, Result]: ...
    @overload
    def __get__(self, holder: object, owner: type[object]) -> Callable[Given, Coroutine[Any, Any, Result]]: ...
    def __get__(
        self, holder: object | None, owner: type[object]
    ) -> ActionVerb[Given, Result] | Callable[Given, Coroutine[Any, Any, Result]]:
        return self if holder is None else MethodType(self.method, holder)


def action(
    says: str,
    form: StepForm | None = None,
    *,
    policy: Policy = Policy.REDO,
    words: frozenset[str] = frozenset(),
    unrecorded: frozenset[str] = frozenset(),
) -> Callable[[Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]]], ActionVerb[Given, Result]]:
    """Declare the decorated method as a verb; its name follows from its class and its own.

    The arguments are the fields of :class:`Verb` with these names.
    """
    return lambda method: ActionVerb(
        says=says, form=form, policy=policy, words=words, unrecorded=unrecorded, method=method
    )
