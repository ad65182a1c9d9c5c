"""The text of a new rig file, section by section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TITLES: Mapping[str, str] = {
    "tissue": "what lives where; add the batch of differentiation and the cell line",
    "media": "check the composition against the data sheet of your medium",
    "zones": "spaces that other devices keep; oxygen and CO2 are shares of the gas",
    "plates": "each well is a chamber, such as plate-A1",
    "vessels": "volume at the start; floor and ceiling are the limits that the safety gate enforces",
    "junctions": "branch points without volume",
    "selectors": "selector valves; the position at rest is a closed port",
    "filters": "from the data sheet of the filter",
    "dialysers": "from the data sheet of the fibres",
    "lines": "measure bore and length of your tubing; “passive” lines are branches and overflows",
    "devices": "",
    "agitators": "stirrers, shakers, rockers; without switch or setpoint a person drives them",
    "nerves": "the electrode array",
    "organs": "what the controller does with the devices: flows, set-points, leases",
    "safety": "limits at which interlocks act",
    "upkeep": "",
}
"""Sections of a rig file in their order, each with its comment."""


@dataclass(slots=True)
class Draft:
    """A rig file that is being written."""

    real_links: bool
    head: list[str] = field(default_factory=list)
    sections: dict[str, list[str]] = field(default_factory=lambda: {title: [] for title in TITLES})
    ports: dict[str, str] = field(default_factory=dict)

    def add(self, section: str, name: str, *, comment: str = "", **keys: str) -> None:
        """Add an entry on a line of its own; keys without a value are left out."""
        text = ", ".join(f"{key.rstrip('_')}: {value}" for key, value in keys.items() if value)
        self.sections[section].append(f"  {name}: {{{text}}}{f'   # {comment}' if comment else ''}")

    def device(
        self, name: str, model: str, *, bus: str = "", channels: Mapping[str, str] | None = None, **keys: str
    ) -> None:
        """Add a device.

        Args:
            name: Its name.
            model: Its model.
            bus: The line that it shares with others, by any name; "" = a line of its own.
            channels: Number → entry of each channel.
            keys: Further keys.
        """
        entry = {"model": model, "link": self.link(bus or name), **keys}
        if not channels:
            self.add("devices", name, **entry)
            return
        lines = [f"  {name}:", *(f"    {key}: {value}" for key, value in entry.items() if value), "    channels:"]
        self.sections["devices"] += [*lines, *(f'      "{number}": {{{text}}}' for number, text in channels.items())]

    def link(self, line: str) -> str:
        """Return the link of a line, by any name of it."""
        port = self.ports.setdefault(line, str(len(self.ports)))
        return f'"serial:///dev/ttyUSB{port}"' if self.real_links else f'"sim:{line}"'

    def over_pressure(self, line: str, limit: str) -> None:
        """Add the limit of a further gauge to `safety.over_pressure`."""
        safety = self.sections["safety"]
        if "  over_pressure:" not in safety:
            safety.append("  over_pressure:")
        safety.insert(safety.index("  over_pressure:") + 1, f"    {line}: {limit}")

    def text(self) -> str:
        """Return the file."""
        parts = ["\n".join(self.head)]
        for section, lines in self.sections.items():
            if lines:
                comment = f"   # {TITLES[section]}" if TITLES[section] else ""
                parts.append("\n".join([f"{section}:{comment}", *lines]))
        return "\n\n".join(parts) + "\n"
