"""The electrode cards that a rig file can name."""

from __future__ import annotations

from dataclasses import dataclass

from controller.rig.card import CardName


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
        "simulated", "the simulated culture", "at the exact frame", "always", "25 kHz, 20 µs and 0.01 µA steps, ±7 V",
        "the culture itself",
    ),
    CardModel(
        "playback", "replay of a recording: Choroid's Zarr, NWB, Intan .rhd and .rhs, SpikeGLX .bin, raw .raw and .dat",
        "", "", "other samples than whole numbers of one scale are rounded to 0.195 µV; recorded pulses are not replayed,"
        " their artefacts are",
        "files of pynwb and of writers by the published formats",
    ),
    CardModel(
        "intan-rhx", "Intan RHD and RHS controllers through RHX over TCP",
        "RHS only; when RHX obeys, some milliseconds late", "with a folder that both machines see",
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
