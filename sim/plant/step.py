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

from sim.plant import chemistry, heat
from sim.plant.ageing import age, breathe
from sim.plant.columns import BODY, LINE, LINK, TRAIT, Body, Content, Places
from sim.plant.compiled import SOURCES, compiled, kept
from sim.plant.flows import command_lines, move, spill
from sim.plant.tissue import live

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]


@compiled
def warm(body: Body, dt_s: float) -> None:
    """Change the rig's temperature by heater, bath and room. The bath is taken as it is half way."""
    bath = body.bath_c
    if body.jacket_w_per_k > 0.0:
        half_way = heat.relaxed(bath, body.bath_goal_c, body.bath_per_s, 0.5 * dt_s)
        body.bath_c = heat.relaxed(bath, body.bath_goal_c, body.bath_per_s, dt_s)
        bath = half_way
    body.temperature_c = heat.warmed(
        body.temperature_c, body.heater_w, body.ambient_c, body.jacket_w_per_k, bath, dt_s
    )  # fmt: skip


Step = Callable[[I8, F8, I8, F8, F8, F8, F8, F8, F8, F8, F8, F8, F8, float, int], None]


def _made(sources: int) -> tuple[Step, Callable[[F8, F8, int], float], Callable[[I8, F8, F8], None]]:
    """Compile what Python calls. What numba keeps on disk is renewed when any file changes: `sources` is in its key.

    Records are passed as plain numbers and viewed as records inside, because numba takes 1.5 µs longer a call to recognize
    arrays of records.
    """

    @kept
    def step(
        link_rows: I8, trait_rows: F8, place_row: I8, shells: F8, vessels: F8, held: F8, line_rows: F8, body_rows: F8,
        ph: F8, profile: F8, tally: F8, spilled: F8, scratch: F8, dt_s: float, steps: int,
    ) -> None:  # fmt: skip
        if steps < 0 and sources != 0:
            return
        half = 0.5 * dt_s
        count = link_rows.shape[0]
        links = link_rows.view(LINK)[:, 0]
        traits = trait_rows.view(TRAIT)[:, 0]
        places = Places(place_row[0], place_row[1], place_row[2], place_row[3])
        for rig in range(vessels.shape[0]):
            v, h, ln, b = (
                vessels[rig],
                held[rig],
                line_rows[rig].view(LINE)[:, 0],
                body_rows[rig].view(BODY)[0],
            )
            p, pr, ta, sp = ph[rig], profile[rig], tally[rig], spilled[rig]
            for _ in range(steps):
                command_lines(links, ln, b, dt_s)
                for number in range(count):
                    move(number, links, v, h, ln, b, places, ta, scratch, half)
                spill(v, traits, b, places, ta, sp)
                warm(b, half)
                breathe(links, traits, v, h, ln, b, p, ta, half)
                live(links, v, ln, b, places, p, shells, pr, ta, scratch, dt_s)
                age(links, traits, v, ln, p, ta, dt_s)
                breathe(links, traits, v, h, ln, b, p, ta, half)
                warm(b, half)
                for number in range(count - 1, -1, -1):
                    move(number, links, v, h, ln, b, places, ta, scratch, half)
                spill(v, traits, b, places, ta, sp)

    @kept
    def ph_in(vessels: F8, ph: F8, number: int) -> float:
        vessel = vessels[number]
        volume = vessel[Content.LIQUID] if sources != 0 else 0.0
        # The result is not kept, not even as the next guess: a question must not change the plant by a bit.
        return float(
            chemistry.ph_closed(vessel[Content.ALKALINITY] / volume, vessel[Content.CARBON] / volume, ph[number])
        )

    @kept
    def command_now(link_rows: I8, line_rows: F8, body_row: F8) -> None:
        if sources != 0:
            links, lines = link_rows.view(LINK)[:, 0], line_rows.view(LINE)[:, 0]
            command_lines(links, lines, body_row.view(BODY)[0], 0.0)

    return step, ph_in, command_now


step, ph_in, command_now = _made(SOURCES)
"""`step` advances all rigs by `steps` steps of `dt_s` seconds, in place; `ph_in` is the pH of one vessel of one rig;
`command_now` renews flows and pressures of one rig without moving anything.

Shapes, where a field is one of a record: links (lines, fields), traits (vessels, fields), places (4,), shells (3, nodes + 1),
vessels (rigs, vessels, COLUMNS), held (rigs, lines, cells, COLUMNS), lines (rigs, lines, fields), body (rigs, fields),
ph (rigs, vessels), profile (rigs, nodes), tally (rigs, causes, COLUMNS), spilled (rigs, vessels), scratch (4, COLUMNS).
"""
