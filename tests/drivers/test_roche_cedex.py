"""Cedex Bio HT: the manual's example with its check sum, flags, and results that are neither lost nor delivered twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.cedex_block import Block, block_bytes, results_of, take_block
from drivers.errors import BadReply, DeviceError, NoReply, Refused
from drivers.results import AnalyserResult
from drivers.roche_cedex import RocheCedex
from drivers.settings import BadSetting
from sim.devices import roche_cedex as sim
from tests.drivers.against_sim import Pair, against
from tests.drivers.facts import DriverFacts

FACTS = {
    "roche-cedex-bio-ht": DriverFacts(
        line="9600 8N1",
        queries=frozenset({"\x01\n14 CHOROID          00\n\x02\n\x03\n0\n173\n\x04"}),
        stored=(
            {"identifier": "CEDEX LAB 2", "block_check": False},
            {"identifier": "COBAS INTEGRA", "block_check": True},
        ),
    ),
}

pytestmark = pytest.mark.virtual_time

GOLDEN = (
    b"\x01\n09 COBAS INTEGRA    04\n\x02\n53 Order# 211044711 20/10/93 SER\n55 178\n"
    b"00 +3.234000E+01 mg/dl 004 023 014 000\n\x03\n1\n562\n\x04\n"
)
"""Host Interface Manual 1.24, page 18; 562 is the manual's own check sum."""
OUT_OF_RANGE = "00  3.694475E+01 U/l      0   0  30   0  1.500000E+02  5.000000E+00"
"""Page 85, with the value and the limit of “<TEST RNG”."""
SETTINGS: dict[str, float | str | bool] = {
    "sample_ul": 100.0,
    "lactate_test": 12.0,
    "ammonia_test": 31.0,
    "ldh_test": 8.0,
}

CedexPair = Pair[RocheCedex, sim.RocheCedex]


@asynccontextmanager
async def cedex(**more: float | str | bool) -> AsyncIterator[CedexPair]:
    async with against(RocheCedex, sim.RocheCedex, settings=SETTINGS | more) as pair:
        yield pair


async def measured(pair: CedexPair, sample: str = "loop-1040", *, exact: bool = True, **contents: float) -> None:
    pair.box.load(sample, contents, exact=exact)
    await asyncio.sleep(sim.ANALYSIS_S + 1.0)


async def fetched(pair: CedexPair) -> list[AnalyserResult]:
    """Everything that waits, kept one by one."""
    found = []
    while (result := await pair.driver.results.fetch()) is not None:
        found.append(result)
        pair.driver.results.keep(result)
    return found


def test_the_manuals_example_has_the_manuals_check_sum_and_is_read_as_it_says() -> None:
    block = take_block(bytearray(GOLDEN), check=True, where="d")
    assert block is not None
    assert (block.name, block.code, block.counter) == ("COBAS INTEGRA", "04", 1)
    assert block_bytes(9, "COBAS INTEGRA", "04", block.lines, 1) == GOLDEN
    (found,) = results_of(block, "d")
    assert (found.order, found.test, found.number, found.unit) == ("Order# 211044711", 178, "+3.234000E+01", "mg/dl")
    assert (found.flag_x, found.flags) == (4, (("S", 23), ("CALC", 14), ("QC", 0)))


def test_the_manuals_other_lines_are_read() -> None:
    lines = (
        "53 abcdef987654321 00/00/0000 URI",
        "56 Organoid 7",
        "15 22:07:59 23/04/2006",
        "16 1 2 3",
        "55   1",
        OUT_OF_RANGE,
    )
    (found,) = results_of(Block("", "07", lines, None), "d")
    assert (found.order, found.name, found.test, found.index) == ("abcdef987654321", "Organoid 7", 1, "1 2 3")
    assert found.measured is not None
    assert found.measured.isoformat() == "2006-04-23T22:07:59"
    assert (found.unit, dict(found.flags)["CALC"]) == ("U/l", 30)


@given(st.integers(0, len(GOLDEN) - 3), st.integers(0, 7))
def test_C2_no_single_wrong_bit_makes_another_result(at: int, bit: int) -> None:
    wrong = bytearray(GOLDEN)
    wrong[at] ^= 1 << bit
    try:
        block = take_block(wrong, check=True, where="d")
    except BadReply:
        return
    assert block is None


@given(st.binary(max_size=80))
def test_C2_a_block_is_found_after_any_bytes(noise: bytes) -> None:
    buffer, block = bytearray(noise.replace(b"\x04", b"") + GOLDEN), None
    block = take_block(buffer, check=True, where="d")
    assert block is not None
    assert block.lines[1] == "55 178"
    assert bytes(buffer) == b"\n"


async def test_each_result_comes_once_with_its_sample_test_time_and_unit() -> None:
    async with cedex() as pair:
        assert await pair.driver.results.fetch() is None
        await measured(pair, lactate=4.25, ammonia=0.62, ldh=31.0)
        found = await fetched(pair)
        assert [(each.analyte, each.value, each.unit) for each in found] == [
            ("lactate", 4.25, "mmol/L"),
            ("ammonia", 0.62, "mmol/L"),
            ("ldh", 31.0, "U/l"),
        ]
        assert {each.sample for each in found} == {"loop-1040"}
        assert all(each.measured is not None and not each.flags for each in found)
        assert len({each.key for each in found}) == 3
        assert await fetched(pair) == []


async def test_a_result_stays_until_it_is_kept() -> None:
    async with cedex() as pair:
        await measured(pair, lactate=4.25)
        first = await pair.driver.results.fetch()
        assert first is not None
        assert await pair.driver.results.fetch() == first
        pair.driver.results.keep(first)
        assert await pair.driver.results.fetch() is None


@pytest.mark.parametrize("lost", range(1, 5))
async def test_C2_an_answer_that_is_lost_on_the_line_comes_again(lost: int) -> None:
    """The analyser has marked the result as sent: it is the repeated request that brings it back."""
    async with cedex(timeout_s=5.0) as pair:
        await measured(pair, lactate=4.25, ammonia=0.62)
        pair.lose_next(lost)
        with pytest.raises(DeviceError):
            await pair.driver.results.fetch()
        assert pair.box.sent
        for _ in range(lost):
            await asyncio.sleep(60.0)
            with suppress(DeviceError):
                await pair.driver.results.fetch()
        assert [each.analyte for each in await fetched(pair)] == ["lactate", "ammonia"]


async def test_C2_a_garbled_answer_is_refused_and_comes_again() -> None:
    async with cedex() as pair:
        await measured(pair, lactate=4.25)
        garbled = [True]

        def tamper(data: bytes) -> bytes:
            return data.replace(b"4.25", b"9.25") if garbled and garbled.pop() else data

        pair.line.tamper = tamper
        with pytest.raises(BadReply, match="check sum"):
            await pair.driver.results.fetch()
        await asyncio.sleep(2.0)
        assert [each.value for each in await fetched(pair)] == [4.25]


async def test_a_late_answer_is_kept() -> None:
    async with cedex(timeout_s=1.0) as pair:
        await measured(pair, lactate=4.25)
        pair.box.think_s = 1.4
        with pytest.raises(NoReply):
            await pair.driver.results.fetch()
        await asyncio.sleep(5.0)
        pair.box.think_s = 0.3
        found = await fetched(pair)
        assert {each.value for each in found} == {4.25}
        assert len({each.key for each in found}) == 1, "it may come again, and then it has the same key"


async def test_a_power_cut_in_between_loses_nothing_that_was_not_sent() -> None:
    async with cedex() as pair:
        await measured(pair, lactate=4.25)
        pair.box.power_off()
        with pytest.raises(DeviceError):
            await pair.driver.results.fetch()
        pair.box.power_on()
        await asyncio.sleep(120.0)
        assert [each.value for each in await fetched(pair)] == [4.25]


async def test_what_the_operator_sends_again_has_the_same_key() -> None:
    async with cedex() as pair:
        await measured(pair, lactate=4.25)
        first = await fetched(pair)
        pair.box.send_again()
        assert [each.key for each in await fetched(pair)] == [each.key for each in first]
        await measured(pair, lactate=4.25)  # the same sample is measured again, with the same value
        again = await fetched(pair)
        assert again[0].key != first[0].key


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((0, 0, 30, 0), "flag CALC 30"),
        ((0, 12, 0, 0), "flag S 12"),
        ((0, 0, 0, 3), "flag QC 3"),
        ((0b10_00_00_00, 0, 0, 0), "calibration was not accepted"),
        ((0b11_00_00_00, 0, 0, 0), "calibration is postponed"),
        ((0b00_10_00_00, 0, 0, 0), "control was not accepted"),
        ((0b00_00_10_00, 0, 0, 0), "was not accepted"),
    ],
)
async def test_I2_a_flagged_result_says_why_it_is_doubtful(flags: tuple[int, int, int, int], says: str) -> None:
    async with cedex() as pair:
        pair.box.flags = flags
        await measured(pair, lactate=4.25)
        (found,) = await fetched(pair)
        assert found.value == 4.25
        assert any(says in flag for flag in found.flags), found.flags


async def test_accepted_corrections_replicates_and_dilution_are_no_doubt() -> None:
    async with cedex() as pair:
        pair.box.flags = (0b01_01_01_10, 0, 0, 0)
        await measured(pair, lactate=4.25)
        (found,) = await fetched(pair)
        assert found.flags == ()
        assert len(found.notes) == 4
        assert "after dilution" in found.notes


@pytest.mark.parametrize("value", [45.0, -0.2])
async def test_I2_a_value_beyond_the_range_is_no_number(value: float) -> None:
    async with cedex() as pair:
        await measured(pair, lactate=value)
        (found,) = await fetched(pair)
        assert found.value is None
        assert "the analyser has no result" in found.flags


async def test_I2_a_deleted_result_is_no_number() -> None:
    async with cedex() as pair:
        pair.box.flags = (0b00_00_11_00, 0, 0, 0)
        await measured(pair, lactate=4.25)
        (found,) = await fetched(pair)
        assert found.value is None


async def test_without_lots_there_is_no_time_and_the_name_can_be_the_sample() -> None:
    async with cedex(result_type="07", sample_id="name") as pair:
        pair.box.load("000000000000017", {"lactate": 4.25}, name="chamber one-1123-1040", exact=True)
        await asyncio.sleep(sim.ANALYSIS_S + 1.0)
        (found,) = await fetched(pair)
        assert (found.sample, found.measured) == ("chamber one-1123-1040", None)


async def test_F6_ammonia_by_mass_is_that_of_what_the_rig_file_says() -> None:
    async with cedex(ammonia_as="NH4") as pair:
        pair.box.unit = "mg/L"
        await measured(pair, ammonia=9.02)
        (found,) = await fetched(pair)
        assert found.value == pytest.approx(9.02 * 17.03 / 18.04)


async def test_the_block_check_may_be_off_on_both_sides_and_says_so_on_one() -> None:
    async with cedex(block_check=False) as pair:
        await measured(pair, lactate=4.25)
        assert [each.value for each in await fetched(pair)] == [4.25]
    async with against(
        RocheCedex, sim.RocheCedex, settings=SETTINGS, box_settings=SETTINGS | {"block_check": False}, verified=False
    ) as pair:
        assert "Host Interface Configuration" in str(pair.failures["d"])


async def test_an_analyser_that_refuses_is_told_and_asked_again() -> None:
    async with cedex() as pair:
        await measured(pair, lactate=4.25)
        pair.box.refusing = True
        for _ in range(3):
            with pytest.raises(Refused, match="block 99"):
                await pair.driver.results.fetch()
            await asyncio.sleep(60.0)
        pair.box.refusing = False
        assert [each.value for each in await fetched(pair)] == [4.25]


async def test_an_unreadable_result_is_delivered_as_such_and_blocks_nothing() -> None:
    """Its check sum is right: asked again, it would be the same."""
    async with cedex() as pair:
        await measured(pair, lactate=4.25, ammonia=0.62)
        pair.box.unit = "mmol/L"
        pair.box.waiting[0] = sim.AnalysedTest("", "", 12, 4.25, "mmol/L", sim.CLOCK_ZERO, 1, (0, 0, 0, 0))
        first, second = await fetched(pair)
        assert first.value is None
        assert first.flags
        assert second.value == 0.62


async def test_the_drift_of_the_simulated_analyser_ends_with_its_calibration() -> None:
    async with cedex() as pair:
        pair.box._drift["lactate"] = 0.01
        await asyncio.sleep(30 * 86_400.0)
        values = []
        for _ in range(2):
            for _ in range(20):
                pair.box.load("loop", {"lactate": 10.0})
            await asyncio.sleep(sim.ANALYSIS_S + 1.0)
            found = [each.value or 0.0 for each in await fetched(pair)]
            values.append(sum(found) / len(found))
            pair.box.calibrate()
        assert values[0] == pytest.approx(13.0, rel=0.03)
        assert values[1] == pytest.approx(10.0, rel=0.03)


@pytest.mark.parametrize(
    "more",
    [
        {"places": "L loop"},
        {"lactate_test": 31.0},
        {"lactate_test": 1.5},
        {"result_type": "01"},
        {"timeout_s": 0.0},
        {"block_check": "yes"},
        {"lactat_test": 3.0},
    ],
)
async def test_D7_wrong_settings_are_named(more: dict[str, float | str | bool]) -> None:
    with pytest.raises(BadSetting):
        async with against(RocheCedex, sim.RocheCedex, settings=SETTINGS | more, box_settings={}):
            pass


async def test_D7_the_volume_of_a_sample_has_no_default() -> None:
    with pytest.raises(BadSetting, match="sample_ul is missing"):
        async with against(RocheCedex, sim.RocheCedex, settings={"lactate_test": 12.0}, box_settings={}):
            pass
