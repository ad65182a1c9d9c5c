"""The guard's plan, read off the rig description."""

from __future__ import annotations

from controller.guard.plan import GuardedDevice, GuardPlan
from controller.links.connect import device_config
from controller.rig.description import Rig
from controller.safety.limits import basal_states
from drivers.commands import Stop


def guard_plan(rig: Rig) -> GuardPlan:
    """What the guard has to do when the controller of `rig` is gone.

    A dose that is under way ends by its device and stays measurable, so the pump is left alone; but one that cannot end it
    is stopped, and so is one that presses through a valve, because the valve closes.
    """
    valves: dict[str, tuple[str, ...]] = {}
    for line in rig.lines.values():
        if line.valve is not None and line.pump is not None:
            valves[line.valve] = (*valves.get(line.valve, ()), line.pump)
    pressing = {pump for pumps in valves.values() for pump in pumps}
    basal = basal_states(rig)
    watchdog = rig.safety.watchdog
    if watchdog is not None:  # whoever has no power cannot be brought to rest, so the relay opens last
        valves[watchdog.relay] = tuple(name for name in basal if name.partition(".")[0] in watchdog.feeds)
    dosing = tuple(
        dict.fromkeys(
            line.pump
            for line in rig.lines.values()
            if line.pump is not None and line.pump not in pressing and basal[line.pump] == Stop()
        )
    )
    rest = {name: command for name, command in basal.items() if name not in dosing}
    names = dict.fromkeys(name.partition(".")[0] for name in basal)
    devices = (
        GuardedDevice(name, rig.devices[name].model, rig.devices[name].link, device_config(name, rig.devices[name]))
        for name in names
    )
    lung = rig.organs.lung
    return GuardPlan(rig.name, tuple(devices), rest, dosing, valves, {lung.co2: lung.air})
