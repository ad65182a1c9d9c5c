"""Noise on the line of every model: errors or right readings, and it can be stopped and is well again by itself (C1, C2).

The fuzzer (tests/fuzz) feeds parsers; here the whole way is tried, with the link, its supervisor and the driver's means to
get back into step.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from choroid.tools.conformance.benches import lab_bench
from drivers.commands import Stop
from drivers.conformance.bench import Bench
from drivers.conformance.stage import SETTLE_S, accepted_commands, on_stage
from drivers.conformance.trying import patiently, works_of
from drivers.errors import DeviceError
from drivers.registry import MODELS
from sim.virtual_time import run_virtual

HOW = st.sampled_from(["before", "instead", "behind", "cut", "flipped", "lost"])
NOISE = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"\r", b"\n", b"\r\n", b"*", b"#", b"\x06", b"\x15", b"*OK\r", b"\x7e", b"\xe9", b"\x01\x03", b"1\r\n"]
    ),
)


@pytest.mark.parametrize("model", sorted(MODELS))
@settings(max_examples=12, deadline=None)
@given(noises=st.lists(st.tuples(HOW, NOISE), min_size=1, max_size=8))
def test_C2_any_noise_around_or_instead_of_replies(model: str, noises: list[tuple[str, bytes]]) -> None:
    run_virtual(_noisy(lab_bench(model), noises))


async def _noisy(bench: Bench, noises: list[tuple[str, bytes]]) -> None:
    commands = await accepted_commands(bench)
    async with on_stage(bench) as stage:
        undisturbed = {point: await sensor.read() for point, sensor in stage.device.sensors.items()}
        left = list(noises)

        def spoil(reply: bytes) -> Sequence[tuple[float, bytes]]:
            if not left:
                return ((0.0, reply),)
            how, noise = left.pop()
            middle = len(noise) % len(reply)
            return (
                (
                    0.0,
                    {
                        "before": noise + reply,
                        "instead": noise,
                        "behind": reply + noise,
                        "cut": reply[:middle],
                        "flipped": reply[:middle] + bytes((reply[middle] ^ 0x10,)) + reply[middle + 1 :],
                        "lost": b"",
                    }[how],
                ),
            )

        stage.replies = spoil
        for name, work in works_of(stage.device, commands):
            try:
                value = await work()
            except DeviceError as error:
                assert "Likely cause:" in str(error)  # noqa: PT017  (any device error will do, nothing else may come)
                assert "Next:" in str(error)  # noqa: PT017
            else:
                assert not isinstance(value, float) or math.isfinite(value), name
        left.clear()
        assert await stage.recovered()
        for actuator in stage.device.actuators.values():
            await patiently(lambda actuator=actuator: actuator.apply(Stop()))  # type: ignore[misc]
        await asyncio.sleep(SETTLE_S)
        assert not stage.moved
        if not stage.device.actuators:
            for point, sensor in stage.device.sensors.items():
                assert await patiently(sensor.read) == pytest.approx(undisturbed[point], rel=0.01, abs=0.01)
