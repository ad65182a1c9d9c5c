"""ONNX models for the tests of the sandbox: usual ones and hostile ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

OPSET = 17


def floats(name: str, *shape: int) -> Any:
    """Describe a tensor of 32-bit floats."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def constant(name: str, values: Any) -> TensorProto:
    """Return a constant."""
    array = np.asarray(values)
    return helper.make_tensor(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.tobytes(), raw=True
    )


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Sequence[TensorProto] = (),
    domains: Sequence[str] = ("",),
    opset: int = OPSET,
) -> Any:
    """Return a model."""
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(name, opset) for name in domains], ir_version=8)


def linear(inputs: int = 64, outputs: int = 8) -> Any:
    """Return y = x W, with a W of ones."""
    return model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [floats("x", 1, inputs)],
        [floats("y", 1, outputs)],
        [constant("w", np.ones((inputs, outputs), np.float32))],
    )


def loop(times: int) -> Any:
    """Return y = x + 1, `times` times, one after another."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["more"], ["again"]),
            helper.make_node("Add", ["value", "one"], ["next"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            floats("value", 1),
        ],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []), floats("next", 1)],
        [constant("one", np.ones(1, np.float32))],
    )
    return model_of(
        [helper.make_node("Loop", ["times", "yes", "x"], ["y"], body=body)],
        [floats("x", 1)],
        [floats("y", 1)],
        [constant("times", np.array(times, np.int64)), constant("yes", np.array(True))],
    )


def memory_bomb(megabytes: int) -> Any:
    """Return a model of some bytes that makes a tensor of `megabytes`; its size depends on the input, so only at a call."""
    return model_of(
        [
            helper.make_node("Cast", ["x"], ["n"], to=TensorProto.INT64),
            helper.make_node("Mul", ["n", "size"], ["shape"]),
            helper.make_node("ConstantOfShape", ["shape"], ["huge"]),
            helper.make_node("ReduceSum", ["huge", "axes"], ["y"], keepdims=1),
        ],
        [floats("x", 1)],
        [floats("y", 1)],
        [constant("size", np.array([megabytes * 250_000])), constant("axes", np.array([0]))],
    )
