"""The verb table: every verb of the organs, the chambers and the lab, by its name in the journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols import chamber_verbs, organs
from protocols.chambers import Doser
from protocols.language import TOGETHER, Lab
from protocols.organs import Organ, VerbHolder
from protocols.verbs import ActionVerb, AnyReadingVerb, ChamberVerb, TransferVerb, Verb

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
ACTIONS: Mapping[str, ActionVerb[..., Any]] = {
    verb.name: verb
    for holder in (VerbHolder, *ORGANS, Lab, Doser)
    for verb in vars(holder).values()
    if isinstance(verb, ActionVerb)
}
"""Verbs with code of their own."""
OF_CHAMBERS: Mapping[str, ChamberVerb] = {verb.name: verb for verb in chamber_verbs.DOSES}
"""Verbs that dose one chamber."""
VERBS: Mapping[str, Verb] = {**TRANSFERS, **READINGS, **ACTIONS, **OF_CHAMBERS, TOGETHER.name: TOGETHER}


def way_of_step(verb: str, args: Mapping[str, Any]) -> str:
    """Return the name of the route that a step of a verb takes: the verb's own, or that of its chamber."""
    return VERBS[verb].way(args)
