"""Virtual and scaled time: exact jumps, the same order every time, clear refusals."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator

import pytest

from sim.virtual_time import MAX_SPEED, ScaledLoop, VirtualDeadlock, VirtualTimeLoop, run_scaled, run_virtual


def test_a_year_of_sleep_takes_no_time_and_ends_exactly() -> None:
    async def main() -> float:
        await asyncio.sleep(365 * 86_400.0)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert run_virtual(main(), start_s=5.0) == 5.0 + 365 * 86_400.0
    assert time.monotonic() - began < 1.0


def test_timers_fire_at_exactly_their_own_time_without_rounding_adding_up() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        seen: list[float] = []
        for number in range(1, 2_001):
            loop.call_at(number * 0.1, lambda: seen.append(loop.time()))
        await asyncio.sleep(300)
        return seen

    assert run_virtual(main()) == [number * 0.1 for number in range(1, 2_001)]


def test_work_that_is_ready_runs_before_time_moves() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        order: list[str] = []
        loop.call_later(1e-6, order.append, "timer")

        def soon(left: int) -> None:
            order.append(f"soon {left}")
            if left:
                loop.call_soon(soon, left - 1)

        loop.call_soon(soon, 3)
        await asyncio.sleep(1)
        return order

    assert run_virtual(main()) == ["soon 3", "soon 2", "soon 1", "soon 0", "timer"]


def test_E6_same_program_gives_the_same_order_every_time() -> None:
    async def worker(name: int, log: list[tuple[float, int]]) -> None:
        loop = asyncio.get_running_loop()
        for step in range(20):
            await asyncio.sleep(((name * 7 + step * 3) % 5) * 0.5)
            log.append((loop.time(), name))

    async def main() -> list[tuple[float, int]]:
        log: list[tuple[float, int]] = []
        async with asyncio.TaskGroup() as group:
            for name in range(8):
                group.create_task(worker(name, log))
        return log

    first = run_virtual(main())
    assert len(first) == 160
    assert all(run_virtual(main()) == first for _ in range(3))


def test_nothing_left_to_wait_for_is_a_deadlock_that_names_the_waiter() -> None:
    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(VirtualDeadlock, match="waits_for_ever") as caught:
        run_virtual(waits_for_ever())
    assert "Next:" in str(caught.value)


def test_wait_for_gives_up_in_virtual_time() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 3600)
        return loop.time()

    assert run_virtual(main()) == 3600.0


def test_leftover_tasks_are_cancelled_and_may_clean_up() -> None:
    cleaned: list[str] = []

    async def leftover() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(1)
            cleaned.append("leftover")

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            cleaned.append("generator")

    async def abandons_a_generator() -> None:
        assert await anext(numbers()) == 1

    async def main() -> None:
        asyncio.get_running_loop().create_task(leftover())
        await abandons_a_generator()
        await asyncio.sleep(1)

    run_virtual(main())
    assert sorted(cleaned) == ["generator", "leftover"]


async def _thread() -> None:
    await asyncio.get_running_loop().run_in_executor(None, time.monotonic)


async def _threadsafe() -> None:
    asyncio.get_running_loop().call_soon_threadsafe(print)


async def _connection() -> None:
    near, far = socket.socketpair()
    try:
        near.setblocking(False)
        await asyncio.get_running_loop().sock_recv(near, 1)
    finally:
        near.close()
        far.close()


@pytest.mark.parametrize(
    ("attempt", "says"),
    [(_thread, "no threads"), (_threadsafe, "no threads"), (_connection, "no real input or output")],
)
def test_what_would_break_determinism_is_refused(attempt: object, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        run_virtual(attempt())  # type: ignore[operator]


def test_signals_stay_with_python() -> None:
    async def main() -> None:
        with pytest.raises(NotImplementedError, match="Ctrl-C"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(1)

    # A process in the background of a shell is born deaf to SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_virtual(main())
    finally:
        signal.signal(signal.SIGINT, before)


def test_errors_come_out_and_the_loop_is_closed() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run_virtual(main())
    assert isinstance(loops[0], VirtualTimeLoop)
    assert loops[0].is_closed()


def test_scaled_time_runs_speed_times_life() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        began, real = loop.time(), time.monotonic()
        await asyncio.sleep(20)
        return loop.time() - began, time.monotonic() - real

    scaled, real = run_scaled(main(), 200)
    assert 20.0 <= scaled < 200 * real + 1e-6
    assert 0.09 < real < 5.0


def test_a_scaled_clock_slows_down_rather_than_jump() -> None:
    """A round that takes real time does not make timers late: none runs more than a tenth of a second behind."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        late: list[float] = []

        async def ticks() -> None:
            for _ in range(20):
                due_s = loop.time() + 1.0
                await asyncio.sleep(1.0)
                late.append(loop.time() - due_s)

        async def hog() -> None:
            for _ in range(5):
                await asyncio.sleep(2.0)
                time.sleep(0.05)

        await asyncio.gather(ticks(), hog())
        return max(late)

    assert run_scaled(main(), 60) <= 0.35


def test_a_change_of_speed_does_not_jump() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScaledLoop)
        before = loop.time()
        loop.set_speed(600)
        after = loop.time()
        assert before <= after < before + 600 * 0.5
        assert loop.speed == 600
        await asyncio.sleep(30)
        slow = loop.time()
        loop.set_speed(1)
        assert slow <= loop.time() < slow + 5

    run_scaled(main(), 1)


@pytest.mark.parametrize("speed", [0.0, 0.5, -1.0, MAX_SPEED + 1, float("nan"), float("inf")])
def test_an_impossible_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="choose 1 to 600"):
        ScaledLoop(speed)


def test_scaled_time_has_real_sockets_threads_and_signals() -> None:
    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, lambda: None)
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            await loop.run_in_executor(None, far.sendall, b"hello")
            return await loop.sock_recv(near, 16)

    assert run_scaled(main(), 50) == b"hello"
