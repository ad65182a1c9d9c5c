// The selector valves: which port each connects, and where that leads.

import { s, setText } from "../dom.js";
import { shortened } from "./columns/sizes.js";
import { positionOf } from "./flows.js";
import { selectorValve } from "./symbols.js";

/** @import { LiveState, Rig, Selector } from "../../../types/live.d.ts" */
/** @import { Plan } from "./plan.js" */

const LETTER = 7.6;
const ROOM = 104;

export class Selectors {
  /**
   * @param {Rig} rig
   * @param {Plan} plan
   */
  constructor(rig, plan) {
    this.rig = rig;
    this.node = s("g", { class: "selectors" });
    this.drawn = plan.selectors.map((place) => ({ ...selectorValve(place), selector: place.selector }));
    this.node.append(...this.drawn.map((each) => each.node));
  }

  /** @param {LiveState} state */
  update(state) {
    const ends = new Set();
    for (const { node, state: text, title, selector } of this.drawn) {
      const position = positionOf(selector, state);
      const end = this.endOf(selector, position);
      if (end) ends.add(end);
      node.classList.toggle("open", end !== null);
      node.classList.toggle("unknown", position === null);
      const said = saidOf(selector, position, end);
      setText(text, shortened(said, ROOM, LETTER));
      setText(title, `selector ${selector.name} (${selector.valve}): ${said}`);
    }
    for (const cell of document.querySelectorAll(".cell[data-vessel]")) {
      if (cell instanceof SVGElement) cell.classList.toggle("connected", ends.has(cell.dataset.vessel));
    }
  }

  /**
   * Return the place at the other end of the port that is connected; null for a closed one.
   * @param {Selector} selector
   * @param {number | null} position
   */
  endOf(selector, position) {
    const name = selector.ports[String(position)];
    const line = this.rig.schematic.lines.find((each) => each.name === name);
    if (!line) return null;
    return line.from === selector.name ? line.to : line.from;
  }
}

/**
 * Return a position in words.
 * @param {Selector} selector
 * @param {number | null} position
 * @param {string | null} end
 */
function saidOf(selector, position, end) {
  if (position === null) return "position?";
  if (end) return `${position}: ${end}`;
  return `${position}: ${position === selector.rest ? "rest" : "closed"}`;
}
