"""The kinds of faults: meaning, target, range of amounts, and the expected result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim.faults.schedule import Fault

Group = Literal["link", "device", "fluid", "host", "network"]
Target = Literal["link", "device", "line", "heart", "vessel", "filter", "point", "output", "host", "service"]


@dataclass(frozen=True, slots=True)
class Magnitude:
    """Amount of a fault: its unit ("" is a plain number), allowed range, usual value, and the range for random draws."""

    meaning: str
    unit: str
    minimum: float
    maximum: float
    usual: float
    drawn: tuple[float, float]

    def of(self, fault: Fault) -> float:
        """Return the amount of `fault` in this unit; 0 means the usual amount."""
        return fault.amount or self.usual


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault."""

    name: str
    group: Group
    meaning: str
    """Text for people: what happens, and what happens at its end."""
    target: Target
    drawn_s: tuple[float, float]
    """Range of durations for random draws (s); (0, 0) for a kind that is momentary."""
    amount: Magnitude | None = None
    survivable: bool = True
    """Whether the organoid must survive it when it lasts at most `survivable_for_s`."""
    survivable_for_s: float = 0.0
    alarms: frozenset[str] = frozenset()
    """Kinds of alarms, any of which must be raised when it lasts at least `told_within_s`; empty if none is needed."""
    told_within_s: float = 0.0
    weight: float = 1.0
    """Relative frequency of random draws: higher for a kind with many targets that differ."""

    @property
    def momentary(self) -> bool:
        """Return whether it happens at once and has no end of its own."""
        return self.drawn_s == (0.0, 0.0)


MOMENT = (0.0, 0.0)
MINUTE_S, HOUR_S = 60.0, 3600.0
_LOST = frozenset({"device_lost"})
_SHARE = ("", 0.0, 1.0)

_ALL = (
    # --- links ------------------------------------------------------------------------------------------
    Kind(
        "drop", "link", "Pieces of what is said on the line are lost, in either direction.",
        "link", (5.0, 600.0), Magnitude("part of the pieces that is lost", *_SHARE, 0.3, (0.05, 1.0)),
        survivable_for_s=600.0,
    ),
    Kind(
        "delay", "link", "Every answer comes late by a constant time, and in order.",
        "link", (5.0, 600.0), Magnitude("how late", "s", 0.001, 30.0, 1.0, (0.05, 5.0)), survivable_for_s=600.0,
    ),
    Kind(
        "garble", "link", "Bits of answers and requests are flipped.",
        "link", (5.0, 600.0), Magnitude("part of the bytes that is hit", *_SHARE, 0.05, (0.002, 0.3)),
        survivable_for_s=600.0,
    ),
    Kind(
        "lost_byte", "link", "Single bytes of answers and requests are lost, as on a line that drops characters.",
        "link", (5.0, 600.0), Magnitude("part of the bytes that is lost", *_SHARE, 0.05, (0.002, 0.1)),
        survivable_for_s=600.0,
    ),
    Kind(
        "doubled_byte", "link", "Single bytes of answers and requests come twice in a row.",
        "link", (5.0, 600.0), Magnitude("part of the bytes that is doubled", *_SHARE, 0.05, (0.002, 0.1)),
        survivable_for_s=600.0,
    ),
    Kind(
        "truncate", "link", "Answers lose their second half.",
        "link", (5.0, 600.0), Magnitude("part of the answers that is cut", *_SHARE, 0.5, (0.05, 1.0)),
        survivable_for_s=600.0,
    ),
    Kind(
        "duplicate", "link", "Answers come twice.",
        "link", (5.0, 600.0), Magnitude("part of the answers that is doubled", *_SHARE, 1.0, (0.1, 1.0)),
        survivable_for_s=600.0,
    ),
    Kind(
        "echo", "link", "Clients receive their own bytes, as from a two-wire adapter whose receiver stays on.",
        "link", (5.0, 600.0), survivable_for_s=600.0,
    ),
    Kind(
        "wrong_address", "link", "Answers on a shared bus bear another device's address, their checksum right.",
        "link", (5.0, 600.0), Magnitude("part of the answers that is hit", *_SHARE, 1.0, (0.1, 1.0)),
        survivable_for_s=600.0,
    ),
    Kind(
        "half_open", "link",
        "The far end has restarted: connections that were open stay open and carry nothing, new ones work."
        " At the end the old ones break.",
        "link", (10.0, 600.0), survivable_for_s=600.0,
    ),
    Kind(
        "unplug", "link", "The cable is pulled: every connection breaks, none can be opened.",
        "link", (1.0, 600.0), survivable_for_s=600.0, alarms=_LOST, told_within_s=90.0,
    ),
    Kind(
        "replug", "link",
        "The adapter drops off and is there again at once under another name; at the end it has its old name back.",
        "link", (10.0, 600.0), survivable_for_s=600.0, alarms=_LOST, told_within_s=90.0,
    ),
    # --- devices ----------------------------------------------------------------------------------------
    Kind(
        "reboot", "device", "It loses power for a moment: what was not stored is as the factory made it.",
        "device", MOMENT,
    ),
    Kind(
        "power_cut", "device", "It has no power; then it boots.",
        "device", (2.0, 600.0), survivable_for_s=300.0, alarms=_LOST, told_within_s=90.0,
    ),
    Kind(
        "silent", "device", "It ignores all requests and sends nothing; its outputs continue.",
        "device", (2.0, 600.0), survivable_for_s=600.0, alarms=_LOST, told_within_s=90.0,
    ),
    Kind(
        "ignores", "device", "It acknowledges commands and does not execute them; its reports are true.",
        "device", (5.0, 600.0), survivable_for_s=600.0,
    ),
    Kind(
        "other_address", "device", "On a shared bus it answers for the next device's address, and not for its own.",
        "device", (5.0, 600.0), survivable_for_s=300.0, alarms=_LOST, told_within_s=90.0,
    ),
    Kind(
        "eeprom", "device",
        "Its memory is worn: stored settings and calibrations return to the factory's, and it reboots. At the end they"
        " are stored again.",
        "device", (60.0, 3600.0), survivable_for_s=600.0,
    ),
    Kind(
        "reversed", "device", "The motor turns against its commanded direction, at the same speed.",
        "point", (10.0, 300.0), survivable_for_s=30.0,  # a heart drains its chamber within a minute: hazard heart_backwards
    ),
    Kind(
        "slipped", "device",
        "The rotor of a selector valve has slipped: it stands so many positions beyond the one that is reported; with a"
        " fraction it stands between two ports, and all are closed.",
        "device", (60.0, 3600.0), Magnitude("by how many positions", "", -10.0, 10.0, 1.0, (-1.0, 1.0)), survivable=False,
    ),
    Kind(
        "stuck", "device", "The reading stays where it is.",
        "point", (30.0, 1800.0),
        Magnitude("how far from where it was it sticks, in the reading's unit", "", -1e6, 1e6, 0.0, (0.0, 0.0)),
        survivable_for_s=1800.0,
    ),
    Kind(
        "offset", "device", "The reading is off by a constant.",
        "point", (30.0, 1800.0), Magnitude("by how much, in the reading's unit", "", -1e6, 1e6, 0.5, (-1.0, 1.0)),
        survivable_for_s=600.0,
    ),
    Kind(
        "drift", "device", "The reading wanders off slowly.",
        "point", (3600.0, 86400.0),
        Magnitude("how fast, in the reading's unit a day", "", -1e6, 1e6, 0.2, (-0.5, 0.5)), survivable_for_s=86400.0,
    ),
    Kind(
        "noise", "device", "The reading is noisy.",
        "point", (30.0, 1800.0),
        Magnitude("how many times as noisy as in health", "", 1.0, 1e4, 10.0, (2.0, 50.0)), survivable_for_s=1800.0,
    ),
    # --- fluids -----------------------------------------------------------------------------------------
    Kind(
        "occlusion", "fluid", "A line is kinked or clotted: less flows through it, and pressure rises before it.",
        "line", (10.0, 600.0), Magnitude("part of the flow that is blocked", *_SHARE, 1.0, (0.2, 1.0)),
        survivable_for_s=600.0,
    ),
    Kind(
        "heart_occlusion", "fluid", "The heart's line is kinked or clotted.",
        "heart", (10.0, 300.0), Magnitude("part of the flow that is blocked", *_SHARE, 1.0, (0.6, 1.0)),
        survivable_for_s=60.0,
        alarms=frozenset({"over_pressure_heart", "no_heart_flow"}), told_within_s=60.0,
    ),
    Kind(
        "leak", "fluid", "A line leaks while it carries.",
        "line", (60.0, 1800.0), Magnitude("how much is lost", "uL/min", 0.0, 1e5, 100.0, (5.0, 500.0)),
        survivable_for_s=1800.0,
    ),
    Kind(
        "bubble", "fluid", "Air comes into a line.",
        "line", MOMENT, Magnitude("volume of the bubble", "uL", 0.0, 1e5, 200.0, (20.0, 1000.0)),
    ),
    Kind(
        "worn_tubing", "fluid", "A pump's tubing is worn: it moves less a turn than it did.",
        "line", (3600.0, 86400.0), Magnitude("part of its volume a turn that it has lost", *_SHARE, 0.15, (0.02, 0.3)),
        survivable_for_s=86400.0,
    ),
    Kind(
        "clogged_filter", "fluid", "The sterile filter resists more.",
        "filter", (60.0, 3600.0), Magnitude("how many times as much", "", 1.0, 1e4, 10.0, (2.0, 40.0)),
        survivable_for_s=3600.0,
    ),
    Kind(
        "torn_filter", "fluid", "The sterile filter's membrane is torn: nothing is held back, and pressure falls.",
        "filter", (60.0, 3600.0), survivable_for_s=3600.0,
    ),
    Kind(
        "empty", "fluid", "A stock bottle is empty or has tipped over: its pumps move nothing.",
        "vessel", (600.0, 7200.0), survivable_for_s=7200.0,
    ),
    Kind(
        "contaminated", "fluid", "A contaminated batch: microbes are in the loop from now on, and multiply.",
        "vessel", MOMENT, Magnitude("how many, in CFU/mL", "", 0.0, 1e9, 10.0, (1.0, 1000.0)),
        survivable=False,
    ),
    Kind(
        "wrong_medium", "fluid", "Another medium is in a stock bottle than the rig file says.",
        "vessel", (600.0, 7200.0),
        Magnitude("number of the medium in the rig file, from 1; 0 is the first other one", "", 0.0, 100.0, 0.0,
               (0.0, 0.0)),
        survivable_for_s=7200.0,
    ),
    # --- the controller's computer ----------------------------------------------------------------------
    Kind(
        "kill", "host", "The controller is killed, at once or at a row of its journal.",
        "host", MOMENT, Magnitude("which row of the journal from now on, from 1; 0 is at once", "", 0.0, 1e6, 0.0,
                               (0.0, 200.0)),
    ),
    Kind(
        "stall", "host", "The controller stands still, as when its computer swaps or sleeps.",
        "host", (0.5, 120.0), survivable_for_s=120.0,
    ),
    Kind(
        "clock_step", "host", "The computer's clock is set wrong, and corrected at the end.",
        "host", (60.0, 7200.0), Magnitude("by how much", "s", -1e8, 1e8, 3600.0, (-3600.0, 3600.0)),
        survivable_for_s=7200.0,
    ),
    Kind(
        "dst", "host",
        "Daylight saving begins on a computer whose clock keeps local time: UTC is an hour off until it ends.",
        "host", (600.0, 7200.0), survivable_for_s=7200.0,
    ),
    Kind(
        "disk_full", "host", "Nothing can be written.",
        "host", (5.0, 1800.0), survivable_for_s=1800.0, alarms=frozenset({"journal_unwritten", "history_lost"}),
        told_within_s=180.0,
    ),
    Kind(
        "disk_slow", "host", "Every row takes long to reach the disk.",
        "host", (5.0, 600.0), Magnitude("how long a row takes", "s", 0.0, 30.0, 0.2, (0.02, 2.0)), survivable_for_s=600.0,
    ),
    Kind(
        "database_locked", "host", "Another program keeps the databases locked.",
        "host", (1.0, 600.0), survivable_for_s=600.0,
        alarms=frozenset({"journal_unwritten", "history_lost"}), told_within_s=180.0,
    ),
    # --- the network ------------------------------------------------------------------------------------
    Kind(
        "broker_down", "network", "The telemetry broker does not answer.",
        "service", (10.0, 7200.0), survivable_for_s=7200.0, alarms=frozenset({"telemetry_lost"}), told_within_s=180.0,
    ),
    Kind(
        "store_down", "network", "The remote store of readings does not answer.",
        "service", (10.0, 7200.0), survivable_for_s=7200.0, alarms=frozenset({"telemetry_lost"}), told_within_s=180.0,
    ),
    Kind(
        "flood", "network", "A client asks and commands without pause.",
        "host", (5.0, 300.0), survivable_for_s=300.0,
    ),
    Kind(
        "careless", "network",
        "An operator requests, again and again, what an output must not do: too much, too long, at the wrong time.",
        "output", (30.0, 1200.0), survivable_for_s=1200.0, weight=4.0,
    ),
)  # fmt: skip

KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}


def survivable(fault: Fault) -> bool:
    """Return whether tissue must survive this fault: a momentary one, or one that ends soon enough."""
    kind = KINDS[fault.kind]
    return kind.survivable and (kind.momentary or 0 < fault.for_s <= kind.survivable_for_s)
