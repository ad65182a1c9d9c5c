"""The arithmetic of the planner against published and agreed tables."""

from __future__ import annotations

import math

import pytest

from grid.planning.memory import fsdp_bytes, zero_bytes
from grid.planning.pace import MAX_SHARE, local_steps, ring_s, split_s, sync_share, transfer_s
from grid.planning.roofline import attainable_flop_s, chips
from grid.planning.traffic import CODEC_BYTES, power_sgd_numbers, ring_bytes

PARAMETERS = 7.5e9
ZERO_GB = {
    1: (120, 120, 120),
    4: (52.5, 41.2, 30),
    16: (35.6, 21.6, 7.5),
    64: (31.4, 16.6, 1.88),
    1024: (30.1, 15.1, 0.117),
}
"""Members: memory of 7.5 B parameters at stages 1, 2, 3 (GB), to three digits."""
LOCAL_STEPS = {
    (0.8e6, 1e9): {"fp32": 1, "int8": 1},
    (10e6, 1e9): {"fp32": 6, "int8": 2},
    (20e6, 1e9): {"fp32": 12, "int8": 3},
    (100e6, 1e9): {"fp32": 60, "int8": 15},
    (0.8e6, 1e8): {"fp32": 5, "int8": 2, "int4": 1},
    (10e6, 1e8): {"fp32": 60, "int8": 15, "int4": 8},
    (20e6, 1e8): {"fp32": 119, "int8": 30, "int4": 15},
    (100e6, 1e8): {"fp32": 591, "int8": 148, "int4": 74},
    (0.8e6, 1e7): {"fp32": 48, "int8": 12, "int4": 6},
    (10e6, 1e7): {"fp32": 591, "int8": 148, "int4": 74},
    (20e6, 1e7): {"fp32": 1182, "int8": 296, "int4": 148},
    (100e6, 1e7): {"fp32": 5908, "int8": 1477, "int4": 739},
}
STEP_S = 0.65
CHIPS = {
    "NVIDIA L4": (101, 421),
    "NVIDIA L40S": (106, 262),
    "NVIDIA A100 SXM 80 GB": (9.56, 48.8),
    "NVIDIA H100 SXM": (20, 95.7),
    "NVIDIA H200 SXM": (14, 95.7),
    "NVIDIA GeForce RTX 3090": (38, 102),
    "NVIDIA GeForce RTX 4090": (81.9, 184),
    "AMD Radeon RX 7900 XTX": (64, 173),
    "AMD Instinct MI250X": (14.6, 85.5),
    "AMD Instinct MI300X": (30.8, 218),
    "Apple M1 Ultra": (26.2, None),
    "Apple M2 Ultra": (34, None),
}
"""Chip: flop a byte, Gflop a joule, to three digits."""


def three_digits(number: float) -> float:
    return float(f"{number:.3g}")


@pytest.mark.parametrize("members", ZERO_GB)
def test_memory_of_zero_is_the_published_table(members: int) -> None:
    found = tuple(three_digits(zero_bytes(PARAMETERS, members, stage) / 1e9) for stage in (1, 2, 3))
    assert found == ZERO_GB[members]
    assert zero_bytes(PARAMETERS, members, 0) == 120e9


def test_a_stage_of_zero_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="stage 4 of ZeRO: 0 to 3 exist"):
        zero_bytes(1.0, 1, 4)


def test_fsdp_splits_sixteen_bytes_a_parameter() -> None:
    assert [fsdp_bytes(members) for members in (1, 2, 4)] == [16.0, 8.0, 4.0]


@pytest.mark.parametrize(("parameters", "bits_s"), LOCAL_STEPS)
def test_local_steps_are_the_agreed_table(parameters: float, bits_s: float) -> None:
    found = {
        codec: local_steps(ring_s(parameters * CODEC_BYTES[codec], 3, bits_s), STEP_S)
        for codec in LOCAL_STEPS[parameters, bits_s]
    }
    assert found == LOCAL_STEPS[parameters, bits_s]


def test_local_steps_are_the_fewest_that_keep_the_share() -> None:
    sync_s = ring_s(40e6, 3, 1e8, 0.04)
    steps = local_steps(sync_s, STEP_S)
    assert sync_share(sync_s, STEP_S, steps) <= MAX_SHARE < sync_share(sync_s, STEP_S, steps - 1)


def test_latency_counts_once_a_phase_and_a_single_member_sends_nothing() -> None:
    assert ring_s(3e6, 3, 1e9, 0.04) - ring_s(3e6, 3, 1e9) == pytest.approx(4 * 0.02)
    assert (ring_s(3e6, 1, 1e9, 0.04), ring_bytes(3e6, 1)) == (0.0, 0.0)


def test_a_language_model_takes_fifty_minutes_an_outer_step() -> None:
    size_bytes = 7e9 * CODEC_BYTES["fp32"]
    assert size_bytes == 28e9
    assert ring_s(size_bytes, 3, 1e8) / 60 == pytest.approx(50, rel=0.01)


def test_power_sgd_sends_factors_of_matrices_that_they_make_smaller() -> None:
    shapes = [(512, 256), (512,), (4, 4), (8, 64, 3)]
    assert (8 + 192) * 4 * 2 > 8 * 192, "the factors of the last would not be half of it"
    plain, left, right = 512 + 16 + 8 * 192, 512 * 4, 256 * 4
    assert power_sgd_numbers(shapes, 4) == (plain, left, right)


def test_a_split_model_has_one_hop_less_than_devices() -> None:
    assert split_s(0.0, 4.84e-3, 2) == 4.84e-3
    assert split_s(0.16841, 4.84e-3, 12) == pytest.approx(0.22165, abs=5e-5)
    assert pytest.approx(0.1686, abs=5e-4) == 4.84e-3 / 0.0287


def test_the_table_of_chips_has_its_ratios() -> None:
    table = {
        chip.name: (
            three_digits(chip.ridge_flop_byte),
            None if chip.flop_j is None else three_digits(chip.flop_j / 1e9),
        )
        for chip in chips()
    }
    assert table == CHIPS
    assert all(chip.source for chip in chips())


def test_a_kernel_is_limited_by_memory_below_the_ridge() -> None:
    chip = chips()[3]
    assert attainable_flop_s(chip.flop_s, chip.bytes_s, chip.ridge_flop_byte / 2) == pytest.approx(chip.flop_s / 2)
    assert attainable_flop_s(chip.flop_s, chip.bytes_s, math.inf) == chip.flop_s
    assert transfer_s(1e6, 8e6) == 1.0
