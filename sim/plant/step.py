"""One step of many rigs: the mechanisms, composed symmetrically (Strang).

Each mechanism is of second order in dt. The whole falls to first order at small steps, because the tissue's feedback on its
medium is taken once a step (measured in docs/validation.md).

Lines forward for half a step, gas for half, tissue and turnover for the whole, gas for half, lines backward for half. Each
line by itself is exact (its source only loses, so what enters it is steady); gas is exponential; the tissue is advanced by
the midpoint rule and takes no more than is there, so that nothing becomes negative.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sim.plant import branches, chemistry, heat
from sim.plant.ageing import age, breathe, rest, waited
from sim.plant.columns import BODY, LINE, LINK, NODE, OUTLET, SPACE, TISSUE, TRAIT, Body, Content, Sizes, Space, width
from sim.plant.compiled import SOURCES, borrowed, compiled, kept
from sim.plant.flows import command_lines, from_junctions, from_vessels, move
from sim.plant.overflow import spill
from sim.plant.sphere import SHELLS
from sim.plant.tissue import live

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
Records = NDArray[np.void]
LINK_FIELDS, NODE_FIELDS, OUTLET_FIELDS = width(LINK), width(NODE), width(OUTLET)
BODY_FIELDS, SPACE_FIELDS, TISSUE_FIELDS = width(BODY), width(SPACE), width(TISSUE)


@compiled
def warm(space: Space, dt_s: float) -> None:
    """Change the temperature of a space by heater, bath and room. The bath is taken as it is half way."""
    bath = space.bath_c
    if space.jacket_w_per_k > 0.0:
        half_way = heat.relaxed(bath, space.bath_goal_c, space.bath_per_s, 0.5 * dt_s)
        space.bath_c = heat.relaxed(bath, space.bath_goal_c, space.bath_per_s, dt_s)
        bath = half_way
    space.temperature_c = heat.warmed(
        space.temperature_c, space.heater_w, space.ambient_c, space.jacket_w_per_k, bath, dt_s
    )  # fmt: skip


@compiled
def take_turns(body: Body, waits: F8, dt_s: float) -> int:
    """Count a step; return the group of nodes whose turn it is, or -1 where there are no groups."""
    groups: int = waits.shape[0]
    if groups == 0:
        return -1
    for group in range(groups):
        waits[group] += dt_s
    body.ticks += 1.0
    return int(body.ticks) % groups


@compiled
def sizes_of(row: I8) -> Sizes:
    """Return the sizes that a row of whole numbers holds."""
    return Sizes(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8])


@compiled
def plumbing_of(plumbing: I8, sizes: Sizes) -> tuple[Records, Records, Records, I8]:
    """Return links, nodes, outlets and the chambers of the tissues, as they are packed."""
    a = sizes.lines * LINK_FIELDS
    b = a + (sizes.vessels + sizes.junctions) * NODE_FIELDS
    c = b + sizes.outlets * OUTLET_FIELDS
    return plumbing[:a].view(LINK), plumbing[a:b].view(NODE), plumbing[b:c].view(OUTLET), plumbing[c:]


@compiled
def state_of(row: F8, sizes: Sizes) -> tuple[Records, Records, Records, F8]:
    """Return the body (shape (1,)), the spaces, the tissues and the waits of one rig, as they are packed."""
    a = BODY_FIELDS + sizes.spaces * SPACE_FIELDS
    b = a + sizes.tissues * TISSUE_FIELDS
    return row[:BODY_FIELDS].view(BODY), row[BODY_FIELDS:a].view(SPACE), row[a:b].view(TISSUE), row[b:]


Step = Callable[[I8, I8, F8, F8, F8, F8, F8, F8, F8, F8, F8, F8, F8, float, int], None]


def _made(
    sources: int, branched: bool
) -> tuple[Step, Callable[[F8, F8, int], float], Callable[[I8, I8, F8, F8, F8], None]]:
    """Compile what Python calls. What numba keeps on disk is renewed when any file changes: `sources` is in its key.

    Records are passed as plain numbers and viewed as records inside, because numba takes 1.5 µs longer a call to recognize
    arrays of records, and 0.15 µs for each array. A constant of the closure decides what is left out of the compiled code.
    """

    @kept
    def step(
        size_row: I8, plumbing: I8, trait_rows: F8, vessels: F8, held: F8, line_rows: F8, state: F8, ph: F8,
        profile: F8, tally: F8, spilled: F8, scratch: F8, network: F8, dt_s: float, steps: int,
    ) -> None:  # fmt: skip
        if steps < 0 and sources != 0:
            return
        half = 0.5 * dt_s
        sizes = sizes_of(size_row)
        links, nodes, outlets, hosts = plumbing_of(borrowed(plumbing), sizes)
        traits = borrowed(trait_rows).view(TRAIT)[:, 0]
        row, net = borrowed(scratch), borrowed(network)
        for rig in range(vessels.shape[0]):
            v, h, ln = borrowed(vessels)[rig], borrowed(held)[rig], borrowed(line_rows)[rig].view(LINE)[:, 0]
            bodies, spaces, tissues, waits = state_of(borrowed(state)[rig], sizes)
            b = bodies[0]
            p, pr, ta, sp = borrowed(ph)[rig], borrowed(profile)[rig], borrowed(tally)[rig], borrowed(spilled)[rig]
            for _ in range(steps):
                command_lines(links, nodes, outlets, ln, b, sizes, dt_s)
                if branched:
                    branches.balance(links, ln, sizes, net)
                due = take_turns(b, waits, dt_s)
                if branched:
                    from_vessels(links, nodes, outlets, traits, v, h, ln, b, sizes, ta, row, dt_s)
                    from_junctions(
                        links, nodes, outlets, traits, v, h, ln, b, sizes, net, ta, row, dt_s, False
                    )  # fmt: skip
                for number in range(sizes.pumped):
                    if ln[number].flow_ul_s != 0.0:
                        move(number, links, nodes, outlets, traits, v, h, ln, b, ta, row, half)
                spill(v, nodes, outlets, traits, ln, b, ta, sp)
                for space in range(sizes.spaces):
                    warm(spaces[space], half)
                breathe(links, nodes, traits, v, h, ln, spaces, sizes, p, ta, due, waits, dt_s)
                for number in range(sizes.tissues):
                    host = hosts[number]
                    elapsed_s = waited(nodes[host].group, due, waits, dt_s)
                    if elapsed_s > 0.0:
                        temperature_c = spaces[nodes[host].space].temperature_c
                        live(
                            host, v[host], links, ln, tissues[number], temperature_c, sizes, p, SHELLS, pr[number], ta,
                            row, elapsed_s,
                        )  # fmt: skip
                age(links, nodes, traits, v, ln, spaces, sizes, p, ta, due, waits, dt_s)
                rest(links, nodes, traits, v, h, ln, spaces, b, sizes, p, ta, dt_s)
                breathe(links, nodes, traits, v, h, ln, spaces, sizes, p, ta, due, waits, dt_s)
                if due >= 0:
                    waits[due] = 0.0
                for space in range(sizes.spaces):
                    warm(spaces[space], half)
                for number in range(sizes.pumped - 1, -1, -1):
                    if ln[number].flow_ul_s != 0.0:
                        move(number, links, nodes, outlets, traits, v, h, ln, b, ta, row, half)
                if branched:
                    from_junctions(
                        links, nodes, outlets, traits, v, h, ln, b, sizes, net, ta, row, dt_s, True
                    )  # fmt: skip
                spill(v, nodes, outlets, traits, ln, b, ta, sp)

    @kept
    def ph_in(vessels: F8, ph: F8, number: int) -> float:
        vessel = vessels[number]
        volume = vessel[Content.LIQUID] if sources != 0 else 0.0
        # The result is not kept, not even as the next guess: a question must not change the plant by a bit.
        return float(
            chemistry.ph_closed(
                vessel[Content.ALKALINITY] / volume, vessel[Content.CARBON] / volume, ph[number],
                vessel[Content.BUFFER] / volume,
            )
        )  # fmt: skip

    @kept
    def command_now(size_row: I8, plumbing: I8, line_rows: F8, state_row: F8, network: F8) -> None:
        if sources != 0:
            sizes = sizes_of(size_row)
            links, nodes, outlets, _ = plumbing_of(plumbing, sizes)
            bodies, _, _, _ = state_of(state_row, sizes)
            lines = line_rows.view(LINE)[:, 0]
            command_lines(links, nodes, outlets, lines, bodies[0], sizes, 0.0)
            if branched:
                branches.balance(links, lines, sizes, network)

    return step, ph_in, command_now


step, ph_in, command_now = _made(SOURCES, branched=False)
step_branched, _, command_now_branched = _made(SOURCES, branched=True)
"""`step` advances all rigs by `steps` steps of `dt_s` seconds, in place; `ph_in` is the pH of one vessel of one rig;
`command_now` renews flows and pressures of one rig without moving anything. `…_branched` are the same for rigs with pumps at
junctions: what shipped rigs do not need is not compiled for them.

Shapes, where a field is one of a record: sizes (fields of Sizes,), plumbing (fields of all links, nodes and outlets, and the
chamber of each tissue), traits (nodes, fields), vessels (rigs, nodes, COLUMNS), held (rigs, lines,
cells, COLUMNS), lines (rigs, lines, fields), state (rigs, fields of the body, all spaces and all tissues, and the waits),
ph (rigs, nodes), profile (rigs, tissues, rows by Shell, shells), tally (rigs, causes, COLUMNS), spilled (rigs, vessels),
scratch (5 + nodes, COLUMNS), network (junctions, junctions + 2).
"""
