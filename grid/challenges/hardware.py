"""What a machine says of itself: cores, memory, disk, accelerators with PCIe width and power where readable."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from grid.wire import grid_pb2 as pb

NVIDIA = ("name", "memory.total", "pcie.link.width.current", "power.limit")
"""What nvidia-smi is asked for; memory in MiB, power in W."""


def hello(data: Path) -> pb.Hello:
    """Return the versions and claims of this machine; `data` is on the disk that is lent."""
    try:
        choroid = version("choroid")
    except PackageNotFoundError:
        choroid = ""
    return pb.Hello(choroid=choroid, python=platform.python_version(), claims=claims(data))


def claims(data: Path) -> pb.Claims:
    """Return the cores that this process may use, free memory, free disk and accelerators."""
    found = pb.Claims(
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=_memory_available(),
        disk_free_bytes=shutil.disk_usage(data).free,
    )
    found.gpus.extend(_gpus())
    return found


def load() -> float:
    """Return how many processes want to run on each core of this machine, on average over the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def accelerator() -> str:
    """Return the device of torch that challenges use; empty without torch or without an accelerator."""
    if find_spec("torch") is None:
        return ""
    torch: Any = import_module("torch")
    return "cuda" if torch.cuda.is_available() else ""


def _memory_available() -> int:
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * 1024
    return 0


def _gpus() -> list[pb.GpuClaim]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    words = [program, f"--query-gpu={','.join(NVIDIA)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    return [_gpu(line) for line in done.stdout.splitlines() if line.count(",") >= len(NVIDIA) - 1]


def _gpu(line: str) -> pb.GpuClaim:
    name, memory_mib, lanes, power_w = [each.strip() for each in line.split(",")[: len(NVIDIA)]]
    return pb.GpuClaim(
        name=name, memory_bytes=int(_number(memory_mib)) << 20, pcie_lanes=int(_number(lanes)), power_w=_number(power_w)
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # “[N/A]”
        return 0.0
