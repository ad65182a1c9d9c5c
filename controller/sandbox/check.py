"""Check the bytes of an ONNX model before any runtime reads them.

The model is read with a parser of our own that knows each field of the messages by number: a field that is not listed here is
refused, and so is what could make two parsers disagree. Source of the numbers: onnx/onnx.proto, release 1.19.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from controller.sandbox.errors import ModelRefused
from controller.sandbox.limits import ModelLimits
from controller.sandbox.operators import ITEM_BYTES, MAX_OPSET, MIN_OPSET, OPERATORS
from controller.sandbox.protobuf import BYTES, VARINT, Field, MalformedMessage, fields, integers

DOMAINS = ("", "ai.onnx")


@dataclass(slots=True)
class ModelFacts:
    """What the check has counted."""

    opset: int = 0
    nodes: int = 0
    initializer_bytes: int = 0
    operators: set[str] = field(default_factory=set)


def check_model(model: bytes, limits: ModelLimits) -> ModelFacts:
    """Check a model.

    Args:
        model: The bytes of an ONNX file.
        limits: Largest size and counts.

    Returns:
        What the model consists of.

    Raises:
        ModelRefused: The model is too large, malformed, or contains what is not allowed; the text names it.
    """
    if len(model) > limits.max_model:
        raise ModelRefused(f"the model has {len(model)} bytes; the limit is {limits.max_model}")
    if model[4:8] == b"ORTM":
        raise ModelRefused("the model is in ORT format; only ONNX is read")
    facts = ModelFacts()
    try:
        _model(memoryview(model), facts, limits)
    except MalformedMessage as error:
        raise ModelRefused(f"the model is no ONNX file: {error}") from None
    if not MIN_OPSET <= facts.opset <= MAX_OPSET:
        raise ModelRefused(
            f"the model imports operator set {facts.opset}; {MIN_OPSET} to {MAX_OPSET} are allowed."
            " Next: export it again with one of these"
        )
    if not facts.nodes:
        raise ModelRefused("the model has no operator")
    return facts


def _known(
    message: memoryview, where: str, known: Mapping[int, int | None], single: tuple[int, ...] = ()
) -> Iterator[Field]:
    """Yield the fields of a message whose numbers are in `known` (number → kind; None for any kind); refuse all others.

    A field of `single` may occur once only: parsers may differ in which occurrence counts.
    """
    seen = set()
    for entry in fields(message):
        if entry.number not in known:
            raise ModelRefused(f"{where} has field {entry.number}, which is not allowed")
        if known[entry.number] not in (None, entry.kind):
            raise ModelRefused(f"field {entry.number} of {where} is of the wrong kind")
        if entry.number in single and entry.number in seen:
            raise ModelRefused(f"{where} has field {entry.number} twice")
        seen.add(entry.number)
        yield entry


_MODEL = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES, 7: BYTES, 8: BYTES, 14: BYTES}
"""ir_version, producer_name, producer_version, domain, model_version, doc_string, graph, opset_import, metadata_props.

Not allowed: training_info (20), functions (25), configuration (26).
"""


def _model(message: memoryview, facts: ModelFacts, limits: ModelLimits) -> None:
    for entry in _known(message, "the model", _MODEL, single=(1, 7)):
        if entry.number == 7:
            _graph(entry.data, facts, limits, 1)
        elif entry.number == 8:
            _opset(entry.data, facts)


def _opset(message: memoryview, facts: ModelFacts) -> None:
    domain, version = "", 0
    for entry in _known(message, "an operator set", {1: BYTES, 2: VARINT}, single=(1, 2)):
        if entry.number == 1:
            domain = _text(entry)
        else:
            version = entry.value
    if domain not in DOMAINS:
        raise ModelRefused(f"the model imports operators of the domain {domain!r}; only the standard domain is allowed")
    if facts.opset:
        raise ModelRefused("the model imports two operator sets")
    facts.opset = version


_GRAPH = {1: BYTES, 2: BYTES, 5: BYTES, 10: BYTES, 11: BYTES, 12: BYTES, 13: BYTES, 14: BYTES, 16: BYTES}
"""node, name, initializer, doc_string, input, output, value_info, quantization_annotation, metadata_props.

Not allowed: sparse_initializer (15).
"""


def _graph(message: memoryview, facts: ModelFacts, limits: ModelLimits, depth: int) -> None:
    if depth > limits.max_depth:
        raise ModelRefused(f"graphs are nested deeper than {limits.max_depth} levels")
    named: dict[str, list[str]] = {"constants": [], "inputs": [], "outputs": [], "types": [], "results": []}
    for entry in _known(message, "a graph", _GRAPH):
        if entry.number == 1:
            named["results"] += _node(entry.data, facts, limits, depth)
        elif entry.number == 5:
            named["constants"].append(_tensor(entry.data, facts, limits))
        elif entry.number in _VALUES:
            named[_VALUES[entry.number]].append(_value(entry.data))
    for what, names in named.items():
        _distinct(what, names)
    # an input may be a constant as well, which is then its default; a result is made by one operator and nothing else
    _distinct("values", [*named["results"], *{*named["inputs"], *named["constants"]}])


_VALUES = {11: "inputs", 12: "outputs", 13: "types"}


def _value(message: memoryview) -> str:
    """Return the name of an input, an output or a typed value (name, type, doc_string, metadata_props)."""
    entries = _known(message, "a value", {1: BYTES, 2: BYTES, 3: BYTES, 4: BYTES}, single=(1, 2))
    return "".join([_name(entry) for entry in entries if entry.number == 1])


def _distinct(what: str, names: Sequence[str]) -> None:
    """Refuse a name that occurs twice: parsers may differ in which occurrence counts."""
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ModelRefused(f"two {what} of a graph are named {twice[:200]!r}. Next: give each its own name")


_NODE = {1: BYTES, 2: BYTES, 3: BYTES, 4: BYTES, 5: BYTES, 6: BYTES, 7: BYTES, 9: BYTES}
"""input, output, name, op_type, attribute, doc_string, domain, metadata_props.

Not allowed: overload (8), device_configurations (10).
"""


def _node(message: memoryview, facts: ModelFacts, limits: ModelLimits, depth: int) -> list[str]:
    """Check an operator; return the names of its results. One that is left out has none."""
    facts.nodes += 1
    if facts.nodes > limits.max_nodes:
        raise ModelRefused(f"the model has more than {limits.max_nodes} operators")
    operator = domain = ""
    results: list[str] = []
    attributes: list[str] = []
    for entry in _known(message, "an operator", _NODE, single=(4, 7)):
        if entry.number == 4:
            operator = _text(entry)
        elif entry.number == 7:
            domain = _text(entry)
        elif entry.number == 5:
            attributes.append(_attribute(entry.data, facts, limits, depth))
        elif entry.number == 2 and entry.data:
            results.append(_name(entry))
    _distinct("attributes of an operator", attributes)
    if domain not in DOMAINS:
        raise ModelRefused(f"operator {operator!r} is of the domain {domain!r}; only the standard domain is allowed")
    if operator not in OPERATORS:
        raise ModelRefused(f"operator {operator!r} is not allowed. Next: see controller/sandbox/operators.py")
    facts.operators.add(operator)
    return results


_ATTRIBUTE = {1: BYTES, 2: None, 3: VARINT, 4: BYTES, 5: BYTES, 6: BYTES, 7: None, 8: None, 9: BYTES, 10: BYTES}
_ATTRIBUTE |= {11: BYTES, 13: BYTES, 20: VARINT}
"""name, f, i, s, t, g, floats, ints, strings, tensors, graphs, doc_string, type.

Not allowed: type_proto (14), type_protos (15), ref_attr_name (21), sparse_tensor (22), sparse_tensors (23).
"""


def _attribute(message: memoryview, facts: ModelFacts, limits: ModelLimits, depth: int) -> str:
    """Check an attribute; return its name."""
    name = ""
    for entry in _known(message, "an attribute", _ATTRIBUTE, single=(1, 5, 6, 20)):
        if entry.number in (5, 10):
            _tensor(entry.data, facts, limits)
        elif entry.number in (6, 11):
            _graph(entry.data, facts, limits, depth + 1)
        elif entry.number == 1:
            name = _name(entry)
    return name


_TENSOR = {1: None, 2: VARINT, 4: None, 5: None, 7: None, 8: BYTES, 9: BYTES, 10: None, 11: None, 12: BYTES, 14: VARINT}
_TENSOR |= {16: BYTES}
"""dims, data_type, float_data, int32_data, int64_data, name, raw_data, double_data, uint64_data, doc_string, data_location,
metadata_props.

Not allowed: segment (3), string_data (6), external_data (13).
"""
_TENSOR_DATA = (4, 5, 7, 9, 10, 11)


def _tensor(message: memoryview, facts: ModelFacts, limits: ModelLimits) -> str:
    """Check a constant; return its name."""
    name = ""
    dims: list[int] = []
    data_type = data = 0
    raw = None
    for entry in _known(message, "a constant", _TENSOR, single=(2, 8, 9, 14)):
        if entry.number == 1:
            dims += integers(entry)
        elif entry.number == 8:
            name = _name(entry)
        elif entry.number == 2:
            data_type = entry.value
        elif entry.number == 14 and entry.value:
            raise ModelRefused("a constant is stored outside the model; external data is not allowed")
        elif entry.number in _TENSOR_DATA:
            data += max(1, len(entry.data))
            raw = len(entry.data) if entry.number == 9 else raw
    if data_type not in ITEM_BYTES:
        raise ModelRefused(f"a constant is of type {data_type}; only numbers are allowed")
    if len(dims) > 8 or any(dim < 0 for dim in dims):
        raise ModelRefused("a constant has a negative size or more than eight dimensions")
    elements = prod(dims)
    if elements > data or (raw is not None and raw != elements * ITEM_BYTES[data_type]):
        raise ModelRefused(f"a constant of {elements} elements holds {data} bytes of data")
    facts.initializer_bytes += elements * ITEM_BYTES[data_type]
    if facts.initializer_bytes > limits.max_initializers:
        raise ModelRefused(f"the constants of the model are larger than {limits.max_initializers} bytes")
    return name


def _text(entry: Field) -> str:
    return _name(entry)[:200]


def _name(entry: Field) -> str:
    try:
        return str(entry.data, "utf-8")
    except UnicodeDecodeError:
        raise ModelRefused(f"field {entry.number} is no text") from None
