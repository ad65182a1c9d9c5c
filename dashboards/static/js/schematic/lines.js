// The lines of the schematic: their medium, their flow, and an arrow head that shows the direction also in a still
// picture.

import { s } from "../dom.js";
import { originsOf } from "./flows.js";
import { headTransform, roundedPath } from "./geometry.js";

/** @import { SchematicGraph } from "../../../types/live.d.ts" */
/** @import { PlacedLine, Plan } from "./plan.js" */

/**
 * A line on the page. `origins` are the vessels from which its medium comes.
 * @typedef {object} DrawnLine
 * @property {SVGElement} node
 * @property {PlacedLine} line
 * @property {string[]} origins
 * @property {SVGElement} dashes
 * @property {number} flow - µL/min
 * @property {number} offset - of the dashes
 */

const DASH_PERIOD = 22;
const MIN_FLOW_UL_MIN = 1;

export class Lines {
  /**
   * @param {Plan} plan
   * @param {SchematicGraph} graph
   */
  constructor(plan, graph) {
    this.graph = graph;
    this.node = s("g", { class: "lines" });
    /** @type {Record<string, DrawnLine>} */
    this.drawn = {};
    for (const [name, line] of Object.entries(plan.lines)) this.draw(name, line);
  }

  /**
   * @param {string} name
   * @param {PlacedLine} line
   */
  draw(name, line) {
    const d = roundedPath(line.points);
    const dashes = s("path", { class: "pipe-flow", d });
    const node = s(
      "g",
      { class: "line", "data-line": name },
      s("path", { class: "pipe", d }),
      s("path", { class: "pipe-liquid", d }),
      dashes,
      s("title", { text: titleOf(line) }),
    );
    const transform = headTransform(line.points);
    this.node.append(node, s("path", { class: "pipe-head", d: "M-5 -5 L4 0 L-5 5", transform }));
    const origins = line.members.flatMap((member) => originsOf(member.from, this.graph, new Set()));
    this.drawn[name] = { node, line, origins, dashes, flow: 0, offset: 0 };
  }

  /**
   * Return the flow in a line (µL/min).
   * @param {string} name
   */
  flowIn(name) {
    return this.drawn[name].flow;
  }

  /**
   * Give each line the colour of the medium in the vessel from which it comes; behind a junction, of what enters it.
   * @param {Record<string, {color: string}>} vessels
   */
  setColors(vessels) {
    for (const { node, origins } of Object.values(this.drawn)) {
      const color = origins.map((name) => vessels[name]?.color).find(Boolean);
      if (color && node.style.getPropertyValue("--liquid") !== color) node.style.setProperty("--liquid", color);
    }
  }

  /**
   * Show the flows.
   * @param {Record<string, number>} flows - by line (µL/min)
   */
  setFlows(flows) {
    for (const entry of Object.values(this.drawn)) {
      entry.flow = entry.line.members.reduce((sum, member) => sum + flows[member.name], 0);
      entry.node.classList.toggle("flowing", Math.abs(entry.flow) > MIN_FLOW_UL_MIN);
    }
  }

  /**
   * Move the dashes of the lines in which medium flows.
   * @param {number} seconds - since the last call
   */
  animate(seconds) {
    for (const entry of Object.values(this.drawn)) {
      const size = Math.abs(entry.flow);
      if (size <= MIN_FLOW_UL_MIN) continue;
      const speed = (14 + 26 * Math.log10(1 + size / 200)) * Math.sign(entry.flow);
      entry.offset = (entry.offset - speed * seconds) % DASH_PERIOD;
      entry.dashes.setAttribute("stroke-dashoffset", entry.offset.toFixed(2));
    }
  }
}

/**
 * Return the text of a line, for a tooltip.
 * @param {PlacedLine} line
 */
function titleOf({ name, from, to, members }) {
  const single = `${name}: ${from} to ${to}`;
  return members.length > 1 ? `${members.length} lines: ${members.map((member) => member.name).join(", ")}` : single;
}
