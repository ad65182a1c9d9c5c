"""The manifest of a training job: what a person writes (strict YAML), and its signed form, whose hash names the job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from drivers.strict_yaml import YamlTextError, load_yaml
from grid.errors import GridError, GridRefused

FORMAT = "choroid-job/1"
CONTEXT = b"choroid job manifest v1\n"
"""Prefix of what is signed, so that a signature is valid for nothing else."""
MAX_BYTES = 16_384
"""Of the signed form, which the hub passes on to the members."""
RELEASE = "release"
"""In place of a hash: the code package that comes with Choroid."""
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RankBounds(_Strict):
    """How many members train together.

    Attributes:
        max: Ranks of the job; each takes its own share of the samples.
        min: So many must be there, or all wait (default: more than half). With half of them or fewer, the parts of a divided
            network would train apart.
    """

    max: Annotated[int, Field(ge=1, le=64)]
    min: Annotated[int, Field(ge=1, le=64)] | None = None

    @model_validator(mode="after")
    def _ordered(self) -> RankBounds:
        if self.required > self.max:
            raise ValueError("min is above max")
        return self

    @property
    def required(self) -> int:
        """Return how many must be there."""
        return self.max // 2 + 1 if self.min is None else self.min


class JobSeeds(_Strict):
    """Seeds: of the first weights, and of the order of samples."""

    model: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    order: Annotated[int, Field(ge=0, lt=1 << 31)] = 0


class JobBudget(_Strict):
    """What a job may use; it ends at the first bound that it reaches.

    Attributes:
        core_hours: Processor time of all ranks together.
        bytes: Bytes that all ranks together send.
        until: Latest end (with time zone).
    """

    core_hours: Positive
    bytes: Annotated[int, Field(ge=1, le=1 << 50)]
    until: AwareDatetime | None = None


class InnerSettings(_Strict):
    """The optimiser of a rank (AdamW): learning rate, decay of weights, steps in which the rate grows at the beginning.

    Attributes:
        clip: Longest gradient; a longer one is shortened to it.
    """

    rate: Positive
    clip: Positive = 1.0
    decay: Annotated[float, Field(ge=0, lt=1)] = 0.0
    warm_up: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class OuterSettings(_Strict):
    """The optimiser of all ranks together (SGD with Nesterov momentum), of the engine `diloco`."""

    rate: Positive = 0.7
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9


class FederatedSettings(_Strict):
    """What only the engine `federated` has.

    Attributes:
        clip: Largest length of an update of a member; a longer one is shortened to it before it leaves.
        patience: A round ends at the latest after so many times the time that the first `ranks.min` members took.
    """

    clip: Positive
    patience: Annotated[float, Field(ge=1, le=100)] = 2.0


class JobManifest(_Strict):
    """A training job.

    Attributes:
        name: Its name.
        code: Hash of the code package (:func:`grid.jobs.code.code_hash`); `release` is the one that comes with Choroid.
        preset: Size of the model, one of those of the package.
        data: Ids of data sets by split; `train` is among them.
        engine: How ranks are synchronised.
        ranks: How many there are.
        seeds: Seeds of weights and order.
        precision: Of the computation.
        codec: Form in which updates are sent.
        local_steps: Steps between two synchronisations of `diloco`; of `ddp`, between two points to return to.
        outer_steps: The job ends after so many.
        batch: Samples of one step of one rank.
        micro_batch: So many of them are computed at once (default: all).
        recompute: Whether activations are computed again in the backward pass, which takes less memory and more time.
        inner: Optimiser of a rank.
        outer: Optimiser of all together.
        budget: What it may use.
        checkpoint_every: Outer steps between two checkpoints.
        threads: Of the computation of a rank (default: the cores of its machine).
        members: Identities that may take a rank; empty: any that the owner asks.
        assigned: Identity of each rank, which `choroid grid job submit` writes: others do not take part.
        board: Where the model is meant to go; empty: nowhere.
        federated: Of the engine `federated`, in which each rank trains on those of the data sets that its member has.
    """

    name: Word
    code: Hash | Literal["release"] = "release"
    preset: Word
    data: dict[Word, Annotated[list[Hash], Field(min_length=1, max_length=64)]]
    engine: Literal["diloco", "ddp", "fsdp2", "federated"] = "diloco"
    ranks: RankBounds
    seeds: JobSeeds = JobSeeds()
    precision: Literal["fp32", "bf16"] = "fp32"
    codec: Literal["fp32", "fp16", "int8"] = "fp16"
    local_steps: Annotated[int, Field(ge=1, le=100_000)]
    outer_steps: Annotated[int, Field(ge=1, le=10_000_000)]
    batch: Annotated[int, Field(ge=1, le=1_000_000)]
    micro_batch: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    recompute: bool = False
    inner: InnerSettings
    outer: OuterSettings = OuterSettings()
    budget: JobBudget
    checkpoint_every: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    members: Annotated[list[Hash], Field(max_length=64)] = []
    assigned: Annotated[list[Hash], Field(max_length=64)] = []
    board: Annotated[str, Field(max_length=128)] = ""
    federated: FederatedSettings | None = None

    @model_validator(mode="after")
    def _sound(self) -> JobManifest:
        if "train" not in self.data:
            raise ValueError("data has no split “train”")
        if self.engine == "ddp" and self.codec == "int8":
            raise ValueError("the engine ddp has the codecs fp32 and fp16")
        if self.engine == "federated" and (self.federated is None or self.codec == "int8"):
            raise ValueError("the engine federated needs federated.clip, and has the codecs fp32 and fp16")
        if self.engine != "federated" and self.federated is not None:
            raise ValueError(f"the engine {self.engine} has no federated; set engine: federated, or leave it out")
        if self.engine == "fsdp2":
            raise ValueError("this release runs no fsdp2; use diloco or ddp, or a preset that fits one member")
        return self

    @property
    def plain(self) -> bytes:
        """Return the bytes that are signed: JSON in one form."""
        return self._plain()

    def _plain(self, *without: str) -> bytes:
        found = {"format": FORMAT, **self.model_dump(mode="json")}
        for each in (*without, *(name for name in ("assigned", "federated") if not found[name])):
            found.pop(each, None)  # a manifest without it keeps its form
        return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()

    def with_code(self, code: str) -> JobManifest:
        """Return the manifest with the hash of its code package, which is part of what names the job."""
        return self.model_copy(update={"code": code})

    def with_ranks(self, assigned: Sequence[str]) -> JobManifest:
        """Return the manifest with the identity of each rank."""
        return self.model_copy(update={"assigned": list(assigned)})

    def require_ranks(self, ranks: Sequence[str]) -> None:
        """Check that the owner has signed for these members. Raises :class:`GridRefused` when a rank is another's."""
        if list(ranks) != self.assigned:
            what = (
                "is signed for other members than its lease has" if self.assigned else "does not say who has its ranks"
            )
            raise GridRefused(f"the manifest {what}. Next: submit it with `choroid grid job submit` of this release")

    @property
    def id(self) -> str:
        """Return the hash that names the job: what is trained. Others may take its ranks and go on."""
        return hashlib.sha256(self._plain("assigned")).hexdigest()


def read_job(path: Path) -> JobManifest:
    """Read the file of a person. Raises :class:`GridError` with every fault."""
    try:
        plain = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YamlTextError) as error:
        raise GridError(f"{path} cannot be read ({error}). Next: check the path and the YAML") from None
    if not isinstance(plain, dict):
        raise GridError(f"{path} holds no manifest of a job. Next: begin with the example of docs/training.md")
    return _checked(plain, str(path))


def read_signed(data: bytes) -> tuple[JobManifest, bytes]:
    """Return a signed manifest and the public key of its owner. Raises :class:`GridError` for any other bytes."""
    again = "Next: submit the job again with `choroid grid job submit`"
    if len(data) > MAX_BYTES:
        raise GridError(f"the manifest of the job has {len(data):,} bytes, at most {MAX_BYTES:,} are taken. {again}")
    try:
        body = json.loads(data)
        plain, owner = body["manifest"].encode(), bytes.fromhex(body["owner"])
        Ed25519PublicKey.from_public_bytes(owner).verify(bytes.fromhex(body["signature"]), CONTEXT + plain)
        fields = json.loads(plain)
        if fields.pop("format") != FORMAT:
            raise GridError(f"the manifest of the job is not of format {FORMAT}. Next: use the release that wrote it")
    except InvalidSignature:
        raise GridError(
            f"the signature of the job is not its owner's. Likely cause: a field was changed. {again}"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GridError(f"the manifest of the job is malformed ({error}). {again}") from None
    manifest = _checked(fields, "the manifest of the job")
    if manifest.plain != plain:
        raise GridError(f"the manifest of the job is not in its one form. {again}")
    return manifest, owner


def _checked(plain: dict[str, Any], where: str) -> JobManifest:
    try:
        return JobManifest.model_validate(plain)
    except ValidationError as error:
        faults = "; ".join(f"{_place(each['loc'])}{_said(each)}" for each in error.errors())
        raise GridError(f"{where} is refused: {faults}. Next: correct it (docs/training.md lists the keys)") from None


def _place(loc: tuple[int | str, ...]) -> str:
    return f"{'.'.join(map(str, loc))}: " if loc else ""


def _said(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown key"
    return str(error["msg"]).removeprefix("Value error, ")
