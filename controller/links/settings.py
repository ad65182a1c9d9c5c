"""Settings of devices that their drivers refuse, and flows that a pump cannot give, found without opening a link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.links.connect import device_config
from controller.links.units import points_fit_their_roles
from controller.rig.description import Rig
from controller.rig.organs import HeartConfig
from controller.rig.problems import Finding, nearest
from drivers.commands import Run
from drivers.device import Device
from drivers.errors import DeviceError
from drivers.registry import MODELS, build, open_link
from drivers.transport.link import Link

MAX_STEP_ERROR = 0.03
"""Share of a heart's flow by which the steps of its pump may change it without a warning."""


def drivers_accept(rig: Rig) -> Iterator[Finding]:
    """Yield a finding for each device whose driver refuses its settings, for each link whose devices differ in its own, and
    for each point that does not fit its role.

    Devices without an installed driver are left out. No link is opened.
    """
    built, problems = built_devices(rig)
    yield from problems
    yield from points_fit_their_roles(rig, built)
    yield from _agitators_turn(rig, built)


def coarse_flows(rig: Rig) -> Iterator[str]:
    """Yield a warning for each flow of a heart that its pump gives only roughly, because its speed has steps."""
    built, _ = built_devices(rig)
    for name, heart in rig.organs.hearts.items():
        pump = rig.lines[heart.line].pump or ""
        device, _, point = pump.partition(".")
        driver = built.get(device)
        actuator = None if driver is None else driver.actuators.get(point)
        if actuator is None:
            continue
        for key, flow_ul_min in _flows(heart):
            nearest_flow = actuator.nearest(Run(flow_ul_min))
            given_ul_min = nearest_flow.flow_ul_min if isinstance(nearest_flow, Run) else flow_ul_min
            error = given_ul_min / flow_ul_min - 1.0
            if abs(error) > MAX_STEP_ERROR:
                yield (
                    f"organs.hearts.{name}.{key}: {pump} has steps, and gives {given_ul_min / 1000:.4g} mL/min instead of"
                    f" {flow_ul_min / 1000:g} mL/min ({error:+.0%}). Write that flow, or fit narrower tubing"
                )


def cautions(rig: Rig) -> Iterator[str]:
    """Yield a warning for each device of which a person has stated what its driver cannot check."""
    for name, device in built_devices(rig)[0].items():
        if device.caution:
            yield f"devices.{name}.settings.{device.caution}"


def _flows(heart: HeartConfig) -> tuple[tuple[str, float], ...]:
    return (
        ("flow", heart.flow_ul_min),
        ("basal", heart.basal_ul_min),
        ("min", heart.min_ul_min),
        ("max", heart.max_ul_min),
    )


def built_devices(rig: Rig) -> tuple[dict[str, Device], list[Finding]]:
    """Return the devices with an installed driver by name, and what is wrong with the others and with their links.

    No link is opened.
    """
    links: dict[str, Link | None] = {}
    built: dict[str, Device] = {}
    problems: list[Finding] = []
    for name, spec in rig.devices.items():
        if spec.model not in MODELS:
            continue
        if spec.link not in links:
            sharing = [each.model for each in rig.devices.values() if each.link == spec.link and each.model in MODELS]
            try:
                links[spec.link] = open_link(spec.link, sharing)
            except DeviceError as error:
                links[spec.link] = None
                problems.append(_finding(name, "link", error))
        if (link := links[spec.link]) is None:
            continue
        try:
            built[name] = build(spec.model, link, device_config(name, spec))
        except DeviceError as error:
            problems.append(_finding(name, "settings", error))
    return built, problems


def _agitators_turn(rig: Rig, built: Mapping[str, Device]) -> Iterator[Finding]:
    """Yield a finding for each drive or speed of an agitator that its device does not have, or that is of another kind."""
    for name, agitator in rig.agitators.items():
        for key, wanted in (("switch", "switch"), ("setpoint", "level in rpm"), ("measured", "sensor in rpm")):
            text = getattr(agitator, key)
            device, _, point = (text or "").partition(".")
            if text is None or device not in built:
                continue
            if _kind(built[device], point, key) != wanted:
                kinds = [f"{device}.{each}" for each in (*built[device].actuators, *built[device].sensors)]
                what = f"“{text}” is no {wanted}"
                yield Finding(("agitators", name, key), what, nearest(text, kinds, "points of this device"))


def _kind(device: Device, point: str, key: str) -> str:
    if key == "measured":
        sensor = device.sensors.get(point)
        return "" if sensor is None else f"sensor in {sensor.unit}"
    output = device.actuators.get(point)
    return "" if output is None else "switch" if output.kind == "switch" else f"{output.kind} in {output.unit}"


def _finding(device: str, key: str, error: DeviceError) -> Finding:
    return Finding(("devices", device, key), error.what, f"{error.action[:1].upper()}{error.action[1:]}")
