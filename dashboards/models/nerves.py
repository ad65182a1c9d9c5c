"""Electrodes, waveforms, leases and stimulation of the electrode engine."""

from __future__ import annotations

from pydantic import BaseModel, Field, field_validator

from dashboards.models.base import Projection, RequestBody


class FiringModel(Projection):
    """The firing of the electrode array at rig time `at_s`.

    `observed_electrodes` is the number of those on which spikes could be detected. `states` holds the state of each electrode
    (ok, dead, noisy, saturated or blanked); empty: all ok.
    """

    at_s: float
    firing_rate_hz: float
    active_electrodes: int
    electrodes: int
    observed_electrodes: int = Field(validation_alias="observed")
    rates_hz: list[float]
    states: list[str]

    @field_validator("rates_hz")
    @classmethod
    def _thousandths(cls, rates_hz: list[float]) -> list[float]:
        return [round(rate, 3) for rate in rates_hz]


class ElectrodesModel(BaseModel):
    """One list for each figure, one entry for each electrode; null where it is not known.

    `deviation` is the distance of the rate from the electrode's own baseline, in spreads of its logarithm. `muted_pct` is the
    share of the time since the engine started in which nothing could be detected; `muted_by` has it by cause (stimulation,
    artefact, rail, flat, noise, start). `x_um` and `y_um` (up) are the positions, empty where they are not known; `geometry`
    says of which chip they are, what the reference is, and who says so. All lists are empty while no engine answers.
    """

    states: list[str]
    rates_hz: list[float | None]
    amplitudes_uv: list[float | None]
    noise_uv: list[float | None]
    impedances_kohm: list[float | None]
    bursts_min: list[float | None]
    deviation: list[float | None]
    muted_pct: list[float | None]
    muted_by: dict[str, list[float | None]]
    x_um: list[float | None] = Field(default_factory=list)
    y_um: list[float | None] = Field(default_factory=list)
    geometry: str = ""


class WaveformsModel(Projection):
    """Raw samples around the latest spikes of an electrode (µV); `before` samples of each precede the trough."""

    electrode: int
    sample_rate_hz: float
    before: int
    traces_uv: list[list[float]]


class ResponsesModel(BaseModel):
    """Spikes of an electrode around the pulses of the last `seconds`, by latency from the begin of the pulse.

    One entry of `counts`, `observed_s` and `rate_hz` for each bin between two `edges_ms`. In a bin in which nothing could be
    detected the rate is null. The baseline is the rate before the pulse with its 95 % interval, null where it is not known.
    `overlapping` trials have another pulse in their window.
    """

    electrode: int
    seconds: float
    trials: int
    overlapping: int
    edges_ms: list[float]
    counts: list[int]
    observed_s: list[float]
    rate_hz: list[float | None]
    baseline_hz: float | None
    baseline_low_hz: float | None
    baseline_high_hz: float | None


class LeaseModel(Projection):
    """A living lease: when it ends without a sign of life, and how long ago the last one was (s)."""

    requester: str
    electrodes: list[int]
    held: bool
    ends_in_s: float
    silent_s: float


class BudgetModel(Projection):
    """Use of a budget of stimulation. `requester` is empty for the organoid's."""

    requester: str
    name: str
    used: float
    limit: float
    unit: str


class ArrayAgentModel(BaseModel):
    """An agent, without what only an admin sees."""

    name: str
    role: str
    revoked: bool


class LeasesModel(BaseModel):
    """The agents, their living leases and the use of the budgets; `answers` is false while no engine answers."""

    answers: bool
    agents: list[ArrayAgentModel]
    leases: list[LeaseModel]
    budgets: list[BudgetModel]


class EndLeases(RequestBody):
    """End the leases of an agent."""

    requester: str = Field(min_length=1, max_length=60)
    reason: str = Field(min_length=1, max_length=500)


class EndedLeases(BaseModel):
    """Whether the engine confirmed it. One that does not is killed, which ends every lease."""

    confirmed: bool


class StimulationModel(BaseModel):
    """One record of the stimulation ledger. `session_utc` and `at_s` are the start of its session and the time since then."""

    decision: int
    session_utc: str
    at_s: float
    requester: str
    purpose: str
    electrodes: list[int]
    accepted: bool
    limiting: str
    reasons: list[str]
    charge_nc: float
    pulses: dict[str, int]
    """Number of its pulses by state: planned, handed, delivered, dropped, cancelled, unknown."""


class StimulationsModel(BaseModel):
    """Records, newest first; `more` says that there may be older ones."""

    records: list[StimulationModel]
    more: bool
