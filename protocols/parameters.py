"""The parameters of a protocol: name, unit, default, and the range that makes sense."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

_SUFFIX = {
    "uL": "_ul",
    "s": "_s",
    "uL/min": "_ul_min",
    "mM": "_mm",
    "kPa": "_kpa",
    "degC": "_c",
    "%": "_pct",
    "g": "_g",
    "": "",
}


class ParamError(ValueError):
    """A parameter is unknown or out of its range; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter. `unit` is the internal one ("" for a plain count); `low` and `high` belong to the range."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    help: str

    @property
    def key(self) -> str:
        """Name inside the protocol, with the unit (`batch_ul`)."""
        return self.name + _SUFFIX[self.unit]

    def checked(self, value: float) -> float:
        """Return `value`; raise :class:`ParamError` with the range if it is outside."""
        if not (math.isfinite(value) and self.low <= value <= self.high):
            unit = f" {self.unit}" if self.unit else ""
            raise ParamError(
                f"{self.name} = {value:g}{unit} is out of range. Likely cause: a slip of unit or digit."
                f" Next: choose {self.low:g} to {self.high:g}{unit} ({self.help})"
            )
        return float(value)


def with_defaults(params: tuple[Param, ...], recorded: Mapping[str, float]) -> dict[str, float]:
    """Return the recorded values of a run by key; a parameter that the protocol got later has its default."""
    return {param.key: param.default for param in params} | dict(recorded)


def complete(params: tuple[Param, ...], given: Mapping[str, float]) -> dict[str, float]:
    """Return every parameter by its key, with defaults; `given` is by name, in internal units."""
    known = {param.name: param for param in params}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ParamError(f"no parameter is called “{unknown[0]}”. Next: choose among {', '.join(known)}")
    return {param.key: param.checked(given.get(param.name, param.default)) for param in params}
