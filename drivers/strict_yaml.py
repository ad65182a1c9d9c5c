"""The one reader of YAML values: what a person writes is read as meant, or refused with what to write (Q2).

YAML 1.1 reads `0010` as 8, `1:30` as 90 and `on` as true, and takes `1e-3` for a text. Every file that people write (rig,
device, recipe, grading, faults, agents, grid) is read through this module, which refuses the first three and accepts the
last. It imports nothing of Choroid, so that each package may use it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

_LEADING_ZERO = re.compile(r"(?P<sign>[-+]?)0+(?P<rest>[0-9_]+)")
_SEXAGESIMAL = re.compile(r"[-+]?(?:[1-9][0-9_]*(?::[0-5]?[0-9])+|[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)")
_EXPONENT = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+")
_WORDS = {"yes": True, "no": False, "on": True, "off": False}


class MisreadError(ValueError):
    """A value that YAML 1.1 reads otherwise than people mean it.

    `what` is wrong, `fix` is what to write, `meant` is the value that a person most likely means.
    """

    def __init__(self, what: str, fix: str, meant: Any) -> None:
        super().__init__(f"{what}; {fix}")
        self.what = what
        self.fix = fix
        self.meant = meant


class YamlTextError(ValueError):
    """A text is no YAML, or holds a value that is refused; the message has line, cause and fix."""


def scalar_value(node: yaml.Node) -> Any:
    """Return the value of a scalar node.

    Raises:
        MisreadError: YAML 1.1 reads it otherwise than it is meant.
        ValueError: It has no value, such as the date 2026-13-45.
        yaml.YAMLError: It has an unknown tag.
    """
    text = str(node.value)
    if (
        getattr(node, "style", None) or node.tag not in _IMPLICIT
    ):  # quoted, a block, or with a tag: a text is what it is
        return _constructor().construct_object(node)
    _refuse_numbers(text)
    if _EXPONENT.fullmatch(text):
        return float(text)
    if text.lower() in _WORDS:
        value = _WORDS[text.lower()]
        fix = f'write {str(value).lower()}, or "{text}" in quotes if it is a text'
        raise MisreadError(f"“{text}” is {str(value).lower()} in YAML 1.1", fix, value)
    return text if node.tag == _TEXT else _constructor().construct_object(node)


_TEXT = "tag:yaml.org,2002:str"
_IMPLICIT = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp"))


def _refuse_numbers(text: str) -> None:
    """Raise MisreadError for a number with a leading zero, and for one in base 60."""
    if (zero := _LEADING_ZERO.fullmatch(text)) is not None:
        meant = int(zero["sign"] + zero["rest"].replace("_", "").lstrip("0") or "0") if zero["rest"].strip("_") else 0
        fix = f'write {meant}, or "{text}" in quotes if it is a text'
        raise MisreadError(f"“{text}” has a leading zero, which means octal", f"octal; {fix}", meant)
    if _SEXAGESIMAL.fullmatch(text):
        number = 0.0
        for part in text.lstrip("+-").replace("_", "").split(":"):
            number = number * 60.0 + float(part)
        number = -number if text.startswith("-") else number
        shown = f"{number:.12g}"
        fix = f'{shown} seconds? write {shown}, or "{text}" in quotes if it is a text'
        raise MisreadError(
            f"“{text}” is a number of base 60 in YAML 1.1", fix, int(number) if number % 1 == 0 else number
        )


@lru_cache(maxsize=1)
def _constructor() -> yaml.constructor.SafeConstructor:
    import yaml  # late: the guard imports every driver and must stay light

    return yaml.constructor.SafeConstructor()


def load_yaml(text: str) -> Any:
    """Return the data of a YAML text: mappings with text as keys, lists, and values.

    Raises:
        YamlTextError: It is no YAML, has an alias or a key that occurs twice, or a value is refused.
    """
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if root is None else _data(root, set())
    except RecursionError:
        raise YamlTextError("it is nested too deeply") from None
    except yaml.YAMLError as error:
        raise YamlTextError(f"it is not YAML: {error}") from None


def _data(node: yaml.Node, seen: set[int]) -> Any:
    import yaml

    line = node.start_mark.line + 1
    if id(node) in seen:
        raise YamlTextError(f"line {line}: an alias (*name) is not read; write the values out")
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in found:
                raise YamlTextError(f"line {key.start_mark.line + 1}: a key is no plain word, or occurs twice")
            found[str(key.value)] = _data(value, seen)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_data(each, seen) for each in node.value]
    try:
        return scalar_value(node)
    except (MisreadError, ValueError) as error:
        raise YamlTextError(f"line {line}: {error}") from None
