"""The policy of a hub: a versioned YAML file with the requirements of each role and the limits of leases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from drivers.strict_yaml import YamlTextError, load_yaml
from grid.errors import GridError

ROLES = ("compute", "gpu", "storage", "relay", "agent_host")
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0, le=1 << 40)]
DEFAULT = "default.yaml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Requirement(_Strict):
    """One bound on a measured figure.

    Attributes:
        figure: Its name.
        min: Lower bound, times the figure `per` if that is given.
        max: Upper bound.
        per: Name of the figure that `min` is multiplied with.
        above: The bound holds only for members with more than this of each figure.
    """

    figure: str
    min: float | None = None
    max: float | None = None
    per: str = ""
    above: Mapping[str, float] = Field(default_factory=dict)

    def fault(self, figures: Mapping[str, float]) -> str:
        """Return why `figures` do not meet it; empty when they do."""
        if any(figures.get(name, 0.0) <= more_than for name, more_than in self.above.items()):
            return ""
        found = figures.get(self.figure)
        if found is None or not math.isfinite(found):
            return f"{self.figure} was not measured"
        if self.min is not None:
            needed = self.min * (figures.get(self.per, 0.0) if self.per else 1.0)
            if found < needed:
                each = f", {self.min:g} for each of {self.per}" if self.per else ""
                return f"{self.figure} is {found:.4g}, at least {needed:.4g} is needed{each}{self._condition()}"
        if self.max is not None and found > self.max:
            return f"{self.figure} is {found:.4g}, at most {self.max:.4g} is allowed{self._condition()}"
        return ""

    def _condition(self) -> str:
        return "".join(f" (with more than {value:g} {name})" for name, value in self.above.items())


class LeaseLimits(_Strict):
    """Limits of leases on tissue; durations in seconds, charges in nanocoulomb."""

    ttl_s: Positive
    max_duration_s: Positive
    max_queued: Count
    stimulation_s_day: Positive
    charge_nc_day: Positive
    rest_s_day: Annotated[float, Field(ge=0, lt=86_400)]
    nc_s: Positive
    pulses_min: Positive


class WorkLimits(_Strict):
    """Limits of work leases.

    Attributes:
        ttl_s: A lease ends this long after its last heartbeat (s). No tissue is at risk, so it outlives an absent hub.
        max_duration_s: Longest life (s).
        max_ranks: Members of one job; each has an address in a network of 254.
        max_living: Leases that one member holds at the same time.
    """

    ttl_s: Annotated[float, Field(ge=900, allow_inf_nan=False)] = 900.0
    max_duration_s: Positive = 604_800.0
    max_ranks: Annotated[int, Field(ge=1, le=254)] = 64
    max_living: Count = 4


class EnrolmentLimits(_Strict):
    """Limits of requests that wait for an operator's decision.

    Attributes:
        waiting: How many wait at most; beyond it, a new one takes the place of one from the address with the most.
        of_address: How many of them from one address (IPv6: from one network of 64 bits).
        expire_s: How long one waits.
    """

    waiting: Count = 1000
    of_address: Count = 20
    expire_s: Positive = 86_400.0


class ChallengeSizes(_Strict):
    """How much each measurement takes."""

    hash_iterations: Count
    gemm_size: Annotated[int, Field(ge=16, le=8192)]
    gemm_count: Count
    memory_bytes: Count
    disk_bytes: Count
    link_bytes: Annotated[int, Field(gt=0, le=32_000_000)]
    round_trips: Annotated[int, Field(ge=1, le=100)]


class GridPolicy(_Strict):
    """The rules of a grid.

    Attributes:
        version: Raised with each change.
        software: Approved versions of each program.
        recheck_s: Time from one measurement of a member to the next.
        retry_s: Pauses before a measurement is repeated that refused a role for a figure which other work lowers.
        min_share: A member that falls below this share of a figure it was admitted with is demoted.
        max_spread: Allowed spread of the speeds in one task.
        roles: Requirements of each role.
        leases: Limits of leases on tissue.
        work: Limits of work leases.
        enrolment: Limits of requests to enrol.
        challenges: Size of each measurement.
    """

    version: Count
    software: Mapping[str, Sequence[str]]
    recheck_s: Positive
    retry_s: Sequence[Annotated[float, Field(ge=0, allow_inf_nan=False)]] = (5.0, 20.0)
    min_share: Annotated[float, Field(gt=0, lt=1)]
    max_spread: Annotated[float, Field(gt=0, lt=1)]
    roles: Mapping[str, Sequence[Requirement]]
    leases: LeaseLimits
    work: WorkLimits = WorkLimits()
    enrolment: EnrolmentLimits = EnrolmentLimits()
    challenges: ChallengeSizes

    def reasons(self, role: str, figures: Mapping[str, float]) -> list[str]:
        """Return why a member with `figures` does not get `role`; empty when it does."""
        if role not in self.roles:
            return ["this grid has no such role"]
        return [fault for each in self.roles[role] if (fault := each.fault(figures))]

    def missed(self, role: str, figures: Mapping[str, float]) -> set[str]:
        """Return the figures that were measured and do not meet `role`."""
        return {each.figure for each in self.roles.get(role, ()) if each.figure in figures and each.fault(figures)}

    def software_faults(self, versions: Mapping[str, str]) -> list[str]:
        """Return which of a member's programs are not approved."""
        return [
            f"{name} {versions.get(name, '(none)')[:40]} is not approved; approved: {', '.join(f'{e}*' for e in approved)}"
            for name, approved in self.software.items()
            if not versions.get(name, "").startswith(tuple(approved))
        ]


def load_policy(path: Path | None = None) -> GridPolicy:
    """Read a policy file; None means the one that comes with Choroid.

    Raises:
        GridError: It cannot be read or is malformed; with every fault.
    """
    try:
        text = (files("grid.policy") / DEFAULT).read_text() if path is None else path.read_text(encoding="utf-8")
        policy = GridPolicy.model_validate(load_yaml(text))
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise GridError(
            f"the policy {path} is malformed: {faults}. Next: compare it with grid/policy/default.yaml"
        ) from None
    except (OSError, UnicodeDecodeError, YamlTextError) as error:
        raise GridError(f"the policy {path} cannot be read ({error}). Next: check its path and its YAML") from None
    unknown = policy.roles.keys() - set(ROLES)
    if unknown:
        raise GridError(f"the policy has the unknown role {min(unknown)}. Next: use {', '.join(ROLES)}")
    return policy
