"""The properties that every driver must have, each judged by the device's true state.

A property raises AssertionError with its observation, or NotApplicable with the reason why it does not apply.
"""

from __future__ import annotations

from collections.abc import Mapping

from drivers.conformance.bounds import keeps_units_and_ranges, never_blocks, spares_the_memory
from drivers.conformance.effects import (
    does_what_it_is_told,
    knows_what_was_begun_before_it,
    names_what_it_can_do,
    notices_a_power_cut,
    stops_at_once,
)
from drivers.conformance.identity import (
    copes_with_changed_settings,
    notices_an_exchanged_device,
    speaks_to_its_own_address,
    takes_no_other_device_for_its_own,
)
from drivers.conformance.manners import gives_up_in_time, leaves_nothing_behind, lives_by_the_loop
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
from drivers.conformance.replies import (
    checks_what_is_sealed,
    keeps_no_endless_reply,
    takes_no_echo_for_a_reply,
    takes_no_leftover_for_a_reply,
)
from drivers.conformance.truth import (
    reads_what_is_true,
    says_when_its_device_doubts,
    tells_measured_from_commanded,
    tells_motion_from_rest,
)
from drivers.conformance.trying import Property
from drivers.conformance.volumes import counts_what_it_moves, gives_a_dose_once_and_whole
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
    "idempotent": Property("carries out once a command that is sent twice (A4)", same_command_twice_is_once),
    "cancelled": Property("leaves the output off when cancelled at any await (A2)", cancelled_anywhere_ends_at_rest),
    "lost-reply": Property("leaves the output off when the confirmation is lost (A2)", lost_confirmation_ends_at_rest),
    "closed": Property("turns every output off when closed (A3)", closing_turns_off),
    "ends-itself": Property("has the device end what it says the device ends (A1)", ends_by_itself_where_it_says_so),
    "readback": Property("tells a confirmed command from a done one (A7)", reads_back),
    "status": Property("says what was commanded while it is so (A7)", says_what_it_does),
    "truth": Property("reads what is true, with its unit and its sign (F6)", reads_what_is_true),
    "doubt": Property("trusts no reading that its device doubts (I2)", says_when_its_device_doubts),
    "motion": Property("tells a value in motion from one at rest (A10)", tells_motion_from_rest),
    "measured": Property("tells what is measured from what was commanded (A7)", tells_measured_from_commanded),
    "effect": Property("does what was commanded, in amount and direction, and nothing else (A7)", does_what_it_is_told),
    "stopped": Property("is at rest when a stop has returned, and stays so (A2)", stops_at_once),
    "restarted": Property("tells, leaves and stops what was begun before it (A7)", knows_what_was_begun_before_it),
    "power-cut": Property("notices that a power cut has stopped its output (A7)", notices_a_power_cut),
    "nearest": Property("names the nearest command that it can carry out", names_what_it_can_do),
    "total": Property("counts what was moved (F3)", counts_what_it_moves),
    "dose": Property("gives a dose once, whole, and that way round (A4, A5)", gives_a_dose_once_and_whole),
    "impostor": Property("takes no device of another model for its own (A6)", takes_no_other_device_for_its_own),
    "exchanged": Property("verifies the device again after a lost line (A6)", notices_an_exchanged_device),
    "own-address": Property("takes no device at another address for its own (C2)", speaks_to_its_own_address),
    "misset": Property("reads right or refuses when the device was set otherwise (F6)", copes_with_changed_settings),
    "garbage": Property("takes no garbage for a reading (C2)", survives_garbage),
    "truncated": Property("takes no truncated reply for a reading (C2)", survives_truncation),
    "flipped": Property("is not confused for long by a wrong bit (C2)", survives_flipped_bits),
    "harmless": Property("polls in words of which no wrong bit makes a command (F2)", asks_in_harmless_words),
    "checksum": Property("takes no reply whose checksum is wrong (C2)", checks_what_is_sealed),
    "echo": Property("takes no echo of its request for a reply (C2)", takes_no_echo_for_a_reply),
    "leftover": Property("takes no reply of before for the next one's (C2)", takes_no_leftover_for_a_reply),
    "endless": Property("keeps no endless reply (C2)", keeps_no_endless_reply),
    "doubled": Property("takes a doubled reply once (C2)", survives_duplication),
    "late": Property("takes no late reply for the next one's (C2)", never_takes_a_late_reply),
    "address": Property("takes no other device's reply for its own (C2)", ignores_other_addresses),
    "comes-back": Property("comes back by itself after a lost line or power cut (C1)", comes_back),
    "unplugged": Property("comes back though it is unplugged at any byte (C1)", unplugged_at_any_byte),
    "half-open": Property("notices a connection that is dead and does not break (C1)", notices_a_half_open_line),
    "ranges": Property("names units and refuses what is out of range (D7, F6)", keeps_units_and_ranges),
    "memory": Property("spares the device's memory", spares_the_memory),
    "silence": Property("gives up on a silent device in time, with an error (C3)", gives_up_in_time),
    "left-behind": Property("leaves no task, thread, descriptor or growth behind (R3, R4)", leaves_nothing_behind),
    "one-clock": Property("lives by the loop: no other clock, sleep, thread or chance (R2)", lives_by_the_loop),
    "no-blocking": Property("never keeps the event loop (R1)", never_blocks),
}
"""By name, in the order of examination."""
