"""The link: one request at a time, nothing late or foreign taken for an answer, back by itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress

import pytest

from drivers.conformance.peer import Peer, Say
from drivers.device import DeviceConfig
from drivers.errors import BadReply, LinkDown, NoReply
from drivers.keller_x_line import KellerXLine
from drivers.modbus_coil_relay import ModbusCoilRelay
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, LinkState
from drivers.transport.replies import line_matching
from drivers.transport.url import LineSettings, LinkUrl
from tests.drivers.fakes import FakeBus

pytestmark = pytest.mark.virtual_time

NUMBER = line_matching(re.compile(rb"\d+"), b"\r", "x")
HELLO = re.compile(rb"hello")


def conversing(peer: Peer, **line: float | bool) -> tuple[Link, Conversation]:
    """A link with one conversation whose device says hello when asked who it is."""
    link = Link(LinkUrl.parse("sim:x"), peer.open, line=LineSettings(**line))  # type: ignore[arg-type]
    talk = Conversation(link, "x", timeout_s=0.5, barrier=SyncQuery(b"who\r", lambda: line_matching(HELLO, b"\r", "x")))

    async def verify() -> None:
        with talk.verifying():
            await talk.ask(b"who\r", line_matching(HELLO, b"\r", "x"))

    link.attach(talk, verify)
    return link, talk


def counting(request: bytes) -> bytes | None:
    """Echo the number that is asked for."""
    return b"hello\r" if request == b"who\r" else request[1:]


async def ask(talk: Conversation, n: int) -> int:
    return int((await talk.ask(b"n%d\r" % n, NUMBER))[0])


async def test_replies_belong_to_their_requests_under_concurrency() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    assert await link.start() == {}
    assert link.state is LinkState.VERIFIED
    assert await asyncio.gather(*(ask(talk, n) for n in range(50))) == list(range(50))
    assert link.transactions == 51
    await link.close()
    assert str(link.state) == "closed"


async def test_the_minimum_gap_is_kept_after_the_last_byte() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer, gap_s=0.025)
    await link.start()
    await ask(talk, 1)
    await ask(talk, 2)
    frames = link.capture.frames()
    received = [frame.at_s for frame in frames if frame.direction == "<"]
    asked = [frame.at_s for frame in frames if frame.direction == ">"]
    assert all(later - before >= 0.025 - 1e-9 for before, later in zip(received, asked[1:], strict=False))
    await link.close()


async def test_A6_nothing_is_sent_before_verification() -> None:
    peer = Peer(lambda request: None)  # silent: verification cannot succeed
    link, talk = conversing(peer)
    failures = await link.start()
    assert isinstance(failures["x"], NoReply)
    peer.sent.clear()
    with pytest.raises(LinkDown, match="not verified"):
        await ask(talk, 1)
    assert peer.sent == []
    assert link.state is LinkState.DEGRADED
    await link.close()


async def test_A6_before_start_and_after_close_the_link_is_down() -> None:
    link, talk = conversing(Peer(counting))
    with pytest.raises(LinkDown):
        await ask(talk, 1)
    await link.start()
    await link.close()
    with pytest.raises(LinkDown):
        await ask(talk, 1)


async def test_no_reply_takes_its_timeout_of_loop_time_and_names_the_device() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    peer.answers = lambda request: None
    await asyncio.sleep(1)
    begun = asyncio.get_running_loop().time()
    with pytest.raises(NoReply, match=r"^x: no reply within 0.5 s\. Likely cause: .*\. Next: .*\.$"):
        await ask(talk, 1)
    assert asyncio.get_running_loop().time() - begun == pytest.approx(0.5)
    await link.close()


@pytest.mark.parametrize("late_s", [0.51, 0.56, 0.7, 1.0, 2.0, 5.0])
async def test_C2_a_late_reply_is_never_taken_for_the_next(late_s: float) -> None:
    slow = True

    def answers(request: bytes) -> Iterable[Say]:
        nonlocal slow
        if request.startswith(b"n") and slow:
            slow = False
            return [(late_s, counting(request) or b"")]
        # a device answers in order: nothing overtakes the late reply
        return [(0.01, counting(request) or b"")]

    peer = Peer(answers)
    link, talk = conversing(peer)
    await link.start()
    with pytest.raises(NoReply):
        await ask(talk, 1)
    for n in range(2, 12):
        with suppress(BadReply):
            assert await ask(talk, n) == n
        await asyncio.sleep(0.3)
    await link.close()


@pytest.mark.parametrize("late_s", [0.51, 0.7, 1.4])
async def test_C2_what_waited_for_the_line_goes_out_in_step_too(late_s: float) -> None:
    """A request that queued behind one which then timed out must not be answered by the late reply to that."""
    held, last_s = [late_s], 0.0

    def answers(request: bytes) -> Iterable[Say]:
        nonlocal last_s
        now_s = asyncio.get_running_loop().time()
        ready_s = now_s + (held.pop() if held and request == b"n1\r" else 0.01)
        last_s = max(last_s + 0.01, ready_s)  # a device answers in order
        return [(last_s - now_s, counting(request) or b"")]

    peer = Peer(answers)
    link, talk = conversing(peer)
    await link.start()
    asking = [asyncio.ensure_future(ask(talk, n)) for n in range(1, 6)]
    done = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(done[0], NoReply)
    for n, answer in enumerate(done[1:], 2):
        assert answer == n or isinstance(answer, BadReply | NoReply)
    assert done[-1] == 5 or late_s > 1.0
    assert peer.sent[1:3] == [b"n1\r", b"who\r"]
    await link.close()


async def test_C2_who_waits_behind_a_barrier_that_fails_is_not_let_through() -> None:
    peer = Peer(lambda request: None if request == b"n1\r" else counting(request))
    link, talk = conversing(peer)
    await link.start()
    with pytest.raises(NoReply):
        await ask(talk, 1)
    peer.answers = lambda request: None
    peer.sent.clear()
    asking = [asyncio.ensure_future(ask(talk, n)) for n in (2, 3)]
    done = await asyncio.gather(*asking, return_exceptions=True)
    assert all(isinstance(each, NoReply | LinkDown) for each in done)
    assert set(peer.sent) == {b"who\r"}
    await link.close()


async def test_A6_what_waited_for_the_line_is_not_sent_once_the_device_is_distrusted() -> None:
    peer = Peer(counting, delay_s=0.1)
    link, talk = conversing(peer)
    await link.start()
    first = asyncio.ensure_future(ask(talk, 1))
    second = asyncio.ensure_future(ask(talk, 2))
    await asyncio.sleep(0.05)
    talk.distrust()
    assert await first == 1
    with pytest.raises(LinkDown, match="not verified"):
        await second
    assert b"n2\r" not in peer.sent
    await link.close()


async def test_A6_a_device_that_restarts_while_it_is_verified_is_not_trusted() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    with talk.verifying():
        await talk.ask(b"who\r", line_matching(HELLO, b"\r", "x"))
        talk.restarted()
    assert not talk.verified
    link.wake()
    await asyncio.sleep(1)
    assert talk.verified
    await link.close()


async def test_a_line_that_never_falls_quiet_is_spoken_into_and_its_requests_end() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    loop = asyncio.get_running_loop()

    async def babble() -> None:
        while True:
            peer.say(b"~~")
            await asyncio.sleep(0.008)

    babbling = asyncio.create_task(babble())
    await asyncio.sleep(1.0)
    peer.sent.clear()
    for _ in range(2):
        begun_s = loop.time()
        with pytest.raises(BadReply):
            await ask(talk, 7)
        assert loop.time() - begun_s <= 2 * 0.5 + 1e-6
    assert peer.sent == [b"n7\r", b"who\r"]
    await talk.link.tell(b"stop\r", pause_s=0.1, where="x")
    assert peer.sent[-1] == b"stop\r"  # on four wires it is received
    babbling.cancel()
    await link.close()


async def test_C2_a_reply_sent_twice_is_taken_once() -> None:
    def twice(request: bytes) -> Iterable[Say]:
        reply = counting(request) or b""
        return [(0.010, reply), (0.020, reply)]

    peer = Peer(twice)
    link, talk = conversing(peer)
    await link.start()
    assert [await ask(talk, n) for n in range(20)] == list(range(20))
    assert link.stray_bytes > 0
    await link.close()


async def test_C2_garbage_is_an_error_once_and_the_line_is_back_in_step() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    peer.answers = lambda request: b"\xff\x00garbage"
    with pytest.raises(BadReply, match="no whole valid reply"):
        await ask(talk, 1)
    peer.answers = counting
    assert await ask(talk, 2) == 2
    await link.close()


async def test_C2_a_parser_that_trips_does_not_end_the_link() -> None:
    def trip(buffer: bytearray) -> int | None:
        return 1 // (len(buffer) - len(buffer))

    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    with pytest.raises(BadReply, match="made the parser fail"):
        await talk.ask(b"n1\r", trip)
    assert await ask(talk, 2) == 2
    await link.close()


@pytest.mark.parametrize("after_s", [0.0, 0.005, 0.011, 0.02])
async def test_a_cancelled_request_leaves_the_link_usable(after_s: float) -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    await asyncio.sleep(1)
    asking = asyncio.ensure_future(ask(talk, 1))
    await asyncio.sleep(after_s)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert [await ask(talk, n) for n in range(2, 6)] == [2, 3, 4, 5]
    await link.close()


async def test_after_a_cancelled_request_nothing_is_sent_into_its_reply() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    await asyncio.sleep(1)
    peer.answers = lambda request: None
    asking = asyncio.ensure_future(ask(talk, 1))
    await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    peer.answers = counting
    begun = asyncio.get_running_loop().time()
    assert await ask(talk, 2) == 2
    first_after = next(f for f in link.capture.frames() if f.direction == ">" and f.at_s >= begun)
    assert first_after.at_s - begun == pytest.approx(0.2)
    await link.close()


async def test_bytes_received_during_the_gap_lengthen_it() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    loop = asyncio.get_running_loop()
    for later_s in (0.02, 0.04, 0.06):
        loop.call_later(later_s, peer.say, b"x")
    begun = loop.time()
    assert await ask(talk, 3) == 3
    assert loop.time() - begun == pytest.approx(0.06 + 0.025 + 0.01)
    await link.close()


async def test_A6_a_line_lost_at_the_end_of_verification_is_not_trusted() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    with talk.verifying():
        await talk.ask(b"who\r", line_matching(HELLO, b"\r", "x"))
        peer.hang_up()
        await asyncio.sleep(0.01)
    assert not talk.verified
    await asyncio.sleep(1)
    assert talk.verified
    await link.close()


async def test_C1_the_link_comes_back_by_itself_and_is_verified_first() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    peer.hang_up()
    await asyncio.sleep(0.1)
    assert link.state is LinkState.CONNECTING
    with pytest.raises(LinkDown):
        await ask(talk, 1)
    peer.sent.clear()
    await asyncio.sleep(0.5)
    assert peer.sent == [b"who\r"]
    assert await ask(talk, 2) == 2
    assert link.opened == 2
    await link.close()


async def test_C1_an_end_in_the_middle_of_a_request_is_told_at_once() -> None:
    peer = Peer(counting, delay_s=0.4)
    link, talk = conversing(peer)
    await link.start()
    await asyncio.sleep(1)
    asyncio.get_running_loop().call_later(0.1, peer.hang_up)
    begun = asyncio.get_running_loop().time()
    with pytest.raises(LinkDown):
        await ask(talk, 1)
    assert asyncio.get_running_loop().time() - begun < 0.2
    await link.close()


async def test_C1_a_write_that_fails_is_a_lost_line_and_the_link_comes_back() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    peer.fail_on_write = RuntimeError("the port is gone")
    with pytest.raises(LinkDown, match="cannot be written to: the port is gone"):
        await ask(talk, 1)
    peer.fail_on_write = None
    await asyncio.sleep(1)
    assert await ask(talk, 2) == 2
    await link.close()


async def test_C2_a_driver_that_trips_while_verifying_does_not_end_the_supervision() -> None:
    peer = Peer(counting)
    link = Link(LinkUrl.parse("sim:x"), peer.open)
    talk = Conversation(link, "x", timeout_s=0.5)
    trips = [True, True]

    async def verify() -> None:
        with talk.verifying():
            await talk.ask(b"who\r", line_matching(HELLO, b"\r", "x"))
            if trips:
                raise KeyError(trips.pop())

    link.attach(talk, verify)
    failures = await link.start()
    assert "KeyError" in str(failures["x"])
    await asyncio.sleep(2)
    assert await ask(talk, 1) == 1
    await link.close()


async def test_C1_opening_is_tried_again_with_growing_pauses_that_have_an_end() -> None:
    peer = Peer(counting)
    peer.refuse_to_open = True
    link, talk = conversing(peer)
    failures = await link.start()
    assert "refuses" in str(failures["x"])
    await asyncio.sleep(120)
    peer.refuse_to_open = False
    await asyncio.sleep(5.5)  # never longer than the longest pause
    assert await ask(talk, 3) == 3
    assert link.failures == {}
    await link.close()


async def test_C1_a_line_without_answers_is_opened_again() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    peer.answers = lambda request: None  # half open: no error, no bytes
    for n in range(10):
        with pytest.raises((NoReply, LinkDown)):
            await ask(talk, n)
        await asyncio.sleep(2)
    assert peer.openings > 1
    peer.answers = counting
    await asyncio.sleep(6)
    assert await ask(talk, 4) == 4
    await link.close()


async def test_a_device_silent_for_long_is_verified_again_before_it_is_trusted() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    peer.answers = lambda request: None
    for n in range(3):
        with pytest.raises(NoReply):
            await ask(talk, n)
    assert not talk.verified
    peer.answers = counting
    await asyncio.sleep(6)
    assert talk.verified
    assert await ask(talk, 7) == 7
    await link.close()


async def test_C3_one_silent_unit_costs_the_others_no_more_than_its_own_timeout() -> None:
    bus = FakeBus()
    peer = Peer(bus)
    link = Link(LinkUrl.parse("sim:bus"), peer.open)
    keller = KellerXLine(link, FakeBus.keller_config)
    relay = ModbusCoilRelay(link, FakeBus.relay_config)
    assert await link.start() == {}
    bus.keller_silent = True
    loop = asyncio.get_running_loop()
    longest_s = 0.0
    for _ in range(20):
        dead = asyncio.ensure_future(keller.read())
        begun = loop.time()
        await asyncio.sleep(0)
        await relay.actuators["heater"].status()
        longest_s = max(longest_s, loop.time() - begun)
        await asyncio.gather(dead, return_exceptions=True)
        assert isinstance(dead.exception(), (NoReply, LinkDown))
        await asyncio.sleep(1)
    assert longest_s < 0.3 + 0.3 + 0.1  # the reading's timeout, perhaps a verification's, and the relay's own reply
    assert relay.conversation.verified
    await link.close()


async def test_unverified_devices_do_not_keep_others_on_the_line_from_work() -> None:
    bus = FakeBus()
    bus.keller_silent = True
    link = Link(LinkUrl.parse("sim:bus"), Peer(bus).open)
    keller = KellerXLine(link, FakeBus.keller_config)
    relay = ModbusCoilRelay(link, FakeBus.relay_config)
    failures = await link.start()
    assert set(failures) == {"p_heart"}
    assert not (await relay.actuators["heater"].status()).on  # type: ignore[union-attr]
    bus.keller_silent = False
    await asyncio.sleep(6)
    assert await keller.read() == pytest.approx(98.765, abs=1e-3)
    await link.close()


async def test_the_converters_own_echo_is_taken_off() -> None:
    bus = FakeBus()

    def echoing(request: bytes) -> Iterable[Say]:
        return [(0.001, request[:3]), (0.002, request[3:]), (0.01, bus(request) or b"")]

    link = Link(LinkUrl.parse("sim:bus"), Peer(echoing).open, line=LineSettings(echo=True))
    relay = ModbusCoilRelay(link, FakeBus.relay_config)
    keller = KellerXLine(link, FakeBus.keller_config)
    assert await link.start() == {}
    assert await keller.read() == pytest.approx(98.765, abs=1e-3)
    assert not (await relay.actuators["heater"].status()).on  # type: ignore[union-attr]
    await link.close()


async def test_the_capture_remembers_both_directions_with_loop_time() -> None:
    peer = Peer(counting)
    link, talk = conversing(peer)
    await link.start()
    await asyncio.sleep(10)
    await ask(talk, 42)
    sent, got = link.capture.frames()[-2:]
    assert (sent.direction, sent.data, got.direction, got.data) == (">", b"n42\r", "<", b"42\r")
    assert got.at_s - sent.at_s == pytest.approx(0.01)
    assert "n42<CR>" in link.capture.text()
    await link.close()


async def test_a_driver_attached_after_start_is_verified_by_itself() -> None:
    bus = FakeBus()
    link = Link(LinkUrl.parse("sim:bus"), Peer(bus).open)
    await link.start()
    keller = KellerXLine(link, DeviceConfig("late", address="1"))
    await asyncio.sleep(0.2)
    assert await keller.read() == pytest.approx(98.765, abs=1e-3)
    await link.close()
