"""Settings of devices that their drivers refuse, found without opening a link."""

from __future__ import annotations

from collections.abc import Iterator

from controller.links.connect import device_config
from controller.rig.description import Rig
from controller.rig.problems import Finding
from drivers.errors import DeviceError
from drivers.registry import MODELS, build, open_link
from drivers.transport.link import Link


def drivers_accept(rig: Rig) -> Iterator[Finding]:
    """Yield a finding for each device whose driver refuses its settings, and for each link whose devices differ in its own.

    Devices without an installed driver are left out. No link is opened.
    """
    links: dict[str, Link | None] = {}
    for name, spec in rig.devices.items():
        if spec.model not in MODELS:
            continue
        if spec.link not in links:
            sharing = [each.model for each in rig.devices.values() if each.link == spec.link and each.model in MODELS]
            try:
                links[spec.link] = open_link(spec.link, sharing)
            except DeviceError as error:
                links[spec.link] = None
                yield _finding(name, "link", error)
        if (link := links[spec.link]) is None:
            continue
        try:
            build(spec.model, link, device_config(name, spec))
        except DeviceError as error:
            yield _finding(name, "settings", error)


def _finding(device: str, key: str, error: DeviceError) -> Finding:
    return Finding(("devices", device, key), error.what, f"{error.action[:1].upper()}{error.action[1:]}")
