"""Settings of drivers: each is declared once, and gives its check, its default and its row on the driver's page.

A driver lists its settings in :attr:`drivers.device.Device.settings` and those of a channel in `channel_settings`.
Errors name the device and the setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from drivers.errors import DeviceError

Given: TypeAlias = Mapping[str, float | str | bool]
"""The settings of one device or channel in the rig file."""


class BadSetting(DeviceError):
    """A setting in the rig file is missing, unknown or out of range for this model."""


def bad_setting(where: str, name: str, what: str, action: str) -> BadSetting:
    """Return the error for setting `name` of device `where`."""
    return BadSetting(f"setting {name} {what}", where=where, cause="a mistake in the rig file", action=action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: its `key` and `meaning`. A plain one has any value that its driver accepts."""

    key: str
    meaning: str
    file_key: str = ""
    """Key in the rig file where that is another, because its value has a unit there."""
    without: str = ""
    """What applies without it, for the page, where no default says so."""

    @property
    def text(self) -> str:
        """Meaning, range and default, for the page."""
        return f"{self.meaning} ({self.without})" if self.without else self.meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSetting(Setting):
    """A number from `low` to `high`, in `unit`; without a default it is required, or read with :meth:`optional`."""

    low: float
    high: float
    default: float | None = None
    unit: str = ""

    @property
    def text(self) -> str:
        """See :attr:`Setting.text`."""
        without = self.without or ("required" if self.default is None else f"default {self.default:g}")
        return f"{self.meaning}: {self._range}{' ' if self.unit else ''}{self.unit} ({without})"

    def of(self, given: Given, where: str, *, high: float | None = None) -> float:
        """Return its value in `given`, or its default; `high` replaces its upper limit."""
        if self.key not in given and self.default is None:
            unit = f" {self.unit}" if self.unit else ""
            raise bad_setting(where, self.key, "is missing", f"write {self.meaning}, {self._range}{unit}")
        return number_of(
            given, self.key, where, default=self.default or 0.0, low=self.low, high=self.high if high is None else high
        )

    def optional(self, given: Given, where: str) -> float | None:
        """Return its value in `given`, or None if it is not there."""
        return self.of(given, where) if self.key in given else None

    @property
    def _range(self) -> str:
        return f"{self.low:.10g} to {self.high:.10g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceSetting(Setting):
    """One word of `among`; without a default it is required, or read with :meth:`optional`."""

    among: tuple[str, ...]
    default: str | None = None

    @property
    def text(self) -> str:
        """See :attr:`Setting.text`."""
        without = self.without or ("required" if self.default is None else f"default {self.default}")
        return f"{self.meaning}: {' or '.join(filter(None, self.among))} ({without})"

    def of(self, given: Given, where: str) -> str:
        """Return its value in `given`, or its default."""
        if self.key not in given and self.default is None:
            raise bad_setting(where, self.key, "is missing", f"choose {' or '.join(self.among)}")
        return choice_of(given, self.key, where, default=self.default or "", among=self.among)

    def optional(self, given: Given, where: str) -> str | None:
        """Return its value in `given`, or None if it is not there."""
        return self.of(given, where) if self.key in given else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagSetting(Setting):
    """True or false."""

    default: bool

    @property
    def text(self) -> str:
        """See :attr:`Setting.text`."""
        return f"{self.meaning}: true or false (default {str(self.default).lower()})"

    def of(self, given: Given, where: str) -> bool:
        """Return its value in `given`, or its default."""
        return flag_of(given, self.key, where, default=self.default)


def number_of(given: Given, name: str, where: str, *, default: float, low: float, high: float) -> float:
    """Return the number `name` of `given`, between `low` and `high`."""
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise bad_setting(where, name, f"is “{value}”", f"write a number from {low:g} to {high:g}")
    return float(value)


def choice_of(given: Given, name: str, where: str, *, default: str, among: tuple[str, ...]) -> str:
    """Return the word `name` of `given`, one of `among`."""
    value = given.get(name, default)
    if value not in among:
        raise bad_setting(where, name, f"is “{value}”", f"choose {' or '.join(among)}")
    return str(value)


def flag_of(given: Given, name: str, where: str, *, default: bool) -> bool:
    """Return the boolean `name` of `given`."""
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise bad_setting(where, name, f"is “{value}”", "write true or false")
    return value


def known_only(given: Given, where: str, settings: tuple[Setting, ...]) -> None:
    """Raise :class:`BadSetting` for a setting that is not among `settings` (D7)."""
    known = {setting.key for setting in settings}
    if unknown := sorted(set(given) - known):
        raise bad_setting(where, unknown[0], "is unknown", f"this model knows: {', '.join(sorted(known)) or 'none'}")
