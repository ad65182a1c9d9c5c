// The nodes and edges that are drawn in columns: vessels, junctions and the lines between them.
//
// Many chambers, or many vessels of another kind, become blocks of cells: one for each well plate, else one for each
// kind and zone. Lines that lead from or to a block are bundled.

import { devicesOf } from "../routes.js";
import { isPlate, plateOf } from "./plates.js";
import { sizeOf } from "./sizes.js";

/** @import { Line, Probe, SchematicGraph, Selector, Vessel } from "../../../../types/live.d.ts" */

/** @typedef {{dx: number, dy: number, w: number, h: number}} Core */
/** @typedef {{kind: "filter" | "valve" | "dialyser" | "pump", names: string[]}} NetDevice */
/**
 * A node. `core` is what lines end at, as seen from the upper left corner of the node, which surrounds its texts too.
 * @typedef {object} Node
 * @property {string} id
 * @property {"vessel" | "junction" | "block" | "item" | "bend"} kind
 * @property {string | null} zone
 * @property {Vessel[]} vessels
 * @property {string[]} junctions
 * @property {Selector | null} selector - of a junction that is a selector valve
 * @property {Probe[]} probes
 * @property {NetDevice[]} devices - of an item: what sits on its edge, in the direction of flow
 * @property {boolean} leftwards - of an item: whether its medium flows to the left
 * @property {number} rank
 * @property {number} w
 * @property {number} h
 * @property {Core} core
 * @property {number} x
 * @property {number} y
 */
/** @typedef {{from: Node, to: Node, lines: Line[], chain: Node[]}} Edge */
/** @typedef {{nodes: Node[], edges: Edge[]}} Net */

/** The maximum number of vessels of one kind that are drawn in full, and of wells. */
const MAX_FULL = 6;
const MAX_WELLS = 4;

/**
 * Return a node without size and place.
 * @param {string} id
 * @param {Node["kind"]} kind
 * @param {Partial<Node>} [more]
 * @returns {Node}
 */
export const node = (id, kind, more) => ({
  id,
  kind,
  zone: null,
  vessels: [],
  junctions: [],
  selector: null,
  probes: [],
  devices: [],
  leftwards: false,
  rank: 0,
  w: 0,
  h: 0,
  core: { dx: 0, dy: 0, w: 0, h: 0 },
  x: 0,
  y: 0,
  ...more,
});

/**
 * Return the nodes and edges of a rig.
 * @param {SchematicGraph} graph
 * @returns {Net}
 */
export function netOf(graph) {
  const places = placesOf(graph);
  const nodes = [...new Set(places.values())];
  const edges = edgesOf(graph, places);
  for (const each of nodes) sizeOf(each, graph, portsOf(each, edges));
  return { nodes, edges };
}

/**
 * Return the node of each vessel and of each junction that is drawn.
 * @param {SchematicGraph} graph
 * @returns {Map<string, Node>}
 */
function placesOf(graph) {
  /** @type {Map<string, Node>} */
  const places = new Map();
  /** @type {Map<string, Node>} */
  const blocks = new Map();
  for (const vessel of graph.vessels) {
    const block = blockOf(vessel, graph);
    if (block === null) {
      const probes = graph.probes.filter((probe) => probe.at === vessel.name);
      places.set(vessel.name, node(vessel.name, "vessel", { zone: vessel.zone, vessels: [vessel], probes }));
      continue;
    }
    const found = blocks.get(block) ?? node(block, "block", { zone: vessel.zone });
    found.vessels.push(vessel);
    blocks.set(block, found);
    places.set(vessel.name, found);
  }
  addJunctions(graph, places);
  for (const selector of graph.selectors) {
    const { name } = selector;
    places.set(name, node(`selector ${name}`, "junction", { junctions: [name], selector }));
  }
  return places;
}

/**
 * Return the name of the block that a vessel is drawn in; null for one that is drawn in full.
 * @param {Vessel} vessel
 * @param {SchematicGraph} graph
 */
function blockOf(vessel, graph) {
  const like = graph.vessels.filter((each) => each.kind === vessel.kind);
  const wells = isPlate(like);
  if (like.length <= (wells ? MAX_WELLS : MAX_FULL)) return null;
  if (wells) return plateOf(vessel.name)?.plate ?? null;
  const several = new Set(like.map((each) => each.zone)).size > 1;
  return several ? `${vessel.kind}s, ${vessel.zone ?? "room"}` : `${vessel.kind}s`;
}

/**
 * Add the junctions. Equal junctions between blocks become one; a junction inside of one block is not drawn.
 * @param {SchematicGraph} graph
 * @param {Map<string, Node>} places
 */
function addJunctions(graph, places) {
  /** @type {Map<string, Node>} */
  const like = new Map();
  const kept = new Map(places);
  for (const { name } of graph.junctions) {
    /** @param {string} other */
    const id = (other) => kept.get(other)?.id ?? "a junction";
    const into = graph.lines.filter((line) => line.to === name).map((line) => id(line.from));
    const out = graph.lines.filter((line) => line.from === name).map((line) => id(line.to));
    const around = [...new Set([...into, ...out])];
    const blocks = [...kept.values()].filter((each) => each.kind === "block").map((each) => each.id);
    if (!around.some((each) => blocks.includes(each))) {
      places.set(name, node(`junction ${name}`, "junction", { junctions: [name] }));
    } else if (around.length > 1) {
      const key = JSON.stringify([[...new Set(into)].sort(), [...new Set(out)].sort()]);
      const found = like.get(key) ?? node(`junction ${name}`, "junction");
      found.junctions.push(name);
      like.set(key, found);
      places.set(name, found);
    }
  }
}

/**
 * Return the edges: each line, or the lines between the same two nodes when one stands for several places.
 * @param {SchematicGraph} graph
 * @param {Map<string, Node>} places
 * @returns {Edge[]}
 */
function edgesOf(graph, places) {
  /** @type {Map<string, Edge>} */
  const edges = new Map();
  for (const line of graph.lines) {
    const from = places.get(line.from);
    const to = places.get(line.to);
    if (!from || !to || from === to) continue;
    const bundled = [from, to].some((each) => each.kind === "block" || each.junctions.length > 1);
    const key = bundled ? JSON.stringify([from.id, to.id, Boolean(line.pump)]) : line.name;
    const edge = edges.get(key) ?? { from, to, lines: [], chain: [] };
    edge.lines.push(line);
    edges.set(key, edge);
  }
  return [...edges.values()];
}

/**
 * Return the greater number of lines at one side of a node, before it is known which are at which side: all of them.
 * @param {Node} place
 * @param {Edge[]} edges
 */
function portsOf(place, edges) {
  const into = edges.filter((edge) => edge.to === place).length;
  const out = edges.filter((edge) => edge.from === place).length;
  return place.kind === "junction" ? Math.max(into, out) : into + out;
}

/**
 * Return what sits on an edge, in the direction of flow.
 * @param {Edge} edge
 * @returns {NetDevice[]}
 */
export function devicesOn(edge) {
  const kinds = /** @type {const} */ (["filter", "valve", "dialyser", "pump"]);
  return kinds
    .filter((kind) => edge.lines.some((line) => devicesOf(line).includes(kind)))
    .map((kind) => ({ kind, names: [...new Set(edge.lines.flatMap((line) => line[kind] ?? []))] }));
}

/**
 * Return the probes on an edge; those on a bundle of lines stand with the details of their chambers.
 * @param {Edge} edge
 * @param {SchematicGraph} graph
 */
export const probesOn = (edge, graph) =>
  edge.lines.length > 1 ? [] : graph.probes.filter((probe) => probe.at === edge.lines[0].name);
