"""The guard's knowledge of a rig, as plain JSON: written by the controller's side, read by the guard.

The guard thus acts on the same description as the controller, whatever happens to the rig file meanwhile, and needs neither
the rig's loader nor its units.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from drivers.commands import Command, Level, Run, Stop, Switch
from drivers.device import ChannelConfig, DeviceConfig


@dataclass(frozen=True, slots=True)
class GuardedDevice:
    """One device: what its driver needs. One without outputs (`acts` False) shares its link with others that have some."""

    name: str
    model: str
    link: str
    config: DeviceConfig
    acts: bool = True


@dataclass(frozen=True, slots=True)
class GuardPlan:
    """The devices of all links with outputs, the state that each output is brought to, and the order.

    `dosing`: pumps that are stopped unless their device ends a dose itself, which only the driver knows. `valves`: the pumps
    that press against each valve; for a watchdog's relay, the outputs that it powers. `only_with`: gases that may flow only
    together with another one (CO2 with air).
    """

    rig: str
    devices: tuple[GuardedDevice, ...]
    rest: Mapping[str, Command]
    dosing: tuple[str, ...]
    valves: Mapping[str, tuple[str, ...]]
    only_with: Mapping[str, str]

    def to_json(self) -> str:
        """Return the plan as text."""
        return json.dumps(
            {
                "rig": self.rig,
                "devices": [asdict(device) for device in self.devices],
                "rest": {name: _command_json(command) for name, command in self.rest.items()},
                "dosing": self.dosing,
                "valves": self.valves,
                "only_with": self.only_with,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> GuardPlan:
        """Read a plan from text. Raises ValueError, KeyError or TypeError for an invalid one."""
        plan = json.loads(text)
        return cls(
            plan["rig"],
            tuple(
                GuardedDevice(
                    device["name"], device["model"], device["link"], _config(device["config"]), device.get("acts", True)
                )
                for device in plan["devices"]
            ),
            {name: _command(command) for name, command in plan["rest"].items()},
            tuple(plan["dosing"]),
            {valve: tuple(pumps) for valve, pumps in plan["valves"].items()},
            plan["only_with"],
        )


def _config(config: Mapping[str, object]) -> DeviceConfig:
    channels = config["channels"]
    settings = config["settings"]
    if not isinstance(channels, dict) or not isinstance(settings, dict):
        raise TypeError("a device's channels and settings are mappings")
    return DeviceConfig(
        str(config["name"]),
        str(config["address"]),
        settings,
        {number: ChannelConfig(channel["point"], channel["settings"]) for number, channel in channels.items()},
        str(config["gas"]),
    )


def _command_json(command: Command) -> list[str | float | bool]:
    match command:
        case Run(flow_ul_min=flow):
            return ["run", flow]
        case Level(value=value):
            return ["level", value]
        case Switch(on=on):
            return ["switch", on]
        case Stop():
            return ["stop"]
        case _:
            raise ValueError(f"{command} is no state to rest in")


def _command(words: list[str | float | bool]) -> Command:
    match words:
        case ["run", float(flow)]:
            return Run(flow)
        case ["level", float(value)]:
            return Level(value)
        case ["switch", bool(on)]:
            return Switch(on)
        case ["stop"]:
            return Stop()
        case _:
            raise ValueError(f"{words} is no state to rest in")
