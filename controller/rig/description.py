"""The rig description: what stands on the bench and how it is plumbed, validated.

One immutable tree of plain numbers in inner units; the unit is in each name. YAML keys are the names without the
unit (`volume: 40 mL` becomes `volume_ul=40000.0`). Loading lives in :mod:`controller.rig.loading`; the
rules over a whole rig in :mod:`controller.rig.plumbing`, :mod:`controller.rig.wiring` and :mod:`controller.rig.anatomy`.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Literal, TypeVar

from pydantic import Field, field_validator

from controller.rig.agitation import Agitator
from controller.rig.audit import AuditSpec
from controller.rig.camera import CameraSpec
from controller.rig.card import CardName, CardOptions
from controller.rig.geometry import GeometrySpec
from controller.rig.grading import shipped_grading
from controller.rig.notify import AlarmSpec, ZoneName
from controller.rig.organs import Organs
from controller.rig.part import MAX_KPA, MAX_PORTS, MAX_UL, MAX_UL_MIN, Name, RigPart
from controller.rig.quantities import (
    AreaCm2,
    ConcentrationMm,
    FlowUlMin,
    FrequencyHz,
    LengthM,
    LengthMm,
    LengthUm,
    MassKda,
    OsmolalityMosm,
    Percent,
    PressureKpa,
    SizeGb,
    TemperatureC,
    TimeD,
    TimeS,
    VolumeUl,
)
from controller.rig.rules import Grading
from controller.rig.sinks import Telemetry
from controller.rig.upkeep import Disposable, ManualTask, Material, TubingSpec

Part = TypeVar("Part")
ROOM_CO2_PCT, ROOM_OXYGEN_PCT = 0.04, 20.9
"""Gas of the room (%)."""


class Review(RigPart):
    """The benefit of stimulating this tissue was weighed: by whom, when, and for how long that is valid."""

    on: date
    by: str = Field(min_length=2, max_length=100)
    valid_d: TimeD = Field(default=180.0, alias="valid", gt=0, le=366)
    note: str = Field(default="", max_length=1000)


class TissueSpec(RigPart):
    """The living tissue in one chamber: how many organoids, how large, how old, and of which culture."""

    count: int = Field(ge=1, le=10_000)
    diameter_mm: LengthMm = Field(alias="diameter", gt=0, le=6)
    age_d: TimeD = Field(alias="age", ge=0, le=3650)
    age_on: date | None = None
    """The day on which it was that old; without one, the day on which the rig's own record began."""
    batch: str = Field(default="", max_length=100)
    """The batch of differentiation that it comes from."""
    cell_line: str = Field(default="", max_length=100)
    capacity: Literal["ordinary", "advanced"] = "ordinary"
    """`advanced`: capacities that call for precaution are known or suspected (docs/viability.md, tiers)."""
    review: Review | None = None
    """Required for more than gentle stimulation from 20 weeks on, and for any at all with advanced capacity."""


PK_HEPES, PK_PHOSPHATE, BUFFERED_PH = 7.3, 6.8, 7.3
"""At 37 °C and the ionic strength of medium (HEPES: Vega & Bates 1976)."""
AMINO_MM_PER_PH = 0.3
"""Amino acids and proteins of the supplements."""


def _capacity(total_mm: float, pk: float) -> float:
    """Return the buffer capacity of a weak acid (mM per pH) at :data:`BUFFERED_PH`."""
    share = 1.0 / (1.0 + 10.0 ** (pk - BUFFERED_PH))
    return float(math.log(10.0) * total_mm * share * (1.0 - share))


class LabelSd(RigPart):
    """How far a bottle may be off its label (one standard deviation); what is left out has the usual width."""

    glucose_mm: ConcentrationMm | None = Field(default=None, alias="glucose", gt=0, le=500)
    lactate_mm: ConcentrationMm | None = Field(default=None, alias="lactate", gt=0, le=200)
    ammonia_mm: ConcentrationMm | None = Field(default=None, alias="ammonia", gt=0, le=50)
    bicarbonate_mm: ConcentrationMm | None = Field(default=None, alias="bicarbonate", gt=0, le=1000)
    glutamine_mm: ConcentrationMm | None = Field(default=None, alias="glutamine", gt=0, le=50)
    osmolality_mosm: OsmolalityMosm | None = Field(default=None, alias="osmolality", gt=0, le=2000)


class MethodSd(RigPart):
    """How far the laboratory's methods of assay may be off (one standard deviation); what is left out has the usual width."""

    glucose_mm: Percent | None = Field(default=None, alias="glucose", gt=0, le=100)
    lactate_mm: Percent | None = Field(default=None, alias="lactate", gt=0, le=100)
    ammonia_mm: Percent | None = Field(default=None, alias="ammonia", gt=0, le=100)
    bicarbonate_mm: Percent | None = Field(default=None, alias="bicarbonate", gt=0, le=100)
    glutamine_mm: Percent | None = Field(default=None, alias="glutamine", gt=0, le=100)
    osmolality_mosm: Percent | None = Field(default=None, alias="osmolality", gt=0, le=100)


class Medium(RigPart):
    """Composition of one medium (mmol/L; osmolality mOsm/kg)."""

    glucose_mm: ConcentrationMm = Field(alias="glucose", ge=0, le=500)
    lactate_mm: ConcentrationMm = Field(alias="lactate", ge=0, le=200)
    ammonia_mm: ConcentrationMm = Field(alias="ammonia", ge=0, le=50)
    bicarbonate_mm: ConcentrationMm = Field(alias="bicarbonate", ge=0, le=1000)
    glutamine_mm: ConcentrationMm = Field(alias="glutamine", ge=0, le=50)
    osmolality_mosm: OsmolalityMosm = Field(alias="osmolality", gt=0, le=2000)
    hepes_mm: ConcentrationMm | None = Field(default=None, alias="hepes", ge=0, le=200)
    phosphate_mm: ConcentrationMm | None = Field(default=None, alias="phosphate", ge=0, le=200)
    """Buffers other than bicarbonate. Left out both, the capacity is not declared."""
    label_sd: LabelSd | None = None
    """How far its bottles may be off this composition."""
    stable_glutamine: bool = False
    """Whether its glutamine is L-alanyl-L-glutamine, which hardly decays and makes no ammonia by itself."""
    use_within_d: TimeD | None = Field(default=None, alias="use_within", gt=0, le=3650)
    """How long a bottle may be used after it was put in. Left out, medium with glutamine has 14 days at up to 8 °C, and less
    where it is warmer (docs/ledger.md)."""

    def buffer_mm_per_ph(self, undeclared: float) -> float:
        """Return the capacity of the buffers other than bicarbonate (mM per pH, at pH 7.3 and 37 °C), or `undeclared`."""
        if self.hepes_mm is None and self.phosphate_mm is None:
            return undeclared
        return (
            _capacity(self.hepes_mm or 0.0, PK_HEPES)
            + _capacity(self.phosphate_mm or 0.0, PK_PHOSPHATE)
            + AMINO_MM_PER_PH
        )


class Vessel(RigPart):
    """One vessel: what it starts with and the volumes between which it must stay (µL)."""

    kind: Literal["source", "loop", "chamber", "process", "waste"]
    contains: str | None = None
    volume_ul: VolumeUl = Field(alias="volume", ge=0, le=MAX_UL)
    capacity_ul: VolumeUl = Field(alias="capacity", gt=0, le=MAX_UL)
    floor_ul: VolumeUl = Field(default=0.0, alias="floor", ge=0, le=MAX_UL)
    ceiling_ul: VolumeUl | None = Field(default=None, alias="ceiling", gt=0, le=MAX_UL)
    overflow_ul: VolumeUl | None = Field(default=None, alias="overflow", gt=0, le=MAX_UL)
    """The volume at which its passive outlet begins to run (a spout, a weir). Left out, the volume at the start."""
    surface_cm2: AreaCm2 | None = Field(default=None, alias="surface", gt=0, le=1e4)
    """Surface of its medium that is open to the gas (a dish, a well). Left out, a perfused chamber counts as closed."""
    zone: str | None = None
    """The zone in which it stands; without one, in the room."""

    @property
    def limit_ul(self) -> float:
        """The volume that must never be exceeded: the ceiling, else the capacity."""
        return self.capacity_ul if self.ceiling_ul is None else self.ceiling_ul


class Zone(RigPart):
    """A space whose temperature and gas another device keeps: an incubator, a refrigerator."""

    temperature_c: TemperatureC = Field(alias="temperature", ge=0, le=60)
    co2_pct: Percent = Field(default=ROOM_CO2_PCT, alias="co2", ge=0, le=20)
    oxygen_pct: Percent = Field(default=ROOM_OXYGEN_PCT, alias="oxygen", ge=0, le=100)
    """Shares of the gas."""


class Filter(RigPart):
    """A sterile filter."""

    pore_um: LengthUm = Field(alias="pore", gt=0, le=1000)
    area_cm2: AreaCm2 = Field(alias="area", gt=0, le=1e4)
    max_pressure_kpa: PressureKpa = Field(alias="max_pressure", gt=0, le=MAX_KPA)
    bubble_point_kpa: PressureKpa = Field(alias="bubble_point", gt=0, le=MAX_KPA)
    min_pressure_kpa: PressureKpa | None = Field(
        default=None,
        alias="min_pressure",
        ge=0,
        le=MAX_KPA,
    )
    """Minimum pressure over an intact filter while medium is returned. Left out, it is calculated from area and flow
    (docs/recycling.md)."""


class Dialyser(RigPart):
    """Hollow fibres that hang in a stirred vessel; dialysate passes through them once."""

    vessel: str
    koa_ul_min: FlowUlMin = Field(alias="koa", gt=0, le=MAX_UL_MIN)
    """Mass transfer of small solutes (lactate, ammonia, glucose), as installed; 20 % below the data sheet (biology.md §2)."""
    koa_at_ul_min: FlowUlMin | None = Field(default=None, alias="koa_at", gt=0, le=MAX_UL_MIN)
    """The dialysate flow at which it was measured: KoA rises with the flow. Left out, it is taken as the same at any."""
    cut_off_kda: MassKda = Field(alias="cut_off", ge=1, le=15)
    max_pressure_kpa: PressureKpa | None = Field(default=None, alias="max_pressure", gt=0, le=MAX_KPA)
    """What the fibres bear. Left out, the usual 500 mmHg."""


class Junction(RigPart):
    """A branch point without volume, such as a manifold.

    What enters it leaves through its passive lines, in shares that follow from their resistance.
    """


class Selector(RigPart):
    """A selector valve: it connects one of its ports at a time with its common line. It has no volume but `dead_volume`.

    A port is a line with `port:`, its position. All ports lead out of the selector, or all lead into it.
    """

    valve: str
    """The actuator's point, whose position is set."""
    rest: int = Field(ge=1, le=MAX_PORTS)
    """The position at rest: a closed port (without a line), or one that leads to waste."""
    dead_volume_ul: VolumeUl = Field(default=0.0, alias="dead_volume", ge=0, le=MAX_UL)
    """What stays in the valve's passages when the position changes."""


class Line(RigPart):
    """A piece of tubing between two places: vessels, junctions, selectors. A pump moves it, or it is passive.

    A passive line is an overflow of a vessel, a branch of a junction, or a port of a selector.
    """

    from_: str = Field(alias="from")
    to: str
    pump: str | None = None
    passive: bool = False
    filter: str | None = None
    dialyser: str | None = None
    """The dialyser that it passes through on its way."""
    valve: str | None = None
    port: int | None = Field(default=None, ge=1, le=MAX_PORTS)
    """The position at which a selector connects it. The selector's common line has none."""
    draws_above_ul: VolumeUl = Field(default=0.0, alias="draws_above", ge=0, le=MAX_UL)
    """The volume of its source below which it draws air: the height of a straw or of a skimmer."""
    max_flow_ul_min: FlowUlMin | None = Field(default=None, alias="max_flow", gt=0, le=MAX_UL_MIN)
    """Maximum flow of its pump, if it belongs to no organ. Left out, what the pump can move."""
    check_valve: bool = False
    """Whether a check valve keeps medium from flowing backwards in it."""
    bore_mm: LengthMm = Field(default=1.6, alias="bore", gt=0, le=20)
    length_m: LengthM = Field(default=0.5, alias="length", gt=0, le=100)
    material: Material | None = None
    """What it is made of, for the wiring list. The tubing in a pump head stands under `upkeep.tubing`."""


class DeviceChannel(RigPart):
    """One channel of a device: the name of its point, its tubing."""

    point: Name
    tubing_mm: LengthMm | None = Field(default=None, alias="tubing", gt=0, le=20)


class DeviceSpec(RigPart):
    """One device: model, link, address, place, polling period."""

    model: str
    link: str
    address: str = ""
    at: str | None = None
    every_s: TimeS = Field(default=5.0, alias="every", gt=0, le=3600)
    gas: Literal["air", "co2", "o2"] | None = None
    """Which gas a flow controller is connected to."""
    channels: dict[str, DeviceChannel] = Field(default_factory=dict)
    settings: dict[str, float | bool | str] = Field(default_factory=dict)


class RecordingSpec(RigPart):
    """What is recorded of the electrode array, and where (docs/recording.md)."""

    automatic: Literal["never", "leases", "always"] = "never"
    """`leases`: while an agent holds a lease, and 2 s longer. `always`: while the engine runs."""
    frames: bool = True
    """Without the raw samples, a recording holds spikes, states, stimulation and the clock."""
    folder: str = Field(default="", max_length=1000)
    """Left out, `recordings` in the data folder; a relative path lies in the data folder."""
    quota_gb: SizeGb = Field(default=100.0, alias="quota", gt=0, le=1e6)
    """What all recordings together may take."""
    min_free_gb: SizeGb = Field(default=5.0, alias="min_free", ge=0, le=1e6)
    """What the disk keeps free for everything else."""


class Nerves(RigPart):
    """The electrode array, with its card (docs/cards.md)."""

    card: CardName = "simulated"
    """Which card reads and stimulates the array; see `choroid card list`."""
    link: str
    """Where the card is: `sim:name`, `tcp://host:port`, `lsl:name`, or `file:path` of a recording (in the data folder)."""
    options: CardOptions | None = None
    electrodes: int = Field(ge=1, le=4096)
    sample_rate_hz: FrequencyHz = Field(alias="sample_rate", gt=0, le=1e6)
    material: Literal["Pt", "PtIr", "TiN"] = "Pt"
    diameter_um: LengthUm = Field(alias="diameter", gt=0, le=1000)
    mains: Literal["50 Hz", "60 Hz", "none"] = "50 Hz"
    """Frequency of the power grid, whose hum is taken from the signal; `none` for an array on batteries."""
    reference: Literal["ground", "median"] = "ground"
    """`median`: the median of the live electrodes is subtracted from each; takes several times the processor time."""
    artefact_share_pct: Percent = Field(default=60.0, alias="artefact_share", ge=20, le=100)
    """Share of the live electrodes on which the same wave at the same time is an artefact, not spikes."""
    pitch_um: LengthUm | None = Field(default=None, alias="pitch", ge=5, le=10_000)
    """Distance of neighbouring electrodes: says how many of them can see one neuron. Left out, as on the densest arrays."""
    geometry: GeometrySpec | None = None
    """Where the electrodes are, and on which channels of the card; left out, not known, but for a simulated array."""
    reflex_filter: Literal["linear-phase", "low-delay"] = "linear-phase"
    """Filter of the spikes that reflexes see. `low-delay`: 0.2 ms after the trough instead of 0.8, with fewer small ones."""
    stimulation_artefacts: Literal["blank", "subtract"] = "blank"
    """What is done with the artefact of a pulse. `subtract`: where it is known well, spikes are seen sooner after it."""
    recording: RecordingSpec | None = None


def required(part: Part | None, name: str) -> Part:
    """Return a part of the rig that may be absent.

    Raises:
        ValueError: it is absent.
    """
    if part is None:
        raise ValueError(f"this needs {name}, and the rig does not have it. Next: add it to the rig file")
    return part


class TemperatureLimit(RigPart):
    """Temperature interlock; `trips` names the actuators that go to their basal state."""

    point: str
    low_c: TemperatureC = Field(alias="low", ge=0, le=60)
    high_c: TemperatureC = Field(alias="high", ge=0, le=60)
    stale_s: TimeS = Field(alias="stale", gt=0, le=3600)
    trips: tuple[str, ...]


class PressureLimit(RigPart):
    """Over-pressure interlock."""

    point: str
    high_kpa: PressureKpa = Field(alias="high", gt=0, le=MAX_KPA)
    stale_s: TimeS = Field(alias="stale", gt=0, le=3600)
    trips: tuple[str, ...]


class Accepted(RigPart):
    """A gap in the hazard table that a person accepts: why, and who."""

    reason: str = Field(min_length=20, max_length=500)
    by: str = Field(min_length=2, max_length=100)


class WatchdogRelay(RigPart):
    """A relay that the controller must renew; its contact carries the power of `feeds` (docs/watchdog-relay.md)."""

    relay: str
    hold_s: TimeS = Field(alias="hold", ge=3, le=60)
    """How long the board keeps the contact closed after it was last renewed."""
    feeds: tuple[Name, ...] = Field(min_length=1)
    """The devices that lose their power when it opens."""


class EmergencyButton(RigPart):
    """A digital input that is an emergency stop. A reading that is missing for `stale_s` counts as pressed."""

    input: str
    active: Literal["open", "closed"] = "open"
    """How the contact stands when it is pressed. An open one reads 0: normally closed, so that a cut wire is a press."""
    stale_s: TimeS = Field(default=5.0, alias="stale", ge=1, le=60)


class Safety(RigPart):
    """The interlocks' limits, the emergency button, and the hazards that are accepted without an interlock."""

    temperature: TemperatureLimit | None = None
    temperatures: dict[Name, TemperatureLimit] = Field(default_factory=dict)
    """By any name: further thermometers that need limits, such as those of other zones."""
    over_pressure_heart: PressureLimit | None = None
    over_pressure_filter: PressureLimit | None = None
    over_pressure: dict[Name, PressureLimit] = Field(default_factory=dict)
    """By the name of the line: any other pumped line that needs a gauge, such as one through a dialyser."""
    watchdog: WatchdogRelay | None = None
    emergency_stop: EmergencyButton | None = None
    never: tuple[tuple[Name, Name], ...] = ()
    """Pairs that must never meet: a vessel, medium or kind of vessel, and the one that it must not enter."""
    accepted: dict[Name, Accepted] = Field(default_factory=dict)
    """By the id of the hazard (`choroid check --hazards`)."""


class UpkeepSpec(RigPart):
    """What has to be looked after: calibrations, tubing, bottles, the waste and manual tasks.

    `calibration` is `required` (no record, no volumes) or `factory` (a pump without a record is trusted as its maker
    says); by default factory on a rig that is simulated as a whole, and required on any other.
    """

    calibration: Literal["factory", "required"] | None = None
    calibration_due_s: TimeS = Field(default=3 * 86_400.0, alias="calibration_due", ge=0, le=366 * 86_400.0)
    tubing_due_pct: Percent = Field(default=90.0, alias="tubing_due", gt=0, le=100)
    stock_low_pct: Percent = Field(default=10.0, alias="stock_low", ge=0, lt=100)
    """Share of what a bottle can give, or the waste can take, below which the alarm `stock_low` or `waste_full` is raised."""
    tubing: dict[str, TubingSpec] = Field(default_factory=dict)
    disposables: dict[Name, Disposable] = Field(default_factory=dict)
    tasks: dict[Name, ManualTask] = Field(default_factory=dict)
    """Manual tasks with due times, such as a change of medium by hand."""


class Rig(RigPart):
    """A whole rig, validated."""

    choroid: Literal[1]
    """Format of the file."""

    @field_validator("choroid", mode="before")
    @classmethod
    def _format_is_a_number(cls, value: object) -> object:
        if isinstance(value, bool):  # True is 1 to Python
            raise ValueError(f"“{str(value).lower()}” is no number; write choroid: 1")
        return value

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")
    description: str = ""
    time_zone: ZoneName = "UTC"
    """The laboratory's, as the IANA names it; pages and messages show local time."""
    mixed: bool = False
    unlocked_protocols: bool = False
    """Whether Python protocols of people run with the rights of the controller's user where they cannot be locked in."""
    tissue: dict[Name, TissueSpec] = Field(min_length=1)
    """By the name of its chamber."""
    groups: dict[Name, tuple[Name, ...]] = Field(default_factory=dict)
    """Names for sets of chambers, which recipes address together. A batch of tissue is a group as well."""
    media: dict[Name, Medium]
    method_sd: MethodSd | None = None
    """How far the methods of the assays may be off; a method that is stated is not doubted any further."""
    zones: dict[Name, Zone] = Field(default_factory=dict)
    vessels: dict[Name, Vessel]
    junctions: dict[Name, Junction] = Field(default_factory=dict)
    selectors: dict[Name, Selector] = Field(default_factory=dict)
    filters: dict[Name, Filter] = Field(default_factory=dict)
    dialysers: dict[Name, Dialyser] = Field(default_factory=dict)
    lines: dict[Name, Line] = Field(default_factory=dict)
    devices: dict[Name, DeviceSpec]
    agitators: dict[Name, Agitator] = Field(default_factory=dict)
    cameras: dict[Name, CameraSpec] = Field(default_factory=dict)
    nerves: Nerves | None = None
    organs: Organs = Organs()
    safety: Safety = Safety()
    upkeep: UpkeepSpec = UpkeepSpec()
    telemetry: Telemetry = Telemetry()
    audit: AuditSpec = AuditSpec()
    alarms: AlarmSpec = AlarmSpec()
    grading: Grading = Field(default_factory=shipped_grading)
    """In the rig file: the path of a rule file, relative to the rig file."""

    @property
    def loop(self) -> str | None:
        """Name of the vessel with the circulating medium: the vessel of kind `loop` that hearts draw from."""
        for heart in self.organs.hearts.values():
            line = self.lines.get(heart.line)
            vessel = None if line is None else self.vessels.get(line.from_)
            if line is not None and vessel is not None and vessel.kind == "loop":
                return line.from_
        return None

    @property
    def simulated(self) -> bool:
        """Whether every device lives in the lab in software (links `sim:`)."""
        return all(device.link.startswith("sim:") for device in self.devices.values())

    @property
    def factory_calibrated(self) -> bool:
        """Whether a pump without a calibration record is trusted as its maker says (:class:`UpkeepSpec`)."""
        return self.simulated if self.upkeep.calibration is None else self.upkeep.calibration == "factory"
