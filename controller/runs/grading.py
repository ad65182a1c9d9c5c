"""The rig's grading rules and prices, as the pure functions of grading and economy take them."""

from __future__ import annotations

from controller.rig.description import Rig
from controller.rig.rules import Grading
from protocols.grading import Rule, RuleSet
from protocols.prices import Prices

SENSES = {"higher": "high", "lower": "low", "outside": "band"}


def rules_of(rig: Rig) -> RuleSet:
    """Return the rules by which a batch is graded on a rig."""
    return rule_set(rig.grading)


def rule_set(grading: Grading) -> RuleSet:
    """Return the rules of a rule file."""
    rules = tuple(
        Rule(
            name=variable.name,
            unit=variable.said,
            sense=SENSES[variable.worse],  # type: ignore[arg-type]
            edges=variable.edges,
            required=variable.required,
            strict=variable.strict,
            source=variable.source,
        )
        for variable in grading.variables
    )
    return RuleSet(grading.version, grading.sha256, rules)


def prices_of(rig: Rig) -> Prices:
    """Return what the treatment of a batch costs on a rig."""
    return Prices(**rig.grading.prices)
