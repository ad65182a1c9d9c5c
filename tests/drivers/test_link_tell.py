"""Requests that a device does not answer."""

from __future__ import annotations

import asyncio

import pytest

from drivers.conformance.peer import Peer
from drivers.errors import LinkDown
from tests.drivers.test_link import ask, conversing, counting

pytestmark = pytest.mark.virtual_time


async def test_what_has_no_reply_is_told_in_its_turn_and_is_no_failure() -> None:
    peer = Peer(lambda request: None if request == b"go\r" else counting(request))
    link, talk = conversing(peer)
    await link.start()
    began_s = asyncio.get_running_loop().time()
    for n in range(8):
        told = asyncio.ensure_future(talk.tell(b"go\r", pause_s=0.2))
        await asyncio.sleep(0)
        assert await ask(talk, n) == n
        await told
    assert asyncio.get_running_loop().time() - began_s >= 8 * 0.2
    assert talk.verified
    assert link.opened == 1
    assert peer.sent[1:] == [b"go\r", b"n0\r", *(x for n in range(1, 8) for x in (b"go\r", b"n%d\r" % n))]
    await link.close()


async def test_C2_what_comes_after_it_all_the_same_is_dropped() -> None:
    peer = Peer(lambda request: b"77\r" if request == b"go\r" else counting(request))
    link, talk = conversing(peer)
    await link.start()
    await talk.tell(b"go\r", pause_s=0.2)
    assert await ask(talk, 5) == 5
    await link.close()


async def test_A6_nothing_is_told_before_verification() -> None:
    peer = Peer(lambda request: None)
    link, talk = conversing(peer)
    await link.start()
    peer.sent.clear()
    with pytest.raises(LinkDown, match="not verified"):
        await talk.tell(b"go\r", pause_s=0.2)
    assert b"go\r" not in peer.sent
    await link.close()
