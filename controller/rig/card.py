"""The electrode card of a rig: which one, and its options; the rules over both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

from controller.rig.part import RigPart
from controller.rig.problems import Finding, Place
from controller.rig.quantities import VoltageUv

if TYPE_CHECKING:
    from controller.rig.description import Rig

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
    "simulated": CardForm({"sim": "sim:array"}),
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


def card_link(rig: Rig) -> Iterator[Finding]:
    """Its link is one by which this card is reached."""
    if rig.nerves is None:
        return
    form = CARD_FORMS[rig.nerves.card]
    if link_fits(rig.nerves.card, rig.nerves.link):
        return
    others = [
        name for name, other in CARD_FORMS.items() if name != rig.nerves.card and link_fits(name, rig.nerves.link)
    ]
    what = f"link “{rig.nerves.link}” does not lead to a card “{rig.nerves.card}”"
    fix = f"Write {' or '.join(form.schemes.values())}"
    if others:
        fix += f"; or choose the card: {' or '.join(others)}"
    yield Finding(("nerves", "link"), what, fix)


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


def card_options(rig: Rig) -> Iterator[Finding]:
    """It has the options that it needs, and no others."""
    if rig.nerves is None:
        return
    name, options = rig.nerves.card, rig.nerves.options or CardOptions()
    form = CARD_FORMS[name]
    place: Place = ("nerves", "options")
    given = options.model_dump(exclude_defaults=True, by_alias=True)
    for key in given:
        if key not in form.options:
            fix = f"Remove it; the options of {name} are {', '.join(form.options)}" if form.options else "Remove it"
            yield Finding((*place, key), f"the card “{name}” has no option {key}", fix)
    if not rig.nerves.link.startswith("sim:"):
        for key in form.needs:
            if key not in given:
                what = f"the card “{name}” needs the option {key}"
                yield Finding(("nerves", "card"), what, f"Add “options: {{{_EXAMPLES[key]}}}” under nerves")
    if name == "playback" and raw_path(rig.nerves.link) and "gain" not in given:
        what = "raw samples have no scale of their own"
        yield Finding(
            ("nerves", "link"), what, "Add “options: {gain: 0.195 uV}” under nerves, with the voltage of one unit"
        )
    yield from _channels(options.channels, rig.nerves.electrodes)


_EXAMPLES = {"channels": 'channels: ["A-000:A-031"]'}


def _channels(names: Sequence[str], electrodes: int) -> Iterator[Finding]:
    """Yield what is wrong with a list of channels."""
    place: Place = ("nerves", "options", "channels")
    if not names:
        return
    try:
        channels = channel_list(names)
    except ValueError as error:
        yield Finding(place, str(error), "Write the lower number first, such as A-000:A-031; one range for each port")
        return
    twice = sorted({name for name in channels if channels.count(name) > 1})
    if twice:
        yield Finding(place, f"channel {twice[0]} stands twice", "Name each channel once")
    elif len(channels) != electrodes:
        what = f"{len(channels)} channels are named for {electrodes} electrodes"
        yield Finding(place, what, f"Write electrodes: {len(channels)}, or name {electrodes} channels")


def simulated_rate(rig: Rig) -> Iterator[Finding]:
    """A simulated array samples at its own rate."""
    nerves = rig.nerves
    if nerves is not None and nerves.link.startswith("sim:") and round(nerves.sample_rate_hz) != SIMULATED_HZ:
        what = f"the simulated array samples at 25 kHz, not {nerves.sample_rate_hz / 1000:g} kHz"
        yield Finding(("nerves", "sample_rate"), what, "Write 25 kHz")


CARD_RULES = (card_link, card_options, simulated_rate)
