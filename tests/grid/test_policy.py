"""X1: the policy file, roles with reasons, demotion, groups of similar speed."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.errors import GridError
from grid.policy.policy import load_policy
from grid.policy.standing import MemberStanding, best, cohorts, counted_cores, load_dependent, roofline, standing

POLICY = load_policy()
GPU = {
    "gpus": 2.0,
    "accelerator_flop_s": 4e13,
    "cores": 8.0,
    "gpu_memory_bytes": 48e9,
    "memory_bytes": 96e9,
    "pcie_lanes": 8.0,
    "downlink_bit_s": 1e8,
    "uplink_bit_s": 1e8,
}
VERSIONS = {"choroid": "0.2.0", "python": "3.11.7"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"cores": 7.0}, "cores is 7, at least 8 is needed, 4 for each of gpus"),
        ({"memory_bytes": 95e9}, "memory_bytes is 9.5e+10, at least 9.6e+10"),
        ({"pcie_lanes": 4.0}, "pcie_lanes is 4, at least 8"),
        ({"gpus": 11.0, "cores": 44.0}, "downlink_bit_s is 1e+08, at least 5e+08 is needed (with more than 10 gpus)"),
        ({"gpus": 10.0, "cores": 40.0}, ""),
        (
            {"gpus": 101.0, "cores": 404.0, "uplink_bit_s": 9e8, "downlink_bit_s": 1e9, "accelerator_flop_s": 2e14},
            "uplink_bit_s is 9e+08, at least 1e+09 is needed (with more than 100 gpus)",
        ),
    ],
)
def test_the_rules_for_gpus(change: dict[str, float], reason: str) -> None:
    reasons = POLICY.reasons("gpu", {**GPU, **change})
    assert reason in "\n".join(reasons) if reason else reasons == []


def test_the_rules_that_come_with_choroid_approve_this_release() -> None:
    assert load_policy().software_faults({"choroid": version("choroid"), "python": platform.python_version()}) == []


def test_software_that_is_not_approved_gets_no_role() -> None:
    found = standing(POLICY, GPU, {}, {"choroid": "9.9", "python": "3.11.7"}, MemberStanding(), 1.0)
    assert found.roles == ()
    assert "choroid 9.9 is not approved" in found.reasons["gpu"][0]


def test_a_member_that_gets_slower_is_demoted_and_comes_back() -> None:
    fast = {"cores": 4.0, "core_hash_hz": 3e6, "gemm_flop_s": 1e11, "memory_bytes": 1e9, "memory_bytes_s": 1e10}
    first = standing(POLICY, fast, {}, VERSIONS, MemberStanding(), 1.0)
    assert "compute" in first.roles
    slow = standing(POLICY, {**fast, "gemm_flop_s": 6e10}, {}, VERSIONS, first, 2.0)
    assert "compute" not in slow.roles
    assert load_dependent(POLICY, "compute", {**fast, "gemm_flop_s": 6e10}, first.admitted) == {"gemm_flop_s"}
    assert "fallen to 60%" in slow.reasons["compute"][0]
    again = standing(POLICY, fast, {}, VERSIONS, slow, 3.0)
    assert "compute" in again.roles


@pytest.mark.parametrize(
    ("one_hz", "all_hz", "claimed", "cores"),
    [
        (1e6, 2e6, 2, 2),
        (1e6, 1.33e6, 2, 2),  # one other process on two cores
        (1e5, 1.8e5, 2, 2),  # ten other processes
        (1e6, 1.02e6, 2, 1),
        (1e6, 2.1e6, 64, 2),
        (1e6, 9e6, 4, 4),
        (1e6, 9e5, 1, 1),
    ],
)
def test_cores_are_counted_on_a_busy_machine(one_hz: float, all_hz: float, claimed: int, cores: int) -> None:
    assert counted_cores({"core_hash_hz": one_hz, "all_cores_hash_hz": all_hz}, claimed) == cores


def test_the_best_of_repeated_measurements_counts() -> None:
    one = {"gemm_flop_s": 1.0, "round_trip_s": 0.3, "memory_bytes": 5.0, "cores": 2.0}
    other = {"gemm_flop_s": 2.0, "round_trip_s": 0.4, "memory_bytes": 4.0, "disk_read_bytes_s": 7.0}
    assert best(one, other) == {
        "gemm_flop_s": 2.0,
        "round_trip_s": 0.3,
        "memory_bytes": 4.0,
        "cores": 2.0,
        "disk_read_bytes_s": 7.0,
    }


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0.1, 1e9), min_size=1, max_size=30))
def test_groups_hold_each_member_once_within_the_spread(speeds: dict[str, float]) -> None:
    groups = cohorts(speeds, 0.15)
    assert sorted(name for group in groups for name in group) == sorted(speeds)
    assert all(min(speeds[n] for n in group) >= 0.85 * max(speeds[n] for n in group) for group in groups)


def test_a_throttled_member_moves_to_another_group() -> None:
    speeds = {"a": 100.0, "b": 95.0, "c": 90.0}
    assert cohorts(speeds, 0.15) == [["a", "b", "c"]]
    assert cohorts({**speeds, "b": 50.0}, 0.15) == [["a", "c"], ["b"]]


def test_the_roofline_is_in_si_units() -> None:
    assert roofline({"gemm_flop_s": 1e11, "memory_bytes_s": 2e10})["ridge_flop_byte"] == 5.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 0", "version"),
        ("[", "cannot be read"),
        ("version: 1\nunknown: 2", "unknown"),
        ("", "malformed"),
    ],
)
def test_a_malformed_policy_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(GridError, match=message):
        load_policy(tmp_path / "p.yaml")
