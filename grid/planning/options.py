"""Ways to train one job on a group of members, each with predicted time, traffic and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grid.planning.candidates import LinkTable, StepCase, TrainingCandidate
from grid.planning.links import LinkFigures
from grid.planning.memory import fsdp_bytes
from grid.planning.pace import MAX_PROVEN_LOCAL_STEPS, MAX_SHARE, local_steps, ramp_s, ring_s
from grid.planning.traffic import CODEC_BYTES, STAGE_3_FACTOR, power_sgd_numbers, ring_bytes

POWER_SGD_RANK = 4
DDP_CODECS = ("fp32", "fp16", "power-sgd")
DILOCO_CODECS = ("fp32", "fp16", "int8")
RUN_BY_RELEASE = frozenset({("ddp", "fp32"), ("ddp", "fp16"), *(("diloco", codec) for codec in DILOCO_CODECS)})
"""Engines and codecs that the release runs; of the others the plan says what they would be worth."""
DEPARTURE = {("ddp", "fp32"): 0, ("fsdp2", "fp32"): 0, ("ddp", "fp16"): 1, ("ddp", "power-sgd"): 2}
"""How far a way is from plain training, whose quality needs no proof; DiLoCo is 3 and more."""
SITE_ROUND_TRIP_S, SITE_BIT_S = 2e-3, 0.9e9
"""Members on a link that is at least as good count as one site."""
COMMIT_SHARE = 0.02
"""Most of the time that the common state of DDP may take, which is kept after each outer step."""
ROUND_TRIPS = 3
"""Of an outer step in addition to its mean: the meeting, figures, digests."""
MEETING_S = 0.03
BUCKET_BYTES, FIRST_BUCKET_BYTES = 25 * 2**20, 2**20
"""Of DDP: gradients leave in buckets while the backward pass goes on."""
BACKWARD_SHARE = 2 / 3
"""Of a pass."""
PROBED_BYTES = 24.0
"""Bytes a parameter that the probe's replica holds without activations: two copies of weights, losses, gradients, AdamW."""
ENGINE_BYTES = 60_000_000
"""What an engine loads and the probe does not: process group, connections, threads."""
DILOCO_BYTES, DDP_BYTES = 66.0, 84.0
"""Bytes a parameter that an engine holds while it writes a checkpoint, as measured (docs/planning.md has the terms)."""
MOMENTUM_BYTES = 4.0
"""Bytes a parameter that DiLoCo holds in addition to what the probe has measured."""
BUCKETS_BYTES = 16.0
"""Bytes a parameter that DDP holds in addition: buckets, and the state before the outer step."""
FEEDBACK_BYTES = 12.0
"""Bytes a parameter that PowerSGD holds in addition: error, input, new error."""


@dataclass(frozen=True, slots=True)
class TrainingOption:
    """A way to train, with predictions.

    Attributes:
        engine: ddp, fsdp2 or diloco.
        codec: How gradients or updates are sent.
        members: Who trains, in the order of ranks.
        micro_batch: Samples that are computed at once.
        recompute: Whether activations are computed again in the backward pass.
        local_steps: Steps of an outer step; at most as many as are proven not to harm the model.
        compute_s: One step of the slowest member without synchronisation (s).
        sync_s: One synchronisation, and what surrounds it (s): a step of DDP, an outer step of DiLoCo.
        step_s: One step with its share of everything (s).
        samples_s: Samples of all members in a second.
        bytes_step: What each member sends for one step (bytes).
        peak_bytes: Most memory of a member, with its programs, by member.
        energy_j_step: Energy of a step of all members (J); None where a machine does not tell.
    """

    engine: str
    codec: str
    members: tuple[str, ...]
    micro_batch: int
    recompute: bool
    local_steps: int
    compute_s: float
    sync_s: float
    step_s: float
    samples_s: float
    bytes_step: float
    peak_bytes: dict[str, float]
    energy_j_step: float | None

    @property
    def departure(self) -> int:
        """Return how far it is from plain training."""
        return DEPARTURE.get((self.engine, self.codec), 3 + (self.codec == "int8"))

    @property
    def is_run(self) -> bool:
        """Return whether the release runs it."""
        return (self.engine, self.codec) in RUN_BY_RELEASE

    @property
    def label(self) -> str:
        """Return what tells it from others: engine, codec, micro-batch, members."""
        again = ", activations computed again" if self.recompute else ""
        every = f", H = {self.local_steps}" if self.engine == "diloco" else ""
        return f"{self.engine} {self.codec}{every}, micro-batch {self.micro_batch}{again}, {len(self.members)} members"


def options(
    group: Sequence[TrainingCandidate], links: LinkTable, batch: int, every: int = 1, local: int | None = None
) -> Iterator[TrainingOption]:
    """Yield every way to train on a group of members whose links were measured.

    Args:
        group: The members, one or more.
        links: Between them.
        batch: Samples of one step of one member.
        every: Outer steps between two checkpoints.
        local: Steps of an outer step; None: as many as each way needs.
    """
    ring = links.ring([each.name for each in group]) or LinkFigures(0.0, math.inf, math.inf)  # a single member has none
    for cases in _common(group, batch):
        trial = _Trial(group, cases, ring, batch, every, local)
        for codec in DDP_CODECS if len(group) > 1 else ("fp32",):
            yield _ddp(trial, codec)
        if len(group) > 1:
            yield _fsdp(trial)
            for codec in DILOCO_CODECS:
                yield _diloco(trial, codec)


def is_one_site(ring: LinkFigures) -> bool:
    """Return whether a ring of members is as fast as within one site."""
    return ring.round_trip_s <= SITE_ROUND_TRIP_S and ring.bit_s >= SITE_BIT_S


def _common(group: Sequence[TrainingCandidate], batch: int) -> Iterator[list[StepCase]]:
    """Yield for each size of micro-batch that all have measured the case of each member."""
    tables = [{(case.micro_batch, case.recomputed): case for case in each.cases} for each in group]
    for key in sorted(set.intersection(*(set(table) for table in tables))):
        if key[0] <= batch:
            yield [table[key] for table in tables]


@dataclass(frozen=True, slots=True)
class _Trial:
    """A group of members with one size of micro-batch: what every way to train begins from."""

    group: Sequence[TrainingCandidate]
    cases: Sequence[StepCase]
    ring: LinkFigures
    batch: int
    every: int
    local: int | None

    @property
    def members(self) -> int:
        return len(self.group)

    @property
    def parameters(self) -> int:
        return self.group[0].parameters

    @property
    def compute_s(self) -> float:
        """Return the time of a step of the slowest member without synchronisation (s)."""
        return max(each.step_s(case, self.batch) for each, case in zip(self.group, self.cases, strict=True))

    def slowest(self, field: str) -> float:
        """Return the largest of a figure of the members."""
        return max(float(getattr(each, field)) for each in self.group)


def _ddp(trial: _Trial, codec: str) -> TrainingOption:
    members, parameters, ring, compute_s = trial.members, trial.parameters, trial.ring, trial.compute_s
    if codec == "power-sgd":
        size = 4.0 * sum(power_sgd_numbers(trial.group[0].shapes, POWER_SGD_RANK))
        exposed_s = ring_s(size, members, ring.bit_s, 3 * ring.round_trip_s) + trial.slowest("power_sgd_s")
    else:
        size = parameters * CODEC_BYTES[codec]
        reduced_s = ring_s(size, members, ring.bit_s, ring.round_trip_s)
        last_pass_s = max(
            (case.step_s - each.update_s) * min(1.0, trial.batch / case.micro_batch)
            for each, case in zip(trial.group, trial.cases, strict=True)
        )
        exposed_s = max(reduced_s * _last_bucket(parameters), reduced_s - BACKWARD_SHARE * max(last_pass_s, 0.0))
    kept_s = trial.slowest("digest_s") + trial.slowest("pack_s")  # of the weights and of what has their size
    state_s = (1.5 + 2.0 / trial.every) * kept_s + MEETING_S + ROUND_TRIPS * ring.round_trip_s
    least = max(1, math.ceil(state_s / (COMMIT_SHARE * (compute_s + exposed_s))))
    steps = trial.local or min(least, MAX_PROVEN_LOCAL_STEPS)
    more = BUCKETS_BYTES + (FEEDBACK_BYTES if codec == "power-sgd" else 0.0)
    return _option(
        trial, ("ddp", codec), steps, exposed_s, exposed_s + state_s / steps, ring_bytes(size, members), more,
        DDP_BYTES + more - BUCKETS_BYTES,
    )  # fmt: skip


def _fsdp(trial: _Trial) -> TrainingOption:
    members, ring = trial.members, trial.ring
    passes = max(-(-trial.batch // case.micro_batch) for case in trial.cases)
    size = STAGE_3_FACTOR * trial.parameters * CODEC_BYTES["fp32"] * passes
    sync_s = ring_s(size, members, ring.bit_s, 1.5 * ring.round_trip_s)
    less = fsdp_bytes(members) - fsdp_bytes(1) - 2 * MOMENTUM_BYTES  # the probe's replica has two copies more
    return _option(trial, ("fsdp2", "fp32"), 1, sync_s, sync_s, ring_bytes(size, members), less, 0.0)


def _diloco(trial: _Trial, codec: str) -> TrainingOption:
    ring, size = trial.ring, trial.parameters * CODEC_BYTES[codec]
    sent = ring_bytes(size, trial.members)
    sync_s = (
        ring_s(size, trial.members, ring.bit_s, ring.round_trip_s)
        + ramp_s(sent, ring.bit_s, ring.round_trip_s)
        + ROUND_TRIPS * ring.round_trip_s
        + MEETING_S
        + trial.slowest("outer_s")
        + trial.slowest("digest_s")
        + 2.5 / trial.every * (trial.slowest("digest_s") + trial.slowest("pack_s"))
    )
    steps = trial.local or min(local_steps(sync_s, trial.compute_s, MAX_SHARE), MAX_PROVEN_LOCAL_STEPS)
    return _option(
        trial, ("diloco", codec), steps, sync_s, sync_s / steps, sent / steps, MOMENTUM_BYTES, DILOCO_BYTES
    )  # fmt: skip


def _option(
    trial: _Trial,
    kind: tuple[str, str],
    steps: int,
    sync_s: float,
    added_s: float,
    bytes_step: float,
    more: float,
    writing: float,
) -> TrainingOption:
    """Return an option; `more`: bytes a parameter over the probe's peak; `writing`: while a checkpoint is written."""
    group, cases, batch, parameters = trial.group, trial.cases, trial.batch, trial.parameters
    compute_s = trial.compute_s
    peaks = {
        each.name: each.program_bytes
        + ENGINE_BYTES
        + max(
            case.peak_bytes + more * parameters,
            writing * parameters + max(case.peak_bytes - PROBED_BYTES * parameters, 0.0),
        )
        for each, case in zip(group, cases, strict=True)
    }
    passes = batch / cases[0].micro_batch
    joules = [case.energy_j_step for case in cases]
    known = [each for each in joules if each is not None]
    return TrainingOption(
        *kind,
        members=tuple(each.name for each in group),
        micro_batch=cases[0].micro_batch,
        recompute=cases[0].recomputed,
        local_steps=steps,
        compute_s=compute_s,
        sync_s=sync_s,
        step_s=compute_s + added_s,
        samples_s=len(group) * batch / (compute_s + added_s),
        bytes_step=bytes_step,
        peak_bytes=peaks,
        energy_j_step=passes * sum(known) if len(known) == len(joules) else None,
    )


def _last_bucket(parameters: int) -> float:
    """Return the share of the gradients that leaves when the backward pass is over."""
    size = 4.0 * parameters
    if size <= FIRST_BUCKET_BYTES:
        return 1.0
    rest = (size - FIRST_BUCKET_BYTES) % BUCKET_BYTES or BUCKET_BYTES
    return min(rest, size) / size
