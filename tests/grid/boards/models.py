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


def _picked(*places: int) -> NDArray[np.int64]:
    return np.array(places, np.int64)


def feedback_agent() -> bytes:
    """Return an agent for the board steering that acts as its baseline `feedback`.

    Memory: 0–3 the value of each pattern, 4–7 which one was chosen last, 8–9 the performance, 10 whether there is one.
    """
    nodes = [
        helper.make_node("Gather", ["state", "at_right"], ["right"]),
        helper.make_node("Gather", ["memory", "at_value"], ["value"]),
        helper.make_node("Gather", ["memory", "at_last"], ["last"]),
        helper.make_node("Gather", ["memory", "at_performance"], ["kept"]),
        helper.make_node("Gather", ["memory", "at_begun"], ["begun"]),
        helper.make_node("Greater", ["begun", "none"], ["known"]),
        helper.make_node("Where", ["known", "kept", "right"], ["before"]),
        helper.make_node("Sub", ["right", "before"], ["change"]),
        helper.make_node("Gather", ["change", "side_of"], ["changes"]),
        helper.make_node("Mul", ["last", "changes"], ["gained"]),
        helper.make_node("Add", ["value", "gained"], ["summed"]),
        helper.make_node("Clip", ["summed", "lowest", "highest"], ["value_next"]),
        helper.make_node("Mul", ["change", "smoothing"], ["step"]),
        helper.make_node("Add", ["before", "step"], ["performance"]),
        helper.make_node("ArgMin", ["performance"], ["side"], axis=0, keepdims=1),
        helper.make_node("Equal", ["side_of", "side"], ["of_side"]),
        helper.make_node("Cast", ["of_side"], ["preferred"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["preferred", "ten"], ["bonus"]),
        helper.make_node("Add", ["value_next", "bonus"], ["values"]),
        helper.make_node("ArgMax", ["values"], ["chosen"], axis=0, keepdims=1),
        helper.make_node("Equal", ["numbers", "chosen"], ["is_chosen"]),
        helper.make_node("Cast", ["is_chosen"], ["last_next"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["values", "ten"], ["shown"]),
        helper.make_node("Concat", ["none", "shown"], ["pattern"], axis=0),
        helper.make_node("Concat", ["value_next", "last_next", "performance", "one", "rest"], ["memory_next"], axis=0),
    ]
    places = {
        "at_right": _picked(4, 5),
        "at_value": _picked(0, 1, 2, 3),
        "at_last": _picked(4, 5, 6, 7),
        "at_performance": _picked(8, 9),
        "at_begun": _picked(10),
        "side_of": _picked(0, 0, 1, 1),
        "numbers": _picked(0, 1, 2, 3),
    }
    values = {"none": [0.0], "one": [1.0], "ten": [10.0], "smoothing": [0.5], "rest": [0.0] * 5}
    scalars = {"lowest": -1.0, "highest": 1.0}
    constants = [constant(name, each) for name, each in places.items()]
    constants += [constant(name, np.array(each, np.float32)) for name, each in (values | scalars).items()]
    inputs, outputs = [floats("state", 7), floats("memory", 16)], [floats("pattern", 5), floats("memory_next", 16)]
    return model_bytes(nodes, inputs, outputs, constants)


def alternating_agent() -> bytes:
    """Return an agent for the board steering that never looks: patterns 1 and 4 in turn, counted in its memory."""
    nodes = [
        helper.make_node("Gather", ["memory", "first"], ["count"]),
        helper.make_node("Mod", ["count", "two"], ["turn"], fmod=1),
        helper.make_node("Sub", ["one", "turn"], ["other"]),
        helper.make_node("Mul", ["turn", "pattern_1"], ["odd"]),
        helper.make_node("Mul", ["other", "pattern_4"], ["even"]),
        helper.make_node("Add", ["odd", "even"], ["chosen"]),
        helper.make_node("Mul", ["state", "nothing"], ["unused"]),
        helper.make_node("Slice", ["unused", "from", "to"], ["ignored"]),
        helper.make_node("Add", ["chosen", "ignored"], ["pattern"]),
        helper.make_node("Add", ["memory", "one"], ["memory_next"]),
    ]
    places = [constant("first", _picked(0)), constant("from", _picked(0)), constant("to", _picked(5))]
    unit = np.eye(5, dtype=np.float32)
    values = {"one": [1.0], "two": [2.0], "nothing": [0.0], "pattern_1": unit[1], "pattern_4": unit[4]}
    constants = [constant(name, np.array(each, np.float32)) for name, each in values.items()]
    inputs, outputs = [floats("state", 7), floats("memory", 16)], [floats("pattern", 5), floats("memory_next", 16)]
    return model_bytes(nodes, inputs, outputs, places + constants)
