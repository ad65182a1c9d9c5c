"""The properties that every driver must have, each tried against the device's own truth.

A property raises AssertionError with what it saw, or NotApplicable with why it says nothing of this driver.
"""

from __future__ import annotations

from collections.abc import Mapping

from drivers.conformance.bounds import keeps_units_and_ranges, never_blocks, spares_the_memory
from drivers.conformance.outputs import (
    cancelled_anywhere_ends_at_rest,
    closing_turns_off,
    ends_by_itself_where_it_says_so,
    lost_confirmation_ends_at_rest,
    reads_back,
    same_command_twice_is_once,
    says_what_it_does,
    verifies_first,
)
from drivers.conformance.trying import NotApplicable, Property
from drivers.conformance.wire import (
    asks_in_harmless_words,
    comes_back,
    ignores_other_addresses,
    never_takes_a_late_reply,
    notices_a_half_open_line,
    survives_duplication,
    survives_flipped_bits,
    survives_garbage,
    survives_truncation,
    unplugged_at_any_byte,
)

PROPERTIES: Mapping[str, Property] = {
    "verified-first": Property("says nothing for a command before the device is verified (A6)", verifies_first),
    "idempotent": Property("does once what it is told twice (A4)", same_command_twice_is_once),
    "cancelled": Property("leaves the output off when cancelled at any await (A2)", cancelled_anywhere_ends_at_rest),
    "lost-reply": Property("leaves the output off when the confirmation is lost (A2)", lost_confirmation_ends_at_rest),
    "closed": Property("turns every output off when closed (A3)", closing_turns_off),
    "ends-itself": Property("has the device end what it says the device ends (A1)", ends_by_itself_where_it_says_so),
    "readback": Property("tells a confirmed command from a done one (A7)", reads_back),
    "status": Property("says what was commanded while it is so (A7)", says_what_it_does),
    "garbage": Property("takes no garbage for a reading (C2)", survives_garbage),
    "truncated": Property("takes no truncated reply for a reading (C2)", survives_truncation),
    "flipped": Property("is not confused for long by a wrong bit (C2)", survives_flipped_bits),
    "harmless": Property("polls in words of which no wrong bit makes a command (F2)", asks_in_harmless_words),
    "doubled": Property("takes a doubled reply once (C2)", survives_duplication),
    "late": Property("takes no late reply for the next one's (C2)", never_takes_a_late_reply),
    "address": Property("takes no other device's reply for its own (C2)", ignores_other_addresses),
    "comes-back": Property("comes back by itself after a lost line or power cut (C1)", comes_back),
    "unplugged": Property("comes back though it is unplugged at any byte (C1)", unplugged_at_any_byte),
    "half-open": Property("notices a connection that is dead and does not break (C1)", notices_a_half_open_line),
    "ranges": Property("names units and refuses what is out of range (D7, F6)", keeps_units_and_ranges),
    "memory": Property("spares the device's memory", spares_the_memory),
    "no-blocking": Property("never keeps the event loop", never_blocks),
}
"""By name, in the order in which they are tried."""

__all__ = ["PROPERTIES", "NotApplicable", "Property"]
