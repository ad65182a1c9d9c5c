"""Strikes on a running rig: victim, method and instant, drawn from a seed, and their outcomes.

Victims are the controller, the guard, both, the electrode engine and the lab. Methods are SIGKILL, SIGSTOP, the end
of a PID namespace, a service manager's stop (SIGTERM to the process group, then SIGKILL), and SIGKILL after which another
program has taken the port of the page.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

METHODS: Mapping[str, tuple[str, ...]] = {
    "controller": ("kill", "stop", "namespace", "service", "port"),
    "guard": ("kill", "stop", "service"),
    "both": ("kill", "service"),
    "engine": ("kill", "stop"),
    "lab": ("kill", "stop"),
}
INSTANTS = ("announced", "dosing", "dosing", "circulating", "starting")
"""As the row of a small dose is written, while its pump runs, while the rig circulates, just after the start."""
DOSE_INSTANTS = ("announced", "dosing")
BASAL_S = 2.0
"""Maximum time until every output is in its basal state, if controller or guard survives (s)."""
BACK_S = 30.0
"""Maximum time until the controller answers again, including its page (s)."""
BACK_LAB_S = 60.0
"""The same after a strike on the lab: it stops for 3 s, has to start, and every link must be found again (s). Also where the
port of the page was taken meanwhile: the page is tried again after pauses."""
EITHER_ALIVE = frozenset(
    {
        ("controller", "kill"),
        ("controller", "stop"),
        ("controller", "namespace"),
        ("controller", "port"),
        ("guard", "service"),
    }
)
"""Strikes after which the rig must be at rest within :data:`BASAL_S`: a process survives that can do it."""
RESTS = EITHER_ALIVE | {("controller", "service"), ("both", "kill"), ("both", "service")}
"""Strikes after which every output must reach its basal state."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One strike. `share` is the delivered share of the dose, for the instant `dosing`."""

    number: int
    victim: str
    method: str
    instant: str
    share: float

    @property
    def in_dose(self) -> bool:
        """Whether a dose is running."""
        return self.instant in DOSE_INSTANTS


@dataclass(slots=True)
class Struck:
    """Outcome of a strike. Times in s from the strike, volumes in µL; None where it does not apply."""

    number: int
    victim: str
    method: str
    instant: str
    share: float
    basal_s: float | None = None
    last: list[str] = field(default_factory=list)
    """The outputs that came to rest last."""
    restart_s: float | None = None
    requested_ul: float | None = None
    delivered_ul: float | None = None
    stated_ul: float = 0.0
    """Allowed error of a dose (k = 3, every weighing included)."""
    held: list[str] = field(default_factory=list)
    real_s: float = 0.0
    problems: list[str] = field(default_factory=list)


def draw(count: int, seed: int) -> list[Strike]:
    """Draw `count` strikes: each pair of victim and method about equally often, the instant at random."""
    chance = random.Random(seed)  # noqa: S311  (a repeatable draw)
    pairs = [(victim, method) for victim, methods in METHODS.items() for method in methods]
    strikes: list[Strike] = []
    while len(strikes) < count:
        chance.shuffle(pairs)
        for victim, method in pairs[: count - len(strikes)]:
            share = round(chance.uniform(0.05, 0.95), 3)
            strikes.append(Strike(len(strikes) + 1, victim, method, chance.choice(INSTANTS), share))
    return strikes


def judge(struck: Struck) -> None:
    """Add everything that is not as required to `struck.problems`."""
    _judge_rest(struck)
    _judge_return(struck)
    _judge_dose(struck)


def _judge_rest(struck: Struck) -> None:
    """Judge whether the rig reached its basal state in time, where it must."""
    pair = (struck.victim, struck.method)
    if pair in RESTS:
        if struck.basal_s is None:
            if struck.victim != "both":  # after both, the next controller may be there first
                struck.problems.append("the rig was not seen in its basal state")
        elif pair in EITHER_ALIVE and struck.basal_s > BASAL_S:
            struck.problems.append(
                f"basal state only after {struck.basal_s:.2f} s, {BASAL_S:g} s at the most: {', '.join(struck.last)}"
            )


def _judge_return(struck: Struck) -> None:
    """Judge whether the processes worked again in time."""
    if struck.restart_s is None:
        struck.problems.append("it did not come back")
    elif struck.restart_s > (back_s := BACK_LAB_S if struck.victim == "lab" or struck.method == "port" else BACK_S):
        struck.problems.append(f"back only after {struck.restart_s:.1f} s, {back_s:g} s at the most")


def _judge_dose(struck: Struck) -> None:
    """Judge the delivered volume of the dose in which the strike fell, if there was one."""
    if struck.requested_ul is None or struck.delivered_ul is None:
        return
    error_ul = struck.delivered_ul - struck.requested_ul
    if error_ul > struck.stated_ul:
        struck.problems.append(f"{error_ul:.0f} µL too much, {struck.stated_ul:.0f} at the most")
    if error_ul < -struck.stated_ul and not struck.held:
        struck.problems.append(f"{-error_ul:.0f} µL lost, {struck.stated_ul:.0f} at the most, and the run was not held")


def table(outcomes: Sequence[Struck]) -> list[dict[str, Any]]:
    """Return the outcomes by victim and method."""
    rows = []
    for victim, methods in METHODS.items():
        for method in methods:
            own = [each for each in outcomes if (each.victim, each.method) == (victim, method)]
            if own:
                rows.append({"victim": victim, "method": method, **_row(own)})
    return rows


def _row(own: Sequence[Struck]) -> dict[str, Any]:
    """Return the figures of strikes of one kind."""
    errors = [error for each in own if (error := _dose_error_ul(each)) is not None]
    return {
        "strikes": len(own),
        "basal_s": max((each.basal_s for each in own if each.basal_s is not None), default=None),
        "restart_s": max((each.restart_s for each in own if each.restart_s is not None), default=None),
        "doses": sum(each.requested_ul is not None for each in own),
        "held": sum(bool(each.held) for each in own),
        "min_error_ul": min(errors, default=None),
        "max_error_ul": max(errors, default=None),
        "failed": sum(bool(each.problems) for each in own),
    }


def _dose_error_ul(struck: Struck) -> float | None:
    """Return delivered less requested volume of a dose (µL); None without a dose, or if the run was held."""
    if struck.requested_ul is None or struck.delivered_ul is None or struck.held:
        return None
    return struck.delivered_ul - struck.requested_ul


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the table as text."""

    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    lines = ["victim      method     strikes  worst basal  worst restart  doses  held   dose error (µL)  verdict"]
    for row in answer["table"]:
        error = f"{shown(row['min_error_ul'], '+.0f')} to {shown(row['max_error_ul'], '+.0f')}" if row["doses"] else "-"
        lines.append(
            f"{row['victim']:<12}{row['method']:<11}{row['strikes']:>7}{shown(row['basal_s'], '.2f'):>11} s"
            f"{shown(row['restart_s'], '.1f'):>13} s{row['doses']:>7}{row['held']:>6}   {error:>15}"
            f"  {'passed' if not row['failed'] else str(row['failed']) + ' FAILED'}"
        )
    for each in answer["failed"]:
        lines.append(
            f"  strike {each['number']}: {each['victim']} {each['method']}, {each['instant']}: {'; '.join(each['problems'])}"
        )
    lines.append(f"{answer['strikes']} strikes from seed {answer['seed']}, {len(answer['failed'])} failed")
    lines.append("dose error: delivered less requested of the doses for which the run was not held")
    return "\n".join(lines)
