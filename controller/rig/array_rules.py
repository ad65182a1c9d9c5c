"""Rules of cameras and of the electrode card, each with the place in the rig file and a way to put it right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.rig.card import CARD_FORMS, SIMULATED_HZ, CardOptions, channel_list, link_fits, raw_path
from controller.rig.description import Rig
from controller.rig.geometry_rules import geometry_is_sound
from controller.rig.problems import Finding, Place, nearest


def cameras_see_chambers(rig: Rig) -> Iterator[Finding]:
    """Each camera looks at a chamber of the rig."""
    chambers = [name for name, vessel in rig.vessels.items() if vessel.kind == "chamber"]
    for name, camera in rig.cameras.items():
        if camera.chamber not in chambers:
            what = f"“{camera.chamber}” is no chamber of this rig"
            yield Finding(("cameras", name, "chamber"), what, nearest(camera.chamber, chambers, "chambers"))


def camera_names_are_free(rig: Rig) -> Iterator[Finding]:
    """No camera has the name of a device: both become points."""
    for name in rig.cameras.keys() & rig.devices.keys():
        yield Finding(("cameras", name), f"“{name}” is a device as well", "Give the camera another name")


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


ARRAY_RULES = (
    cameras_see_chambers,
    camera_names_are_free,
    card_link,
    card_options,
    simulated_rate,
    geometry_is_sound,
)
