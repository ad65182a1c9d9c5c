"""The plan of a comparison: arms, cultures, end points, test and exclusions, in a file that is registered before the data."""

from __future__ import annotations

import hashlib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from choroid.common.failure import UserError
from choroid.export.events import KINDS
from drivers.strict_yaml import YamlTextError, load_yaml

Text = Annotated[str, Field(min_length=1, max_length=200)]
Summary = Literal["mean", "last", "maximum", "minimum", "slope"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlannedCulture(_Part):
    """One culture: its arm, its batch, and where its timeline will be (relative to the plan)."""

    arm: Text
    batch: Text
    timeline: Text
    culture: str = ""
    """Its name in the timeline; not needed where the timeline has one culture."""


class Variation(_Part):
    """What a calculation of power assumes, in the unit of the end point."""

    effect: float = Field(gt=0)
    """Difference of the arms that is to be found."""
    batch_sd: float = Field(ge=0)
    """Standard deviation between batches."""
    culture_sd: float = Field(ge=0)
    """Standard deviation between cultures of one batch."""
    measurement_sd: float = Field(default=0.0, ge=0)
    """Standard deviation of one value of the timeline."""
    values: int = Field(default=1, ge=1)
    """Independent values of which the summary of a culture is the mean."""

    @property
    def within_sd(self) -> float:
        """Return the standard deviation of the value of a culture within its batch."""
        return float((self.culture_sd**2 + self.measurement_sd**2 / self.values) ** 0.5)


class EndPoint(_Part):
    """One number for each culture, from the rows of its timeline of a kind and subject within a window of its days."""

    name: Text
    role: Literal["primary", "secondary"]
    kind: Text
    what: Text
    unit: Text
    days: tuple[float, float]
    """Window in days since the culture began, [begin, end)."""
    summary: Summary = "mean"
    """`slope` is per day."""
    min_values: int = Field(default=1, ge=1)
    """A culture with fewer values in the window is excluded from this end point."""
    power: Variation | None = None


class Exclusion(_Part):
    """A culture with an event of this kind (and subject) within the window of an end point is excluded from it."""

    kind: Text
    what: str = ""
    why: Text


class ComparisonPlan(_Part):
    """A plan. The first arm is the reference. Batches are random; so is the effect of an arm by batch if it is named."""

    comparison: Literal[1]
    name: Text
    question: Text
    arms: list[Text] = Field(min_length=2)
    random: list[Literal["batch", "arm by batch"]] = Field(min_length=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    correction: Literal["holm", "benjamini-hochberg"]
    """Over the primary comparisons, and apart from them over the secondary ones."""
    end_points: list[EndPoint] = Field(min_length=1)
    exclude: list[Exclusion] = []
    cultures: list[PlannedCulture] = []

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if "batch" not in self.random:
            raise ValueError("random: cultures of one batch resemble each other, so “batch” must be named")
        if len(set(self.arms)) < len(self.arms) or len({each.name for each in self.end_points}) < len(self.end_points):
            raise ValueError("arms and end points need names of their own")
        if all(each.role == "secondary" for each in self.end_points):
            raise ValueError("end_points: none is primary")
        for point in self.end_points:
            if not point.days[0] < point.days[1]:
                raise ValueError(f"end point {point.name}: days begin after they end")
            if point.summary != "mean" and point.power is not None and point.power.values > 1:
                raise ValueError(f"end point {point.name}: power.values above 1 is for a mean, not for {point.summary}")
        for kind in [*(each.kind for each in self.end_points), *(each.kind for each in self.exclude)]:
            if kind not in KINDS:
                near = get_close_matches(kind, KINDS, n=1)
                told = f"; did you mean “{near[0]}”" if near else f"; there are {', '.join(sorted(KINDS))}"
                raise ValueError(f"“{kind}” is no kind of event of a timeline{told}")
        if strange := {each.arm for each in self.cultures} - set(self.arms):
            raise ValueError(f"cultures: no arm is called {', '.join(sorted(strange))}")
        named = [(each.timeline, each.culture) for each in self.cultures]
        if len(set(named)) < len(named):
            raise ValueError("cultures: one culture is named twice")
        return self


def read_plan(path: Path) -> tuple[ComparisonPlan, str]:
    """Return the plan in a file, and the SHA-256 of the file (hex).

    Raises:
        UserError: It cannot be read, or is no plan.
    """
    try:
        content = path.read_bytes()
        return ComparisonPlan.model_validate(load_yaml(content.decode())), hashlib.sha256(content).hexdigest()
    except (OSError, UnicodeDecodeError, YamlTextError) as error:
        raise UserError(f"{path}: {error}") from None
    except ValidationError as error:
        told = "; ".join(
            f"{'.'.join(str(part) for part in each['loc']) or 'plan'}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()
        )
        raise UserError(f"{path} is no plan of a comparison: {told}. Next: docs/statistics.md has an example") from None
