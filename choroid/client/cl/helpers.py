"""Small helpers of programs: ordinals, frames and seconds, measured stretches of code."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Self

PRECISION_DIGITS = 5
"""Decimals to which seconds and frames are rounded, so that 0.1 s is not a frame more than it is."""

_measuring = True


def ordinal(n: int) -> str:
    """Return a number as an ordinal.

    Args:
        n: The number.

    Returns:
        The text, such as `1st`, `2nd` or `11th`.
    """
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def seconds_to_minimum_frames(seconds: float, frames_per_second: float) -> int:
    """Return the number of frames that last at least a time.

    Args:
        seconds: The time (s).
        frames_per_second: Frames in a second.

    Returns:
        The number of frames.
    """
    return math.ceil(round(seconds * frames_per_second, PRECISION_DIGITS))


def frames_to_approximate_seconds(frames: int, frames_per_second: float) -> float:
    """Return how long frames last.

    Args:
        frames: The number of frames.
        frames_per_second: Frames in a second.

    Returns:
        The time (s), to 10 µs.
    """
    return round(frames / frames_per_second, PRECISION_DIGITS)


def benchmark_enable() -> None:
    """Let each :class:`Stopwatch` print; they do at first."""
    global _measuring
    _measuring = True


def benchmark_disable() -> None:
    """Let no :class:`Stopwatch` print."""
    global _measuring
    _measuring = False


class Stopwatch:
    """Prints how long a `with` block took; programs of the CL API call it `Benchmark`.

    Attributes:
        name: What is printed before the time.
        report_threshold_us: A block that took less (µs) is not printed.
    """

    def __init__(self, name: str | None = None, report_threshold_us: int = 0) -> None:
        """Prepare; the block begins with `with`."""
        self.name = name
        self.report_threshold_us = report_threshold_us
        self._begin_s = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        self._begin_s = time.perf_counter()  # noqa: TID251  (it measures)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Print the time."""
        took_us = 1e6 * (time.perf_counter() - self._begin_s)  # noqa: TID251
        if _measuring and took_us >= self.report_threshold_us:
            print(f"{self.name or 'Benchmark'}: took {took_us:.3f} µs")
