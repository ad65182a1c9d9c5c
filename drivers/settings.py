"""Read a device's settings from the rig file; errors name the device and the setting."""

from __future__ import annotations

from collections.abc import Mapping

from drivers.errors import DeviceError


class BadSetting(DeviceError):
    """A setting in the rig file is missing, unknown or out of range for this model."""


def bad_setting(where: str, name: str, what: str, action: str) -> BadSetting:
    """Return the error for setting `name` of device `where`."""
    return BadSetting(f"setting {name} {what}", where=where, cause="a mistake in the rig file", action=action)


def number_of(
    settings: Mapping[str, float | str | bool],
    name: str,
    where: str,
    *,
    default: float,
    low: float,
    high: float,
) -> float:
    """Return the number `name` of `settings`, between `low` and `high`."""
    value = settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise bad_setting(where, name, f"is “{value}”", f"write a number from {low:g} to {high:g}")
    return float(value)


def choice_of(
    settings: Mapping[str, float | str | bool], name: str, where: str, *, default: str, among: tuple[str, ...]
) -> str:
    """Return the word `name` of `settings`, one of `among`."""
    value = settings.get(name, default)
    if value not in among:
        raise bad_setting(where, name, f"is “{value}”", f"choose {' or '.join(among)}")
    return str(value)


def flag_of(settings: Mapping[str, float | str | bool], name: str, where: str, *, default: bool) -> bool:
    """Return the boolean `name` of `settings`."""
    value = settings.get(name, default)
    if not isinstance(value, bool):
        raise bad_setting(where, name, f"is “{value}”", "write true or false")
    return value


def known_only(settings: Mapping[str, float | str | bool], where: str, known: frozenset[str]) -> None:
    """Raise :class:`BadSetting` for a setting that this model does not have (D7)."""
    if unknown := sorted(set(settings) - known):
        names = ", ".join(sorted(known)) or "none"
        raise bad_setting(where, unknown[0], "is unknown", f"this model knows: {names}")
