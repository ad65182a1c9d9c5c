"""ONNX models for boards: a linear decoder, and agents of a few operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper


def floats(name: str, *shape: int) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def constant(name: str, values: Any) -> Any:
    return numpy_helper.from_array(np.asarray(values), name)


def model_bytes(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any], opset: int = 17
) -> bytes:
    graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(made.SerializeToString())


def linear_decoder(weights: NDArray[np.float64], trials: int = 160, bins: int = 10, electrodes: int = 16) -> bytes:
    """Return logits = [spikes, 1] · weights for the board decode-stimulus."""
    inputs = bins * electrodes
    return model_bytes(
        [
            helper.make_node("Reshape", ["spikes", "flat"], ["rows"]),
            helper.make_node("Gemm", ["rows", "w", "b"], ["logits"]),
        ],
        [floats("spikes", trials, bins, electrodes)],
        [floats("logits", trials, weights.shape[1])],
        [
            constant("flat", np.array([trials, inputs], np.int64)),
            constant("w", weights[:-1].astype(np.float32)),
            constant("b", weights[-1].astype(np.float32)),
        ],
    )


def alternating_agent() -> bytes:
    """Return an agent for the board train-route: it trains both ways in turn, counting in its memory."""
    nodes = [
        helper.make_node("Slice", ["memory", "zero", "one"], ["count"]),
        helper.make_node("Mod", ["count", "two"], ["side"], fmod=1),
        helper.make_node("Slice", ["state", "four", "five"], ["wanted"]),
        helper.make_node("Sub", ["wanted", "side"], ["apart"]),
        helper.make_node("Abs", ["apart"], ["motor"]),
        helper.make_node("Mul", ["side", "two"], ["twice"]),
        helper.make_node("Add", ["twice", "motor"], ["pair"]),
        helper.make_node("Add", ["pair", "unit"], ["chosen"]),
        helper.make_node("Sub", ["numbers", "chosen"], ["away"]),
        helper.make_node("Abs", ["away"], ["distance"]),
        helper.make_node("Neg", ["distance"], ["pattern"]),
        helper.make_node("Add", ["memory", "unit"], ["memory_next"]),
    ]
    indices = [
        constant(name, np.array([n], np.int64)) for name, n in (("zero", 0), ("one", 1), ("four", 4), ("five", 5))
    ]
    numbers = {"two": [2.0], "unit": [1.0], "numbers": [0.0, 1.0, 2.0, 3.0, 4.0]}
    values = [constant(name, np.array(each, np.float32)) for name, each in numbers.items()]
    inputs, outputs = [floats("state", 6), floats("memory", 16)], [floats("pattern", 5), floats("memory_next", 16)]
    return model_bytes(nodes, inputs, outputs, indices + values)
