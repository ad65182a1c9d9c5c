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
    """Return the error for a setting.

    Args:
        where: Name of the device.
        name: Key of the setting.
        what: What is wrong, as the rest of a sentence: “is missing”.
        action: What to write instead.

    Returns:
        The error to raise.
    """
    return BadSetting(f"setting {name} {what}", where=where, cause="a mistake in the rig file", action=action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Declares one setting: its `key` and `meaning`. A plain one has any value that its driver accepts."""

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
    """Declares a number from `low` to `high`, in `unit`; without a default it is required, or read with :meth:`optional`."""

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
        """Return the value of the setting, or its default.

        Args:
            given: The settings of the device or channel in the rig file.
            where: Name of the device, for the error.
            high: Replaces the upper limit; None leaves it.

        Returns:
            The number, in `unit`.

        Raises:
            BadSetting: It is missing without a default, no number, or out of range.
        """
        if self.key not in given and self.default is None:
            unit = f" {self.unit}" if self.unit else ""
            raise bad_setting(where, self.key, "is missing", f"write {self.meaning}, {self._range}{unit}")
        return number_of(
            given, self.key, where, default=self.default or 0.0, low=self.low, high=self.high if high is None else high
        )

    def optional(self, given: Given, where: str) -> float | None:
        """Return the value of the setting, if it is given.

        Args:
            given: The settings of the device or channel in the rig file.
            where: Name of the device, for the error.

        Returns:
            The number, in `unit`; None if it is not there.

        Raises:
            BadSetting: It is no number, or out of range.
        """
        return self.of(given, where) if self.key in given else None

    @property
    def _range(self) -> str:
        return f"{self.low:.10g} to {self.high:.10g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceSetting(Setting):
    """Declares a word of `among`; without a default it is required, or read with :meth:`optional`."""

    among: tuple[str, ...]
    default: str | None = None

    @property
    def text(self) -> str:
        """See :attr:`Setting.text`."""
        without = self.without or ("required" if self.default is None else f"default {self.default}")
        return f"{self.meaning}: {' or '.join(filter(None, self.among))} ({without})"

    def of(self, given: Given, where: str) -> str:
        """Return the value of the setting, or its default.

        Args:
            given: The settings of the device or channel in the rig file.
            where: Name of the device, for the error.

        Returns:
            One word of `among`, or the default.

        Raises:
            BadSetting: It is missing without a default, or another word.
        """
        if self.key not in given and self.default is None:
            raise bad_setting(where, self.key, "is missing", f"choose {' or '.join(self.among)}")
        return choice_of(given, self.key, where, default=self.default or "", among=self.among)

    def optional(self, given: Given, where: str) -> str | None:
        """Return the value of the setting, if it is given.

        Args:
            given: The settings of the device or channel in the rig file.
            where: Name of the device, for the error.

        Returns:
            One word of `among`; None if it is not there.

        Raises:
            BadSetting: It is another word.
        """
        return self.of(given, where) if self.key in given else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagSetting(Setting):
    """Declares a setting that is true or false."""

    default: bool

    @property
    def text(self) -> str:
        """See :attr:`Setting.text`."""
        return f"{self.meaning}: true or false (default {str(self.default).lower()})"

    def of(self, given: Given, where: str) -> bool:
        """Return the value of the setting, or its default.

        Args:
            given: The settings of the device or channel in the rig file.
            where: Name of the device, for the error.

        Returns:
            True or false.

        Raises:
            BadSetting: It is neither.
        """
        return flag_of(given, self.key, where, default=self.default)


def number_of(given: Given, name: str, where: str, *, default: float, low: float, high: float) -> float:
    """Return a number among settings.

    Args:
        given: The settings of the device or channel in the rig file.
        name: Key of the setting.
        where: Name of the device, for the error.
        default: Value without the setting; it must lie within the limits too.
        low: Lower limit.
        high: Upper limit.

    Returns:
        The number.

    Raises:
        BadSetting: It is no number, or out of range.
    """
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise bad_setting(where, name, f"is “{value}”", f"write a number from {low:g} to {high:g}")
    return float(value)


def choice_of(given: Given, name: str, where: str, *, default: str, among: tuple[str, ...]) -> str:
    """Return a word among settings.

    Args:
        given: The settings of the device or channel in the rig file.
        name: Key of the setting.
        where: Name of the device, for the error.
        default: Value without the setting; it must be one of `among` too.
        among: The possible words.

    Returns:
        The word.

    Raises:
        BadSetting: It is another word.
    """
    value = given.get(name, default)
    if value not in among:
        raise bad_setting(where, name, f"is “{value}”", f"choose {' or '.join(among)}")
    return str(value)


def flag_of(given: Given, name: str, where: str, *, default: bool) -> bool:
    """Return a boolean among settings.

    Args:
        given: The settings of the device or channel in the rig file.
        name: Key of the setting.
        where: Name of the device, for the error.
        default: Value without the setting.

    Returns:
        True or false.

    Raises:
        BadSetting: It is neither.
    """
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise bad_setting(where, name, f"is “{value}”", "write true or false")
    return value


def known_only(given: Given, where: str, settings: tuple[Setting, ...]) -> None:
    """Refuse settings that a model does not have (D7).

    Args:
        given: The settings of the device or channel in the rig file.
        where: Name of the device, for the error.
        settings: All that the model has.

    Raises:
        BadSetting: One is not among them.
    """
    known = {setting.key for setting in settings}
    if unknown := sorted(set(given) - known):
        raise bad_setting(where, unknown[0], "is unknown", f"this model knows: {', '.join(sorted(known)) or 'none'}")
