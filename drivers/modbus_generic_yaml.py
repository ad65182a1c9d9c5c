"""Read the YAML text of a Modbus device description into plain data, with the line of each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drivers.modbus_generic_format import MISSING, DescriptionKey
from drivers.strict_yaml import MisreadError, scalar_value

if TYPE_CHECKING:
    import yaml

EXAMPLE = "examples/devices/thermostat.yaml"


@dataclass(frozen=True, slots=True)
class DescriptionProblem:
    """One problem: the key's path (`points.co2.type`), its line, what is wrong, what to write."""

    key: str
    line: int
    what: str
    fix: str

    @property
    def text(self) -> str:
        """The problem in one line."""
        return f"line {self.line}, {self.key}: {self.what} ({self.fix})"


@dataclass(slots=True)
class YamlReader:
    """Turns YAML nodes into plain data; collects the line of each key and all problems."""

    lines: dict[str, int] = field(default_factory=dict)
    problems: list[DescriptionProblem] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)

    def problem(self, key: str, what: str, fix: str) -> None:
        """Record a problem of `key`, at its line or that of its nearest parent."""
        place = key
        while place not in self.lines and "." in place:
            place = place.rpartition(".")[0]
        self.problems.append(DescriptionProblem(key, self.lines.get(place, 1), what, fix))

    def mapping(self, node: yaml.MappingNode, place: str) -> dict[str, Any]:
        """Return a mapping as plain data; `place` is its path."""
        import yaml

        found: dict[str, Any] = {}
        for key_node, node_of_value in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            path = f"{place}.{key}" if place else key
            self.lines[path] = key_node.start_mark.line + 1
            if key in found:
                self.problem(path, "occurs twice", "keep one of the two")
            found[key] = self.value(node_of_value, path)
        return found

    def value(self, node: yaml.Node, place: str) -> Any:
        """Return a node as plain data; None after a problem."""
        import yaml

        if id(node) in self.seen:
            self.problem(place, "is an alias (*name)", "write the values out")
            return None
        self.seen.add(id(node))
        if place.count(".") > 5:
            self.problem(place, "is nested too deeply", f"compare with {EXAMPLE}")
            return None
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, place) for each in node.value]
        try:
            return scalar_value(node)
        except MisreadError as error:
            self.problem(place, error.what, error.fix)
            return error.meant
        except (yaml.YAMLError, ValueError):
            self.problem(place, f"“{node.value}” cannot be read", "write a plain number or word")
            return None

    def fields(self, data: dict[str, Any], place: str, keys: Mapping[str, DescriptionKey]) -> dict[str, Any] | None:
        """Return the values of `keys` in `data`, with defaults; None after a problem."""
        before = len(self.problems)
        dot = f"{place}." if place else ""
        for unknown in sorted(set(data) - set(keys)):
            self.problem(f"{dot}{unknown}", "is unknown", f"known here: {', '.join(keys)}")
        found = {}
        for name, key in keys.items():
            if name not in data:
                if key.default is MISSING:
                    self.problem(f"{dot}{name}", "is missing", key.fix)
                found[name] = key.default
            elif key.right(data[name]):
                found[name] = data[name]
            else:
                value = data[name] if isinstance(data[name], (str, int, float, bool)) else type(data[name]).__name__
                self.problem(f"{dot}{name}", f"“{value}” is not possible", key.fix)
        return found if len(self.problems) == before else None
