"""The layout of the schematic over random rigs: nothing overlaps, no line runs through a vessel, everything is drawn.

The page's own layout is run without a browser. What only a browser can measure (texts, arcs) is in tests/browser.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controller.rig.description import Rig
from controller.rig.schematic import describe
from tests.browser.sample_rigs import INCUBATOR, heart, probe, rig, tissue, vessel

pytestmark = pytest.mark.needs("node")

SCRIPT = Path(__file__).with_name("lay_out.mjs")
SEEDS = range(120)
CHIP = 104.0, 46.0
PROBES = ("atlas-ezo-ph", "atlas-ezo-do", "atlas-ezo-rtd", "mettler-sics")
ZONES = {"incubator": INCUBATOR, "second": INCUBATOR, "fridge": {"temperature": "4 degC"}}
WORDS = ("a", "chip", "chamber", "organoid_chamber", "bottle-of-fresh-medium", "W", "x1")


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of the drawing, with what it is."""

    name: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Area, by: float) -> bool:
        """Whether the two share more than a margin."""
        across = self.left + by < other.right and other.left + by < self.right
        return across and self.top + by < other.bottom and other.top + by < self.bottom

    def cut_by(self, a: list[float], b: list[float], by: float) -> bool:
        """Whether a horizontal or vertical piece of a line enters it deeper than a margin."""
        low_x, high_x = sorted((a[0], b[0]))
        low_y, high_y = sorted((a[1], b[1]))
        across = high_x > self.left + by and low_x < self.right - by
        return across and high_y > self.top + by and low_y < self.bottom - by


class Drawn:
    """A random rig, grown from a seed: sources, a loop or none, hearts with branches or chains, wastes, probes, zones."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.vessels: dict[str, Any] = {}
        self.lines: dict[str, Any] = {}
        self.junctions: dict[str, Any] = {}
        self.hearts: dict[str, Any] = {}
        self.devices: dict[str, Any] = {}
        self.chambers: list[str] = []
        self.target = self._add("loop") if self.random.random() < 0.7 else None
        for _ in range(self.random.randint(0, 4)):
            self._source()
        for _ in range(self.random.randint(1, 4)):
            self._perfused() if self.random.random() < 0.8 else self._static()
        self._wastes()
        self._probes()

    def rig(self) -> Rig:
        """Return it as a description; it need not be sound."""
        return rig(
            tissue={name: tissue() for name in self.chambers}, zones=ZONES, vessels=self.vessels, lines=self.lines,
            junctions=self.junctions, devices=self.devices, organs={"hearts": self.hearts},
        )  # fmt: skip

    def _name(self, words: tuple[str, ...]) -> str:
        return f"{self.random.choice(words)}{len(self.vessels) + len(self.junctions)}"

    def _add(self, kind: str) -> str:
        name = self._name(WORDS)
        zone = self.random.choice([*ZONES, None])
        self.vessels[name] = vessel(kind, "2 mL", "3 mL", **({} if zone is None else {"zone": zone}))
        return name

    def _chamber(self) -> str:
        name = self._add("chamber")
        self.chambers.append(name)
        return name

    def _line(self, source: str, target: str, *, pumped: bool) -> str:
        name = f"{self.random.choice(('to', 'line', 'feed_of_the_medium'))}{len(self.lines)}"
        self.lines[name] = {"from": source, "to": target} | ({} if pumped else {"passive": True})
        if pumped:
            self.lines[name]["pump"] = f"p{name}.pump"
            self.devices[f"p{name}"] = {"model": "watson-marlow-ascii", "link": f"sim:p{name}"}
        return name

    def _source(self) -> None:
        source = self._add("source")
        if self.target is not None and self.random.random() < 0.8:
            self._line(source, self.target, pumped=True)

    def _static(self) -> None:
        for _ in range(self.random.randint(1, 9)):
            chamber = self._chamber()
            if self.random.random() < 0.2:
                self._line(self._add("source"), chamber, pumped=True)

    def _perfused(self) -> None:
        """Add a heart that leads into a chamber, a chain of chambers, or a junction with branches."""
        source = self.target or self._add("source")
        back = self.target or self._add("waste")
        if self.random.random() < 0.5:
            junction = self._name(("split", "manifold"))
            self.junctions[junction] = {}
            line = self._line(source, junction, pumped=True)
            for _ in range(self.random.randint(2, 6)):
                chamber = self._chamber()
                self._line(junction, chamber, pumped=False)
                self._line(chamber, back, pumped=False)
        else:
            chamber = self._chamber()
            line = self._line(source, chamber, pumped=True)
            for _ in range(self.random.randint(0, 3)):
                further = self._chamber()
                self._line(chamber, further, pumped=False)
                chamber = further
            self._line(chamber, back, pumped=False)
        self.hearts[f"h{len(self.hearts)}"] = heart(line)

    def _wastes(self) -> None:
        for _ in range(self.random.randint(0, 2)):
            self._line(self.random.choice(list(self.vessels)), self._add("waste"), pumped=True)
        if not self.chambers:
            self._chamber()

    def _probes(self) -> None:
        for number in range(self.random.randint(0, 8)):
            place = self.random.choice([*self.vessels, *self.lines])
            self.devices[f"probe{number}"] = probe(self.random.choice(PROBES), place) | {"link": f"sim:probe{number}"}


def laid_out(graphs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the page's plans of graphs."""
    done = subprocess.run(["node", str(SCRIPT)], input=json.dumps(graphs), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    plans: list[dict[str, Any]] = json.loads(done.stdout)
    return plans


def faults(graph: dict[str, Any], plan: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a plan."""
    boxes = list(_boxes(plan))
    for one, other in combinations(boxes, 2):
        if one.overlaps(other, 1.0):
            yield f"{one.name} lies over {other.name}"
    chips = [Area(f"reading {chip['point']}", *_edges(chip | {"w": CHIP[0], "h": CHIP[1]})) for chip in plan["chips"]]
    for one, other in combinations(chips, 2):
        if one.overlaps(other, 1.0):
            yield f"{one.name} lies over {other.name}"
    yield from (f"{chip.name} lies over {box.name}" for chip in chips for box in boxes if chip.overlaps(box, 1.0))
    whole = Area("drawing", 0.0, plan["top"], plan["width"], plan["height"])
    for area in (*boxes, *chips):
        if area.left < 0 or area.right > whole.right + 1 or area.top < whole.top - 1 or area.bottom > whole.bottom + 1:
            yield f"{area.name} lies outside the drawing"
    yield from _missing(graph, plan)
    yield from _crossings(plan, boxes)


def _missing(graph: dict[str, Any], plan: dict[str, Any]) -> Iterator[str]:
    cells = {cell["vessel"]["name"] for block in plan["blocks"] for cell in block["cells"]}
    drawn = [*plan["vessels"], *cells]
    if sorted(drawn) != sorted(each["name"] for each in graph["vessels"]):
        yield f"vessels drawn: {sorted(drawn)}"
    members = {member["name"] for line in plan["lines"].values() for member in line["members"]}
    inside = {each["name"] for each in graph["lines"] if {each["from"], each["to"]} <= cells}
    if left := {each["name"] for each in graph["lines"]} - members - inside:
        yield f"lines that are not drawn: {sorted(left)}"
    if {probe["point"] for probe in plan["chips"]} < {
        each["point"] for each in graph["probes"] if each["at"] in plan["vessels"] and each["at"] not in cells
    }:
        yield "a reading of a vessel is not drawn"


def _crossings(plan: dict[str, Any], boxes: list[Area]) -> Iterator[str]:
    """Yield the lines that pass through a vessel: all but the first and the last piece keep out of every one."""
    for name, line in plan["lines"].items():
        pieces = list(pairwise(line["points"]))
        for number, (a, b) in enumerate(pieces):
            for box in boxes:
                # The ends of a line may reach into the vessel in which it begins or ends.
                ends = number in (0, len(pieces) - 1) and _touches(box, line["points"][0 if number == 0 else -1])
                if not ends and box.cut_by(a, b, 6.0):
                    yield f"line {name} runs through {box.name}"


def _touches(box: Area, point: list[float]) -> bool:
    return box.left - 2 <= point[0] <= box.right + 2 and box.top - 2 <= point[1] <= box.bottom + 32


def _boxes(plan: dict[str, Any]) -> Iterator[Area]:
    for name, box in plan["vessels"].items():
        yield Area(f"vessel {name}", *_edges(box))
    for block in plan["blocks"]:
        yield Area(f"block {block['name']}", *_edges(block))


def _edges(box: dict[str, Any]) -> tuple[float, float, float, float]:
    return box["x"], box["y"], box["x"] + box["w"], box["y"] + box["h"]


def test_random_rigs_are_drawn_whole_and_without_overlap() -> None:
    graphs = [describe(Drawn(seed).rig()) for seed in SEEDS]
    assert any(len(graph["vessels"]) > 20 for graph in graphs)
    assert any(not graph["lines"] for graph in graphs) or any(len(graph["lines"]) < 3 for graph in graphs)
    wrong = {
        seed: found
        for seed, graph, plan in zip(SEEDS, graphs, laid_out(graphs), strict=True)
        if (found := list(faults(graph, plan)))
    }
    assert wrong == {}


def test_the_judge_finds_what_lies_over_something_else() -> None:
    graph = describe(Drawn(3).rig())
    (plan,) = laid_out([graph])
    assert list(faults(graph, plan)) == []
    first, second = list(plan["vessels"])[:2]
    moved = json.loads(json.dumps(plan))
    moved["vessels"][first] |= {"x": plan["vessels"][second]["x"], "y": plan["vessels"][second]["y"]}
    assert any("lies over" in each for each in faults(graph, moved))
    cut = json.loads(json.dumps(plan))
    box = plan["vessels"][second]
    line = next(iter(cut["lines"].values()))
    line["points"] = [[0, 0], [0, box["y"] + 20], [box["x"] + box["w"] + 50, box["y"] + 20], [0, 0]]
    assert any("runs through" in each for each in faults(graph, cut))
    del cut["lines"][next(iter(cut["lines"]))]
    assert any("not drawn" in each for each in faults(graph, cut))
