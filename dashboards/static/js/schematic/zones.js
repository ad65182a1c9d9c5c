// Where the frames of zones lie around their vessels. Uses nothing of the page.
//
// A frame surrounds the vessels of a zone with their names and readings. Vessels share a frame where it then surrounds
// nothing that is outside the zone; else the zone has several frames.

/** @import { SchematicGraph, Zone } from "../../../types/live.d.ts" */
/** @import { Block, Box, Plan, Rect } from "./plan.js" */

/** @typedef {{rect: Rect, vessels: string[]}} Group */
/**
 * A frame with its label, whose lines begin at `labelX`; `labelWidth` is the maximum width of a line.
 * @typedef {Rect & {zone: Zone, vessels: string[], label: string[], labelX: number, labelWidth: number}} ZoneFrame
 */

const PAD = 12;
const LABEL_LINE = 18;
const LABEL_INDENT = 14;
/** How much higher than usual a frame may reach. */
const RAISED = [0, 24, 48, 72];
/** The width of a character of a label, estimated upwards. */
export const CHARACTER = 8;
const CHIP = { w: 104, h: 46 };
/** The space above a reading for its quality. */
const CHIP_STATE = 8;
const PIPE = 11;
/** The space that a vessel's name takes above, to the right of and below its glass. @type {Record<string, number[]>} */
const NAME_SPACE = { source: [46, 0, 0], waste: [0, 104, 0] };
const NAME_BELOW = [0, 0, 32];

/** Air in an incubator has 18 to 21 % oxygen, the less the warmer and the richer in CO2; other values are regulated. */
const AIR_OXYGEN_PCT = [18, 21];
/** Room air has 0.04 % CO2. */
const MIN_SHOWN_CO2_PCT = 0.1;

/**
 * Return the frames of all zones.
 * @param {Plan} plan - with vessels, lines and chips
 * @param {SchematicGraph} graph
 * @returns {ZoneFrame[]}
 */
export function zoneFrames(plan, graph) {
  /** @type {ZoneFrame[]} */
  const frames = [];
  for (const zone of graph.zones) {
    const boxes = [...Object.values(plan.vessels), ...plan.blocks];
    const outside = boxes.filter((box) => box.zone !== zone.name).map((box) => extent(plan, box));
    if (plan.gas) outside.push(plan.gas);
    const inside = boxes.filter((box) => box.zone === zone.name);
    const groups = inside.map((box) => ({ rect: extent(plan, box), vessels: [box.name] }));
    const found = joined(plan, zone, groups, [...outside, ...frames]);
    frames.push(...found.map((group) => framed(plan, zone, group)));
  }
  return frames;
}

/**
 * Return the printed conditions of a zone: “37 °C, 5 % CO₂”. Oxygen follows where it is not that of air.
 * @param {Zone} zone
 */
export function conditions(zone) {
  const parts = [`${shortest(zone.temperature_c)} °C`];
  if (zone.co2_pct >= MIN_SHOWN_CO2_PCT) parts.push(`${shortest(zone.co2_pct)} % CO₂`);
  const [low, high] = AIR_OXYGEN_PCT;
  if (zone.oxygen_pct < low || zone.oxygen_pct > high) parts.push(`${shortest(zone.oxygen_pct)} % O₂`);
  return parts.join(", ");
}

/**
 * Return all conditions of a zone, for a tooltip.
 * @param {Zone} zone
 */
export const allConditions = ({ name, temperature_c, co2_pct, oxygen_pct }) =>
  `${name}: ${shortest(temperature_c)} °C, ${shortest(co2_pct)} % CO₂, ${shortest(oxygen_pct)} % O₂`;

/** @param {number} value */
const shortest = (value) => String(Number(value.toFixed(2)));

/**
 * Return the space of a vessel or a block with its name and its readings.
 * @param {Plan} plan
 * @param {Box | Block} box
 * @returns {Rect}
 */
function extent(plan, { name, kind, x, y, w, h, extent: known }) {
  if (known) return known;
  const [above, right, below] = NAME_SPACE[kind] ?? NAME_BELOW;
  return union([{ x, y: y - above, w: w + right, h: h + above + below }, ...chipsAt(plan, [name])]);
}

/**
 * Return the spaces of the readings at these vessels or lines.
 * @param {Plan} plan
 * @param {string[]} places
 * @returns {Rect[]}
 */
const chipsAt = (plan, places) =>
  plan.chips.filter((chip) => places.includes(chip.at ?? "")).map(({ x, y }) => chipRect(x, y));

/**
 * @param {number} x
 * @param {number} y
 * @returns {Rect}
 */
const chipRect = (x, y) => ({ x, y: y - CHIP_STATE, w: CHIP.w, h: CHIP.h + CHIP_STATE });

/**
 * Join groups of vessels as long as a frame around two of them surrounds nothing outside the zone.
 * @param {Plan} plan
 * @param {Zone} zone
 * @param {Group[]} groups
 * @param {Rect[]} outside
 * @returns {Group[]}
 */
function joined(plan, zone, groups, outside) {
  for (const [i, one] of groups.entries()) {
    for (const two of groups.slice(i + 1)) {
      const both = withLines(plan, [one, two]);
      const others = groups.filter((each) => each !== one && each !== two);
      const kept = [...outside, ...others.map((group) => spaceOf(plan, zone, group, [one, two]))];
      if (kept.some((rect) => overlap(rect, framed(plan, zone, both)))) continue;
      return joined(plan, zone, [both, ...others], outside);
    }
  }
  return groups;
}

/**
 * Return the space of a group that others may not take when they are joined: its frame, unless theirs lie over it.
 * @param {Plan} plan
 * @param {Zone} zone
 * @param {Group} group
 * @param {Group[]} others
 * @returns {Rect}
 */
function spaceOf(plan, zone, group, others) {
  const frame = framed(plan, zone, group);
  return others.some((other) => overlap(frame, framed(plan, zone, other))) ? group.rect : frame;
}

/**
 * Return the groups as one, with the readings of the lines between its vessels.
 * @param {Plan} plan
 * @param {Group[]} groups
 * @returns {Group}
 */
function withLines(plan, groups) {
  const vessels = groups.flatMap((group) => group.vessels);
  const within = Object.values(plan.lines).filter((line) => vessels.includes(line.from) && vessels.includes(line.to));
  const chips = chipsAt(
    plan,
    within.map((line) => line.name),
  );
  return { rect: union([...groups.map((group) => group.rect), ...chips]), vessels };
}

/**
 * Return the frame of a group with its label.
 * @param {Plan} plan
 * @param {Zone} zone
 * @param {Group} group
 * @returns {ZoneFrame}
 */
function framed(plan, zone, { rect, vessels }) {
  const w = rect.w + 2 * PAD;
  const labelWidth = w - 2 * LABEL_INDENT;
  const whole = `${zone.name} ${conditions(zone)}`;
  const label = whole.length * CHARACTER <= labelWidth ? [whole] : [zone.name, conditions(zone)];
  const head = label.length * LABEL_LINE + 8;
  const width = Math.min(labelWidth, Math.max(...label.map((line) => line.length)) * CHARACTER);
  /** @param {number} raised */
  const frameAt = (raised) => {
    const frame = { x: rect.x - PAD, y: rect.y - head - raised, w, h: rect.h + head + PAD + raised };
    return { frame, labelX: labelPlace(plan, frame, width, head) };
  };
  // Where a line runs through the whole strip of the label, the frame reaches above it.
  const found = RAISED.map(frameAt).find(({ labelX }) => labelX !== null) ?? frameAt(0);
  const labelX = found.labelX ?? found.frame.x + LABEL_INDENT;
  return { ...found.frame, zone, vessels, label, labelX, labelWidth };
}

/**
 * Return where the label begins: at the left, at the right, or in a gap between what passes through its strip; null
 * where there is no space.
 * @param {Plan} plan
 * @param {Rect} frame
 * @param {number} width
 * @param {number} height
 */
function labelPlace(plan, frame, width, height) {
  const strip = { ...frame, h: height };
  const passing = [...linesRects(plan), ...plan.chips.map(({ x, y }) => chipRect(x, y))].filter((rect) =>
    overlap(rect, strip),
  );
  const left = frame.x + LABEL_INDENT;
  const right = frame.x + frame.w - LABEL_INDENT - width;
  const gaps = passing.map((rect) => rect.x + rect.w + PAD).filter((x) => left <= x && x <= right);
  /** @param {number} x */
  const free = (x) => !passing.some((rect) => overlap(rect, { ...strip, x, w: width }));
  return [left, right, ...gaps].find(free) ?? null;
}

/**
 * Return the spaces of the straight parts of all lines, and of their devices.
 * @param {Plan} plan
 * @returns {Rect[]}
 */
function linesRects(plan) {
  return Object.values(plan.lines).flatMap(({ points, devices }) => [
    ...points.slice(1).map(([x, y], i) => ({
      x: Math.min(x, points[i][0]) - PIPE / 2,
      y: Math.min(y, points[i][1]) - PIPE / 2,
      w: Math.abs(x - points[i][0]) + PIPE,
      h: Math.abs(y - points[i][1]) + PIPE,
    })),
    ...devices.map(({ x, y }) => ({ x: x - 24, y: y - 42, w: 48, h: 84 })),
  ]);
}

/**
 * Return whether two rectangles overlap.
 * @param {Rect} a
 * @param {Rect} b
 */
const overlap = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

/**
 * Return the smallest rectangle around others.
 * @param {Rect[]} rects
 * @returns {Rect}
 */
function union(rects) {
  const x = Math.min(...rects.map((rect) => rect.x));
  const y = Math.min(...rects.map((rect) => rect.y));
  const right = Math.max(...rects.map((rect) => rect.x + rect.w));
  const bottom = Math.max(...rects.map((rect) => rect.y + rect.h));
  return { x, y, w: right - x, h: bottom - y };
}
