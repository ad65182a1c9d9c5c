"""Protocols and runs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dashboards.models.base import RequestBody


class Start(RequestBody):
    """Start a protocol; each parameter is text with its unit, such as `{"batch": "18 mL"}`."""

    protocol: str = Field(max_length=100)
    params: dict[str, str] = Field(default_factory=dict, max_length=50)
    reason: str = Field(default="", max_length=1000)


class ParamView(BaseModel):
    """One parameter; `default`, `low` and `high` in `unit` (none for a count)."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    help: str


class ProtocolView(BaseModel):
    """One protocol."""

    name: str
    title: str
    params: list[ParamView]


class ProtocolsView(BaseModel):
    """The protocols there are."""

    protocols: list[ProtocolView]


class StepModel(BaseModel):
    """One step. An amount is `{ul, low_ul, high_ul}`, a measurement `{value, low, high, unit}`, an answer `{answer}`."""

    n: int
    verb: str
    args: dict[str, Any]
    state: str
    result: dict[str, Any] | None


class GivenAnswer(RequestBody):
    """Answer the open question of a held run: text with its unit, such as `8.2 mM`; `step` is the number of its step.

    `taken` is the time of an assay's sample (default: now); `sure` uses an assay that contradicts the estimate.
    """

    answer: str = Field(max_length=2000)
    step: int | None = None
    reason: str = Field(default="", max_length=1000)
    taken: str = Field(default="", max_length=40)
    sure: bool = False


class GivenDecision(RequestBody):
    """Approve or reject what a held run asks for; a rejection needs a reason."""

    approve: bool
    step: int | None = None
    reason: str = Field(default="", max_length=1000)


class SubmittedText(RequestBody):
    """Submit a recipe or a Python protocol to the library; the text is kept byte for byte."""

    model_config = ConfigDict(str_strip_whitespace=False)

    file: str = Field(max_length=200)
    text: str = Field(max_length=60_000)
    reason: str = Field(default="", max_length=1000)


class GivenReview(RequestBody):
    """Accept or reject a submitted version; a rejection needs a reason."""

    accept: bool
    reason: str = Field(default="", max_length=1000)


class VersionModel(BaseModel):
    """One version of an uploaded protocol. `state`: submitted, rejected, reviewed, loading, released, superseded or
    withdrawn.
    """

    sha256: str
    name: str
    title: str
    suffix: str
    state: str
    submitted_utc: str
    submitted_by: str
    reviewed_by: str
    released_by: str
    reason: str


class LibraryModel(BaseModel):
    """The versions, oldest first."""

    versions: list[VersionModel]


class VersionText(BaseModel):
    """The text of a version."""

    text: str


class AttachmentModel(BaseModel):
    """One uploaded photo or file; GET /api/attachments/{sha256} returns its content."""

    sha256: str
    name: str
    media_type: str
    bytes: int


class AttachmentsModel(BaseModel):
    """The uploads, oldest first."""

    attachments: list[AttachmentModel]


class QuestionModel(BaseModel):
    """An open question. `kind` is number, choice, text, photo, file, assay, approval, or empty where the run is only to be
    resumed.

    `wants` says what is a valid answer; `default` is the declared default as text, or empty; `accept` are the media types of
    an upload.
    """

    step: int
    message: str
    kind: str
    wants: str
    unit: str
    choices: list[str]
    default: str
    accept: list[str] = []


class RunModel(BaseModel):
    """One run; `params` carry their unit in their names. `question` is the one that it waits for."""

    id: str
    protocol: str
    state: str
    ended: bool
    step: int
    started_utc: str
    params: dict[str, float]
    progress: list[StepModel]
    messages: list[str]
    question: QuestionModel | None = None


class RunsModel(BaseModel):
    """The runs, oldest first."""

    runs: list[RunModel]
