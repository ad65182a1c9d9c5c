"""`choroid card list`: the electrode cards, with what each can do and its limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from choroid.common.table import aligned
from controller.rig.card import CARD_FORMS, CardName


@dataclass(frozen=True, slots=True)
class CardModel:
    """One kind of card, for people. An empty text is a no."""

    name: CardName
    what: str
    stimulates: str
    """How exactly it stimulates."""
    impedances: str
    """When it knows impedances; without them the governor refuses stimulation."""
    limits: str
    tested: str
    """The far end that its tests use."""


CARDS = (
    CardModel(
        "simulated", "the simulated culture", "at the exact frame; several electrodes in one frame", "always",
        "25 kHz, 20 µs and 0.01 µA steps, ±7 V",
        "the culture itself",
    ),
    CardModel(
        "playback", "replay of a recording: Choroid's Zarr, NWB, Intan .rhd and .rhs, SpikeGLX .bin, raw .raw and .dat",
        "", "", "other samples than whole numbers of one scale are rounded to 0.195 µV; pulses are reported of"
        " Choroid's Zarr, of the others there are only the artefacts",
        "files of pynwb and of writers by the published formats",
    ),
    CardModel(
        "intan-rhx", "Intan RHD and RHS controllers through RHX over TCP",
        "RHS only; when RHX obeys, some milliseconds late; several electrodes by one trigger, in one sample",
        "with a folder that both machines see",
        "blocks of 128 frames; eight waveforms at a time; two phases of opposite sign; Intan advises about 10 channels at"
        " 30 kHz over TCP",
        "an RHX server that python-intan reads",
    ),
    CardModel(
        "open-ephys", "a stream of the Open Ephys GUI, through its plugin ZMQ Interface", "", "",
        "blocks come as large as the buffers of the GUI; rounded to 0.195 µV; a lost message is a gap",
        "a publisher by the plugin's documentation",
    ),
    CardModel(
        "lsl", "a stream of the Lab Streaming Layer with a regular rate", "", "",
        "LSL has no sample numbers: frames are counted, and a jump of the timestamps by more than 20 ms is a gap",
        "an outlet of liblsl",
    ),
)  # fmt: skip


COLUMNS = ("card", "what", "link", "stimulates", "impedances", "options")


def cards() -> dict[str, Any]:
    """Return `{"cards": [...]}`, one entry per card, in the catalogue's order."""
    return {
        "cards": [
            {"name": each.name, **asdict(each), "links": list(form.schemes.values()), "options": list(form.options)}
            for each in CARDS
            for form in [CARD_FORMS[each.name]]
        ]
    }


def as_text(answer: dict[str, Any]) -> str:
    """Return the catalogue as a table, then the limits of each card."""
    rows = [
        (
            each["name"], each["what"], " or ".join(each["links"]), each["stimulates"] or "no", each["impedances"] or "no",
            ", ".join(each["options"]) or "-",
        )
        for each in answer["cards"]
    ]  # fmt: skip
    limits = [f"{each['name']}: {each['limits']}. Tested against {each['tested']}" for each in answer["cards"]]
    return "\n".join([*aligned(COLUMNS, rows), "", *limits, "", "No card has been tested on hardware yet."])
