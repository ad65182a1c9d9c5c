// The layout of a rig whose vessels stand in one row: from the description of the rig to coordinates. Uses nothing of
// the page.
//
// Sources stand in the top row, above the vessel that they feed. The main row goes from process vessels over the loop
// to the chamber. Waste stands at the bottom, to the right of what empties into it. Lines run straight between
// neighbours, down from sources, and otherwise through lanes under the main row. The distance of two vessels follows
// from what sits on the lines between them, and from the frames of their zones (zones.js).

import { middle } from "./geometry.js";
import { emptyPlan } from "./plan.js";
import { devicesOf, route } from "./routes.js";
import { zoneFrames } from "./zones.js";

/** @import { SchematicGraph, Vessel } from "../../../types/live.d.ts" */
/** @import { Plan, PlacedLine, Point } from "./plan.js" */

const TOP_Y = 58;
const MAIN_Y = 262;
/** The distance of the middle of a waste vessel from the lower edge of the main row. */
const WASTE_DROP = 136;
/** The space that the frame of a zone takes above a waste vessel. */
const WASTE_ZONE = 50;
/** The space that the frame of a zone takes above and below the main row. */
const ZONE_HEAD = 78;
const ZONE_FOOT = 16;
/** The space between neighbours in different zones. */
const ZONE_GAP = 40;
const GAS_Y = 30;
/** @type {Record<string, [width: number, height: number]>} */
const SIZES = { source: [88, 96], process: [136, 168], loop: [136, 168], chamber: [204, 132], waste: [126, 92] };
const MAIN_ORDER = ["process", "loop", "chamber"];
const MARGIN = 30;
const SOURCE_GAP = 34;
const DEVICE = 76;
const CHIP = 104;
const CHIP_GAP = 8;
const GAS_WIDTH = 168;
const GAS_HEIGHT = 120;
/** The width of the name and the volume next to a waste vessel. */
const VOLUME_LABEL = 104;
const MIN_CAPTION = 280;
const CAPTION_HEIGHT = 84;

/**
 * Lay out a rig of one row.
 * @param {SchematicGraph} graph
 * @returns {Plan}
 */
export function layOutRow(graph) {
  const plan = emptyPlan();
  const main = MAIN_ORDER.flatMap((kind) => graph.vessels.filter((vessel) => vessel.kind === kind));
  const framed = main.some((vessel) => vessel.zone);
  const floor = MAIN_Y + (framed ? ZONE_HEAD : 0) + SIZES.process[1];
  const below = floor + (framed ? ZONE_FOOT : 0);
  placeMain(plan, graph, main, floor);
  placeSources(plan, graph, main);
  placeWaste(plan, graph, below);
  route(plan, graph, main, below);
  placeChips(plan, graph, floor);
  plan.zones = zoneFrames(plan, graph);
  const boxes = Object.values(plan.vessels);
  const right = [...boxes, ...plan.zones].map((box) => box.x + box.w);
  right.push(...plan.chips.map((chip) => chip.x + CHIP));
  const bottom = boxes.map((box) => box.y + box.h + (box.kind === "waste" ? 14 : 0));
  plan.width = Math.max(...right, plan.gas ? plan.gas.x + GAS_WIDTH : 0) + MARGIN;
  plan.height = Math.max(...bottom, ...plan.zones.map((frame) => frame.y + frame.h), floor + 84) + 10;
  plan.top = Math.min(0, ...plan.zones.map((frame) => frame.y - 6));
  placeCaption(plan);
  return plan;
}

/**
 * Reserve space for the caption: to the right of the waste vessels, or below everything where that is too narrow.
 * @param {Plan} plan
 */
function placeCaption(plan) {
  const waste = Object.values(plan.vessels).filter((box) => box.kind === "waste");
  const taken = Math.max(0, ...waste.map((box) => box.x + box.w + VOLUME_LABEL));
  plan.captionWidth = plan.width - MARGIN - taken;
  if (plan.captionWidth >= MIN_CAPTION) return;
  plan.captionWidth = plan.width - 2 * MARGIN;
  plan.height += CAPTION_HEIGHT;
}

/**
 * Return the width of a row of equal items.
 * @param {number} count
 * @param {number} width
 * @param {number} gap
 */
const rowWidth = (count, width, gap) => count * (width + gap) - gap;

/**
 * Return the sources that feed a vessel.
 * @param {SchematicGraph} graph
 * @param {Vessel} vessel
 */
function sourcesOf(graph, vessel) {
  const lines = graph.lines.filter((line) => line.to === vessel.name);
  return graph.vessels.filter((each) => each.kind === "source" && lines.some((line) => line.from === each.name));
}

/**
 * Return the lines between two vessels, in both directions.
 * @param {SchematicGraph} graph
 * @param {string} one
 * @param {string} two
 */
function linesBetween(graph, one, two) {
  return graph.lines.filter((line) => [line.from, line.to].includes(one) && [line.from, line.to].includes(two));
}

/**
 * Place the vessels of the main row from left to right, and the gas mixer above its vessel.
 * @param {Plan} plan
 * @param {SchematicGraph} graph
 * @param {Vessel[]} main
 * @param {number} floor - the y of the lower edge of the main row
 */
function placeMain(plan, graph, main, floor) {
  /** @type {{name: string, zone: string | null, right: number, top: number, chips: number} | null} */
  let before = null;
  for (const vessel of main) {
    const [w, h] = SIZES[vessel.kind];
    const supplied = graph.gas?.vessel === vessel.name;
    const top = Math.max(
      rowWidth(sourcesOf(graph, vessel).length, SIZES.source[0], SOURCE_GAP),
      supplied ? GAS_WIDTH : 0,
    );
    const probes = graph.probes.filter((probe) => probe.at === vessel.name);
    const chips = rowWidth(probes.length, CHIP, CHIP_GAP);
    let center = MARGIN + Math.max(w, top, chips) / 2;
    if (before) {
      const counts = linesBetween(graph, before.name, vessel.name).map((line) => devicesOf(line).length);
      const devices = Math.max(1, ...counts);
      const gap = before.zone === vessel.zone ? 0 : ZONE_GAP;
      center =
        gap +
        Math.max(
          before.right + devices * DEVICE + 74 + w / 2,
          before.top + 26 + top / 2,
          before.chips + 20 + chips / 2,
        );
    }
    plan.vessels[vessel.name] = { ...vessel, x: center - w / 2, y: floor - h, w, h };
    const { name, zone } = vessel;
    before = { name, zone, right: center + w / 2, top: center + top / 2, chips: center + chips / 2 };
    if (supplied) {
      plan.gas = { x: center - GAS_WIDTH / 2, y: GAS_Y, w: GAS_WIDTH, h: GAS_HEIGHT, to: [center, floor - h] };
    }
  }
}

/**
 * Place the sources above the vessel that they feed, and sources without a line at the right.
 * @param {Plan} plan
 * @param {SchematicGraph} graph
 * @param {Vessel[]} main
 */
function placeSources(plan, graph, main) {
  const [w, h] = SIZES.source;
  const placed = new Set();
  for (const vessel of main) {
    const group = sourcesOf(graph, vessel).filter((each) => !placed.has(each.name));
    const width = rowWidth(group.length, w, SOURCE_GAP);
    const nextToGas = plan.gas && graph.gas?.vessel === vessel.name;
    const left =
      nextToGas && plan.gas ? plan.gas.x - width - SOURCE_GAP : middle(plan.vessels[vessel.name]) - width / 2;
    group.forEach((source, i) => {
      placed.add(source.name);
      plan.vessels[source.name] = { ...source, x: left + i * (w + SOURCE_GAP), y: TOP_Y, w, h };
    });
  }
  const idle = graph.vessels.filter((each) => each.kind === "source" && !placed.has(each.name));
  const edge = Math.max(0, ...Object.values(plan.vessels).map((box) => box.x + box.w));
  idle.forEach((source, i) => {
    plan.vessels[source.name] = { ...source, x: edge + SOURCE_GAP + i * (w + SOURCE_GAP), y: TOP_Y, w, h };
  });
}

/**
 * Place the waste vessels at the bottom, to the right of what empties into them.
 * @param {Plan} plan
 * @param {SchematicGraph} graph
 * @param {number} below - the y from which they are placed
 */
function placeWaste(plan, graph, below) {
  const [w, h] = SIZES.waste;
  let edge = 0;
  for (const vessel of graph.vessels.filter((each) => each.kind === "waste")) {
    const inflow = graph.lines.filter((line) => line.to === vessel.name);
    const from = inflow.map((line) => plan.vessels[line.from]).filter(Boolean);
    const begin = from.length ? Math.max(...from.map((box) => box.x + box.w)) : MARGIN;
    const devices = Math.max(1, ...inflow.map((line) => devicesOf(line).length));
    const drop = WASTE_DROP + (vessel.zone ? WASTE_ZONE : 0);
    const x = Math.max(edge, begin + 46 + devices * DEVICE + 30);
    plan.vessels[vessel.name] = { ...vessel, x, y: below + drop - h / 2, w, h };
    edge = x + w + 200;
  }
}

/**
 * Place the readings: under their vessel, or above their line.
 * @param {Plan} plan
 * @param {SchematicGraph} graph
 * @param {number} floor
 */
function placeChips(plan, graph, floor) {
  for (const [name, box] of Object.entries(plan.vessels)) {
    const probes = graph.probes.filter((probe) => probe.at === name);
    const left = middle(box) - rowWidth(probes.length, CHIP, CHIP_GAP) / 2;
    const y = ["source", "waste"].includes(box.kind) ? box.y + box.h + 22 : floor + 36;
    probes.forEach((probe, i) => plan.chips.push({ ...probe, x: left + i * (CHIP + CHIP_GAP), y }));
  }
  for (const [name, line] of Object.entries(plan.lines)) {
    const probes = graph.probes.filter((probe) => probe.at === name && !plan.vessels[name]);
    if (!probes.length) continue;
    const [x, y] = tapOf(line);
    probes.forEach((probe, i) => {
      plan.chips.push({ ...probe, x: x - CHIP / 2 + i * (CHIP + CHIP_GAP), y: y - 88, stem: [x, y] });
    });
  }
}

/** The share that the last stretch of a line counts when the widest is sought: others are preferred to it. */
const LAST_STRETCH = 0.9;

/**
 * Return where a probe taps a line: the middle of the widest stretch without a device.
 * @param {PlacedLine} line
 * @returns {Point}
 */
function tapOf(line) {
  const [begin, end] = longestSegment(line.points);
  /** @param {Point} point */
  const along = (point) => Math.hypot(point[0] - begin[0], point[1] - begin[1]);
  const stops = [0, ...line.devices.map((each) => along([each.x, each.y])), along(end)];
  let best = 0;
  let widest = 0;
  for (let i = 1; i < stops.length; i++) {
    const gap = (stops[i] - stops[i - 1]) * (i === stops.length - 1 ? LAST_STRETCH : 1);
    if (gap >= widest - 0.5) [widest, best] = [gap, (stops[i] + stops[i - 1]) / 2];
  }
  const share = best / along(end);
  return [begin[0] + (end[0] - begin[0]) * share, begin[1] + (end[1] - begin[1]) * share];
}

/**
 * Return the longest straight segment of a route.
 * @param {Point[]} points
 * @returns {[Point, Point]}
 */
function longestSegment(points) {
  /** @param {[Point, Point]} segment */
  const length = ([a, b]) => Math.hypot(b[0] - a[0], b[1] - a[1]);
  /** @type {[Point, Point]} */
  let best = [points[0], points[1]];
  for (let i = 1; i < points.length; i++) {
    if (length([points[i - 1], points[i]]) > length(best)) best = [points[i - 1], points[i]];
  }
  return best;
}
