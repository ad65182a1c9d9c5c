"""What the check of a model refuses, before any runtime reads its bytes."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper

from controller.sandbox.check import check_model
from controller.sandbox.errors import ModelRefused
from controller.sandbox.limits import ModelLimits
from tests.sandbox.models import OPSET, constant, floats, linear, loop, memory_bomb, model_of

LIMITS = ModelLimits()


def refused(model: Any, limits: ModelLimits = LIMITS) -> str:
    with pytest.raises(ModelRefused) as caught:
        check_model(model if isinstance(model, bytes) else model.SerializeToString(), limits)
    return str(caught.value)


def test_usual_models_pass_and_are_counted() -> None:
    facts = check_model(linear().SerializeToString(), LIMITS)
    assert (facts.opset, facts.nodes, facts.initializer_bytes, facts.operators) == (OPSET, 1, 64 * 8 * 4, {"MatMul"})
    facts = check_model(loop(3).SerializeToString(), LIMITS)
    assert facts.nodes == 3
    assert facts.operators == {"Loop", "Identity", "Add"}
    check_model(memory_bomb(1).SerializeToString(), LIMITS)


def test_N11_external_data_is_refused() -> None:
    model = linear()
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    assert "field 13" in refused(model) or "outside" in refused(model)
    del weights.external_data[:]
    assert "stored outside" in refused(model)
    weights.data_location = TensorProto.DEFAULT
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    assert "field 13" in refused(model)


@pytest.mark.parametrize(
    ("node", "domains", "says"),
    [
        (helper.make_node("MyOp", ["x"], ["y"], domain="com.attacker"), ("", "com.attacker"), "domain 'com.attacker'"),
        (helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft"), ("",), "domain 'com.microsoft'"),
        (helper.make_node("RandomNormalLike", ["x"], ["y"]), ("",), "'RandomNormalLike' is not allowed"),
        (helper.make_node("StringNormalizer", ["x"], ["y"]), ("",), "'StringNormalizer' is not allowed"),
        (helper.make_node("SequenceConstruct", ["x"], ["y"]), ("",), "'SequenceConstruct' is not allowed"),
        (helper.make_node("", ["x"], ["y"]), ("",), "'' is not allowed"),
    ],
)
def test_N11_custom_domains_and_operators_are_refused(node: Any, domains: tuple[str, ...], says: str) -> None:
    assert says in refused(model_of([node], [floats("x", 1)], [floats("y", 1)], domains=domains))


def test_N11_an_operator_hidden_in_a_nested_graph_is_refused() -> None:
    model = loop(3)
    model.graph.node[0].attribute[0].g.node[1].op_type = "RandomUniformLike"
    assert "'RandomUniformLike'" in refused(model)


def test_N11_an_operator_hidden_in_a_function_is_refused() -> None:
    model = linear()
    function = helper.make_function("", "MatMul", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [])
    model.functions.append(function)
    assert "the model has field 25" in refused(model)


def test_N11_constants_that_claim_more_than_they_hold_are_refused() -> None:
    model = linear()
    weights = model.graph.initializer[0]
    weights.dims[:] = [1 << 40, 8]
    assert "elements holds" in refused(model)
    weights.dims[:] = [-1, 8]
    assert "negative size" in refused(model)
    weights.dims[:] = [1] * 9
    assert "more than eight" in refused(model)
    huge = TensorProto(dims=[1 << 33], data_type=TensorProto.FLOAT, raw_data=b"")
    filled = model_of([helper.make_node("Constant", [], ["y"], value=huge)], [floats("x", 1)], [floats("y", 1)])
    assert "elements holds" in refused(filled)


def test_N11_sizes_and_counts_have_limits() -> None:
    assert "bytes; the limit is 100" in refused(linear(), ModelLimits(max_model=100))
    assert "larger than 2047 bytes" in refused(linear(), ModelLimits(max_initializers=2047))
    check_model(linear().SerializeToString(), ModelLimits(max_initializers=2048))
    chain = [helper.make_node("Relu", [f"v{n}"], [f"v{n + 1}"]) for n in range(11)]
    assert "more than 10 operators" in refused(
        model_of(chain, [floats("v0", 1)], [floats("v11", 1)]), ModelLimits(max_nodes=10)
    )
    assert "nested deeper" in refused(loop(3), ModelLimits(max_depth=1))


def test_N11_strings_sparse_and_typed_constants_are_refused() -> None:
    model = linear()
    model.graph.initializer.append(TensorProto(data_type=TensorProto.STRING, dims=[1], string_data=[b"/etc/passwd"]))
    assert "field 6" in refused(model) or "type 8" in refused(model)
    model = linear()
    sparse = model.graph.sparse_initializer.add()
    sparse.values.CopyFrom(constant("v", np.ones(1, np.float32)))
    assert "field 15" in refused(model)
    model = linear()
    attribute = AttributeProto(name="a", ref_attr_name="b", type=AttributeProto.INT)
    model.graph.node[0].attribute.append(attribute)
    assert "field 21" in refused(model)


def _twice(what: str) -> Any:
    """Return a model that defines a name twice, and that the check accepts without the second definition."""
    model = loop(3) if what == "a nested result" else linear()
    graph = model.graph
    if what == "a constant":
        graph.initializer.append(constant(graph.initializer[0].name, np.zeros((64, 8), np.float32)))
    elif what == "an input":
        graph.input.append(graph.input[0])
    elif what == "an output":
        graph.output.append(graph.output[0])
    elif what == "a type":
        graph.value_info.extend([floats("h", 1), floats("h", 2)])
    elif what == "a result":
        graph.node.append(helper.make_node("Relu", [graph.input[0].name], [graph.output[0].name]))
    elif what == "a result and a constant":
        graph.node.append(helper.make_node("Relu", [graph.input[0].name], [graph.initializer[0].name]))
    elif what == "a result and an input":
        graph.node.append(helper.make_node("Relu", [graph.output[0].name], [graph.input[0].name]))
    elif what == "a nested result":
        inner = graph.node[0].attribute[0].g
        inner.node.append(inner.node[0])
    else:
        graph.node[0].attribute.extend([helper.make_attribute("alpha", 1.0), helper.make_attribute("alpha", 2.0)])
    return model


@pytest.mark.parametrize(
    "what",
    ["a constant", "an input", "an output", "a type", "a result", "a result and a constant"]
    + ["a result and an input", "a nested result", "an attribute"],
)
def test_N11_a_name_with_two_definitions_is_refused_because_parsers_differ_in_which_counts(what: str) -> None:
    assert "are named" in refused(_twice(what))


def test_N11_an_input_with_a_default_and_results_that_are_left_out_are_no_two_definitions() -> None:
    model = linear()
    model.graph.input.append(floats(model.graph.initializer[0].name, 64, 8))
    check_model(model.SerializeToString(), LIMITS)
    nodes = [helper.make_node("Dropout", ["x"], ["h", ""]), helper.make_node("Dropout", ["h"], ["y", ""])]
    check_model(model_of(nodes, [floats("x", 1)], [floats("y", 1)]).SerializeToString(), LIMITS)


def test_N11_operator_sets_outside_the_range_and_other_formats_are_refused() -> None:
    for opset in (1, 8, 25, 10_000):
        assert f"operator set {opset}" in refused(
            model_of([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 1)], [floats("y", 1)], opset=opset)
        )
    model = linear()
    model.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    assert "two operator sets" in refused(model)
    assert "ORT format" in refused(b"\x18\0\0\0ORTM" + bytes(100))
    assert "no operator" in refused(model_of([], [floats("x", 1)], [floats("x", 1)]))


def test_N11_what_two_parsers_could_read_in_two_ways_is_refused() -> None:
    node = helper.make_node("Relu", ["x"], ["y"]).SerializeToString()
    twice = node + bytes([0x22, 5]) + b"MyOps"
    graph = bytes([0x0A, len(twice)]) + twice
    model = bytes([0x3A, len(graph)]) + graph + bytes([0x42, 2, 0x10, OPSET])
    assert "an operator has field 4 twice" in refused(model)
    good = linear().SerializeToString()
    graphs = good + bytes([0x3A, 0])
    assert "the model has field 7 twice" in refused(graphs)
    assert "unknown kind" in refused(good + bytes([0x0B]))
    assert "wrong kind" in refused(good + bytes([0x3D, 0, 0, 0, 0]))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_N11_spoilt_bytes_are_refused_or_pass_but_never_raise_anything_else(data: st.DataObject) -> None:
    spoilt = bytearray(loop(3).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(spoilt) - 1))
        spoilt[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, len(spoilt)))
    for candidate in (bytes(spoilt), bytes(spoilt[:cut])):
        with contextlib.suppress(ModelRefused):
            check_model(candidate, LIMITS)
