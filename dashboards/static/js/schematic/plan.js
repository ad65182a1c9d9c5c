// The plan of a drawing: what stands where. A layout makes it, and the symbols follow it.

/** @import { Line, Probe, Selector, Vessel } from "../../../types/live.d.ts" */
/** @import { ZoneFrame } from "./zones.js" */

/** @typedef {[x: number, y: number]} Point */
/** @typedef {{x: number, y: number, w: number, h: number}} Rect */
/**
 * The text of a vessel. @typedef {{x: number, y: number, anchor: string, text: string, twoLines: boolean}} Label
 */
/**
 * A vessel. `extent` is its space with its texts and readings, where that does not follow from its kind.
 * @typedef {Vessel & Rect & {label?: Label, extent?: Rect}} Box
 */
/**
 * A device on a line; several of them on a bundle.
 * @typedef {{kind: string, names: string[], x: number, y: number}} PlacedDevice
 */
/**
 * A line; `members` are the lines of a bundle, and of a single line that line alone; `room` is the width of its texts.
 * @typedef {Line & {
 *   members: Line[], points: Point[], devices: PlacedDevice[], vertical?: boolean, room?: number
 * }} PlacedLine
 */
/**
 * A reading. `stem` leads down to the line that it taps; `caption` is written above one that stands by itself.
 * @typedef {Probe & {x: number, y: number, stem?: Point, caption?: string}} Chip
 */
/** @typedef {Rect & {to: Point}} GasBox */
/** @typedef {Rect & {name: string, text: string}} Manifold */
/** @typedef {Rect & {text: string, selector: Selector}} PlacedSelector */
/** @typedef {Rect & {vessel: Vessel, row: number, column: number}} Cell */
/**
 * Many vessels, drawn as cells; of a well plate with letters and numbers.
 * @typedef {Rect & {
 *   name: string, kind: string, zone: string | null, cells: Cell[], plate: boolean, extent: Rect
 * }} Block
 */

/**
 * The layout: boxes of vessels and routes of lines by name, and the size of the drawing.
 * @typedef {object} Plan
 * @property {Record<string, Box>} vessels
 * @property {Record<string, PlacedLine>} lines
 * @property {Chip[]} chips
 * @property {GasBox | null} gas
 * @property {Manifold[]} manifolds
 * @property {PlacedSelector[]} selectors
 * @property {Block[]} blocks
 * @property {ZoneFrame[]} zones
 * @property {boolean} legend - whether the colours of medium are explained, at the upper right
 * @property {number} top - the y of the upper edge of the drawing: 0, or less where a frame reaches above it
 * @property {number} width
 * @property {number} height - the y of the lower edge
 * @property {number} captionWidth - the maximum width of the caption at the lower right
 */

/**
 * Return a plan with nothing on it.
 * @returns {Plan}
 */
export const emptyPlan = () => ({
  vessels: {},
  lines: {},
  chips: [],
  gas: null,
  manifolds: [],
  selectors: [],
  blocks: [],
  zones: [],
  legend: true,
  top: 0,
  width: 0,
  height: 0,
  captionWidth: 0,
});
