// The layout of the schematic: from the description of the rig to coordinates. Uses nothing of the page.
//
// A rig whose vessels stand in one row, such as the bench rig, is drawn as a row (row.js). Any other is drawn in
// columns by the direction of flow (columns/); many chambers then become a block of cells (columns/net.js).

import { layOutColumns } from "./columns/columns.js";
import { layOutRow } from "./row.js";

/** @import { Line, SchematicGraph, Vessel } from "../../../types/live.d.ts" */
/** @import { Plan } from "./plan.js" */

const MAIN = ["process", "loop", "chamber"];
const MAX_NAME = 14;
const MAX_SOURCES = 5;
const MAX_PROBES = 4;
const MAX_ACROSS = 2;

/**
 * Lay out a rig.
 * @param {SchematicGraph} graph
 * @returns {Plan}
 */
export const layOut = (graph) => (isRow(graph) ? layOutRow(graph) : layOutColumns(graph));

/**
 * Return whether the row can show a rig: one vessel of each kind in it, with lines down from sources, between
 * neighbours and into waste only.
 * @param {SchematicGraph} graph
 */
function isRow(graph) {
  const main = MAIN.map((kind) => graph.vessels.filter((vessel) => vessel.kind === kind));
  /** @param {string} kind */
  const count = (kind) => graph.vessels.filter((vessel) => vessel.kind === kind).length;
  /** @param {string} place */
  const probes = (place) => graph.probes.filter((probe) => probe.at === place).length;
  return (
    !graph.junctions.length &&
    !graph.selectors.length &&
    main.every((each) => each.length === 1) &&
    count("source") <= MAX_SOURCES &&
    count("waste") === 1 &&
    graph.vessels.every(({ name }) => name.length <= MAX_NAME && probes(name) <= MAX_PROBES) &&
    linesFitRow(graph, main.flat())
  );
}

/**
 * Return whether every line leads down from a source, between neighbours of the main row, or from it into waste.
 * @param {SchematicGraph} graph
 * @param {Vessel[]} main - the main row, from left to right
 */
function linesFitRow(graph, main) {
  /** @param {string} name */
  const at = (name) => main.findIndex((each) => each.name === name);
  /** @param {string} name */
  const kind = (name) => graph.vessels.find((each) => each.name === name)?.kind;
  const across = graph.lines.map((line) => [at(line.from), at(line.to)].sort().join());
  return graph.lines.every((line, i) => {
    const [from, to] = [at(line.from), at(line.to)];
    const probes = graph.probes.filter((probe) => probe.at === line.name).length;
    if (probes > 1 || line.name.length > MAX_NAME) return false;
    if (from < 0 || to < 0) return !probes && (kind(line.to) === "waste" ? from >= 0 : to >= 0 && isPlain(line));
    return Math.abs(from - to) === 1 && across.filter((each) => each === across[i]).length <= MAX_ACROSS;
  });
}

/**
 * Return whether a line has no device but a pump: down from a source there is space for one.
 * @param {Line} line
 */
const isPlain = (line) => !line.filter && !line.valve;
