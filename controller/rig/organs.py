"""The part `organs` of the rig file: which devices and lines make up each organ."""

from __future__ import annotations

from pydantic import Field

from controller.rig.part import MAX_GAS_ML_MIN, MAX_UL, MAX_UL_MIN, Name, RigPart
from controller.rig.quantities import FlowUlMin, GasMlMin, Percent, PowerW, TemperatureC, TimeS, VolumeUl


class HeartConfig(RigPart):
    """Perfuses chambers: the line leads into a chamber, or into a junction from which lines lead into chambers."""

    line: str
    pressure: str | None = None
    flow_ul_min: FlowUlMin = Field(alias="flow", gt=0, le=MAX_UL_MIN)
    basal_ul_min: FlowUlMin = Field(alias="basal", gt=0, le=MAX_UL_MIN)
    min_ul_min: FlowUlMin = Field(alias="min", gt=0, le=MAX_UL_MIN)
    max_ul_min: FlowUlMin = Field(alias="max", gt=0, le=MAX_UL_MIN)
    lease_s: TimeS = Field(alias="lease", gt=0, le=3600)


class KidneyConfig(RigPart):
    """Draws spent medium, holds it on the balance, gives it back or throws it away."""

    vessel: str
    waste: str
    draw: str
    return_: str = Field(alias="return")
    discard: str
    mass: str
    flow_ul_min: FlowUlMin = Field(alias="flow", gt=0, le=MAX_UL_MIN)
    dialyse: str | None = None
    """The line of dialysate, from a bottle of basal medium through a dialyser in `vessel` to waste."""
    dialysate_ul_min: FlowUlMin = Field(default=500.0, alias="dialysate_flow", gt=0, le=MAX_UL_MIN)


class GutConfig(RigPart):
    """Gives fresh medium."""

    feed: str
    flow_ul_min: FlowUlMin = Field(alias="flow", gt=0, le=MAX_UL_MIN)


class LiverConfig(RigPart):
    """Conditions: glucose and bicarbonate by dosing."""

    glucose: str
    base: str
    ph: str
    flow_ul_min: FlowUlMin = Field(alias="flow", gt=0, le=MAX_UL_MIN)
    min_dose_ul: VolumeUl = Field(alias="min_dose", gt=0, le=MAX_UL)


class ImmuneConfig(RigPart):
    """The sterile barrier."""

    filter: str
    pressure: str
    valve: str | None = None


class LungConfig(RigPart):
    """Oxygen and carbon dioxide: three gas flows over the loop. Without it, the zone's gas determines both."""

    vessel: str
    air: str
    co2: str
    o2: str
    oxygen: str
    ph: str
    total_ml_min: GasMlMin = Field(alias="total_flow", gt=0, le=MAX_GAS_ML_MIN)
    oxygen_setpoint_pct: Percent = Field(alias="oxygen_setpoint", gt=0, le=100)
    ph_setpoint: float = Field(ge=6.5, le=8.0)
    co2_min_pct: Percent = Field(alias="co2_min", ge=0, le=20)
    co2_max_pct: Percent = Field(alias="co2_max", gt=0, le=20)


class SkinConfig(RigPart):
    """Warmth: a heater or thermostat. Without it, the zone's temperature is that of the chamber."""

    heater: str
    temperature: str
    setpoint_c: TemperatureC = Field(alias="setpoint", ge=20, le=40)
    power_w: PowerW = Field(alias="power", gt=0, le=1000)
    lease_s: TimeS = Field(alias="lease", gt=0, le=3600)
    ambient_c: TemperatureC = Field(default=24.0, alias="ambient", ge=-20, le=60)


class Organs(RigPart):
    """Which devices and lines make up each organ. An organ that the rig does not have is left out."""

    hearts: dict[Name, HeartConfig] = Field(default_factory=dict)
    """By name. A file with one heart writes `heart:`, and its name is then “heart”."""
    kidney: KidneyConfig | None = None
    gut: GutConfig | None = None
    liver: LiverConfig | None = None
    immune: ImmuneConfig | None = None
    lung: LungConfig | None = None
    skin: SkinConfig | None = None
