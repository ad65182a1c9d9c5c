"""The watch for clocks other than the loop's: it sees those of the driver, and not those of other tools in the process."""

from __future__ import annotations

import gc
import time

from drivers.conformance.manners import _watched


def _on_collection(phase: str, info: dict[str, int]) -> None:
    time.perf_counter()


def test_a_clock_of_the_code_is_seen_and_that_of_a_callback_of_the_garbage_collector_is_not() -> None:
    gc.callbacks.append(_on_collection)
    try:
        with _watched() as seen:
            gc.collect()
        assert not seen
        assert gc.callbacks[-1] is _on_collection
        with _watched() as seen:
            time.monotonic()
        assert seen
    finally:
        gc.callbacks.remove(_on_collection)
