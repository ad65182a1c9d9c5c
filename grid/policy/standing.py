"""The standing of a member: its roles with reasons, demotion when it is slower than admitted, groups of similar speed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grid.policy.policy import ROLES, GridPolicy

RATES = (
    "core_hash_hz",
    "gemm_flop_s",
    "memory_bytes_s",
    "accelerator_flop_s",
    "disk_write_bytes_s",
    "disk_read_bytes_s",
)
"""Figures of which a fall means that a member is slower than it was admitted with."""
LOADED = frozenset({*RATES, "cores", "all_cores_hash_hz", "downlink_bit_s", "uplink_bit_s", "round_trip_s"})
"""Figures that other work on the machine makes worse, and nothing makes better than the machine is."""
LESS_IS_BETTER = frozenset({"round_trip_s"})
NOISE_CORES = 0.15
BUSY_LOAD = 1.0
"""Processes that want to run on each core, above which a machine is called busy."""


@dataclass(frozen=True, slots=True)
class MemberStanding:
    """What a member may do, and why not more.

    Attributes:
        reasons: For each role why it is not granted; empty for a granted one.
        figures: What was measured last, in SI units.
        admitted: The figures with which it was admitted: for each rate the best since then.
        measured_utc_s: When.
        busy: What the member said of other work on its machine, if roles were refused meanwhile; else empty.
    """

    reasons: Mapping[str, Sequence[str]] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    admitted: Mapping[str, float] = field(default_factory=dict)
    measured_utc_s: float = 0.0
    busy: str = ""

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles that are granted."""
        return tuple(role for role, reasons in self.reasons.items() if not reasons)

    def as_row(self) -> dict[str, Any]:
        """Return it for the database."""
        return {
            "reasons": {role: list(reasons) for role, reasons in self.reasons.items()},
            "figures": dict(self.figures),
            "admitted": dict(self.admitted),
            "measured_utc_s": self.measured_utc_s,
            "busy": self.busy,
        }


def standing(
    policy: GridPolicy,
    figures: Mapping[str, float],
    problems: Mapping[str, str],
    versions: Mapping[str, str],
    before: MemberStanding,
    now_s: float,
    load: float = 0.0,
) -> MemberStanding:
    """Return the standing after a measurement.

    Args:
        policy: The rules.
        figures: What was measured; a figure that failed is missing.
        problems: Why a figure is missing, by challenge.
        versions: The member's programs.
        before: Its standing so far.
        now_s: UTC of the measurement (s).
        load: What the member says of other work on its machine: processes that want to run on each core.
    """
    software = policy.software_faults(versions)
    slower = _slower(policy, figures, before.admitted)
    reasons: dict[str, list[str]] = {}
    busy = f"the machine was busy: {load:.1f} processes for each core" if load > BUSY_LOAD else ""
    missed = {role: load_dependent(policy, role, figures, before.admitted) for role in ROLES}
    for role in ROLES:
        needed = {each.figure for each in policy.roles.get(role, ())}
        found = [*software, *policy.reasons(role, figures)]
        found += [text for name, text in slower.items() if name in needed]
        found += [f"{name}: {text}" for name, text in problems.items()] if found else []
        found += [busy] if busy and missed[role] else []
        reasons[role] = found
    admitted = {name: max(figures[name], before.admitted.get(name, 0.0)) for name in RATES if name in figures}
    busy = busy if any(missed.values()) else ""
    return MemberStanding(reasons, dict(figures), {**before.admitted, **admitted}, now_s, busy)


def load_dependent(
    policy: GridPolicy, role: str, figures: Mapping[str, float], admitted: Mapping[str, float]
) -> set[str]:
    """Return the figures for which `role` is refused and that other work on the machine makes worse."""
    needed = {each.figure for each in policy.roles.get(role, ())}
    return (policy.missed(role, figures) | (_slower(policy, figures, admitted).keys() & needed)) & LOADED


def best(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return for each figure the better of two measurements: a machine is at least as fast as it was once."""
    found = {**one, **other}
    for name in (one.keys() & other.keys()) & LOADED:
        found[name] = (min if name in LESS_IS_BETTER else max)(one[name], other[name])
    return found


def _slower(policy: GridPolicy, figures: Mapping[str, float], admitted: Mapping[str, float]) -> dict[str, str]:
    return {
        name: f"{name} has fallen to {figures[name] / admitted[name]:.0%} of the {admitted[name]:.4g} it was admitted with"
        for name in RATES
        if name in figures and figures[name] < policy.min_share * admitted.get(name, 0.0)
    }


def roofline(figures: Mapping[str, float]) -> dict[str, float]:
    """Return the roofline of a member: peak (flop/s), bandwidth (byte/s) and their ratio, the ridge (flop/byte)."""
    peak, bandwidth = figures.get("gemm_flop_s", math.nan), figures.get("memory_bytes_s", math.nan)
    return {"peak_flop_s": peak, "bandwidth_bytes_s": bandwidth, "ridge_flop_byte": peak / bandwidth}


def counted_cores(figures: Mapping[str, float], claimed: int) -> float:
    """Return how many cores the speed-up of all chains over one proves: 1.4 needs two. Other work can hide cores, not add."""
    speed_up = figures["all_cores_hash_hz"] / figures["core_hash_hz"]
    return float(min(max(math.ceil(speed_up - NOISE_CORES), 1), claimed))


def cohorts(speeds: Mapping[str, float], max_spread: float) -> list[list[str]]:
    """Group members so that in each group the slowest is at most `max_spread` slower than the fastest.

    Args:
        speeds: Speed of each member in the work in question (any unit).
        max_spread: Allowed spread as a share of the fastest.

    Returns:
        Groups of names, fastest first.
    """
    groups: list[list[str]] = []
    fastest = math.inf
    for name in sorted(speeds, key=lambda each: (-speeds[each], each)):
        if not groups or speeds[name] < fastest * (1 - max_spread):
            groups.append([])
            fastest = speeds[name]
        groups[-1].append(name)
    return groups
