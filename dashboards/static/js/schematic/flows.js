// The flow in every line, from what the pumps report.

import { statusOf } from "../feed.js";

/** @import { Line, LiveState, SchematicGraph, Selector } from "../../../types/live.d.ts" */

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
  const open = openPorts(graph, state);
  const drawn = drawnThrough(graph, open);
  const passive = graph.lines.filter((line) => line.passive && (line.port === null || open.has(line.name)));
  for (let round = 0; round < MAX_PASSIVE; round++) {
    const net = netFlows(graph.lines, flows);
    let changed = false;
    for (const line of passive) {
      const behind = drawn.get(line.name);
      const flow = behind ? flows[behind] : Math.max(0, net[line.from] ?? 0) * (line.share ?? 0);
      changed ||= Math.abs(flow - flows[line.name]) > 0.01;
      flows[line.name] = flow;
    }
    if (!changed) break;
  }
  return flows;
}

/**
 * Return the position that a selector reports; null if it is not known.
 * @param {Selector} selector
 * @param {LiveState} state
 */
export function positionOf(selector, state) {
  const reading = state.readings[selector.position];
  return reading && reading.value !== null && reading.quality === "good" ? Math.round(reading.value) : null;
}

/**
 * Return the lines at the ports that are connected.
 * @param {SchematicGraph} graph
 * @param {LiveState} state
 * @returns {Set<string>}
 */
export const openPorts = (graph, state) =>
  new Set(graph.selectors.flatMap((each) => each.ports[String(positionOf(each, state))] ?? []));

/**
 * Return, for each connected port through which a pump draws, the line behind its selector.
 * @param {SchematicGraph} graph
 * @param {Set<string>} open
 * @returns {Map<string, string>}
 */
function drawnThrough(graph, open) {
  const found = new Map();
  for (const line of graph.lines) {
    if (!open.has(line.name) || !graph.selectors.some((each) => each.ports[String(line.port)] === line.name)) continue;
    const behind = graph.lines.find((other) => other.from === line.to && isCommon(other, graph));
    if (behind) found.set(line.name, behind.name);
  }
  return found;
}

/**
 * Return whether a line leads from a selector without being one of its ports: its pump draws through them.
 * @param {Line} line
 * @param {SchematicGraph} graph
 */
const isCommon = (line, graph) =>
  graph.selectors.some((each) => each.name === line.from && !Object.values(each.ports).includes(line.name));

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
  if (![...graph.junctions, ...graph.selectors].some((each) => each.name === place)) return [place];
  if (passed.has(place)) return [];
  passed.add(place);
  return graph.lines.filter((line) => line.to === place).flatMap((line) => originsOf(line.from, graph, passed));
}
