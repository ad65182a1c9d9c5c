"""The properties that every electrode card must have, tried on any card that comes with a bench.

A bench defines how a card is made and what is true at its far end (:mod:`nerves.cards.conformance.stage`); the
properties are in :data:`nerves.cards.conformance.properties.PROPERTIES`. Nothing here needs pytest.
"""
