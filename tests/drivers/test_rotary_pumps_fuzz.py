"""No bytes whatever crash a pump's driver, become a number they do not spell, or keep a pump from being stopped (C2)."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.device import DeviceError, Dispense, Run, Stop
from sim.devices.longer import packed
from sim.virtual_time import run_virtual
from tests.drivers.test_rotary_pumps import CASES, Case

PIECES = st.sampled_from(
    [
        *(b"*", b"#", b"~", b"+", b"-", b"\r", b"\r\n", b"!", b"\x06", b"\x15", b"\x02", b"\xe9", b"\xe8"),
        *(
            b"IPC 403\r\n",
            b"4.983 ml\r\n",
            b"1300E-3\r\n",
            b"MFLX 2\r\n",
            b"1,1,0\r\n",
            b"12.50\r\n",
            b"00:00:30.0\r\n",
        ),
        *(b"520Du 15.84 520R 9.6MM 220.0 CW P/N 1 12 1 ", b"323Du 110 CW 1 !", b"\x02P01I10030\r", b"\x02S+060.0\r"),
        *(packed(1, b"WJ"), packed(1, b"RJ\x00\x64"), packed(2, b"RJ\x00\x64\x01\x01"), b"nan", b"1e9\r\n"),
    ]
)
NOISE = st.lists(st.one_of(st.binary(max_size=12), PIECES), max_size=6).map(b"".join)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=25, deadline=None)
@given(noises=st.lists(NOISE, min_size=1, max_size=6), instead=st.booleans())
def test_C2_any_bytes_before_or_instead_of_replies(case: Case, noises: list[bytes], instead: bool) -> None:
    run_virtual(_noisy(case, noises, instead))


async def _noisy(case: Case, noises: list[bytes], instead: bool) -> None:
    async with case.joined() as rig:
        left = list(noises)

        def noisy(reply: bytes) -> bytes:
            return left.pop() + (b"" if instead else reply) if left else reply

        rig.line.tamper = noisy
        for command in (None, Run(case.flow), Run(case.flow / 2), Stop(), Dispense(3000.0, case.flow, "dose")):
            try:
                if command is not None:
                    await rig.pump.apply(command)
                status = await rig.status()
            except DeviceError as error:
                assert "Likely cause:" in str(error)  # noqa: PT017  (any device error will do, nothing else may come)
                assert "Next:" in str(error)  # noqa: PT017
            else:
                assert math.isfinite(status.flow_ul_min)
                assert math.isfinite(status.delivered_ul)
        rig.line.tamper = None
        await asyncio.sleep(30)
        assert rig.device.conversation.verified  # and it is all well again by itself
        await rig.pump.apply(Stop())
        assert rig.flow == 0.0
        assert not (await rig.status()).running
