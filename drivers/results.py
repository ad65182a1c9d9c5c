"""Results of at-line analysers: each belongs to one sample, and is delivered once.

A sensor tells the present state as often as it is asked. An analyser measures a sample that a person has brought to it, and
has one result for it: asked again and again, that result must not count again. An analyser only delivers; it has no outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime

from drivers.settings import FlagSetting, Given, NumberSetting, Setting, bad_setting

SAMPLE_VOLUME = NumberSetting(
    key="sample_ul",
    meaning="volume that one sample takes out of the rig, booked once for all its analytes; 0: booked by hand",
    low=0.0,
    high=50_000.0,
    unit="µL",
)
PLACES = Setting(
    key="places",
    meaning="short names of vessels in sample IDs, such as “L=loop, S=spent”",
    without="default none; names of vessels, “loop” and “spent” are always understood",
)
ZONE = Setting(
    key="zone",
    meaning="IANA time zone of the analyser's clock and of the times in sample IDs, such as Europe/Berlin",
    without="default: the zone of the controller",
)
SHARED = FlagSetting(
    key="shared",
    meaning="whether samples that are not of this rig are expected: they are recorded and raise no alarm",
    default=False,
)
SAMPLE_SETTINGS: tuple[Setting, ...] = (SAMPLE_VOLUME, PLACES, ZONE, SHARED)


@dataclass(frozen=True, slots=True)
class SampleTerms:
    """Configures how the sample IDs of an analyser are read, from its settings in the rig file."""

    sample_ul: float
    places: tuple[tuple[str, str], ...] = ()
    """Short names of vessels, with the vessels."""
    zone: str = ""
    shared: bool = False

    @classmethod
    def of(cls, given: Given, where: str) -> SampleTerms:
        """Read the terms from the settings of a device.

        Args:
            given: Its settings in the rig file.
            where: Name of the device, for the error.

        Returns:
            The terms, with the defaults of what is not set.

        Raises:
            BadSetting: A setting is out of range or cannot be read.
        """
        return cls(
            SAMPLE_VOLUME.of(given, where),
            _places(given.get(PLACES.key, ""), where),
            str(given.get(ZONE.key, "")),
            SHARED.of(given, where),
        )


def _places(text: object, where: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in filter(None, (each.strip() for each in str(text).split(","))):
        short, equals, vessel = (each.strip() for each in part.partition("="))
        if not (short and equals and vessel):
            raise bad_setting(where, PLACES.key, f"has “{part}”", "write pairs such as “L=loop, S=spent”")
        found.append((short, vessel))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class AnalyserResult:
    """Holds one result as the analyser has delivered it."""

    key: str
    """Its identity: the same text whenever the analyser delivers this result again, and no other result's."""
    sample: str
    """The sample ID that was entered at the analyser."""
    analyte: str
    """What was measured, by the settings of the rig file; empty for a test that these do not name."""
    test: str
    """The test's number at the analyser."""
    value: float | None
    """None where the analyser has no value."""
    unit: str
    measured: datetime | None
    """Begin of the measurement by the analyser's clock, without time zone; None where it does not tell."""
    flags: tuple[str, ...] = ()
    """Why the value is not to be believed without a person."""
    notes: tuple[str, ...] = ()
    """What else the analyser remarks."""
    raw: str = ""
    """As received, for the record."""


class ResultSource(ABC):
    """Delivers the results of one analyser, oldest first."""

    terms: SampleTerms

    @abstractmethod
    async def fetch(self) -> AnalyserResult | None:
        """Return the oldest result that is not kept yet, or None if the analyser has none.

        A result may come again under the same key: after a disturbed transmission, or when its operator sends it again at the
        analyser. Until :meth:`keep` is called, the same result is returned again.

        Raises:
            DeviceError: The analyser does not answer, or not as documented. Nothing is lost: call again later.
        """

    @abstractmethod
    def keep(self, result: AnalyserResult) -> None:
        """Take note that a result is recorded for good: it is not returned again.

        Args:
            result: The result that :meth:`fetch` has returned last.
        """
