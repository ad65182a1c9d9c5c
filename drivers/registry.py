"""Registry of driver models; opens the links of a rig's devices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points

import drivers
from drivers.device import Device, DeviceConfig, DeviceModel
from drivers.discovery import Catalogue, discover
from drivers.settings import BadSetting
from drivers.transport.capture import Capture
from drivers.transport.link import Link
from drivers.transport.opener import Opener, open_real
from drivers.transport.url import LineSettings, LinkUrl

ENTRY_POINTS = "choroid.drivers"
"""Entry-point group of third-party drivers; each entry is a Device class."""


def _model_of(value: object) -> str | None:
    """Return the model of a class that has one of its own."""
    if isinstance(value, type) and issubclass(value, Device) and "model" in vars(value):
        return value.model.id
    return None


MODELS: Catalogue[type[Device]] = discover(drivers, _model_of, without=("registry",))


def load_third_party(report: Callable[[str], None] | None = None) -> list[str]:
    """Add the drivers of installed packages and return their model ids. A built-in model is never replaced.

    A driver that cannot be loaded is left out and reported in one line, to `report` or on standard error. It never
    affects other devices of the rig.
    """
    added = []
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            driver = entry.load()
            if not (isinstance(driver, type) and issubclass(driver, Device)):
                raise TypeError(f"it is {driver!r}, not a subclass of drivers.device.Device")
            model = driver.model.id
        except Exception as error:  # third-party code may raise anything
            (report or _report_on_stderr)(_unloadable(entry, error))
            continue
        if model not in MODELS and model not in MODELS.ambiguous:
            MODELS[model] = driver
            added.append(model)
    return added


def _unloadable(entry: EntryPoint, error: Exception) -> str:
    package = "an unnamed package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    return (
        f"{package}: driver “{entry.name}” ({entry.value}) cannot be loaded"
        f" ({type(error).__name__}: {' '.join(str(error).split())}). Likely cause: a broken or outdated installation of"
        f" that package. Next: reinstall, update or remove it; all other drivers are loaded"
    )


def _report_on_stderr(line: str) -> None:
    print(f"choroid: {line}", file=sys.stderr)


def catalogue() -> list[DeviceModel]:
    """Return every model, sorted by id."""
    return [MODELS[name].model for name in sorted(MODELS)]


def build(model: str, link: Link, config: DeviceConfig) -> Device:
    """Return the driver of `model` on `link`. Nothing is sent.

    The driver attaches itself to the link, which verifies it at the start and after every reopening.

    Raises:
        BadSetting: Unknown model or setting.
    """
    return _driver(model, config.name)(link, config)


def open_link(url: str, models: Iterable[str], opener: Opener = open_real, *, capture: Capture | None = None) -> Link:
    """Return the link at `url` for devices of `models`, not yet started.

    The models' line settings apply unless the url overrides them.

    Raises:
        BadSetting: The models need different line settings, so they cannot share a line.
    """
    parsed = LinkUrl.parse(url)
    return Link(parsed, opener, line=line_settings(parsed, models), capture=capture)


def line_settings(url: LinkUrl, models: Iterable[str]) -> LineSettings:
    """Return the line settings at `url` for devices of `models`."""
    wanted: dict[LineSettings, str] = {}
    for model in models:
        wanted.setdefault(url.line(_driver(model, str(url)).line), model)
    if len(wanted) > 1:
        listed = ", ".join(f"{model}: {line.text}" for line, model in wanted.items())
        raise BadSetting(
            f"its devices need different line settings ({listed})",
            where=f"link {url}",
            cause="factory settings differ between manufacturers",
            action="set all devices to the same values and write these in the link, such as ?baud=9600&parity=N",
        )
    return next(iter(wanted), url.line(LineSettings()))


def _driver(model: str, where: str) -> type[Device]:
    try:
        return MODELS[model]
    except KeyError:
        raise BadSetting(
            f"there is no driver for model “{model}”",
            where=where,
            cause=MODELS.why_absent(model) or "a mistake in the rig file, or a driver package that is not installed",
            action=f"choose one of {', '.join(sorted(MODELS))}",
        ) from None
