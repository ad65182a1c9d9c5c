"""`choroid verify soak`: a stack that leaks is found, and this one does not leak (R4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from choroid.common.failure import UserError
from controller.process.load import LoadFigures, descriptors
from verification.bench import soak
from verification.bench.soak import ProcessSample, soak_virtual, verdict

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
HOURS = 9.0


def _samples(of: Callable[[int], ProcessSample]) -> list[ProcessSample]:
    return [of(number) for number in range(30)]


def test_J1_each_kind_of_growth_is_found_and_a_flat_process_is_not_accused() -> None:
    flat = verdict(_samples(lambda n: ProcessSample(n, 200.0 + n % 3, 20 + n % 2, 36 + n % 4)))
    assert flat.growing == ()
    assert verdict(_samples(lambda n: ProcessSample(n, 200.0 + 2.0 * n, 20, 36))).growing == ("memory",)
    assert verdict(_samples(lambda n: ProcessSample(n, 200.0, 20 + n // 10, 36))).growing == ("descriptors",)
    assert verdict(_samples(lambda n: ProcessSample(n, 200.0, 20, 36 + n // 9 + n % 3))).growing == ("tasks",)
    assert verdict(_samples(lambda n: ProcessSample(n, 200.0 + 99.0 * min(n, 9), 20))).growing == (), (
        "caches fill at first"
    )
    assert verdict(_samples(lambda n: ProcessSample(n, 200.0, 20))).tasks is None
    with pytest.raises(UserError, match="longer"):
        verdict([ProcessSample(0.0, 200.0, 20)] * 5)


@pytest.mark.long
def test_R4_hours_of_the_whole_stack_leave_memory_descriptors_and_tasks_flat() -> None:
    answer = soak_virtual(BENCH, hours=HOURS, seed=3, progress=False)
    assert answer["violations"] == []
    assert answer["processes"]["stack"]["growing"] == ()
    assert answer["processes"]["stack"]["tasks"][0] > 10
    assert answer["flat"]


def test_J1_a_stack_that_leaks_descriptors_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []

    def leaking(*_: Any, watch: Callable[[float, Any, Any], None], **__: Any) -> dict[str, Any]:
        for hour in range(12):
            watch(3600.0 * hour, None, Process())
            kept.append(BENCH.open())
        return {"violations": [], "speed": 1.0}

    class Process:
        """A controller that keeps a file open each hour."""

        class load:
            @staticmethod
            def figures() -> LoadFigures:
                return LoadFigures(0.0, 0.0, 30, descriptors(Path("/proc/self")), 100.0)

    monkeypatch.setattr(soak, "simulate", leaking)
    try:
        answer = soak_virtual(BENCH, hours=12.0, seed=3, progress=False)
    finally:
        for file in kept:
            file.close()
    assert answer["processes"]["stack"]["growing"] == ("descriptors",)
    assert not answer["flat"]
