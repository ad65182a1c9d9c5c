"""What `choroid create` asks: each question with its kind of answer, its default, and when it is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from choroid.common.failure import UserError
from controller.rig.families import FAMILIES, PUMP
from controller.rig.plates import WELLS
from controller.rig.problems import nearest
from controller.rig.quantities import QuantityError, parse_quantity

NONE: Final = "none"
DOSES: Final = "doses"
PERFUSIONS = ("loop", "single-pass", DOSES, NONE)
MAX_DOSED = 14
"""Chambers behind a selector of 16 positions: one leads to waste, one is closed."""
Answers = Mapping[str, str]
"""Answers as text, by the key of their question; of one that was not asked, its default."""

PUMPS = tuple(sorted(name for name, of in FAMILIES.items() if PUMP in (*of.points.values(), of.channel)))
PROBES = (
    "atlas-ezo-rtd",
    "atlas-ezo-ph",
    "hamilton-ph-arc",
    "atlas-ezo-do",
    "hamilton-visiferm-do",
    "keller-x-line",
    "keller-bus",
    "vaisala-gmp25x",
)
GAUGES = ("keller-x-line", "keller-bus")
BALANCES = ("mettler-sics", "sartorius-sbi")
HEATERS = ("relay", "julabo", "huber-pb", "eurotherm-3200")
AGITATORS = ("stirrer", "shaker", "rocker")
GASES = ("alicat-mfc", "bronkhorst-propar")
MAX_CHAMBERS = 96
SMALL_WELLS = 96
"""Wells of a plate from which on tissue of 1.5 mm would lack oxygen at rest."""
WELL_ML = {6: "3 mL", 12: "1.5 mL", 24: "0.8 mL", 48: "0.4 mL", 96: "0.2 mL", 384: "0.05 mL"}


@dataclass(frozen=True, slots=True)
class RigQuestion:
    """One question: `check` raises :class:`UserError` for an answer that does not fit."""

    key: str
    text: str
    default: Callable[[Answers], str]
    check: Callable[[str, Answers], None]
    choices: tuple[str, ...] = ()
    asked: Callable[[Answers], bool] = lambda _: True


def _refuse(answer: str, wanted: str) -> UserError:
    return UserError(f"“{answer}” does not fit. Next: write {wanted}")


def _choice(*options: str) -> Callable[[str, Answers], None]:
    def check(answer: str, _: Answers) -> None:
        if answer not in options:
            raise UserError(f"“{answer}” is not known. {nearest(answer, options, 'answers')}")

    return check


def _probes(answer: str, answers: Answers) -> None:
    for part in listed(answer):
        if part not in PROBES:
            raise UserError(f"“{part}” is not known. {nearest(part, PROBES, 'answers')}")
        if part in GAUGES and not _pumped(answers):
            raise UserError(f"“{part}” is the gauge of a pumped line, and nothing is pumped. Next: leave it out")


def _quantity(unit: str, low: float, high: float) -> Callable[[str, Answers], None]:
    def check(answer: str, _: Answers) -> None:
        try:
            value = parse_quantity(answer, unit)
        except QuantityError as error:
            raise UserError(str(error)) from None
        if not low < value <= high:
            raise _refuse(answer, f"more than {low:g} and at most {high:g} {unit}")

    return check


def _count(answer: str, answers: Answers) -> None:
    if answers["culture"] == "plate":
        _choice(*map(str, WELLS))(answer, answers)
    else:
        _whole(1, MAX_CHAMBERS)(answer, answers)


def _whole(low: int, high: int) -> Callable[[str, Answers], None]:
    def check(answer: str, _: Answers) -> None:
        if not re.fullmatch(r"[0-9]{1,5}", answer) or not low <= int(answer) <= high:
            raise _refuse(answer, f"a whole number from {low} to {high}")

    return check


def _person(answer: str, _: Answers) -> None:
    if not re.fullmatch(r"[^\W_][\w .()&/+-]{1,79}", answer):
        raise _refuse(answer, "2 to 80 letters, digits and spaces")


def _name(answer: str, _: Answers) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,62}", answer):
        raise _refuse(answer, "small letters, digits and hyphens, starting with a letter")


def _is(key: str, *values: str) -> Callable[[Answers], bool]:
    return lambda answers: answers[key] in values


def _perfused(answers: Answers) -> bool:
    return answers["perfusion"] in ("loop", "single-pass")


def _pumped(answers: Answers) -> bool:
    return answers["perfusion"] != NONE


def _perfusion(answer: str, answers: Answers) -> None:
    _choice(*PERFUSIONS)(answer, answers)
    if answer == DOSES and int(answers["count"]) > MAX_DOSED:
        raise UserError(
            f"two selectors dose at most {MAX_DOSED} chambers, and there are {answers['count']}. Next: fewer"
        )


def _volume(answers: Answers) -> str:
    if answers["culture"] == "plate":
        return WELL_ML[int(answers["count"])]
    return "2 mL" if answers["culture"] == "chambers" else "6 mL"


def _diameter(answers: Answers) -> str:
    return "0.5 mm" if int(answers["count"]) >= SMALL_WELLS else "1.5 mm"


def _usual_probes(answers: Answers) -> str:
    """Return a thermometer and a pH probe, and with a pump the gauge that its line needs."""
    return f"atlas-ezo-rtd, atlas-ezo-ph{f', {GAUGES[0]}' if _perfused(answers) else ''}"


def _without_gauge(answers: Answers) -> bool:
    return _perfused(answers) and not set(GAUGES) & set(listed(answers["probes"]))


def _always(text: str) -> Callable[[Answers], str]:
    return lambda _: text


QUESTIONS: tuple[RigQuestion, ...] = (
    RigQuestion("name", "Name of the rig", _always("my-rig"), _name),
    RigQuestion(
        "culture", "What does the tissue live in", _always("chambers"), _choice("chambers", "dishes", "plate"),
        ("chambers", "dishes", "plate"),
    ),
    RigQuestion(
        "count", "How many of them (of a plate: its wells)", lambda a: "24" if a["culture"] == "plate" else "1", _count
    ),
    RigQuestion("volume", "Medium in each", _volume, _quantity("uL", 1.0, 1e6)),
    RigQuestion("organoids", "Organoids in each", _always("1"), _whole(1, 10_000)),
    RigQuestion("diameter", "Their diameter", _diameter, _quantity("mm", 0.0, 6.0)),
    RigQuestion("age", "Their age", _always("40 d"), _quantity("day", 0.0, 3650.0)),
    RigQuestion("glucose", "Glucose in the medium", _always("21 mM"), _quantity("mmol/L", 0.0, 500.0)),
    RigQuestion("bicarbonate", "Bicarbonate in the medium", _always("27.5 mM"), _quantity("mmol/L", 0.0, 1000.0)),
    RigQuestion(
        "perfusion",
        "Perfusion: from a loop and back, in single pass to waste, in doses with a straw, or none (fed by hand)",
        lambda a: "loop" if a["culture"] == "chambers" else NONE, _perfusion, PERFUSIONS,
    ),
    RigQuestion(
        "media", "How many media; a selector chooses between two", _always("1"), _choice("1", "2"), ("1", "2"),
        _is("perfusion", DOSES),
    ),
    RigQuestion(
        "feeder", "Who changes the medium by hand (a name or a group; none: decide later)", _always(NONE), _person,
        asked=_is("perfusion", NONE),
    ),
    RigQuestion(
        "feeding", "How often", _always("every second day"), _person, asked=lambda a: a["feeder"] != NONE
    ),
    RigQuestion("pump", "Model of its pump", _always("ismatec-reglo-icc"), _choice(*PUMPS), PUMPS, _pumped),
    RigQuestion(
        "drive", "One pump for all, over a manifold or as cassettes of one head, or a pump channel for each",
        lambda a: "each" if a["culture"] == "chambers" else "manifold",
        _choice("manifold", "cassettes", "each"), ("manifold", "cassettes", "each"),
        lambda a: _perfused(a) and a["count"] != "1",
    ),
    RigQuestion(
        "exchange", "Exchange of medium: by hand, or by pumps over a weighed vessel and a sterile filter",
        _always("hand"), _choice("hand", "pumps"), ("hand", "pumps"), _is("perfusion", "loop"),
    ),
    RigQuestion(
        "waste", "Size of the waste bottle", _always("2 L"), _quantity("uL", 1000.0, 1e8),
        asked=lambda a: a["exchange"] == "pumps" or a["perfusion"] in ("single-pass", DOSES),
    ),
    RigQuestion(
        "dialysis", "Dialysis of the drawn medium through hollow fibres", _always("no"), _choice("yes", "no"),
        ("yes", "no"), _is("exchange", "pumps"),
    ),
    RigQuestion(
        "gas", "Gas: kept by the incubator, or mixed by gas controllers of the rig", _always("incubator"),
        _choice("incubator", *GASES), ("incubator", *GASES),
        lambda a: a["perfusion"] == "loop" or a["count"] == "1",
    ),
    RigQuestion(
        "heat", "Temperature: kept by the incubator, or by a heater of the rig", _always("incubator"),
        _choice("incubator", *HEATERS), ("incubator", *HEATERS),
    ),
    RigQuestion(
        "probes", "Probes, with commas between them", _usual_probes, _probes, PROBES
    ),
    RigQuestion(
        "check_valve", "Does a check valve in the line keep medium from flowing backwards", _always("no"),
        _choice("yes", "no"), ("yes", "no"), _without_gauge,
    ),
    RigQuestion("balance", "Balance", _always(NONE), _choice(NONE, *BALANCES), (NONE, *BALANCES)),
    RigQuestion(
        "agitation", "Agitation", _always(NONE), _choice(NONE, *AGITATORS), (NONE, *AGITATORS)
    ),
    RigQuestion(
        "agitation_drive", "What drives it: a person, a relay, or a motor with Modbus", _always("hand"),
        _choice("hand", "relay", "modbus"), ("hand", "relay", "modbus"), lambda a: a["agitation"] != NONE,
    ),
    RigQuestion("electrodes", "Electrodes under the tissue (0: none)", _always("0"), _whole(0, 4096)),
    RigQuestion(
        "links", "Links: simulated, to try the rig, or real ports, to be filled in", _always("simulated"),
        _choice("simulated", "real"), ("simulated", "real"),
    ),
)  # fmt: skip


def listed(answer: str) -> tuple[str, ...]:
    """Return the parts of an answer that is a list; none of “none”."""
    parts = tuple(dict.fromkeys(part.strip() for part in answer.split(",") if part.strip()))
    return () if parts == (NONE,) else parts


Ask = Callable[[RigQuestion, str, str], str]
"""Asks a person: the question, its default, and what was wrong with the answer before ("" at first)."""


def gather(given: Mapping[str, str], ask: Ask | None) -> dict[str, str]:
    """Return an answer to every question.

    Args:
        given: Answers that are known, by key.
        ask: Asks each other question that applies, until the answer fits; None = take the defaults.

    Raises:
        UserError: An answer does not fit, or belongs to no question.
    """
    keys = [question.key for question in QUESTIONS]
    for key in given:
        if key not in keys:
            raise UserError(f"there is no question “{key}”. {nearest(key, keys, 'questions')}")
    answers: dict[str, str] = {}
    for question in QUESTIONS:
        default = question.default(answers)
        if not question.asked(answers):
            if question.key in given:
                raise UserError(f"{question.key}: this is not asked with the other answers. Next: leave it out")
            answers[question.key] = default
        elif question.key in given or ask is None:
            answers[question.key] = _fitting(question, str(given.get(question.key, default)).strip(), answers)
        else:
            answers[question.key] = _asked(question, default, answers, ask)
    return answers


def _asked(question: RigQuestion, default: str, answers: Answers, ask: Ask) -> str:
    wrong = ""
    while True:
        answer = ask(question, default, wrong).strip() or default
        try:
            return _fitting(question, answer, answers)
        except UserError as error:
            wrong = str(error)


def _fitting(question: RigQuestion, answer: str, answers: Answers) -> str:
    try:
        question.check(answer, answers)
    except UserError as error:
        raise UserError(f"{question.key}: {error}") from None
    return answer
