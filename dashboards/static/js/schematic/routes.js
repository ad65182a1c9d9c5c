// The routes of the lines between the placed vessels, and the devices on them.

import { middle } from "./geometry.js";

/** @import { Line, SchematicGraph, Vessel } from "../../../types/live.d.ts" */
/** @import { Box, PlacedDevice, Plan, Point } from "./plan.js" */

const PUMPS_Y = 196;
const LANES_Y = 234;
const DEVICE = 76;
const LANE = 16;
const PORT_GAP = 34;
/** The depth at which a line ends inside a vessel, below its upper edge. */
const PORT_DEPTH = 26;

/**
 * Return the kinds of devices on a line, in the direction of flow.
 * @param {Line} line
 * @returns {("filter" | "valve" | "dialyser" | "pump")[]}
 */
export function devicesOf(line) {
  return /** @type {const} */ (["filter", "valve", "dialyser", "pump"]).filter((kind) => line[kind]);
}

/**
 * Route all lines whose vessels are placed.
 * @param {Plan} plan
 * @param {SchematicGraph} graph
 * @param {Vessel[]} main - the vessels of the main row, from left to right
 * @param {number} below - the y from which lanes are placed under the main row
 */
export function route(plan, graph, main, below) {
  const { fromTop, gutters, lanes } = grouped(plan, graph, main);
  for (const [target, lines] of fromTop) {
    routeFromAbove(plan, plan.vessels[target], lines, plan.gas !== null && graph.gas?.vessel === target);
  }
  for (const [left, lines] of gutters) {
    routeAcross(plan, graph, plan.vessels[main[left].name], plan.vessels[main[left + 1].name], lines);
  }
  lanes.forEach((line, i) => routeBelow(plan, line, i, below));
}

/**
 * Group the lines: from a source into a vessel (by its name), between neighbours (by the position of the left one), and
 * others.
 * @param {Plan} plan
 * @param {SchematicGraph} graph
 * @param {Vessel[]} main
 */
function grouped(plan, graph, main) {
  const position = new Map(main.map((vessel, i) => [vessel.name, i]));
  /** @type {Map<string, Line[]>} */
  const fromTop = new Map();
  /** @type {Map<number, Line[]>} */
  const gutters = new Map();
  /** @type {Line[]} */
  const lanes = [];
  for (const line of graph.lines.filter((each) => plan.vessels[each.from] && plan.vessels[each.to])) {
    const from = position.get(line.from) ?? NaN;
    const to = position.get(line.to) ?? NaN;
    if (plan.vessels[line.from].kind === "source" && !Number.isNaN(to)) addTo(fromTop, line.to, line);
    else if (Math.abs(from - to) === 1) addTo(gutters, Math.min(from, to), line);
    else lanes.push(line);
  }
  return { fromTop, gutters, lanes };
}

/**
 * @template K, V
 * @param {Map<K, V[]>} groups
 * @param {K} key
 * @param {V} value
 */
function addTo(groups, key, value) {
  groups.set(key, [...(groups.get(key) ?? []), value]);
}

/**
 * Route lines from sources down into the top of a vessel.
 * @param {Plan} plan
 * @param {Box} target
 * @param {Line[]} lines
 * @param {boolean} gas - whether the gas enters here too
 */
function routeFromAbove(plan, target, lines, gas) {
  const sorted = [...lines].sort((one, two) => plan.vessels[one.from].x - plan.vessels[two.from].x);
  const spacing = Math.min(PORT_GAP, (target.w - 40) / Math.max(sorted.length, 1));
  const shift = gas ? -target.w / 4 : 0;
  sorted.forEach((line, i) => {
    const from = plan.vessels[line.from];
    const x = middle(from);
    const port = middle(target) + shift + (i - (sorted.length - 1) / 2) * spacing;
    /** @type {Point} */
    const begin = [x, from.y + from.h];
    /** @type {Point} */
    const end = [port, target.y + PORT_DEPTH];
    /** @type {Point[]} */
    const lane = [
      [x, LANES_Y],
      [port, LANES_Y],
    ];
    const points = Math.abs(x - port) < 1 ? [begin, end] : [begin, ...lane, end];
    plan.lines[line.name] = {
      ...line,
      members: [line],
      points,
      devices: placeDevices(line, [x, PUMPS_Y], [0, 0]),
      vertical: true,
    };
  });
}

/**
 * Route lines straight between neighbours: those to the right above, those to the left below.
 * @param {Plan} plan
 * @param {SchematicGraph} graph
 * @param {Box} left
 * @param {Box} right
 * @param {Line[]} lines
 */
function routeAcross(plan, graph, left, right, lines) {
  /** @param {Line} line */
  const leftwards = (line) => line.from === right.name;
  const sorted = [...lines].sort((one, two) => Number(leftwards(one)) - Number(leftwards(two)));
  const top = Math.max(left.y, right.y) + PORT_DEPTH;
  const bottom = Math.min(left.y + left.h, right.y + right.h) - 44;
  sorted.forEach((line, i) => {
    const y = sorted.length === 1 ? (top + bottom) / 2 : top + ((bottom - top) * i) / (sorted.length - 1);
    /** @type {Point[]} */
    const ends = [
      [left.x + left.w, y],
      [right.x, y],
    ];
    const points = leftwards(line) ? ends.reverse() : ends;
    const count = devicesOf(line).length;
    const length = points[1][0] - points[0][0];
    const sign = Math.sign(length);
    // A single device stands nearer to the beginning where a probe needs room behind it.
    const share = count === 1 && graph.probes.some((probe) => probe.at === line.name) ? 0.34 : 0.5;
    const first = points[0][0] + length * share - (sign * DEVICE * (count - 1)) / 2;
    plan.lines[line.name] = {
      ...line,
      members: [line],
      points,
      devices: placeDevices(line, [first, y], [sign * DEVICE, 0]),
    };
  });
}

/**
 * Route a line out of the lower right of its vessel, down to a lane under the main row, and along it.
 * @param {Plan} plan
 * @param {Line} line
 * @param {number} i - the number of the lane
 * @param {number} below
 */
function routeBelow(plan, line, i, below) {
  const from = plan.vessels[line.from];
  const to = plan.vessels[line.to];
  const toWaste = to.kind === "waste";
  const y = from.y + from.h - 14;
  const out = from.x + from.w + 40 + i * LANE;
  const lane = toWaste ? to.y + to.h / 2 : below + 96 + i * LANE;
  const rightwards = middle(to) > out;
  const port = middle(to) + i * LANE;
  /** @type {Point[]} */
  const end = toWaste
    ? [[rightwards ? to.x : to.x + to.w, lane]]
    : [
        [port, lane],
        [port, to.y + to.h],
      ];
  /** @type {Point[]} */
  const points = [[from.x + from.w, y], [out, y], [out, lane], ...end];
  const sign = rightwards ? 1 : -1;
  const devices = placeDevices(line, [out + sign * (DEVICE * 0.85), lane], [sign * DEVICE, 0]);
  plan.lines[line.name] = { ...line, members: [line], points, devices };
}

/**
 * Place the devices of a line at equal distances.
 * @param {Line} line
 * @param {Point} first
 * @param {Point} stride
 * @returns {PlacedDevice[]}
 */
function placeDevices(line, first, stride) {
  return devicesOf(line).map((kind, i) => {
    const names = [line[kind] ?? ""];
    return { kind, names, x: first[0] + stride[0] * i, y: first[1] + stride[1] * i };
  });
}
