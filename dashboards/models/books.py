"""What is recorded: ledger, assays, medium, grades, viability, decisions, journal."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from dashboards.models.base import Projection, RequestBody


class EnterAssay(RequestBody):
    """What the laboratory found; `value` and `sd` with their units, `taken` a time of day or an ISO 8601 time."""

    analyte: str = Field(max_length=40)
    value: str = Field(max_length=64)
    vessel: str = Field(max_length=100)
    taken: str = Field(max_length=40)
    sd: str = Field(default="", max_length=64)
    volume: str = Field(default="", max_length=64)
    """Volume of the sample with unit, if it left the rig; the ledger books it once for all analytes of a sample."""
    method: str = Field(default="", max_length=200)
    zone: str = Field(default="", max_length=64)
    sure: bool = False
    reason: str = Field(default="", max_length=1000)


class VesselContent(BaseModel):
    """What one vessel holds, with its standard deviation (mL)."""

    name: str
    ml: float
    sd_ml: float


class LedgerModel(BaseModel):
    """Where the medium went in the `days` since the journal began (mL).

    `scheduled_ml` is the fresh medium that the daily exchange would have used, `saved_fraction` the share of it that was not
    used (negative if more was used, null in the first day). `bound_ml` is the mass-balance bound: the least fresh medium that
    keeps lactate within grade B without a dialyser, by the estimates; `bound_ratio` the fresh medium by it. Both are null in
    the first day and without estimates, the ratio also while the bound is 0. `mass_balance_error_ml` is the balance error and
    `mass_balance_uncertainty_ml` three standard deviations of it.
    """

    fresh_ml: float
    drawn_ml: float
    given_back_ml: float
    recycled_ml: float
    discarded_ml: float
    glucose_ml: float
    base_ml: float
    evaporated_ml: float
    mass_balance_error_ml: float
    mass_balance_uncertainty_ml: float
    days: float
    scheduled_ml: float
    saved_fraction: float | None
    bound_ml: float | None
    bound_ratio: float | None
    vessels: list[VesselContent]


class Bounds(BaseModel):
    """A value and the bounds between which it is believed to lie (95 %)."""

    value: float
    low: float
    high: float


class AssayRow(BaseModel):
    """One assay as it stands in the journal; `off_sd` is how far it lay from `expected`, in standard deviations.

    Both are null for LDH, which is evidence of the tissue and not estimated.
    """

    id: int
    entered_utc: str
    analyte: str
    vessel: str
    where: Literal["loop", "spent"]
    taken_utc: str
    value: float
    sd: float
    unit: str
    used: bool
    sure: bool
    text: str
    volume: str = ""
    method: str
    user: str
    reason: str
    off_sd: float | None
    expected: Bounds | None


class AssayTaken(BaseModel):
    """What an assay did to the estimate of the medium: when it was taken, `before` and `after`, and `now`; null for LDH."""

    id: int
    run: str | None = None
    """The run whose question it answered."""
    step: int | None = None
    """The step that asked."""
    analyte: str
    vessel: str
    taken_utc: str
    value: float
    sd: float
    unit: str
    used: bool
    off_sd: float | None
    before: Bounds | None
    after: Bounds | None
    now: Bounds | None


class AssayRequestModel(BaseModel):
    """An assay that the run `run` requests since `since_utc`. `analytes` are those without a result.

    With the purpose `medium` it is expected to save `saving_ml` of the `demand_ml` of fresh medium of the next `days`; with
    `tissue` it tells whether tissue is lost, and both are null.
    """

    run: str
    analytes: list[str]
    vessel: str
    purpose: Literal["medium", "tissue"]
    saving_ml: float | None
    demand_ml: float | None
    days: float
    since_utc: str
    text: str


class AssaysModel(BaseModel):
    """The latest assays, newest first, and those that are requested."""

    assays: list[AssayRow]
    wanted: list[AssayRequestModel]


class MediumModel(BaseModel):
    """What is believed of the medium now: species → bounds (mM, osmolality mOsm/kg)."""

    utc: str
    loop: dict[str, Bounds]
    spent: dict[str, Bounds] | None
    lactate_umol_d: float


class GradeModel(BaseModel):
    """The last grade with its inputs, limits and reasons; null before the first."""

    grade: dict[str, Any] | None


class ViabilityModel(BaseModel):
    """The estimate of `viability` (0 to 1): median `value`, 90 % interval `low` to `high`, sentences, harms that act, what is
    measured, and the most informative measurement. The `care_rating` with parts, weights, gates and inputs; `welfare`; the
    `happiness` rating made of both; `stimulation` (load, rest, tier and level); the organoid's own `baseline`; how far its
    firing is from that (`firing_z`). With several chambers `of` names those that one score stands for. Null while unknown.
    `unknown` gives the reason for each score or input that cannot be computed; null if there is none.
    """

    viability: dict[str, Any] | None = None
    care_rating: dict[str, Any] | None = None
    welfare: dict[str, Any] | None = None
    happiness: dict[str, Any] | None = None
    stimulation: dict[str, Any] | None = None
    baseline: dict[str, Any] | None = None
    firing_z: dict[str, float] | None = None
    of: str | None = None
    unknown: dict[str, str] | None = None


class WeighedUp(BaseModel):
    """A treatment that was not chosen: what it would have cost (EUR), why it may not be (`refused`), and the variable by
    which the loop would still be bad after it (`still`).
    """

    action: str
    eur: float
    refused: str
    still: str


class DecisionModel(BaseModel):
    """What was done with a batch and why; `reason` is the line that the cost model wrote into the journal (row `seq`).

    `of` tells what was graded (`loop` or `batch`), `risk` the probability (0 to 1) that the loop leaves grade B by `worst`.
    """

    seq: int
    utc: str
    run: str | None
    cycle: int
    of: Literal["loop", "batch"]
    grade: str
    limiting: str
    grade_reasons: list[str]
    action: str
    eur: float
    risk: float
    worst: str
    reason: str
    others: list[WeighedUp]
    drawn_ml: float
    fresh_ml: float
    given_back_ml: float
    discarded_ml: float
    dialysate_ml: float


class RetreatModel(BaseModel):
    """Since `utc` the run returns no medium, as the tissue loses viability or may do so; `text` says why and what to do."""

    seq: int
    utc: str
    run: str | None
    text: str
    exchanged_ml_d: float


class DecisionsModel(BaseModel):
    """The latest decisions, newest first, and the retreat of the present run; null while it recycles, and without a run."""

    decisions: list[DecisionModel]
    retreat: RetreatModel | None = None


class EntryModel(Projection):
    """One row of the journal."""

    seq: int
    utc: str
    kind: str
    run: str | None
    body: dict[str, Any]
    sha256: str = Field(validation_alias="hash")


class AuditModel(BaseModel):
    """The journal's newest rows, newest first."""

    entries: list[EntryModel]
