"""The guard's plan, derived from the rig description."""

from __future__ import annotations

from collections.abc import Mapping

from controller.guard.plan import GuardedDevice, GuardPlan
from controller.links.connect import device_config
from controller.rig.description import Rig
from controller.safety.limits import basal_states, pumps_of_selectors
from drivers.commands import Command, Stop


def guard_plan(rig: Rig) -> GuardPlan:
    """Return what the guard has to do when the controller of `rig` is lost.

    A dose underway ends by its device and stays measurable, so its pump is left alone. A pump that cannot end its dose
    itself is stopped, and so is one that presses through a valve or selector, because that goes to rest.
    """
    pressing = _pumps_by_valve(rig)
    basal = basal_states(rig)
    dosing = _dosing(rig, basal, {pump for pumps in pressing.values() for pump in pumps})
    acting = dict.fromkeys(name.partition(".")[0] for name in basal)
    links = {rig.devices[name].link for name in acting}
    names = (*acting, *(name for name, spec in rig.devices.items() if spec.link in links and name not in acting))
    devices = (
        GuardedDevice(name, spec.model, spec.link, device_config(name, spec), name in acting)
        for name, spec in ((name, rig.devices[name]) for name in names)
    )
    valves = pressing
    watchdog = rig.safety.watchdog
    if watchdog is not None:  # without power nothing can be brought to rest, so the relay opens last
        fed = tuple(name for name in basal if name.partition(".")[0] in watchdog.feeds)
        valves = {**pressing, watchdog.relay: fed}
    rest = {name: command for name, command in basal.items() if name not in dosing}
    return GuardPlan(rig.name, tuple(devices), rest, dosing, valves, _carriers(rig))


def _carriers(rig: Rig) -> dict[str, str]:
    """Return the gas without which another may not flow: air for CO2."""
    lung = rig.organs.lung
    return {} if lung is None else {lung.co2: lung.air}


def _pumps_by_valve(rig: Rig) -> dict[str, tuple[str, ...]]:
    valves: dict[str, tuple[str, ...]] = {}
    for line in rig.lines.values():
        if line.valve is not None and line.pump is not None:
            valves[line.valve] = (*valves.get(line.valve, ()), line.pump)
    return valves | pumps_of_selectors(rig)


def _dosing(rig: Rig, basal: Mapping[str, Command], pressing: set[str]) -> tuple[str, ...]:
    """Return the pumps that rest in their basal state and do not press through a valve."""
    pumps = (line.pump for line in rig.lines.values() if line.pump is not None)
    return tuple(dict.fromkeys(pump for pump in pumps if pump not in pressing and basal[pump] == Stop()))
