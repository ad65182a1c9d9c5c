"""Former names that recipe files, requests to start a run, and journals may still use.

Each table maps a former name to its present name. A table applies only where the former name has no meaning of its own: a
laboratory's recipe keeps a parameter that happens to have such a name. Former names of verbs are in
:data:`protocols.table.FORMER`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ATTRIBUTES: Mapping[str, str] = {"least": "min", "most": "max"}
"""Attributes of a parameter in a recipe file."""

EXPRESSIONS: Mapping[str, str] = {
    "least_dose": "liver.min_dose",  # wording: former name
    "filter.least_pressure": "filter.min_pressure",  # wording: former name
}
"""Names in expressions of recipe files."""

PARAMETERS: Mapping[str, str] = {
    "least": "min_batch",
    "least_flow": "min_flow",  # wording: former name
    "least_glucose": "min_glucose",  # wording: former name
    "least_oxygen": "min_oxygen",  # wording: former name
    "least_ph": "min_ph",  # wording: former name
    "least_pressure": "min_pressure",  # wording: former name
    "most_lactate": "max_lactate",  # wording: former name
    "most_pressure": "max_pressure",  # wording: former name
}
"""Parameters of the shipped protocols."""

RESULTS: Mapping[str, str] = {
    "least_kpa": "min_kpa",  # wording: former name
    "most_kpa": "max_kpa",  # wording: former name
}
"""Fields of the results of verbs in the journal."""


class NamedTwiceError(ValueError):
    """A value is given under its former and its present name: `what` is wrong, `fix` corrects it."""

    def __init__(self, former: str, present: str) -> None:
        self.what = f"“{former}” is the former name of “{present}”, and both are given"
        self.fix = f"Keep {present} only"
        super().__init__(f"{self.what}. Next: {self.fix[0].lower()}{self.fix[1:]}")


def present_name(name: str, known: Collection[str], former: Mapping[str, str]) -> str:
    """Return the present name of `name`, or `name` itself if it is known or was never renamed.

    Args:
        name: A present or former name.
        known: The names that are valid here.
        former: One of the tables of this module.
    """
    present = former.get(name, name)
    return present if name not in known and present in known else name


def present_names(given: Collection[str], known: Collection[str], former: Mapping[str, str]) -> dict[str, str]:
    """Return the present name of each given name, with the name as it is given.

    Raises:
        NamedTwiceError: A former name and its present name are both given.
    """
    names: dict[str, str] = {}
    for name in sorted(given, key=lambda name: name not in known):
        present = present_name(name, known, former)
        if present in names:
            raise NamedTwiceError(name, present)
        names[present] = name
    return names
