"""Command sets and table layouts of Alicat firmware versions, each bound to the version text that the device announces.

Sources: the maker's serial primer (February 2023), which gives the first version of each command, and public captures of
controllers with firmware 5v12, 8v30 and 10v20.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SCCM, SLPM = 12, 7
"""Numbers of the engineering units of flow."""
FLOW_UNITS = {SCCM: ("SCCM", "CCM", 1.0), SLPM: ("SLPM", "LPM", 1000.0)}
"""Number of the unit → label of mass flow, label of volumetric flow, mL/min of one."""
PRESSURE_UNIT, TEMPERATURE_UNIT = (10, "PSIA"), (2, "`C")
PRESSURE, TEMPERATURE, VOLUMETRIC, MASS, MASS_SETPOINT = 2, 3, 4, 5, 37
"""Numbers of the statistics of a data frame."""


@dataclass(frozen=True, slots=True)
class Firmware:
    """Commands and answer formats of one firmware version.

    Args:
        text: The answer to `VE`.
        revision: The version alone, as the maker's table has it.
        modern: It has `LS`, `LV` (9v00), `GS` and `DCU` (10v05). One without takes `LS` and `LV` for the command `L`,
            which locks the display.
        full_scale: It has `FPF` (6v00).
        ranges: `??D*` lists ranges and units (5v) instead of statistics and widths (6v and later).
        signed_setpoint: The set-point of a data frame has a sign.
        gas_width: Characters of the gas in a data frame.
        flags: Status words that `??D*` lists.
    """

    text: str
    revision: str
    modern: bool
    full_scale: bool
    ranges: bool
    signed_setpoint: bool
    gas_width: int
    flags: Sequence[str]


FIRMWARES = {
    "5v12": Firmware(
        text="5v12.0-R22 Aug 14 2015,10:21:36",
        revision="5v12.0-R22",
        modern=False,
        full_scale=False,
        ranges=True,
        signed_setpoint=False,
        gas_width=7,
        flags=("LCK", "OVR", "POV", "TOV", "VOV", "MOV"),
    ),
    "8v30": Firmware(
        text="8v30.0-R23 Jan 17 2020,09:12:44",
        revision="8v30.0-R23",
        modern=False,
        full_scale=True,
        ranges=False,
        signed_setpoint=True,
        gas_width=6,
        flags=("OPL", "POV", "P2O", "TOV", "VOV", "MOV", "TMF", "OVR", "HLD", "EXH", "LCK"),
    ),
    "10v05": Firmware(
        text="10v05.0-R24 Nov 30 2022,16:04:20",
        revision="10v05.0-R24",
        modern=True,
        full_scale=True,
        ranges=False,
        signed_setpoint=True,
        gas_width=6,
        flags=("OPL", "POV", "P2O", "TOV", "VOV", "MOV", "TMF", "OVR", "COM", "HLD", "EXH", "GTA", "LCK"),
    ),
}


def frame_table(firmware: Firmware, unit: str, flow_unit: int, full_scale: float, decimals: int) -> list[str]:
    """Return the lines that answer `??D*`.

    Args:
        firmware: Decides the layout.
        unit: Letter of the device.
        flow_unit: Number of its engineering unit of flow.
        full_scale: Full scale in that unit.
        decimals: Decimals of a flow in the data frame.
    """
    if firmware.ranges:
        return _ranges(firmware, unit, flow_unit, full_scale, decimals)
    return _columns(firmware, unit, flow_unit, decimals)


def _ranges(firmware: Firmware, unit: str, flow_unit: int, full_scale: float, decimals: int) -> list[str]:
    mass, volumetric, _ = FLOW_UNITS[flow_unit]
    none, highest = (f"{value:+07.{decimals}f}" for value in (0.0, full_scale))
    fields = [
        ("Unit ID", "char", "A", "Z", "na"),
        ("Pressure", "signed", "+000.00", "+160.00", "PSIA"),
        ("Temperature", "signed", "-010.00", "+050.00", "C"),
        ("Volumetric", "signed", none, highest, volumetric),
        ("Mass", "signed", none, highest, mass),
        ("SetPoint", "signed", none, highest, mass),
        ("Gas", "string", "Air", "C2H2", "na"),
        ("Error", "string", "na", "ADC", "na"),
        *(("Status", "string", "na", flag, "na") for flag in firmware.flags),
    ]
    return [f"{unit}  D00 NAME_______ TYPE_____ MinVal_  MaxVal_  UNITS__"] + [
        f"{unit}  D{number:02d} {name:<11} {kind:<9} {low:>7}  {high:>7}  {label:>7}"
        for number, (name, kind, low, high, label) in enumerate(fields, start=1)
    ]


def _columns(firmware: Firmware, unit: str, flow_unit: int, decimals: int) -> list[str]:
    mass, volumetric, _ = FLOW_UNITS[flow_unit]
    fields = [
        (700, "Unit ID", "string", "1", ""),
        (PRESSURE, "Abs Press", "s decimal", "7/2", "010 02 PSIA"),
        (TEMPERATURE, "Flow Temp", "s decimal", "7/2", "002 02 `C"),
        (VOLUMETRIC, "Volu Flow", "s decimal", f"7/{decimals}", f"{flow_unit:03d} 02 {volumetric}"),
        (MASS, "Mass Flow", "s decimal", f"7/{decimals}", f"{flow_unit:03d} 02 {mass}"),
        (MASS_SETPOINT, "Mass Flow Setpt", "s decimal", f"7/{decimals}", f"{flow_unit:03d} 02 {mass}"),
        (703, "Gas", "string", str(firmware.gas_width), ""),
        (701, "*Error", "string", "3", "ADC"),
        *((702, "*Status", "string", "3", flag) for flag in firmware.flags),
    ]
    return [f"{unit} D00 ID_ NAME______________________ TYPE_______ WIDTH NOTES___________________"] + [
        f"{unit} D{number:02d} {code:03d} {name:<26} {kind:<11} {width:>5} {notes}".rstrip()
        for number, (code, name, kind, width, notes) in enumerate(fields, start=1)
    ]
