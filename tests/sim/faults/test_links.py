"""Every fault of a link does on the wire what its meaning says, and nothing of it is left when it ends."""

from __future__ import annotations

import asyncio

import pytest

from sim.devices.modbus_slave import sealed
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from tests.sim.faults.bench import Listener, Url, lab_with, listener_on

pytestmark = pytest.mark.virtual_time

BALANCE, BUS = "sim:balance", "sim:rs485"
I11 = b'I11 A "MS3002S"\r\n'
ASK_BALANCE = b"I11\r\n"
WHO_1, WHO_2 = (sealed(bytes.fromhex(f"0{n}0300080002")) for n in (1, 2))
"""TOB1 of the transmitters at 1 and 2: a constant."""
TOB_1, TOB_2 = (sealed(bytes.fromhex(f"0{n}030441C80000")) for n in (1, 2))


async def balance_listener(lab: SimulatedLab) -> Listener:
    listener = await listener_on(lab, "balance")
    assert await listener.ask(ASK_BALANCE) == I11
    return listener


async def many(listener: Listener, count: int = 100) -> list[bytes]:
    return [await listener.ask(ASK_BALANCE, 0.2) for _ in range(count)]


def untouched(lab: SimulatedLab, link: str = BALANCE) -> bool:
    line = lab.lines[link]
    return line.plugged and not line.inward and not line.outward and not line.ghosts and not line.elsewhere


@pytest.mark.parametrize(("kind", "amount"), [("drop", 0.3), ("garble", 0.02), ("truncate", 0.4), ("duplicate", 0.6)])
async def test_a_part_of_the_answers_is_hit_and_none_after(kind: str, amount: float) -> None:
    async with lab_with() as (lab, injector):
        listener = await balance_listener(lab)
        applied = injector.inject(Fault(kind, BALANCE, 0.0, 0.0, amount))
        answers = await many(listener)
        whole = sum(answer == I11 for answer in answers)
        assert 25 <= whole <= 75, "some are hit, some are not"
        hit = [answer for answer in answers if answer != I11]
        match kind:
            case "drop":
                assert set(hit) == {b""}
            case "garble":
                # A request that was hit is met with an error; an answer that was hit has as many bytes as before.
                assert any(len(answer) == len(I11) for answer in hit)
                assert any(answer.startswith(b"E") or answer == b"" for answer in hit)
            case "truncate":
                assert set(hit) == {I11[: len(I11) // 2]}
            case "duplicate":
                assert set(hit) == {I11 * 2}
        assert applied is not None
        injector.end(applied)
        await listener.listen(1.0)
        await listener.ask(b"\r\n", 0.5)  # what a hit request has left in the balance's buffer
        assert set(await many(listener, 20)) == {I11}
        assert untouched(lab)


async def test_delay_is_constant_and_ends() -> None:
    async with lab_with() as (lab, injector):
        listener = await balance_listener(lab)
        loop = asyncio.get_running_loop()

        async def took() -> float:
            begin_s = loop.time()
            listener.writer.write(ASK_BALANCE)
            await listener.reader.readexactly(len(I11))
            return loop.time() - begin_s

        healthy = await took()
        applied = injector.inject(Fault("delay", BALANCE, 0.0, 0.0, 0.75))
        assert [await took() for _ in range(3)] == pytest.approx([healthy + 0.75] * 3)
        assert applied is not None
        injector.end(applied)
        assert await took() == pytest.approx(healthy)
        assert untouched(lab)


async def test_two_delays_add_and_each_ends_by_itself() -> None:
    faults = Fault("delay", BALANCE, 1.0, 20.0, 0.5), Fault("delay", BALANCE, 1.0, 40.0, 0.25)
    async with lab_with(*faults) as (lab, injector):
        running = asyncio.create_task(injector.run())
        listener = await balance_listener(lab)
        loop = asyncio.get_running_loop()
        for at_s, late_s in ((10.0, 0.75), (30.0, 0.25), (50.0, 0.0)):
            await asyncio.sleep(at_s - loop.time())
            begin_s = loop.time()
            listener.writer.write(ASK_BALANCE)
            await listener.reader.readexactly(len(I11))
            assert loop.time() - begin_s == pytest.approx(0.035 + late_s, abs=0.02)
        assert [(each.begun_s, each.ended_s) for each in injector.applied] == [(1.0, 21.0), (1.0, 41.0)]
        await running


async def test_echo_gives_clients_their_own_bytes() -> None:
    async with lab_with() as (lab, injector):
        listener = await balance_listener(lab)
        first = injector.inject(Fault("echo", BALANCE, 0.0))
        second = injector.inject(Fault("echo", BALANCE, 0.0))
        assert await listener.ask(ASK_BALANCE) == ASK_BALANCE + I11
        assert first is not None
        assert second is not None
        injector.end(first)
        assert await listener.ask(ASK_BALANCE) == ASK_BALANCE + I11
        injector.end(second)
        assert await listener.ask(ASK_BALANCE) == I11


async def test_wrong_address_answers_for_a_neighbour_with_a_right_checksum() -> None:
    async with lab_with() as (lab, injector):
        listener = await listener_on(lab, "rs485")
        assert await listener.ask(WHO_1) == TOB_1
        applied = injector.inject(Fault("wrong_address", BUS, 0.0))
        assert await listener.ask(WHO_1) == TOB_2
        assert await listener.ask(WHO_2) == sealed(bytes.fromhex("03030441C80000")), "the relay is at 3"
        assert applied is not None
        injector.end(applied)
        assert await listener.ask(WHO_1) == TOB_1


async def test_wrong_address_on_a_line_of_gas_controllers() -> None:
    async with lab_with() as (lab, injector):
        listener = await listener_on(lab, "gas")
        assert (await listener.ask(b"A\r"))[:1] == b"A"
        injector.inject(Fault("wrong_address", "sim:gas", 0.0))
        assert (await listener.ask(b"A\r"))[:1] == b"B"
        assert (await listener.ask(b"C\r"))[:1] == b"A"
        injector.clear()
        assert (await listener.ask(b"A\r"))[:1] == b"A"


async def test_half_open_old_connections_are_dead_and_do_not_know_it() -> None:
    async with lab_with() as (lab, injector):
        old = await balance_listener(lab)
        applied = injector.inject(Fault("half_open", BALANCE, 0.0))
        assert await old.ask(ASK_BALANCE) == b""
        assert not old.broken
        assert not old.writer.is_closing()
        new = await balance_listener(lab)
        assert applied is not None
        injector.end(applied)
        await asyncio.sleep(0.1)
        assert old.broken, "the far end knows nothing of it"
        assert await new.ask(ASK_BALANCE) == I11
        assert untouched(lab)


async def test_unplug_breaks_connections_and_refuses_new_ones() -> None:
    async with lab_with() as (lab, injector):
        old = await balance_listener(lab)
        first = injector.inject(Fault("unplug", BALANCE, 0.0))
        second = injector.inject(Fault("unplug", BALANCE, 0.0))
        await asyncio.sleep(0.1)
        assert old.broken
        for applied in (first, second):
            with pytest.raises(ConnectionRefusedError):
                await lab.opener(Url("balance"), None)
            assert applied is not None
            injector.end(applied)
        await balance_listener(lab)
        assert untouched(lab)


async def test_replug_gives_the_line_another_name_for_a_while() -> None:
    async with lab_with() as (lab, injector):
        names = list(lab.lines)
        old = await balance_listener(lab)
        applied = injector.inject(Fault("replug", BALANCE, 0.0))
        await asyncio.sleep(0.1)
        assert old.broken
        with pytest.raises(FileNotFoundError):
            await lab.opener(Url("balance"), None)
        elsewhere = await listener_on(lab, "balance-replugged")
        assert await elsewhere.ask(ASK_BALANCE) == I11
        injector.inject(Fault("delay", BALANCE, 0.0, 1.0, 0.5))  # other faults know the line by its own name
        assert applied is not None
        injector.end(applied)
        await asyncio.sleep(1.0)
        assert elsewhere.broken
        await balance_listener(lab)
        assert list(lab.lines) == names
        assert untouched(lab)
