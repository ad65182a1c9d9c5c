"""Cost of a call into the sandbox for models: round trip with a model that computes next to nothing, and the start."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from controller.sandbox.model import SandboxedModel

CALLS = 5_000
SIZES = {"64_values": 64, "250k_values": 250_000}


def bench_sandbox() -> dict[str, float]:
    """Measure start and calls; takes some seconds. Keys carry the unit."""
    figures: dict[str, float] = {}
    for name, size in SIZES.items():
        began = time.perf_counter()  # noqa: TID251  (a benchmark)
        with SandboxedModel.open(_negation(size)) as model:
            figures[f"open_{name}_ms"] = (time.perf_counter() - began) * 1e3  # noqa: TID251
            inputs = {"x": np.zeros(size, np.float32)}
            calls = CALLS if size < 1_000 else CALLS // 20
            figures |= _percentiles(f"call_{name}", _calls(model, inputs, calls))
            if size < 1_000:
                figures |= _percentiles(f"call_async_{name}", asyncio.run(_calls_async(model, inputs, calls)))
    return figures


def _negation(size: int) -> bytes:
    """Return the model y = -x."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negation", ports[:1], ports[1:])
    model: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return model


def _calls(model: SandboxedModel, inputs: dict[str, Any], calls: int) -> list[float]:
    times = []
    for _ in range(calls):
        began = time.perf_counter()  # noqa: TID251
        model.run(inputs, 5.0)
        times.append(time.perf_counter() - began)  # noqa: TID251
    return times


async def _calls_async(model: SandboxedModel, inputs: dict[str, Any], calls: int) -> list[float]:
    times = []
    for _ in range(calls):
        began = time.perf_counter()  # noqa: TID251
        await model.run_async(inputs, 5.0)
        times.append(time.perf_counter() - began)  # noqa: TID251
    return times


def _percentiles(name: str, times_s: list[float]) -> dict[str, float]:
    us = np.array(times_s) * 1e6
    return {f"{name}_{label}_us": float(np.percentile(us, q)) for label, q in (("p50", 50), ("p99", 99))}
