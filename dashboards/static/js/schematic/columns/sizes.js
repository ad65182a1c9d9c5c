// The sizes of the nodes: a vessel with its name, its readings and its gas mixer; a block of cells; a junction; what
// sits on a line.

import { isPlate, plateOf } from "./plates.js";

/** @import { SchematicGraph } from "../../../../types/live.d.ts" */
/** @import { Node } from "./net.js" */

/** @type {Record<string, [width: number, height: number]>} */
const SIZES = { source: [88, 96], process: [124, 140], loop: [124, 140], chamber: [168, 112], waste: [126, 92] };
/** The distance of two lines at one side of a vessel. */
export const PORT = 24;
const PORT_MARGIN = 18;
export const CHIP = { w: 104, h: 46, gap: 8 };
/** The distance of two rows of readings, and the space above a reading for its quality. */
export const CHIP_ROW = 58;
export const CHIP_STATE = 8;
/** The space of the name and the volume below a vessel. */
export const LABEL = 56;
export const GAS = { w: 168, h: 120, gap: 26 };
/** The space above a vessel for the frame of its zone, below its gas mixer. */
const FRAME_HEAD = 50;
const BALANCE = 28;
/** The width of a letter of a vessel's name, and the maximum width of a name, estimated upwards. */
const LETTER = 9.2;
const SMALL_LETTER = 8;
const MAX_NAME = 220;
export const DEVICE = 88;
/** The space above and below the middle of a line with devices. */
const OVER_DEVICE = 46;
const UNDER_DEVICE = 46;
/** The distance of the line from the lower edge of a reading above it. */
export const OVER_LINE = 50;
const BEND = 16;
const MIN_MANIFOLD = 26;

/** Cells of a block: wells of plates by their number of columns, and any other vessel. */
const CELL = { w: 112, h: 66, gap: 10 };
const WELL_PITCH = [
  { columns: 6, pitch: 74 },
  { columns: 12, pitch: 44 },
  { columns: Infinity, pitch: 26 },
];
export const PLATE_HEAD = 22;
/** A selector: the width of its body, of the text below it, and the height of its texts. */
export const SELECTOR = { w: 46, text: 104, foot: 58 };
const BLOCK_PAD = 16;

/**
 * Set the size and the core of a node.
 * @param {Node} place
 * @param {SchematicGraph} graph
 * @param {number} ports - the number of its lines
 */
export function sizeOf(place, graph, ports) {
  if (place.kind === "vessel") sizeVessel(place, graph, ports);
  else if (place.kind === "block") sizeBlock(place, ports);
  else if (place.kind === "junction") sizeJunction(place, ports);
  else if (place.kind === "item") sizeItem(place);
  else setSize(place, 0, BEND, { dx: 0, dy: BEND / 2, w: 0, h: 0 });
}

/**
 * @param {Node} place
 * @param {number} w
 * @param {number} h
 * @param {Node["core"]} core
 */
const setSize = (place, w, h, core) => Object.assign(place, { w, h, core });

/**
 * Return a name that fits into a width; the end of a longer one is left out.
 * @param {string} name
 * @param {number} width
 * @param {number} [letter] - the width of a letter
 */
export function shortened(name, width, letter = LETTER) {
  const most = Math.max(3, Math.floor(width / letter));
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

/**
 * Return the number of readings in one row below a vessel.
 * @param {number} count
 */
export const chipsAcross = (count) => Math.min(count, count > 4 ? 3 : 2);

/**
 * @param {Node} place
 * @param {SchematicGraph} graph
 * @param {number} ports
 */
function sizeVessel(place, graph, ports) {
  const [vessel] = place.vessels;
  const [w, least] = SIZES[vessel.kind];
  const h = Math.max(least, (ports - 1) * PORT + 2 * PORT_MARGIN);
  const count = place.probes.length;
  const across = chipsAcross(count);
  const rows = count ? Math.ceil(count / across) : 0;
  const gas = graph.gas?.vessel === vessel.name;
  const weighed = place.probes.some((probe) => probe.quantity === "mass");
  const name = Math.min(MAX_NAME, vessel.name.length * LETTER);
  const chips = count ? across * (CHIP.w + CHIP.gap) - CHIP.gap : 0;
  const width = Math.max(w + (weighed ? BALANCE : 0), name, chips, gas ? GAS.w : 0);
  const head = gas ? GAS.h + GAS.gap + (vessel.zone ? FRAME_HEAD : 0) : 0;
  const height = head + h + LABEL + rows * CHIP_ROW;
  setSize(place, width, height, { dx: (width - w) / 2, dy: head, w, h });
}

/**
 * Return how the cells of a block are arranged: the places of the cells within it, and its size.
 * @param {Node} place
 */
export function arranged(place) {
  return isPlate(place.vessels) ? arrangedPlate(place) : arrangedCells(place);
}

/** @param {Node} place */
function arrangedPlate(place) {
  const wells = place.vessels.map((vessel) => ({ vessel, at: plateOf(vessel.name) ?? { row: 0, column: 0 } }));
  const columns = Math.max(...wells.map(({ at }) => at.column)) + 1;
  const rows = Math.max(...wells.map(({ at }) => at.row)) + 1;
  const pitch = WELL_PITCH.find((each) => columns <= each.columns)?.pitch ?? 0;
  const margin = BLOCK_PAD + PLATE_HEAD;
  const cells = wells.map(({ vessel, at }) => {
    const x = margin + at.column * pitch + 2;
    return { vessel, x, y: margin + at.row * pitch + 2, w: pitch - 4, h: pitch - 4, row: at.row, column: at.column };
  });
  return { cells, plate: true, pitch, w: margin + columns * pitch + BLOCK_PAD, h: margin + rows * pitch + BLOCK_PAD };
}

/** @param {Node} place */
function arrangedCells(place) {
  const columns = Math.ceil(Math.sqrt(place.vessels.length));
  const rows = Math.ceil(place.vessels.length / columns);
  const cells = place.vessels.map((vessel, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const x = BLOCK_PAD + column * (CELL.w + CELL.gap);
    return { vessel, x, y: BLOCK_PAD + row * (CELL.h + CELL.gap), w: CELL.w, h: CELL.h, row, column };
  });
  const w = columns * (CELL.w + CELL.gap) - CELL.gap + 2 * BLOCK_PAD;
  return { cells, plate: false, pitch: 0, w, h: rows * (CELL.h + CELL.gap) - CELL.gap + 2 * BLOCK_PAD };
}

/**
 * @param {Node} place
 * @param {number} ports
 */
function sizeBlock(place, ports) {
  const { w, h } = arranged(place);
  const height = Math.max(h, (ports - 1) * PORT + 2 * PORT_MARGIN);
  const width = Math.max(w, Math.min(MAX_NAME, place.id.length * LETTER));
  setSize(place, width, height + LABEL, { dx: (width - w) / 2, dy: 0, w, h: height });
}

/**
 * @param {Node} place
 * @param {number} ports
 */
function sizeJunction(place, ports) {
  if (place.selector) {
    const high = Math.max(SELECTOR.w, (ports - 1) * PORT + 2 * PORT_MARGIN);
    const wide = Math.max(SELECTOR.text, junctionText(place).length * SMALL_LETTER);
    setSize(place, wide, high + SELECTOR.foot, { dx: (wide - SELECTOR.w) / 2, dy: 6, w: SELECTOR.w, h: high });
    return;
  }
  const h = Math.max(MIN_MANIFOLD, (ports - 1) * PORT + PORT_MARGIN);
  const w = Math.max(30, Math.min(150, junctionText(place).length * SMALL_LETTER));
  setSize(place, w, h + 36, { dx: w / 2 - 6, dy: 6, w: 12, h });
}

/**
 * Return the text of a junction.
 * @param {Node} place
 */
export const junctionText = ({ junctions }) =>
  junctions.length > 1 ? `${junctions.length} junctions` : shortened(junctions[0], 150, SMALL_LETTER);

/** @param {Node} place */
function sizeItem(place) {
  const count = place.probes.length;
  const rows = count * (CHIP.h + CHIP.gap);
  const devices = place.devices.length * DEVICE;
  const w = Math.max(count ? CHIP.w + 6 : 0, devices + (count ? 26 : 6));
  const over = count ? OVER_LINE + rows : OVER_DEVICE;
  const under = place.devices.length ? UNDER_DEVICE : 14;
  setSize(place, w, over + under, { dx: 0, dy: over, w, h: 0 });
}
