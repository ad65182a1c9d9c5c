"""What the probes say of members and of the links between them, read from their files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grid.errors import GridError
from grid.planning.links import LinkFigures

PROBE_FORMAT = "choroid-probe/1"
LINKS_FORMAT = "choroid-links/1"


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class StepCase(_Read):
    """Training steps of one size of micro-batch: median time (s), processor time (s), peak memory above the programs'.

    `recomputed` says whether activations were computed again; `energy_j_step` is None where the machine does not tell.
    """

    micro_batch: int = Field(ge=1)
    recomputed: bool
    steps: int = Field(ge=1)
    step_s: float = Field(gt=0)
    step_cpu_s: float = Field(gt=0)
    peak_bytes: int = Field(ge=0)
    energy_j_step: float | None = None


class TrainingCandidate(_Read):
    """A member as its probe has measured it.

    Attributes:
        name: The member.
        preset: Which model was measured.
        parameters: Of the model.
        shapes: Of its parameters.
        threads: Of the computation.
        memory_bytes: What is free, with what the probe itself has used.
        program_bytes: Memory of the programs without a model.
        update_s: One update of the weights by the optimiser (s), part of every step.
        outer_s: What a rank computes in an outer step in addition (s).
        digest_s: Hash of the common state (s).
        pack_s: Copy of the common state for a checkpoint (s).
        power_sgd_s: What PowerSGD computes for a step (s).
        cases: Steps by size of micro-batch.
    """

    name: str
    preset: str
    parameters: int = Field(ge=1)
    shapes: list[list[int]]
    threads: int = Field(ge=1)
    memory_bytes: int = Field(ge=0)
    program_bytes: int = Field(ge=0)
    update_s: float = Field(ge=0)
    outer_s: float = Field(ge=0)
    digest_s: float = Field(ge=0)
    pack_s: float = Field(ge=0)
    power_sgd_s: float = Field(ge=0)
    cases: list[StepCase] = Field(min_length=1)

    def step_s(self, case: StepCase, batch: int) -> float:
        """Return the time of one step of a batch in micro-batches of a case, without synchronisation (s)."""
        passes = -(-batch // case.micro_batch)
        whole = batch / (passes * case.micro_batch)  # the last micro-batch may be smaller
        return passes * whole * max(case.step_s - self.update_s, 0.0) + self.update_s


@dataclass(frozen=True, slots=True)
class LinkTable:
    """Links between members, by the names of both ends; one end's measurement is enough."""

    links: Mapping[tuple[str, str], LinkFigures]

    def between(self, one: str, other: str) -> LinkFigures | None:
        """Return the link of two members; None when it was not measured."""
        back = self.links.get((other, one))
        return self.links.get((one, other)) or (back.reversed() if back else None)

    def ring(self, names: Sequence[str]) -> LinkFigures | None:
        """Return the ring of members in their order as one link: the slowest rates, the longest round trip.

        Returns:
            None when one of its links was not measured, or there is a single member.
        """
        pairs = zip(names, [*names[1:], names[0]], strict=True)
        found = [self.between(one, other) for one, other in pairs if one != other]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found):
            return None
        return LinkFigures(
            max(each.round_trip_s for each in known),
            min(each.up_bit_s for each in known),
            min(each.up_bit_s for each in known),
        )


def read_candidate(plain: Mapping[str, Any], name: str) -> TrainingCandidate:
    """Return the candidate in the answer of a probe.

    Args:
        plain: The answer.
        name: Of the member, unless the answer has one.

    Raises:
        GridError: It is no answer of a probe.
    """
    try:
        if plain.get("format") != PROBE_FORMAT:
            raise ValueError(f"format is not {PROBE_FORMAT}")
        return TrainingCandidate.model_validate({"name": name, **plain})
    except (ValidationError, ValueError) as error:
        first = str(error).splitlines()
        what = "; ".join(each.strip() for each in first[1:3]) if isinstance(error, ValidationError) else first[0]
        raise GridError(f"{name} is no measurement of a member ({what}). Next: measure it again with --here") from None


def read_probes(paths: Sequence[Path]) -> tuple[list[TrainingCandidate], LinkTable]:
    """Read files of both probes; the name of a file is the member's, unless the file has one.

    Raises:
        GridError: A file cannot be read, is neither, or a member occurs twice.
    """
    candidates: dict[str, TrainingCandidate] = {}
    links: dict[tuple[str, str], LinkFigures] = {}
    for path in paths:
        try:
            plain = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise GridError(f"{path} cannot be read ({error}). Next: give files that the probes have written") from None
        if isinstance(plain, dict) and plain.get("format") == LINKS_FORMAT:
            links |= links_of(plain, path.name)
            continue
        found = read_candidate(plain if isinstance(plain, dict) else {}, path.stem)
        if found.name in candidates:
            raise GridError(f"{path}: the member {found.name} occurs twice. Next: give one file for each member")
        candidates[found.name] = found
    return list(candidates.values()), LinkTable(links)


def links_of(plain: Mapping[str, Any], where: str) -> dict[tuple[str, str], LinkFigures]:
    """Return the links in the answer of a link probe, by the names of both ends.

    Args:
        plain: The answer.
        where: Its file, for messages.

    Raises:
        GridError: It is not one.
    """
    try:
        found = {(str(plain["name"]), name): LinkFigures(**each) for name, each in plain["links"].items()}
        if any(min(each.up_bit_s, each.down_bit_s) <= 0 or each.round_trip_s < 0 for each in found.values()):
            raise ValueError
    except (KeyError, TypeError, AttributeError, ValueError):
        raise GridError(
            f"{where} holds no links. Next: write it with `python -m grid.planning.links ABOUT.json`"
        ) from None
    return found
