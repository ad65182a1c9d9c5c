"""The electrode card of a rig: which one, and its options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

from controller.rig.part import RigPart
from controller.rig.quantities import TimeS, VoltageUv

CardName = Literal["simulated", "playback", "intan-rhx", "open-ephys", "lsl"]
NativeName = Annotated[str, StringConstraints(pattern=r"^[A-H]-[0-9]{3}(:[A-H]-[0-9]{3})?$")]
SIMULATED_HZ = 25_000.0
"""Rate of the simulated array (Hz)."""
REPLAY = "file:"
"""Scheme of a link to a file that is replayed."""
_CHANNEL = re.compile(r"([A-H])-([0-9]{3})")


class CardOptions(RigPart):
    """Options of an electrode card; which card takes which is in docs/cards.md."""

    waveform_port: int | None = Field(default=None, ge=1, le=65_535)
    """Waveform port of RHX; left out, 5001."""
    channels: tuple[NativeName, ...] = ()
    """Native names of the channels in their order, such as `A-000`, or ranges of them, such as `A-000:A-031`."""
    folder: str = Field(default="", max_length=1000)
    """A folder that RHX writes impedances into, seen by both machines. Without it stimulation is refused."""
    stream: str = Field(default="", max_length=200)
    """Name of a stream or series, where a recording has several."""
    loop: bool = False
    """Whether a replay begins again at its end."""
    block_s: TimeS = Field(default=0.001, alias="block", ge=0.0002, le=0.001)
    """Length of the blocks in which the simulated card gives its frames; shorter ones make a loop faster."""
    gain_uv: VoltageUv | None = Field(default=None, alias="gain", gt=0, le=1e6)
    """Voltage of one unit of raw samples, or of an LSL stream that does not say its unit."""


@dataclass(frozen=True, slots=True)
class CardForm:
    """How a card is written in a rig file: `schemes` of its link, an `example` for each, and its options."""

    schemes: Mapping[str, str]
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Options that a card with a real link cannot do without."""


CARD_FORMS: Mapping[str, CardForm] = {
    "simulated": CardForm({"sim": "sim:array"}, ("block",)),
    "playback": CardForm({"file": "file:recordings/NAME.zarr"}, ("stream", "loop", "gain")),
    "intan-rhx": CardForm(
        {"tcp": "tcp://127.0.0.1:5000", "sim": "sim:array"}, ("waveform_port", "channels", "folder"), ("channels",)
    ),
    "open-ephys": CardForm({"tcp": "tcp://127.0.0.1:5556", "sim": "sim:array"}, ("stream",)),
    "lsl": CardForm({"lsl": "lsl:NAME", "sim": "sim:array"}, ("gain",)),
}
"""Form of each card by its name."""


def channel_list(names: Sequence[str]) -> tuple[str, ...]:
    """Return native names with each range written out.

    Raises:
        ValueError: A range spans two ports, or runs backwards.
    """
    found: list[str] = []
    for name in names:
        ends = _CHANNEL.findall(name)
        (port, first), (last_port, last) = ends[0], ends[-1]
        if port != last_port or int(last) < int(first):
            raise ValueError(f"“{name}” is no range of channels of one port")
        found += [f"{port}-{number:03d}" for number in range(int(first), int(last) + 1)]
    return tuple(found)


def link_fits(card: str, link: str) -> bool:
    """Return whether a link can lead to a card of this name."""
    try:
        parts = urlsplit(link)
        port = parts.port if parts.scheme == "tcp" else None
    except ValueError:
        return False
    if parts.scheme not in CARD_FORMS[card].schemes:
        return False
    if parts.scheme == "tcp":
        return bool(parts.hostname and port)
    return bool(parts.path) and not parts.netloc


RAW = (".raw", ".dat")
"""Ends of files of raw samples."""


def raw_path(link: str) -> bool:
    """Return whether a link leads to a file of raw samples."""
    return link.lower().endswith(RAW)


def is_replay_or_simulated(link: str) -> bool:
    """Return whether what comes over a link is not from the tissue of the rig."""
    return link.startswith(("sim:", REPLAY))
