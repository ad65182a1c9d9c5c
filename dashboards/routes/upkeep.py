"""Maintenance: pumps with calibration and tubing, bottles with lot numbers, levels that people read, manual tasks."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from controller.ledger.batches import Batch
from controller.rig.quantities import parse_quantity
from controller.rig.upkeep import Material
from dashboards.access import ApiProblem, Controlled, Operator, Viewer

ML = 1000.0
USUAL_REL_SD = 0.01
"""Uncertainty of a bottle's volume if none is given."""

routes = APIRouter(prefix="/api")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class NewTubing(_Body):
    """New tubing in a pump's head; `bore` with its unit, by default as the rig file has it; `life` in revolutions."""

    material: Material
    bore: str | None = Field(default=None, max_length=40)
    lot: str = Field(default="", max_length=100)
    life: float | None = Field(default=None, gt=0, le=1e10, allow_inf_nan=False)
    reason: str = Field(default="", max_length=1000)


class MediumLoad(_Body):
    """Medium put into a vessel: another bottle, or (`replaces` false) on top of what is there.

    `volume` and `within` (its standard deviation) with their units; `made`, `thawed` and `expires` as ISO dates.
    """

    lot: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")
    volume: str = Field(max_length=40)
    within: str | None = Field(default=None, max_length=40)
    medium: str | None = Field(default=None, max_length=40)
    made: str = Field(default="", max_length=40, pattern=r"^$|^\d{4}-\d\d-\d\d")
    thawed: str = Field(default="", max_length=40, pattern=r"^$|^\d{4}-\d\d-\d\d")
    expires: str = Field(default="", max_length=40, pattern=r"^$|^\d{4}-\d\d-\d\d")
    replaces: bool = True
    reason: str = Field(default="", max_length=1000)


class LevelReading(_Body):
    """A level that a person read, with its standard deviation."""

    volume: str = Field(max_length=40)
    within: str = Field(max_length=40)
    reason: str = Field(default="", max_length=1000)


class Change(_Body):
    """The volume of a vessel after a change by hand: waste emptied, sample taken, topped up."""

    volume: str = Field(max_length=40)
    within: str = Field(max_length=40)
    reason: str = Field(min_length=1, max_length=1000)


class PumpsModel(BaseModel):
    """Every pump with calibration, tubing, and its measured `gain` (delivered over requested)."""

    pumps: list[dict[str, Any]]


class BatchModel(BaseModel):
    """One batch: its label, where it is now (µL by vessel) and which lines it went along (µL)."""

    lot: str
    medium: str
    vessel: str
    loaded_utc: str
    made_utc: str
    thawed_utc: str
    expires_utc: str
    first_use_utc: str
    by: str
    now_ul: dict[str, float]
    passed_ul: dict[str, float]


class BatchesModel(BaseModel):
    """Every batch."""

    batches: list[BatchModel]


class ParcelModel(BaseModel):
    """The part of one batch that was in the loop equally often, as a share (0..1) of its vessel."""

    lot: str
    uses: int
    share: float


class VesselModel(BaseModel):
    """One vessel: volume with its standard deviation, and the composition of its medium."""

    name: str
    ml: float
    sd_ml: float
    parcels: list[ParcelModel]


class VesselsModel(BaseModel):
    """Every vessel."""

    vessels: list[VesselModel]


class LevelModel(BaseModel):
    """The result of a level: read minus expected (mL), in standard deviations, and whether it exceeds noise."""

    vessel: str
    residual_ml: float
    sigmas: float
    gross: bool


class Done(_Body):
    """A manual task that was done."""

    reason: str = Field(default="", max_length=1000)


class TaskModel(BaseModel):
    """One manual task: what to do, the vessels whose medium it changes, who confirmed it last and when it is due.

    `done_utc` is null before the first confirmation. From `overdue_utc` on, the alarm is urgent.
    """

    name: str
    text: str
    feeds: list[str]
    done_utc: str | None
    done_by: str
    due_utc: str
    overdue_utc: str


class TasksModel(BaseModel):
    """Every manual task."""

    tasks: list[TaskModel]


@routes.get("/pumps", response_model=PumpsModel)
async def pumps(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return calibration, tubing and measured gain of every pump."""
    return {"pumps": [_pump(rig, entry) for entry in rig.upkeep.to_json()]}


@routes.post("/pumps/{name}/tubing", response_model=PumpsModel)
async def install(rig: Controlled, user: Operator, name: str, body: NewTubing) -> dict[str, Any]:
    """Enter new tubing: its revolutions start at zero, and the former calibration is no longer valid."""
    bore_mm = None if body.bore is None else parse_quantity(body.bore, "mm")
    rig.upkeep.install(
        name,
        material=body.material,
        bore_mm=bore_mm,
        lot=body.lot,
        life_revolutions=body.life,
        user=user.name,
        reason=body.reason,
    )
    return {"pumps": [_pump(rig, entry) for entry in rig.upkeep.to_json() if entry["pump"] == name]}


@routes.get("/tasks", response_model=TasksModel)
async def tasks(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return every manual task with its due time."""
    return {"tasks": [state.to_json() for state in rig.upkeep.tasks.states()]}


@routes.post("/tasks/{name}/done", response_model=TasksModel)
async def done(rig: Controlled, user: Operator, name: str, body: Done) -> dict[str, Any]:
    """Confirm that a manual task was done; its time begins again."""
    rig.upkeep.confirm(name, user=user.name, note=body.reason)
    return {"tasks": [state.to_json() for state in rig.upkeep.tasks.states() if state.name == name]}


@routes.get("/batches", response_model=BatchesModel)
async def batches(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return every batch: its present place and its path."""
    return {"batches": [_batch(rig, lot) for lot in rig.ledger.whereabouts.batches]}


@routes.get("/batches/{name}", response_model=BatchModel)
async def batch(rig: Controlled, _: Viewer, name: str) -> dict[str, Any]:
    """Return one batch."""
    known = rig.ledger.whereabouts.batches
    if name not in known:
        raise ApiProblem(
            404,
            f"no batch has the number “{name}”",
            where="the batch's number",
            cause="a typing error, or it was not entered",
            action=f"choose among {', '.join(known)}",
        )
    return _batch(rig, name)


@routes.get("/vessels", response_model=VesselsModel)
async def vessels(rig: Controlled, _: Viewer) -> dict[str, Any]:
    """Return the contents of every vessel."""
    return {"vessels": [_vessel(rig, name) for name in rig.ledger.volumes()]}


@routes.post("/vessels/{name}/load", response_model=BatchModel, status_code=201)
async def load(rig: Controlled, user: Operator, name: str, body: MediumLoad) -> dict[str, Any]:
    """Enter a new or refilled bottle: lot, volume, expiry."""
    volume_ul = parse_quantity(body.volume, "uL")
    sd_ul = USUAL_REL_SD * volume_ul if body.within is None else parse_quantity(body.within, "uL")
    vessel = rig.rig.vessels.get(name)
    medium = body.medium or (vessel.contains if vessel is not None else None) or ""
    label = Batch(
        lot=body.lot,
        medium=medium,
        loaded_utc=rig.clock.utc_text(),
        vessel=name,
        made_utc=body.made,
        thawed_utc=body.thawed,
        expires_utc=body.expires,
        by=user.name,
    )
    rig.ledger.load(label, volume_ul, sd_ul, replaces=body.replaces, user=user.name, reason=body.reason)
    return _batch(rig, body.lot)


@routes.post("/vessels/{name}/level", response_model=LevelModel)
async def level(rig: Controlled, user: Operator, name: str, body: LevelReading) -> dict[str, Any]:
    """Enter a level that was read: one more equation for the ledger."""
    volume_ul, sd_ul = parse_quantity(body.volume, "uL"), parse_quantity(body.within, "uL")
    found = rig.ledger.level(name, volume_ul, sd_ul, user=user.name, reason=body.reason)
    return {"vessel": name, "residual_ml": found.value / ML, "sigmas": found.sigmas, "gross": found.gross}


@routes.post("/vessels/{name}/change", response_model=VesselModel)
async def change(rig: Controlled, user: Operator, name: str, body: Change) -> dict[str, Any]:
    """Enter a volume that was changed by hand: the ledger takes it over, and no part of it is unexplained."""
    volume_ul, sd_ul = parse_quantity(body.volume, "uL"), parse_quantity(body.within, "uL")
    rig.ledger.reconcile(name, volume_ul, sd_ul, user=user.name, reason=body.reason)
    return _vessel(rig, name)


def _vessel(rig: Controlled, name: str) -> dict[str, Any]:
    volume = rig.ledger.volumes()[name]
    parcels = rig.ledger.whereabouts.vessel_json(name)
    return {"name": name, "ml": volume.ul / ML, "sd_ml": volume.sd_ul / ML, "parcels": parcels}


def _pump(rig: Controlled, entry: dict[str, Any]) -> dict[str, Any]:
    gain = rig.ledger.gain(entry["pump"])
    told = None if gain is None else {"value": gain[0], "sd": gain[1]}
    return {**entry, "gain": told}


def _batch(rig: Controlled, lot: str) -> dict[str, Any]:
    volumes = {name: volume.ul for name, volume in rig.ledger.volumes().items()}
    return rig.ledger.whereabouts.batch_json(lot, volumes)
