// From placed nodes to a plan: vessels with their texts and readings, blocks, manifolds, lines with what sits on them.

import { emptyPlan } from "../plan.js";
import {
  arranged,
  CHIP,
  CHIP_ROW,
  CHIP_STATE,
  chipsAcross,
  DEVICE,
  GAS,
  junctionText,
  LABEL,
  OVER_LINE,
  shortened,
} from "./sizes.js";

/** @import { SchematicGraph } from "../../../../types/live.d.ts" */
/** @import { Chip, PlacedDevice, Plan, Point, Rect } from "../plan.js" */
/** @import { Edge, Net, Node } from "./net.js" */

/**
 * Where a stretch of an edge runs: the y at its left and right end, and the x of its vertical part, if it has one.
 * @typedef {(edge: Edge, stretch: number) => {ends: [number, number], x: number | null}} Routing
 */

const NAME_Y = 25;
const DEVICE_MARGIN = 3;
const TAP_MARGIN = 10;

/**
 * Return the plan of placed nodes.
 * @param {SchematicGraph} graph
 * @param {Net} net
 * @param {Routing} routing
 * @returns {Plan}
 */
export function drawn(graph, net, routing) {
  const plan = emptyPlan();
  // From left to right, and from the top: the frames of zones join neighbours first.
  const placed = [...net.nodes].sort((one, two) => one.rank - two.rank || one.y - two.y);
  for (const each of placed) {
    if (each.kind === "vessel") addVessel(plan, each, graph);
    else if (each.kind === "block") addBlock(plan, each);
    else if (each.selector) plan.selectors.push({ ...coreOf(each), text: junctionText(each), selector: each.selector });
    else plan.manifolds.push({ ...coreOf(each), name: each.id, text: junctionText(each) });
  }
  for (const edge of net.edges) addLine(plan, edge, routing);
  return plan;
}

/**
 * Return where the core of a node lies.
 * @param {Node} each
 * @returns {Rect}
 */
const coreOf = ({ x, y, core }) => ({ x: x + core.dx, y: y + core.dy, w: core.w, h: core.h });

/**
 * @param {Plan} plan
 * @param {Node} each
 * @param {SchematicGraph} graph
 */
function addVessel(plan, each, graph) {
  const [vessel] = each.vessels;
  const core = coreOf(each);
  const middle = core.x + core.w / 2;
  const text = shortened(vessel.name, each.w);
  const label = { x: middle, y: core.y + core.h + NAME_Y, anchor: "middle", text, twoLines: true };
  const extent = { x: each.x, y: core.y, w: each.w, h: each.h - each.core.dy };
  plan.vessels[vessel.name] = { ...vessel, ...core, label, extent };
  plan.chips.push(...chipsBelow(each, core));
  if (graph.gas?.vessel === vessel.name) {
    plan.gas = { x: middle - GAS.w / 2, y: each.y, w: GAS.w, h: GAS.h, to: [middle, core.y] };
  }
}

/**
 * Return the readings of a vessel, in rows below its name.
 * @param {Node} each
 * @param {Rect} core
 * @returns {Chip[]}
 */
function chipsBelow({ probes }, core) {
  const across = chipsAcross(probes.length);
  return probes.map((probe, i) => {
    const row = Math.floor(i / across);
    const here = Math.min(across, probes.length - row * across);
    const left = core.x + core.w / 2 - (here * (CHIP.w + CHIP.gap) - CHIP.gap) / 2;
    const y = core.y + core.h + LABEL + CHIP_STATE + row * CHIP_ROW;
    return { ...probe, x: left + (i % across) * (CHIP.w + CHIP.gap), y };
  });
}

/**
 * @param {Plan} plan
 * @param {Node} each
 */
function addBlock(plan, each) {
  const core = coreOf(each);
  const found = arranged(each);
  const down = (core.h - found.h) / 2;
  const cells = found.cells.map((cell) => ({ ...cell, x: core.x + cell.x, y: core.y + down + cell.y }));
  const extent = { x: each.x, y: each.y, w: each.w, h: each.h };
  const { kind } = each.vessels[0];
  plan.blocks.push({ ...core, name: each.id, kind, zone: each.zone, cells, plate: found.plate, extent });
}

/**
 * @param {Plan} plan
 * @param {Edge} edge
 * @param {Routing} routing
 */
function addLine(plan, edge, routing) {
  const [line] = edge.lines;
  const name = edge.lines.length > 1 ? `${edge.from.id} to ${edge.to.id}${line.pump ? "" : ", passive"}` : line.name;
  const item = edge.chain.find((each) => each.kind === "item");
  const points = pointsOf(edge, routing);
  const devices = item ? devicesAt(item) : [];
  plan.lines[name] = { ...line, name, members: edge.lines, points, devices, room: DEVICE };
  if (item) plan.chips.push(...chipsAbove(item));
}

/**
 * Return the route of an edge, in the direction of flow.
 * @param {Edge} edge
 * @param {Routing} routing
 * @returns {Point[]}
 */
function pointsOf(edge, routing) {
  const { chain } = edge;
  /** @type {Point[]} */
  const points = [];
  chain.slice(1).forEach((right, i) => {
    const left = chain[i];
    const { ends, x } = routing(edge, i);
    points.push([left.x + left.core.dx + left.core.w, ends[0]]);
    if (x !== null) points.push([x, ends[0]], [x, ends[1]]);
    points.push([right.x + right.core.dx, x === null ? ends[0] : ends[1]]);
  });
  const short = points.filter((point, i) => !isBetween(points[i - 1], point, points[i + 1]));
  return chain[0] === edge.from ? short : short.reverse();
}

/**
 * Return whether a point lies on the straight line between its neighbours.
 * @param {Point | undefined} before
 * @param {Point} point
 * @param {Point | undefined} after
 */
function isBetween(before, point, after) {
  if (!before || !after) return false;
  return [0, 1].some((axis) => Math.abs(before[axis] - point[axis]) < 1 && Math.abs(point[axis] - after[axis]) < 1);
}

/** @param {Node} item */
const lineY = (item) => item.y + item.core.dy;

/**
 * @param {Node} item
 * @returns {PlacedDevice[]}
 */
function devicesAt(item) {
  return item.devices.map(({ kind, names }, i) => {
    const along = DEVICE_MARGIN + DEVICE * (i + 0.5);
    return { kind, names, x: item.leftwards ? item.x + item.w - along : item.x + along, y: lineY(item) };
  });
}

/**
 * Return the readings above a line, one above the other; the lowest has the stem down to the line.
 * @param {Node} item
 * @returns {Chip[]}
 */
function chipsAbove(item) {
  const tap = item.leftwards ? item.x + TAP_MARGIN : item.x + item.w - TAP_MARGIN;
  const x = item.leftwards ? item.x : item.x + item.w - CHIP.w;
  return item.probes.map((probe, i) => {
    const y = lineY(item) - OVER_LINE - CHIP.h - i * (CHIP.h + CHIP.gap);
    /** @type {Point} */
    const stem = [tap, lineY(item)];
    return i ? { ...probe, x, y } : { ...probe, x, y, stem };
  });
}
