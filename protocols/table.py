"""The verb table: every verb of :mod:`protocols.organs` and :mod:`protocols.lab_verbs`, by its name in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols import chamber_verbs, lab_verbs, organs
from protocols.organs import Organ
from protocols.verbs import AnyReadingVerb, ChamberVerb, TransferVerb, Verb

ORGANS: tuple[type[Organ], ...] = tuple(
    organ
    for organ in vars(organs).values()
    if isinstance(organ, type) and issubclass(organ, Organ) and organ is not Organ
)
TRANSFERS: Mapping[str, TransferVerb] = {
    verb.name: verb for organ in ORGANS for verb in vars(organ).values() if isinstance(verb, TransferVerb)
}
READINGS: Mapping[str, AnyReadingVerb] = {
    verb.name: verb for organ in ORGANS for verb in vars(organ).values() if isinstance(verb, AnyReadingVerb)
}
METHODS: Mapping[str, Verb] = {verb.name: verb for verb in vars(lab_verbs).values() if type(verb) is Verb}
"""Verbs with a method of their own."""
OF_CHAMBERS: Mapping[str, ChamberVerb] = {verb.name: verb for verb in chamber_verbs.DOSES}
"""Verbs that dose one chamber."""
VERBS: Mapping[str, Verb] = {
    **TRANSFERS,
    **READINGS,
    **METHODS,
    **OF_CHAMBERS,
    chamber_verbs.CHAMBER_VOLUME.name: chamber_verbs.CHAMBER_VOLUME,
}


def way_of_step(verb: str, args: Mapping[str, Any]) -> str:
    """Return the name of the route that a step of a verb takes: the verb's own, or that of its chamber."""
    known = VERBS[verb]
    return known.way(args) if isinstance(known, ChamberVerb) else verb
