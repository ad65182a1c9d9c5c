"""What the neurons of a culture live in, as the plant has it at the tissue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TissueConditions:
    """What the neurons live in. The defaults are those of a healthy culture.

    `alive`: share of living tissue (0 to 1). `oxygen_mm`: dissolved oxygen at the tissue (mmol/L).
    """

    alive: float = 1.0
    temperature_c: float = 37.0
    oxygen_mm: float = 0.19
    ph: float = 7.4
    ammonia_mm: float = 0.0

    @property
    def excitability(self) -> float:
        """Return the factor on the intrinsic drive, 1 for a healthy culture.

        Cold slows (Q10 of 2), and heat above 41 °C blocks. Below some 0.02 mM oxygen, neurons fall silent (KATP channels).
        Acid closes channels (factor 0.4 at pH 7.0), alkaline medium opens them [P].
        """
        warmth: float = 2.0 ** ((min(self.temperature_c, 39.0) - 37.0) / 10.0)
        block = min(max((43.0 - self.temperature_c) / 2.0, 0.0), 1.0)
        oxygen = min(max(self.oxygen_mm, 0.0) / 0.06, 1.0)
        acid = min(max(1.0 + 1.5 * (self.ph - 7.4), 0.0), 2.0)
        return warmth * block * oxygen * acid

    @property
    def inhibition(self) -> float:
        """Return the factor on inhibition, 1 for a healthy culture: ammonia weakens it (half at 2 mM) [P]."""
        return 1.0 / (1.0 + max(self.ammonia_mm, 0.0) / 2.0)

    @property
    def glutamate(self) -> float:
        """Return the factor on the slow (NMDA) excitation, 1 for a healthy culture.

        Above about 1 mM, ammonia keeps glia from taking up glutamate and potassium, and the tissue becomes hypersynchronous
        (twice at 2.5 mM, at most three times) [P].
        """
        return min(1.0 + max(self.ammonia_mm - 1.0, 0.0) / 1.5, 3.0)
