"""One program frozen or killed while the world around it goes on."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

from sim.virtual_time import run_virtual
from verification.campaign.lives import LIFE, LifeLoop


def _life(number: int, work: object) -> asyncio.Task[None]:
    context = copy_context()
    context.run(LIFE.set, number)
    return asyncio.get_running_loop().create_task(work, context=context)  # type: ignore[arg-type]


def _loop() -> LifeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LifeLoop)
    return loop


async def _tell(said: list[tuple[str, float]], name: str, every_s: float, ended: list[str]) -> None:
    loop = asyncio.get_running_loop()
    try:
        for _ in range(10):
            await asyncio.sleep(every_s)
            said.append((name, loop.time()))
    finally:
        ended.append(name)


def test_a_frozen_life_stands_still_and_takes_up_what_is_overdue_in_order() -> None:
    said: list[tuple[str, float]] = []
    ended: list[str] = []

    async def scene() -> None:
        mine = _life(1, _tell(said, "life", 1.0, ended))
        world = asyncio.create_task(_tell(said, "world", 1.0, ended))
        await asyncio.sleep(2.5)
        _loop().freeze(1)
        await asyncio.sleep(3.0)
        assert [at_s for name, at_s in said if name == "life"] == [1.0, 2.0]
        assert [at_s for name, at_s in said if name == "world"] == [1.0, 2.0, 3.0, 4.0, 5.0]
        _loop().thaw(1)
        await asyncio.gather(mine, world)

    run_virtual(scene(), loop=LifeLoop())
    life = [at_s for name, at_s in said if name == "life"]
    assert life[2] == 5.5, "what was due at 3 s runs when the life is thawed"
    assert len(life) == 10


def test_E4_a_killed_life_runs_nothing_more_not_even_its_cleanup() -> None:
    said: list[tuple[str, float]] = []
    ended: list[str] = []

    async def scene() -> None:
        mine = _life(1, _tell(said, "life", 1.0, ended))
        await asyncio.sleep(2.5)
        _loop().kill(1)
        mine.cancel()
        await asyncio.sleep(10.0)
        assert said == [("life", 1.0), ("life", 2.0)]
        assert ended == [], "a process that is killed runs no finally"
        assert not mine.done()
        _loop().thaw(1)
        await asyncio.sleep(10.0)
        assert not mine.done(), "the dead are not thawed"
        await _loop().bury(1)
        assert mine.done()

    run_virtual(scene(), loop=LifeLoop())


def test_what_a_life_begins_is_its_own_and_what_it_calls_in_the_world_is_not() -> None:
    said: list[tuple[str, float]] = []
    ended: list[str] = []

    async def parent() -> None:
        child = asyncio.create_task(_tell(said, "child", 1.0, ended))
        asyncio.get_running_loop().call_later(3.0, said.append, ("timer", 3.0))
        await child

    async def scene() -> None:
        mine = _life(7, parent())
        await asyncio.sleep(1.5)
        assert len(_loop().tasks_of(7)) == 2
        _loop().freeze(7)
        await asyncio.sleep(5.0)
        assert said == [("child", 1.0)]
        _loop().thaw(7)
        await mine
        assert ("timer", 3.0) in said
        assert _loop().tasks_of(7) == []

    run_virtual(scene(), loop=LifeLoop())


def test_a_handle_of_the_frozen_that_was_already_due_does_not_run() -> None:
    """Frozen in the middle of a round of the loop: what waits behind in the same round does not run."""
    said: list[str] = []

    async def speak(word: str) -> None:
        await asyncio.sleep(1.0)
        said.append(word)

    async def scene() -> None:
        async def freezer() -> None:
            await asyncio.sleep(1.0)
            _loop().freeze(1)

        freezing = asyncio.create_task(freezer())
        await asyncio.sleep(0)
        mine = _life(1, speak("life"))
        world = asyncio.create_task(speak("world"))
        await asyncio.sleep(2.0)
        assert said == ["world"]
        _loop().thaw(1)
        await asyncio.gather(freezing, mine, world)
        assert said == ["world", "life"]

    run_virtual(scene(), loop=LifeLoop())
