"""A list of faults with their times, sufficient to inject them again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeGuard


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `kind` is a name in :data:`sim.faults.kinds.KINDS`, `target` what is affected (a link, a device, …).

    `at_s` counts from the start (s). `for_s` is how long it lasts (s); 0 is for good, or at once for a kind that is
    momentary. `amount` is in the kind's own unit; 0 is the kind's usual amount.
    """

    kind: str
    target: str
    at_s: float
    for_s: float = 0.0
    amount: float = 0.0

    @property
    def end_s(self) -> float:
        """Return the time of its end (s since the start); infinite for a fault without an end."""
        return self.at_s + self.for_s if self.for_s > 0 else math.inf


class Schedule(tuple[Fault, ...]):
    """Faults in any order; a plain tuple of them does as well wherever a schedule is taken."""

    __slots__ = ()

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Return the faults."""
        return tuple(self)


def to_json(schedule: Iterable[Fault]) -> list[dict[str, Any]]:
    """Return plain data, which :func:`from_json` reads."""
    return [asdict(fault) for fault in schedule]


def from_json(data: object) -> Schedule:
    """Read what :func:`to_json` gave; raises ValueError for anything else, saying which entry and what is wrong."""
    if not isinstance(data, list):
        raise ValueError(f"a schedule of faults is a list, not a {type(data).__name__}; next: write [{{…}}, …]")
    return Schedule(_fault(number, entry) for number, entry in enumerate(data, start=1))


_NAMES = tuple(field.name for field in fields(Fault))


def _fault(number: int, entry: object) -> Fault:
    """Return the fault that an entry describes. Raises ValueError with the number of the entry and what is wrong."""
    if not isinstance(entry, Mapping):
        raise ValueError(
            f"fault {number} is a {type(entry).__name__}; next: write {{'kind': …, 'target': …, 'at_s': …}}"
        )
    if unknown := sorted(set(entry) - set(_NAMES)):
        raise ValueError(f"fault {number} has “{unknown[0]}”, which a fault has not; it has {', '.join(_NAMES)}")
    if missing := [name for name in _NAMES[:3] if name not in entry]:
        raise ValueError(f"fault {number} lacks “{missing[0]}”; next: add it")
    if not all(isinstance(entry[name], str) for name in ("kind", "target")):
        raise ValueError(f"fault {number}: kind and target are texts; next: put them in quotes")
    return Fault(entry["kind"], entry["target"], *_numbers(number, entry))


def _numbers(number: int, entry: Mapping[str, object]) -> list[float]:
    """Return at_s, for_s and amount of an entry."""
    numbers = [entry.get(name, 0.0) for name in _NAMES[2:]]
    found = [float(each) for each in numbers if _is_finite(each)]
    if len(found) != len(numbers):
        raise ValueError(
            f"fault {number}: at_s, for_s and amount are finite numbers; next: write seconds without a unit"
        )
    if min(found[:2]) < 0:
        raise ValueError(f"fault {number}: at_s and for_s are not negative; next: count from the start")
    return found


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
