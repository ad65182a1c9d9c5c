// What is known of one chamber: how it is supplied, what is read in it, and its alarms.

import { statusOf } from "./feed.js";

/** @import { TissueView } from "../../types/api.d.ts" */
/** @import { Alarm, LiveState, Probe, Rig, SchematicGraph } from "../../types/live.d.ts" */

/**
 * How a chamber is supplied. `perfused`: a heart's medium flows through it; `stopped`: its hearts stand; `unknown`: one
 * of them does not respond; `dosed`: a pump that is no heart leads to it; `static`: no pump leads to it.
 * @typedef {"perfused" | "stopped" | "unknown" | "dosed" | "static"} Supply
 */
/**
 * A heart that feeds a chamber: the estimated share of its flow, and that flow (µL/min; null if it does not respond).
 * @typedef {{name: string, share: number, flow: number | null}} Feeder
 */

const MIN_FLOW_UL_MIN = 1;

/**
 * Return the hearts that feed a chamber, with their present flow through it.
 * @param {Rig} rig
 * @param {LiveState} state
 * @param {string} chamber
 * @returns {Feeder[]}
 */
export function feedersOf(rig, state, chamber) {
  return rig.hearts.flatMap(({ name, pump, chambers }) => {
    const share = chambers[chamber];
    if (share === undefined) return [];
    const status = statusOf(state.actuators[pump ?? ""]);
    const flow = status && (status.on ? (status.flow_ul_min ?? 0) * share : 0);
    return [{ name, share, flow }];
  });
}

/**
 * Return how a chamber is supplied.
 * @param {Rig} rig
 * @param {LiveState} state
 * @param {string} chamber
 * @returns {Supply}
 */
export function supplyOf(rig, state, chamber) {
  const feeders = feedersOf(rig, state, chamber);
  if (!feeders.length) return isDosed(rig.schematic, chamber, new Set()) ? "dosed" : "static";
  if (feeders.some(({ flow }) => flow === null)) return "unknown";
  return feeders.some(({ flow }) => Math.abs(flow ?? 0) > MIN_FLOW_UL_MIN) ? "perfused" : "stopped";
}

/**
 * Return whether a pump leads to a place, directly or over junctions and selectors.
 * @param {SchematicGraph} graph
 * @param {string} place
 * @param {Set<string>} passed
 * @returns {boolean}
 */
function isDosed(graph, place, passed) {
  passed.add(place);
  const into = graph.lines.filter((line) => line.to === place);
  const junctions = [...graph.junctions, ...graph.selectors].map(({ name }) => name);
  return into.some(
    (line) =>
      line.pump || (junctions.includes(line.from) && !passed.has(line.from) && isDosed(graph, line.from, passed)),
  );
}

/**
 * Return the probes in a chamber.
 * @param {Rig} rig
 * @param {string} chamber
 * @returns {Probe[]}
 */
export const probesIn = (rig, chamber) => rig.schematic.probes.filter((probe) => probe.at === chamber);

/**
 * Return the alarms of a chamber: its own, and those of its probes, of the hearts that feed it, and of their lines.
 * @param {Rig} rig
 * @param {LiveState} state
 * @param {string} chamber
 * @returns {Alarm[]}
 */
export function alarmsOf(rig, state, chamber) {
  const points = probesIn(rig, chamber).map((probe) => probe.point);
  const feeders = rig.hearts.filter((heart) => chamber in heart.chambers);
  const names = [...points, ...feeders.flatMap(({ name, line, pump }) => [name, line, pump ?? name])];
  const sources = new Set([chamber, ...names, ...names.map((name) => name.split(".")[0])]);
  const lines = rig.shared_lines;
  return state.alarms.filter(
    ({ source }) => sources.has(source) || lines[source]?.some((device) => sources.has(device)),
  );
}

/**
 * Return tissue in words: “16 organoids, 2.5 mm, day 60”.
 * @param {TissueView | undefined} tissue
 */
export function tissueText(tissue) {
  if (!tissue) return "no tissue";
  const { count, diameter_mm: diameter, age_d: age } = tissue;
  return `${organoids(count)}, ${diameter} mm, day ${Math.round(age)}`;
}

/** @param {number} count */
export const organoids = (count) => `${count} organoid${count === 1 ? "" : "s"}`;
