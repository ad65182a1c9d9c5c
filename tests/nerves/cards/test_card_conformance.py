"""Every card has every property, and each broken card is noticed by the property that is meant for it (J1)."""

from __future__ import annotations

import pytest

from nerves.cards.conformance.examine import examine_card
from nerves.cards.conformance.properties import PROPERTIES
from nerves.cards.conformance.stage import CardBench
from tests.nerves.cards.hosted_bench import HOSTED
from tests.nerves.cards.simulated_bench import SIMULATED
from verification.conformance.broken_cards import BROKEN, BrokenCard
from verification.conformance.score import SLIP

BENCHES = (SIMULATED, HOSTED)
WITH_STIMULATION = [broken for broken in BROKEN if broken.property != "input-only"]


@pytest.mark.parametrize("bench", BENCHES, ids=str)
@pytest.mark.parametrize("name", PROPERTIES)
def test_N5_a_card_has_every_property(bench: CardBench, name: str) -> None:
    (verdict,) = examine_card(bench, {name: PROPERTIES[name]})
    assert verdict.outcome != "fail", verdict.told


def test_N5_the_simulated_card_leaves_out_only_what_concerns_other_cards() -> None:
    left_out = [verdict.property for verdict in examine_card(SIMULATED) if verdict.outcome == "n/a"]
    assert left_out == ["input-only"]


@pytest.mark.parametrize("broken", WITH_STIMULATION, ids=str)
def test_J1_a_broken_card_is_noticed_by_its_property(broken: BrokenCard) -> None:
    (verdict,) = examine_card(broken.on(SIMULATED), {broken.property: PROPERTIES[broken.property]})
    assert verdict.outcome == "fail"
    assert verdict.told
    assert not SLIP.match(verdict.told), verdict.told  # a programming error proves nothing


def test_J1_every_property_has_a_broken_card() -> None:
    assert {broken.property for broken in BROKEN} == set(PROPERTIES)
    assert len({broken.what for broken in BROKEN}) == len(BROKEN)
