// The flow in every line, from what the pumps report.

import { statusOf } from "../feed.js";

/** @import { Line, LiveState, SchematicGraph } from "../../../types/live.d.ts" */

/** The maximum number of passive lines in a row that are followed. */
const MAX_PASSIVE = 12;

/**
 * Return the flow in each line (µL/min): of pumped lines as their pumps report; of a passive line its share of what
 * enters its vessel or junction and is not pumped out.
 * @param {SchematicGraph} graph
 * @param {LiveState} state
 * @returns {Record<string, number>}
 */
export function flowsOf(graph, state) {
  /** @type {Record<string, number>} */
  const flows = {};
  for (const line of graph.lines) flows[line.name] = line.pump ? pumpedFlow(line, state) : 0;
  const passive = graph.lines.filter((line) => line.passive);
  for (let round = 0; round < MAX_PASSIVE; round++) {
    const net = netFlows(graph.lines, flows);
    let changed = false;
    for (const line of passive) {
      const flow = Math.max(0, net[line.from] ?? 0) * (line.share ?? 0);
      changed ||= Math.abs(flow - flows[line.name]) > 0.01;
      flows[line.name] = flow;
    }
    if (!changed) break;
  }
  return flows;
}

/**
 * Return what flows into each place and is not pumped out (µL/min).
 * @param {Line[]} lines
 * @param {Record<string, number>} flows
 */
function netFlows(lines, flows) {
  /** @type {Record<string, number>} */
  const net = {};
  for (const { name, from, to, pump } of lines) {
    net[to] = (net[to] ?? 0) + flows[name];
    if (pump) net[from] = (net[from] ?? 0) - flows[name];
  }
  return net;
}

/**
 * Return the flow of a pumped line (µL/min); 0 while its pump stops or its valve is closed.
 * @param {Line} line
 * @param {LiveState} state
 */
function pumpedFlow(line, state) {
  const status = statusOf(state.actuators[line.pump ?? ""]);
  const open = !line.valve || statusOf(state.actuators[line.valve])?.on;
  return status?.on && open ? (status.flow_ul_min ?? 0) : 0;
}

/**
 * Return the vessels from which the medium at a place comes: the vessel itself, or what leads into a junction.
 * @param {string} place
 * @param {SchematicGraph} graph
 * @param {Set<string>} passed
 * @returns {string[]}
 */
export function originsOf(place, graph, passed) {
  if (!graph.junctions.some((each) => each.name === place)) return [place];
  if (passed.has(place)) return [];
  passed.add(place);
  return graph.lines.filter((line) => line.to === place).flatMap((line) => originsOf(line.from, graph, passed));
}
