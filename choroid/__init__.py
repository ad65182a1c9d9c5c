"""Choroid: care for brain organoids, and electrode input and output for computers.

Everything in `__all__` is public (docs/api.md, docs/python.md). Names are imported when they are first used, so that
`import choroid` is fast and needs nothing: a remote agent installs the clients alone (the distribution `choroid-client`).
The names of the first group import no other top-level package of Choroid; a file `controller.py` or a folder `drivers` of
your own next to your script does not disturb them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from choroid.client.answers import (
        ActuatorInfo,
        AlarmInfo,
        AlarmsInfo,
        CapabilityInfo,
        EntryInfo,
        GoalInfo,
        HealthInfo,
        HeartInfo,
        LedgerInfo,
        ParameterInfo,
        QuestionInfo,
        ReadingInfo,
        RecipeInfo,
        RigInfo,
        RunInfo,
        StateInfo,
        StepInfo,
        TissueInfo,
        TripInfo,
        VesselInfo,
        VolumeInfo,
    )
    from choroid.client.connection import AsyncControllerClient, ControllerClient, connect, connect_async
    from choroid.client.errors import ClientError, ConnectionFailed, MissingPackage, NervesError, RequestRefused
    from choroid.client.live import LiveUpdate
    from choroid.client.nerves import AsyncNervesClient, NervesClient
    from choroid.client.nerves_reflexes import AsyncRunningReflex, RunningReflex
    from choroid.client.nerves_terms import FrameBatch, FrameGap, NervesEvent, PulsePhase, SpikeBatch, tls_credentials
    from choroid.client.series import HistorySeries
    from choroid.common.failure import UserError
    from choroid.evoked.psth import psth
    from choroid.export.export import export_records
    from choroid.fitting.fit import fit
    from choroid.rig_file.check import check_rig, load_rig
    from choroid.simulation.served_lab import ServedLab, serve_lab
    from choroid.simulation.simulate import simulate
    from controller.rig.description import Rig
    from controller.rig.problems import Problem, RigError
    from drivers.commands import (
        Command,
        Dispense,
        Guarantee,
        Level,
        LevelStatus,
        PumpStatus,
        Quality,
        Run,
        Status,
        Stop,
        Switch,
        SwitchStatus,
    )
    from drivers.device import (
        Actuator,
        ChannelConfig,
        Device,
        DeviceConfig,
        DeviceModel,
        Dosing,
        Identity,
        Page,
        Sensor,
        on_or_off,
        refuse,
    )
    from drivers.errors import BadReply, DeviceError, DeviceFault, LinkDown, NoReply, Refused, WrongDevice
    from nerves.psth import Psth

__all__ = [
    "Actuator",
    "ActuatorInfo",
    "AlarmInfo",
    "AlarmsInfo",
    "AsyncControllerClient",
    "AsyncNervesClient",
    "AsyncRunningReflex",
    "BadReply",
    "CapabilityInfo",
    "ChannelConfig",
    "ClientError",
    "Command",
    "ConnectionFailed",
    "ControllerClient",
    "Device",
    "DeviceConfig",
    "DeviceError",
    "DeviceFault",
    "DeviceModel",
    "Dispense",
    "Dosing",
    "EntryInfo",
    "FrameBatch",
    "FrameGap",
    "GoalInfo",
    "Guarantee",
    "HealthInfo",
    "HeartInfo",
    "HistorySeries",
    "Identity",
    "LedgerInfo",
    "Level",
    "LevelStatus",
    "LinkDown",
    "LiveUpdate",
    "MissingPackage",
    "NervesClient",
    "NervesError",
    "NervesEvent",
    "NoReply",
    "Page",
    "ParameterInfo",
    "Problem",
    "Psth",
    "PulsePhase",
    "PumpStatus",
    "Quality",
    "QuestionInfo",
    "ReadingInfo",
    "RecipeInfo",
    "Refused",
    "RequestRefused",
    "Rig",
    "RigError",
    "RigInfo",
    "Run",
    "RunInfo",
    "RunningReflex",
    "Sensor",
    "ServedLab",
    "SpikeBatch",
    "StateInfo",
    "Status",
    "StepInfo",
    "Stop",
    "Switch",
    "SwitchStatus",
    "TissueInfo",
    "TripInfo",
    "UserError",
    "VesselInfo",
    "VolumeInfo",
    "WrongDevice",
    "check_rig",
    "connect",
    "connect_async",
    "export_records",
    "fit",
    "load_rig",
    "on_or_off",
    "psth",
    "refuse",
    "serve_lab",
    "simulate",
    "tls_credentials",
]

_CLIENT = {
    "choroid.client.answers": (
        "RigInfo TissueInfo GoalInfo HeartInfo CapabilityInfo StateInfo ReadingInfo ActuatorInfo VolumeInfo TripInfo"
        " RecipeInfo ParameterInfo RunInfo QuestionInfo StepInfo AlarmsInfo AlarmInfo HealthInfo LedgerInfo VesselInfo"
        " EntryInfo"
    ),
    "choroid.client.connection": "connect connect_async ControllerClient AsyncControllerClient",
    "choroid.client.errors": "ClientError ConnectionFailed RequestRefused NervesError MissingPackage",
    "choroid.client.live": "LiveUpdate",
    "choroid.client.nerves": "NervesClient AsyncNervesClient",
    "choroid.client.nerves_reflexes": "RunningReflex AsyncRunningReflex",
    "choroid.client.nerves_terms": "PulsePhase SpikeBatch FrameBatch FrameGap NervesEvent tls_credentials",
    "choroid.client.series": "HistorySeries",
}
_WHOLE = {
    "choroid.common.failure": "UserError",
    "choroid.evoked.psth": "psth",
    "choroid.export.export": "export_records",
    "choroid.fitting.fit": "fit",
    "choroid.rig_file.check": "load_rig check_rig",
    "choroid.simulation.served_lab": "serve_lab ServedLab",
    "choroid.simulation.simulate": "simulate",
    "controller.rig.description": "Rig",
    "controller.rig.problems": "Problem RigError",
    "drivers.commands": (
        "Command Run Dispense Switch Level Stop Status PumpStatus SwitchStatus LevelStatus Guarantee Quality"
    ),
    "drivers.device": (
        "Device Sensor Actuator DeviceModel DeviceConfig ChannelConfig Dosing Identity Page on_or_off refuse"
    ),
    "drivers.errors": "DeviceError LinkDown NoReply BadReply Refused WrongDevice DeviceFault",
    "nerves.psth": "Psth",
}
_HOMES = {name: module for table in (_CLIENT, _WHOLE) for module, names in table.items() for name in names.split()}
"""Where each public name is defined."""
_NEEDS = {
    "choroid.common.failure": (),
    "choroid.evoked.psth": ("nerves",),
    "choroid.export.export": ("controller", "drivers", "nerves", "protocols"),
    "choroid.fitting.fit": ("controller", "drivers", "nerves", "protocols", "sim"),
    "choroid.rig_file.check": ("controller", "drivers", "protocols"),
    "choroid.simulation.served_lab": (),  # its own process finds them, with the safe path
    "choroid.simulation.simulate": ("controller", "drivers", "nerves", "protocols", "sim"),
    "controller.rig.description": ("controller", "drivers"),
    "controller.rig.problems": ("controller",),
    "drivers.commands": ("drivers",),
    "drivers.device": ("drivers",),
    "drivers.errors": ("drivers",),
    "nerves.psth": ("nerves",),
}
"""The other top-level packages that each of those modules imports."""


def __getattr__(name: str) -> Any:
    """Import a public name at its first use.

    Raises:
        AttributeError: There is no such name.
        ImportError: A package that it needs is hidden by another file, or only the clients are installed.
    """
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home in _NEEDS:
        _require(name, _NEEDS[home])
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names with what is loaded already."""
    return sorted({*__all__, *globals()})


def _require(name: str, packages: tuple[str, ...]) -> None:
    try:
        from choroid.common.child import require_own_packages
    except ModuleNotFoundError as error:
        if error.name != "choroid.common":
            raise
        raise ImportError(
            f"choroid.{name} is part of the controller, and only the clients are installed here (choroid-client)."
            " Next: pip install choroid"
        ) from None
    require_own_packages(packages)
