"""A process that gets no processor for a while takes no reply for missing (B2)."""

from __future__ import annotations

import asyncio
import re
import time

from drivers.conformance.peer import Peer
from drivers.transport.link import Link
from drivers.transport.replies import line_matching
from drivers.transport.url import LinkUrl

TIMEOUT_S, ANSWERS_AFTER_S, STANDS_S = 0.4, 0.1, 0.6
HELLO = line_matching(re.compile(rb"hello"), b"\r", "x")


def asked(stand: str) -> bool:
    """Ask a device over a link on an ordinary event loop whose process stands before or after the request leaves."""

    async def ask() -> bool:
        peer = Peer(lambda _: b"hello\r", delay_s=ANSWERS_AFTER_S)
        link = Link(LinkUrl.parse("sim:x"), peer.open)
        assert await link.start() == {}
        receive = peer.receive

        def leave(data: bytes) -> None:
            if stand == "before":
                time.sleep(STANDS_S)
            receive(data)
            if stand == "after":
                asyncio.get_running_loop().call_soon(time.sleep, STANDS_S)

        peer.receive = leave  # type: ignore[method-assign]
        reply = await link.exchange(b"who\r", HELLO, timeout_s=TIMEOUT_S, where="x")
        await link.close()
        return reply is not None

    return asyncio.run(ask())


def test_B2_the_wait_for_a_reply_begins_when_the_request_has_left() -> None:
    assert asked(stand="before")


def test_B2_a_reply_that_came_while_the_process_stood_is_read_before_the_wait_is_over() -> None:
    assert asked(stand="after")
