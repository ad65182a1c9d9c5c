"""Hostile and broken models for the board `toy`, by name. Each must be refused, and nothing else may happen."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from tests.grid.boards.models import constant, floats, model_bytes

INPUTS = [floats("x", 4), floats("memory", 3)]
OUTPUTS = [floats("y", 1), floats("memory_next", 3)]
KEEP = helper.make_node("Identity", ["memory"], ["memory_next"])


def good() -> bytes:
    """Return the model that does what the board asks for."""
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1), KEEP]
    return model_bytes(nodes, INPUTS, OUTPUTS, [constant("axes", np.array([0]))])


def _with(*nodes: Any, constants: tuple[Any, ...] = (), domain: str = "") -> bytes:
    made = ModelProto.FromString(model_bytes([*nodes, KEEP], INPUTS, OUTPUTS, list(constants)))
    if domain:
        made.opset_import.append(helper.make_opsetid(domain, 1))
    return bytes(made.SerializeToString())


def external_data(path: str) -> bytes:
    """Return a model whose constant is a file of the grader's machine."""
    held = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", path), ("offset", "0"), ("length", "16")):
        held.external_data.add(key=key, value=value)
    add = helper.make_node("Mul", ["x", "w"], ["weighted"])
    return _with(add, helper.make_node("ReduceMax", ["weighted"], ["y"], keepdims=1), constants=(held,))


def endless_loop() -> bytes:
    """Return a model that counts to 2⁶²."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["more"], ["again"]), helper.make_node("Add", ["value", "value"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            floats("value", 4),
        ],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []), floats("next", 4)],
    )
    loop = helper.make_node("Loop", ["times", "yes", "x"], ["last"], body=body)
    constants = (constant("times", np.array(2**62)), constant("yes", np.array(True)), constant("axes", np.array([0])))
    return _with(loop, helper.make_node("ReduceSum", ["last", "axes"], ["y"], keepdims=1), constants=constants)


def memory_bomb() -> bytes:
    """Return a small model that makes a tensor of 40 GB when it is called."""
    nodes = (
        helper.make_node("Cast", ["x"], ["n"], to=TensorProto.INT64),
        helper.make_node("Sub", ["n", "n"], ["none"]),
        helper.make_node("Add", ["none", "sizes"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["huge"]),
        helper.make_node("ReduceSum", ["huge", "axes"], ["all"], keepdims=1),
        helper.make_node("Reshape", ["all", "one"], ["y"]),
    )
    constants = (
        constant("sizes", np.array([100, 100, 1000, 1000])),
        constant("axes", np.arange(4)),
        constant("one", np.array([1])),
    )
    return _with(*nodes, constants=constants)


def not_a_number() -> bytes:
    """Return a model whose output is NaN for every observation."""
    nodes = (helper.make_node("Sub", ["x", "x"], ["zero"]), helper.make_node("Div", ["zero", "zero"], ["nan"]))
    return _with(
        *nodes,
        helper.make_node("ReduceSum", ["nan", "axes"], ["y"], keepdims=1),
        constants=(constant("axes", np.array([0])),),
    )


def two_meanings() -> bytes:
    """Return a model with two constants of one name: parsers differ in which counts."""
    made = ModelProto.FromString(good())
    made.graph.initializer.append(constant("axes", np.array([-1])))
    return bytes(made.SerializeToString())


def giant_constant() -> bytes:
    """Return a model of some bytes whose constant claims to be 4 TB."""
    claimed = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[10**6, 10**6], raw_data=b"\0" * 16)
    nodes = (
        helper.make_node("ReduceMax", ["w"], ["most"], keepdims=0),
        helper.make_node("Reshape", ["most", "one"], ["y"]),
    )
    return _with(*nodes, constants=(claimed, constant("one", np.array([1]))))


def operator(name: str, domain: str) -> bytes:
    """Return a model with an operator of another domain."""
    return _with(helper.make_node(name, ["x"], ["y"], domain=domain), domain=domain)


class _Touch:
    """Unpickled, it would write a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


def corpus(canary: str) -> dict[str, bytes]:
    """Return the models; `canary` is a file that must not be read, and `canary`.new one that must not be made."""
    return {
        "external data, absolute": external_data(canary),
        "external data, upwards": external_data("../../../../../../../.." + canary),
        "endless loop": endless_loop(),
        "memory bomb": memory_bomb(),
        "giant constant": giant_constant(),
        "custom operator": operator("Anything", "org.example"),
        "file by an operator": operator("ReadFile", "ai.onnx.contrib"),
        "socket by an operator": operator("AzureTextToText", "ai.onnx.contrib"),
        "python by an operator": operator("PyOp", "com.microsoft"),
        "not a number": not_a_number(),
        "two meanings": two_meanings(),
        "pickle": pickle.dumps(_Touch(canary + ".new")),
        "truncated": good()[:-20],
        "rubbish": bytes(range(256)) * 4,
        "other outputs": model_bytes([helper.make_node("Neg", ["x"], ["z"])], [floats("x", 4)], [floats("z", 4)], []),
        "crash": good() + b"\xff" * 8,
    }
