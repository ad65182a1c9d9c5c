"""Open the electrode card that a rig file names; in the card process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from choroid.common.array_geometry import agreed_geometry, described_geometry
from choroid.common.extras import load_extra
from choroid.common.failure import UserError
from choroid.running.simulated_card import assumed_geometry, simulated_card
from choroid.simulation.array_far_end import serve_array
from controller.rig.card import REPLAY, channel_list, raw_path
from nerves.cards.contract import ArrayInfo, CardRefused, ElectrodeCard
from nerves.cards.geometry import ArrayGeometry
from nerves.cards.playback import PlaybackCard, Replayable
from nerves.cards.replayable import raw_samples
from nerves.cards.rhx import RhxCard
from nerves.cards.rhx_connection import RhxAddress
from sim.neurons.array import SAMPLE_RATE_HZ, SimulatedArray
from sim.neurons.conditions import TissueConditions

CardMaker = Callable[[Mapping[str, Any], str, Mapping[str, Any], bool], ElectrodeCard]
"""Makes a card of its configuration, the link by which it is reached, its options, and whether the tissue is simulated."""
RATE_TOLERANCE = 1e-3
"""Largest difference between the sample rates of card and rig file."""


@dataclass(frozen=True)
class OpenedCard:
    """A card, and what concerns the tissue behind it."""

    card: ElectrodeCard
    set_conditions: Callable[[TissueConditions], None]
    """Set what the simulated tissue lives in; does nothing for real tissue."""
    close: Callable[[], None]
    """Close what stands behind the card; the card is closed by its host."""
    geometry: ArrayGeometry | None = None
    """Where the electrodes are; None where it is not known."""


def open_card(config: Mapping[str, Any]) -> OpenedCard:
    """Open the card of :func:`card_config`.

    Raises:
        CardRefused: It cannot be opened, or is not the one that the rig file describes.
    """
    try:
        opened = _OPENERS[config.get("card", "simulated")](config)
    except UserError as error:
        raise CardRefused(str(error)) from error
    try:
        why = _other_than_described(opened.card.info, config)
        if why:
            raise CardRefused(why)
        return replace(opened, geometry=agreed_geometry(opened.geometry or opened.card.info.geometry, config))
    except CardRefused:
        opened.card.close()
        opened.close()
        raise


def _simulated(config: Mapping[str, Any]) -> OpenedCard:
    card = simulated_card(
        electrodes=config["electrodes"],
        material=config["material"],
        diameter_um=config["diameter_um"],
        seed=config["seed"],
        geometry=described_geometry(config),
        block_frames=round(config.get("options", {}).get("block_s", 0.001) * SAMPLE_RATE_HZ),
    )
    return OpenedCard(card, card.set_conditions, _nothing)


def _behind(config: Mapping[str, Any], make: CardMaker) -> OpenedCard:
    """Open a card at its link; behind a link `sim:` a server before a simulated array is started in this process."""
    if not config["link"].startswith("sim:"):
        return OpenedCard(make(config, config["link"], config["options"], False), _no_conditions, _nothing)
    geometry = described_geometry(config) or assumed_geometry(config["electrodes"], config["diameter_um"])
    array = SimulatedArray(config["electrodes"], config["seed"], positions_um=geometry.positions_um())
    end = serve_array(config["card"], array)
    folder = TemporaryDirectory(prefix="choroid-card-")
    card = make(config, end.link, {**config["options"], **end.options, "folder": folder.name}, True)

    def set_conditions(conditions: TissueConditions) -> None:
        array.conditions = conditions

    def close() -> None:
        end.close()
        folder.cleanup()

    return OpenedCard(card, set_conditions, close, geometry)


def _rhx_card(config: Mapping[str, Any], link: str, options: Mapping[str, Any], simulated: bool) -> ElectrodeCard:
    url = urlsplit(link)
    channels = channel_list(options["channels"])
    address = RhxAddress(
        url.hostname or "", url.port or 0, options.get("waveform_port") or 5001, channels, options.get("folder", "")
    )
    try:
        return RhxCard(address, material=config["material"], diameter_um=config["diameter_um"], simulated=simulated)
    except OSError as error:
        raise CardRefused(f"the card intan-rhx at {link} cannot be used: {error}") from error


def _open_ephys_card(
    config: Mapping[str, Any], link: str, options: Mapping[str, Any], simulated: bool
) -> ElectrodeCard:
    module = _module("open_ephys", "open-ephys", "card: open-ephys")
    url = urlsplit(link)
    card: ElectrodeCard = module.OpenEphysCard(
        url.hostname, url.port, electrodes=config["electrodes"], stream=options["stream"], simulated=simulated,
        **_electrodes(config),
    )  # fmt: skip
    return card


def _lsl_card(config: Mapping[str, Any], link: str, options: Mapping[str, Any], simulated: bool) -> ElectrodeCard:
    module = _module("lsl", "lsl", "card: lsl")
    name = link.removeprefix("lsl:")
    card: ElectrodeCard = module.LslCard(name, gain_uv=options["gain_uv"], simulated=simulated, **_electrodes(config))
    return card


def _electrodes(config: Mapping[str, Any]) -> dict[str, Any]:
    return {"material": config["material"], "diameter_um": config["diameter_um"]}


def _module(name: str, extra: str, what: str) -> ModuleType:
    """Import the module of a card that needs an extra."""
    return load_extra(f"nerves.cards.{name}", extra, needed_for=what, otherwise="choose another card")


def _playback(config: Mapping[str, Any]) -> OpenedCard:
    """Return the replay of a file."""
    text = config["link"].removeprefix(REPLAY)
    path = Path(config["data_dir"]) / (text[2:] if text.startswith("///") else text)
    card = PlaybackCard(_replayable(path, config), loop=config["options"]["loop"], **_electrodes(config))
    return OpenedCard(card, _no_conditions, _nothing)


def _replayable(path: Path, config: Mapping[str, Any]) -> Replayable:
    """Open a recording by the end of its name."""
    stream = config["options"]["stream"]
    if (path / ".zattrs").exists():
        opener = load_extra(
            "choroid.running.own_replay",
            "recording",
            needed_for=f"the replay of {path.name}",
            otherwise="choose another card",
        )
        recording: Replayable = opener.open_recording(path)
        return recording
    if raw_path(path.name):
        return raw_samples(path, config["electrodes"], config["sample_rate_hz"], config["options"]["gain_uv"])
    kind = "nwb" if path.suffix.lower() == ".nwb" else "neo"
    module = _module(f"replayable_{kind}", "playback", f"the replay of {path.name}")
    opened: Replayable = (module.NwbRecording if kind == "nwb" else module.NeoRecording)(path, stream)
    return opened


_OPENERS: Mapping[str, Callable[[Mapping[str, Any]], OpenedCard]] = {
    "simulated": _simulated,
    "playback": _playback,
    "intan-rhx": lambda config: _behind(config, _rhx_card),
    "open-ephys": lambda config: _behind(config, _open_ephys_card),
    "lsl": lambda config: _behind(config, _lsl_card),
}


def _other_than_described(info: ArrayInfo, config: Mapping[str, Any]) -> str:
    """Return how a card differs from the rig file; empty when it does not."""
    rate_hz = float(config.get("sample_rate_hz", info.sample_rate_hz))
    if info.electrodes == config["electrodes"] and abs(info.sample_rate_hz - rate_hz) <= RATE_TOLERANCE * rate_hz:
        return ""
    return (
        f"{info.name} has {info.electrodes} electrodes at {info.sample_rate_hz:g} Hz; the rig file says"
        f" {config['electrodes']} at {rate_hz:g} Hz. Likely cause: another array, or other settings of its software. Next:"
        f" write electrodes: {info.electrodes} and sample_rate: {info.sample_rate_hz:g} Hz under nerves, or correct the"
        " settings"
    )


def _no_conditions(_: TissueConditions) -> None:
    """Real tissue lives in what it lives in."""


def _nothing() -> None:
    """There is nothing behind the card."""
