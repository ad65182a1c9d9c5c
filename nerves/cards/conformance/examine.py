"""Try the properties on a bench, and collect the verdicts."""

from __future__ import annotations

from collections.abc import Mapping

from drivers.conformance.examine import PropertyVerdict
from drivers.conformance.trying import NotApplicable
from nerves.cards.conformance.properties import PROPERTIES, CardProperty
from nerves.cards.conformance.stage import CardBench


def examine_card(bench: CardBench, properties: Mapping[str, CardProperty] = PROPERTIES) -> list[PropertyVerdict]:
    """Examine a card: try every property on one bench.

    Args:
        bench: How the card is made, with its far end; each property gets a new one.
        properties: What is examined, by name.

    Returns:
        A verdict for each property. Any exception is a failure of the card.
    """
    return [_verdict(bench, name, one) for name, one in properties.items()]


def _verdict(bench: CardBench, name: str, one: CardProperty) -> PropertyVerdict:
    try:
        with bench.open() as stage:
            one.holds(bench, stage)
    except NotApplicable as why:
        return PropertyVerdict(bench.name, name, "n/a", str(why))
    except Exception as error:
        told = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        return PropertyVerdict(bench.name, name, "fail", told)
    return PropertyVerdict(bench.name, name, "pass")
