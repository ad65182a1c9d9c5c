"""The bench rig with other hearts: three of them on one loop, three in single pass, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from controller.rig.description import Rig
from tests.controller.safety.facts import RIG

Value = TypeVar("Value")
HEARTS = ("left", "middle", "right")


def pump(heart: str) -> str:
    """The pump of a heart of :func:`three_hearts`."""
    return f"hearts.{heart}"


def gauge(heart: str) -> str:
    """The gauge in its line."""
    return f"p_{heart}.pressure"


def three_hearts() -> Rig:
    """The bench rig with a second pump, whose three channels perfuse a chamber each from the one loop."""
    safety, organs, bench = RIG.safety, RIG.organs, RIG.organs.hearts["heart"]
    limit = safety.over_pressure_heart
    assert limit is not None
    chambers = dict.fromkeys(HEARTS, RIG.vessels["chamber"])
    lines = {
        f"to_{heart}": RIG.lines["heart"].model_copy(update={"to": heart, "pump": pump(heart)}) for heart in HEARTS
    }
    lines |= {f"from_{heart}": RIG.lines["overflow"].model_copy(update={"from_": heart}) for heart in HEARTS}
    reglo = RIG.devices["reglo"]
    channels = {str(n): reglo.channels["1"].model_copy(update={"point": heart}) for n, heart in enumerate(HEARTS, 1)}
    gauges = {f"p_{heart}": RIG.devices["p_heart"].model_copy(update={"at": f"to_{heart}"}) for heart in HEARTS}
    devices = {
        "reglo": reglo.model_copy(
            update={"channels": {number: of for number, of in reglo.channels.items() if of.point != "heart"}}
        ),
        "hearts": reglo.model_copy(update={"link": "sim:hearts", "channels": channels}),
        **gauges,
        "t_chamber": RIG.devices["t_chamber"].model_copy(update={"at": "left"}),
    }
    return RIG.model_copy(
        update={
            "tissue": dict.fromkeys(HEARTS, RIG.tissue["chamber"]),
            "vessels": without(RIG.vessels, "chamber") | chambers,
            "lines": without(RIG.lines, "heart", "overflow") | lines,
            "devices": without(RIG.devices, "p_heart") | devices,
            "organs": organs.model_copy(
                update={
                    "hearts": {
                        heart: bench.model_copy(update={"line": f"to_{heart}", "pressure": gauge(heart)})
                        for heart in HEARTS
                    }
                }
            ),
            "safety": safety.model_copy(
                update={
                    "over_pressure_heart": None,
                    "over_pressure": {
                        f"to_{heart}": limit.model_copy(update={"point": gauge(heart), "trips": (pump(heart),)})
                        for heart in HEARTS
                    },
                }
            ),
        }
    )


def single_pass() -> Rig:
    """Three hearts that draw from the reservoir; the chambers run over into the waste, and there is no kidney."""
    rig = three_hearts()
    lines = {name: line for name, line in rig.lines.items() if name.partition("_")[0] in ("to", "from")}
    lines = {
        name: line.model_copy(update={"from_": "reservoir"} if line.pump else {"to": "waste"})
        for name, line in lines.items()
    }
    lines["take_left"] = RIG.lines["draw"].model_copy(update={"from_": "left", "to": "waste"})
    lines["top_up"] = RIG.lines["feed"].model_copy(update={"to": "right"})
    organs = {"kidney": None, "gut": None, "liver": None, "immune": None, "lung": None}
    return rig.model_copy(
        update={
            "lines": lines,
            "vessels": {name: rig.vessels[name] for name in ("reservoir", "waste", *HEARTS)},
            "organs": rig.organs.model_copy(update=organs),
            "safety": rig.safety.model_copy(update={"over_pressure_filter": None}),
        }
    )


def dish() -> Rig:
    """A dish without lines, with its thermometer."""
    return RIG.model_copy(
        update={
            "vessels": {"chamber": RIG.vessels["chamber"]},
            "lines": {},
            "devices": {"t_chamber": RIG.devices["t_chamber"]},
            "organs": RIG.organs.model_copy(
                update={"hearts": {}, "kidney": None} | dict.fromkeys(("gut", "liver", "immune", "lung", "skin"), None)
            ),
            "safety": RIG.safety.model_copy(
                update={"over_pressure_heart": None, "over_pressure_filter": None, "temperature": None}
            ),
        }
    )


def without(of: Mapping[str, Value], *names: str) -> dict[str, Value]:
    return {name: value for name, value in of.items() if name not in names}
