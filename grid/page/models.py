"""What the page shows, as models: from them come the answers of its API and the types of its scripts."""

from __future__ import annotations

from pydantic import BaseModel


class FigureModel(BaseModel):
    """A measured figure in its SI unit."""

    label: str
    value: float
    unit: str


class RefusalModel(BaseModel):
    """A role that a member has not, and why."""

    role: str
    reasons: list[str]


class MemberModel(BaseModel):
    """A member or laboratory. `work` is what it does at present, one line each."""

    id: str
    name: str
    kind: str
    state: str
    reason: str
    connected: bool
    seen_utc: str
    measured_utc: str
    roles: list[str]
    refusals: list[RefusalModel]
    figures: list[FigureModel]
    work: list[str]


class TissueLeaseModel(BaseModel):
    """A lease that runs, is offered to the laboratory, or waits at `position`."""

    lease: str
    state: str
    member: str
    mode: str
    electrodes: str
    purpose: str
    fence: int
    position: int
    until_utc: str
    charge_nc: float
    pulses: int
    reason: str


class OfferedTissueModel(BaseModel):
    """Tissue that a laboratory offers, with the leases on it."""

    lab: str
    organoid: str
    connected: bool
    simulated: bool
    electrodes: int
    sample_rate_hz: float
    stimulation: bool
    reason: str
    holders: list[TissueLeaseModel]
    queue: list[TissueLeaseModel]


class WorkRankModel(BaseModel):
    """A rank of a job: what its member has reported last; nothing is reported of tunnels alone.

    `outer` counts the exchanges that are behind it, `sent_bytes` those of the last one. `loss` is missing until it is known;
    `scores` are of held-out data, at the last checkpoint.
    """

    member: str
    state: str
    outer: int
    loss: float | None
    sent_bytes: int
    scores: dict[str, float]
    reason: str


class WorkLeaseModel(BaseModel):
    """A work lease: tunnels between the members of a job. `outer_steps` is the end of its training, 0 without a manifest."""

    lease: str
    job: str
    holder: str
    state: str
    reason: str
    engine: str
    preset: str
    outer_steps: int
    ranks: list[WorkRankModel]


class RankModel(BaseModel):
    """A line of a board; `rank` and `score` are missing until it is graded."""

    rank: int | None
    name: str
    member: str
    state: str
    score: float | None
    reason: str


class BaselineModel(BaseModel):
    """The score of a baseline of a board."""

    name: str
    score: float


class RankingModel(BaseModel):
    """A board and its ranking in the present rotation; no rotation has begun while `rotation` is missing."""

    key: str
    title: str
    metric: str
    unit: str
    rotation: int | None
    baselines: list[BaselineModel]
    rows: list[RankModel]


class WitnessModel(BaseModel):
    """A witness: how many rows it has confirmed, when, and why not more."""

    name: str
    rows: int
    utc: str
    trouble: str


class WatchedLogModel(BaseModel):
    """A log that this hub is a witness of; `trouble` names two histories of it."""

    name: str
    rows: int
    utc: str
    trouble: str


class RecordModel(BaseModel):
    """A row of the log."""

    number: int
    utc: str
    kind: str
    about: str


class HeadModel(BaseModel):
    """The head of the log: its latest checkpoint, and how many rows witnesses have confirmed."""

    rows: int
    key: str
    checkpoint: str
    confirmed_rows: int
    witnesses: list[WitnessModel]
    watched: list[WatchedLogModel]
    last: list[RecordModel]


class HubModel(BaseModel):
    """Everything that the page shows of a hub. Long lists are cut; `members_count` counts all members."""

    hub: str
    utc: str
    members_count: int
    connected_count: int
    members: list[MemberModel]
    tissues: list[OfferedTissueModel]
    work: list[WorkLeaseModel]
    boards: list[RankingModel]
    log: HeadModel
