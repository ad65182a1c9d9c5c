"""A month of culture: half of the medium is changed on Monday, Wednesday and Friday at 09:00 local time, with a photo before
each change, and lactate is assayed every Monday before the change. month.yaml is the same as a recipe.
"""

from collections.abc import Mapping

from protocols.answers import PHOTO_TYPES, AnswerForm
from protocols.calendar import Calendar
from protocols.language import Lab
from protocols.parameters import Param

NAME = "month-python"
TITLE = "Change of medium on Mon, Wed and Fri at 09:00 with a photo, weekly lactate assay"
PARAMS = (
    Param("changes", "", 13, 1, 200, "number of changes"),
    Param("assays", "", 5, 1, 60, "number of weekly assays"),
    Param("share", "%", 50, 10, 60, "part of the loop's medium that is changed"),
)
ZONE = "Europe/Berlin"
PHOTO = AnswerForm(kind="photo", types=PHOTO_TYPES)
MIN_UL = 1_000.0
"""A remainder below this (µL) is not changed."""


async def protocol(lab: Lab, params: Mapping[str, float]) -> None:
    """Change medium and assay lactate, each by its own calendar."""
    works = (changing(lab, int(params["changes"]), params["share_pct"] / 100.0), assaying(lab, int(params["assays"])))
    await lab.together(*works, names=("changing", "assaying"))


async def changing(lab: Lab, changes: int, share: float) -> None:
    """Photograph, then change a part of the medium."""
    due = None
    for change in range(1, changes + 1):
        due = await lab.sleep_until_clock("09:00", ZONE, after=due, calendar=Calendar(days=("mon", "wed", "fri")))
        picture = await lab.ask(f"Photograph the chamber before change {change}", PHOTO)
        wanted_ul = share * lab.volumes()["loop"].ul
        replaced_ul = 0.0
        for _ in range(6):
            if wanted_ul - replaced_ul < MIN_UL:
                break
            replaced_ul += await exchange(lab, wanted_ul - replaced_ul)
        loop_ul = lab.volumes()["loop"].ul
        told = {"change": change, "picture": picture, "wanted": wanted_ul, "replaced": replaced_ul, "loop": loop_ul}
        await lab.note("change", told)


async def exchange(lab: Lab, wanted_ul: float) -> float:
    """Replace up to `wanted_ul` (µL) in one round; return how much was drawn (µL)."""
    drawn = await lab.kidney.draw(min(wanted_ul, lab.targets.loop_spare_ul, lab.targets.spent_room_ul))
    await lab.kidney.discard(lab.volumes()["spent"].ul - lab.targets.spent_ul)
    await lab.gut.feed(min(drawn.ul, lab.targets.spent_room_ul))
    await lab.kidney.give_back(lab.volumes()["spent"].ul - lab.targets.spent_ul)
    return drawn.ul


async def assaying(lab: Lab, assays: int) -> None:
    """Assay lactate every Monday."""
    due = None
    for week in range(1, assays + 1):
        due = await lab.sleep_until_clock("08:55", ZONE, after=due, calendar=Calendar(days=("mon",)))
        lactate_mm = await lab.assay("lactate", "loop", f"Assay lactate of week {week}")
        await lab.note("weekly", {"week": week, "lactate": lactate_mm})
