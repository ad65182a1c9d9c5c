"""Small protocols that use every verb."""

from __future__ import annotations

from collections.abc import Mapping

from protocols.language import Lab, ProtocolFunction
from protocols.parameters import Param
from protocols.registry import Recipe

ASKED_UL = {
    "draw": 6000.0,
    "feed": 1500.0,
    "glucose": 700.0,
    "base": 600.0,
    "discard": 2800.0,
    "return": 6000.0,
}
"""By line; the sum leaves loop and spent vessel where they stood."""


async def everything(lab: Lab, params: Mapping[str, float]) -> None:
    drawn = await lab.kidney.draw(ASKED_UL["draw"])
    acidity = await lab.liver.ph(10.0)
    estimate = await lab.estimate()
    await lab.note("seen", {"ph": acidity.value, "lactate": estimate.spent.lactate_mm.value, "drawn": drawn.ul})
    await lab.kidney.discard(ASKED_UL["discard"])
    await lab.gut.feed(ASKED_UL["feed"])
    await lab.liver.add_glucose(ASKED_UL["glucose"])
    await lab.liver.add_base(ASKED_UL["base"])
    await lab.sleep(90.0)
    await lab.kidney.give_back(ASKED_UL["return"])
    await lab.sleep_until(900.0)


async def one_draw(lab: Lab, params: Mapping[str, float]) -> None:
    drawn = await lab.kidney.draw(params["volume_ul"])
    await lab.note("drawn", {"ul": drawn.ul, "low": drawn.low, "high": drawn.high})


async def one_return(lab: Lab, params: Mapping[str, float]) -> None:
    await lab.kidney.draw(8000.0)
    await lab.kidney.give_back(8000.0)


async def one_dose(lab: Lab, params: Mapping[str, float]) -> None:
    await lab.liver.add_glucose(5000.0)


async def a_nap(lab: Lab, params: Mapping[str, float]) -> None:
    await lab.sleep(7200.0)
    await lab.note("awake", {})


VOLUME = (Param("volume", "uL", 12_000.0, 100.0, 40_000.0, "how much"),)


def recipe(function: ProtocolFunction, params: tuple[Param, ...] = (), *, source: str = "0" * 64) -> Recipe:
    name = getattr(function, "__name__", "test")
    return Recipe(name, "a test", params, function, source)


CATALOGUE = {
    made.name: made
    for made in (
        recipe(everything),
        recipe(one_draw, VOLUME),
        recipe(one_return),
        recipe(one_dose),
        recipe(a_nap),
    )
}
