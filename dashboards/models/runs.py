"""Protocols and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from controller.runs.questions import OpenQuestion
from dashboards.models.base import Projection, RequestBody
from protocols.answers import MEDIA_TYPES


class Start(RequestBody):
    """Start a protocol; each parameter is text with its unit, such as `{"batch": "18 mL"}`."""

    protocol: str = Field(max_length=100)
    params: dict[str, str] = Field(default_factory=dict, max_length=50)
    reason: str = Field(default="", max_length=1000)


class ParamView(Projection):
    """One parameter of a recipe; `default`, `low` and `high` in `unit` (none for a count)."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    help: str


class ProtocolView(Projection):
    """One recipe that can be started."""

    name: str
    title: str
    params: list[ParamView]


class ProtocolsView(BaseModel):
    """The protocols there are."""

    protocols: list[ProtocolView]


class StepModel(Projection):
    """One step of a run. `result` is what people read of it: an amount `{ul, low_ul, high_ul}`, a measurement
    `{value, low, high, unit}`, an answer `{answer}`, or null; other results are in the journal.
    """

    n: int
    verb: str
    args: dict[str, Any]
    state: str
    result: dict[str, Any] | None
    branch: str = ""
    """Name of the branch that it belongs to; empty for the protocol itself."""

    @field_validator("args", mode="before")
    @classmethod
    def _args(cls, args: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in args.items() if isinstance(value, str | int | float)}

    @field_validator("result", mode="before")
    @classmethod
    def _result(cls, result: Any) -> dict[str, Any] | None:
        if not isinstance(result, dict):
            return None
        if "text" in result:
            return {"answer": result["text"], **({"file": result["file"]} if "file" in result else {})}
        if "ul" in result:
            return {"ul": result["ul"], "low_ul": result.get("low"), "high_ul": result.get("high")}
        interval = result.get("interval")
        if interval is not None and "unit" in result:
            return {
                "value": interval["value"],
                "low": interval["low"],
                "high": interval["high"],
                "unit": result["unit"],
            }
        return None


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


class VersionModel(Projection):
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
    """The question that a held run waits for. `kind` is number, choice, text, photo, file, assay, approval, or empty where
    the run is only to be resumed.

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

    @model_validator(mode="before")
    @classmethod
    def _of_run(cls, question: OpenQuestion) -> dict[str, Any]:
        asked, form = {"step": question.n, "message": question.message}, question.answer
        if form is None:
            return asked | {"kind": "", "wants": "", "unit": "", "choices": [], "default": "", "accept": []}
        return asked | {
            "kind": form.kind,
            "wants": form.wants,
            "unit": form.unit,
            "choices": list(form.choices),
            "default": "" if form.default is None else form.text(form.default),
            "accept": [MEDIA_TYPES[each] for each in form.types],
        }


class RunModel(Projection):
    """One run of a recipe. `state` is an ISA-88 state; `params` carry their unit in their names; `progress` holds the latest
    steps; `question` is the one that it waits for.
    """

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
