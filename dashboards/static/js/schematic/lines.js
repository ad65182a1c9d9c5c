// The lines of the schematic: their medium, their flow, and an arrow head that shows the direction also in a still
// picture.

import { s } from "../dom.js";
import { statusOf } from "../feed.js";
import { headTransform, roundedPath } from "./geometry.js";

/** @import { LiveState } from "../../../types/live.d.ts" */
/** @import { PlacedLine, Plan } from "./layout.js" */
/** @import { VesselSymbol } from "./vessel.js" */

/** @typedef {{node: SVGElement, line: PlacedLine, dashes: SVGElement, flow: number, offset: number}} DrawnLine */

const DASH_PERIOD = 22;
const MIN_FLOW_UL_MIN = 1;

export class Lines {
  /** @param {Plan} plan */
  constructor(plan) {
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
      s("title", { text: `${name}: ${line.from} to ${line.to}` }),
    );
    const transform = headTransform(line.points);
    this.node.append(node, s("path", { class: "pipe-head", d: "M-5 -5 L4 0 L-5 5", transform }));
    this.drawn[name] = { node, line, dashes, flow: 0, offset: 0 };
  }

  /**
   * Return the flow in a line (µL/min).
   * @param {string} name
   */
  flowIn(name) {
    return this.drawn[name].flow;
  }

  /**
   * Give each line the colour of the medium in the vessel from which it comes.
   * @param {Record<string, VesselSymbol>} vessels
   */
  setColors(vessels) {
    for (const { node, line } of Object.values(this.drawn)) {
      const color = vessels[line.from]?.color;
      if (color && node.style.getPropertyValue("--liquid") !== color) node.style.setProperty("--liquid", color);
    }
  }

  /**
   * Show the flows: of pumped lines as their pumps report, of an overflow as what enters its vessel and is not pumped
   * out.
   * @param {LiveState} state
   */
  setFlows(state) {
    /** @type {Record<string, number>} */
    const net = {};
    const drawn = Object.values(this.drawn);
    for (const entry of drawn.filter(({ line }) => line.pump)) {
      const { from, to } = entry.line;
      entry.flow = pumpedFlow(entry.line, state);
      net[to] = (net[to] ?? 0) + entry.flow;
      net[from] = (net[from] ?? 0) - entry.flow;
    }
    for (const entry of drawn) {
      if (entry.line.passive) entry.flow = Math.max(0, net[entry.line.from] ?? 0);
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
 * Return the flow of a pumped line (µL/min); 0 while its pump stops or its valve is closed.
 * @param {PlacedLine} line
 * @param {LiveState} state
 */
function pumpedFlow(line, state) {
  const status = statusOf(state.actuators[line.pump ?? ""]);
  const open = !line.valve || statusOf(state.actuators[line.valve])?.on;
  return status?.on && open ? (status.flow_ul_min ?? 0) : 0;
}
