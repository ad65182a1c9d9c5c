// Blocks of many vessels: well plates with letters and numbers, and grids of other chambers. Each cell shows the colour
// of its medium, how it is supplied, and whether it has an alarm; chambers can be selected.

import { alarmsOf, organoids, supplyOf } from "../chambers.js";
import { s, setText } from "../dom.js";
import { volume } from "../format.js";
import { shortened } from "./columns/sizes.js";
import { mediumColor } from "./medium.js";

/** @import { LiveState, Rig } from "../../../types/live.d.ts" */
/** @import { Supply } from "../chambers.js" */
/** @import { Block, Cell, Plan } from "./plan.js" */

/**
 * @typedef {object} DrawnCell
 * @property {Cell} cell
 * @property {SVGElement} node
 * @property {SVGElement | null} liquid
 * @property {SVGElement | null} volume
 * @property {SVGElement} title
 * @property {string} color
 */

/** Wells at least this wide show their names. */
const NAMED_WELL = 40;
const NAME_LETTER = 8;
/** @type {Record<string, [column: number, row: number]>} The steps of the arrow keys. */
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
/** @type {Record<Supply, string>} */
const WORDS = {
  perfused: "perfused",
  stopped: "stopped",
  unknown: "not responding",
  dosed: "dosed",
  static: "static",
};

export class Blocks {
  /**
   * @param {Plan} plan
   * @param {Rig} rig
   * @param {(chamber: string) => void} select
   */
  constructor(plan, rig, select) {
    this.rig = rig;
    this.node = s("g", { class: "blocks" });
    this.blocks = plan.blocks.map((block) => new BlockSymbol(block, rig, select));
    this.node.append(...this.blocks.map((block) => block.node));
    /** The present colours of the media, by vessel. @type {Record<string, {color: string}>} */
    this.colors = {};
  }

  /** @param {LiveState} state */
  update(state) {
    for (const block of this.blocks) {
      block.update(state);
      for (const { cell, color } of block.cells) this.colors[cell.vessel.name] = { color };
    }
  }

  /** @param {string | null} chamber */
  mark(chamber) {
    for (const block of this.blocks) block.mark(chamber);
  }
}

class BlockSymbol {
  /**
   * @param {Block} block
   * @param {Rig} rig
   * @param {(chamber: string) => void} select
   */
  constructor(block, rig, select) {
    this.block = block;
    this.rig = rig;
    this.select = select;
    this.cells = block.cells.map((cell) => drawCell(cell, block.plate));
    const { x, y, w, h } = block;
    const below = { x: x + w / 2, "text-anchor": "middle" };
    this.summary = s("text", { class: "block-summary", ...below, y: y + h + 45 });
    const count = block.cells.length;
    const name = block.plate ? `${block.name}: ${count} wells` : `${count} ${block.name}`;
    this.node = s(
      "g",
      { class: "block", "data-block": block.name, role: "group", "aria-label": name },
      s("rect", { class: "block-box", x, y, width: w, height: h, rx: 14 }),
      block.plate ? plateTexts(block) : [],
      this.cells.map((drawn) => drawn.node),
      s("text", { class: "vessel-name", ...below, y: y + h + 25, text: name }),
      this.summary,
    );
    if (block.kind === "chamber") this.cells.forEach((drawn, i) => this.makeButton(drawn, i));
  }

  /**
   * Let a cell be selected. One cell of the block is reached with the tabulator, the others from there with the arrows.
   * @param {DrawnCell} drawn
   * @param {number} i
   */
  makeButton({ cell, node }, i) {
    const { name } = cell.vessel;
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", i ? "-1" : "0");
    node.setAttribute("aria-pressed", "false");
    node.classList.add("handled");
    node.addEventListener("click", () => {
      this.focus(cell);
      this.select(name);
    });
    node.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (step) this.focus(this.neighbour(cell, step));
      else if (event.key === "Enter" || event.key === " ") this.select(name);
      else return;
      event.preventDefault();
    });
  }

  /**
   * Return the nearest cell in a direction, or the cell itself where there is none.
   * @param {Cell} cell
   * @param {[column: number, row: number]} step
   */
  neighbour(cell, [across, down]) {
    const ahead = this.block.cells.filter((each) => {
      const [dx, dy] = [each.column - cell.column, each.row - cell.row];
      return across ? dy === 0 && dx * across > 0 : dx === 0 && dy * down > 0;
    });
    /** @param {Cell} each */
    const distance = (each) => Math.abs(each.column - cell.column) + Math.abs(each.row - cell.row);
    return ahead.sort((one, two) => distance(one) - distance(two))[0] ?? cell;
  }

  /** @param {Cell} cell */
  focus(cell) {
    for (const drawn of this.cells) {
      drawn.node.setAttribute("tabindex", drawn.cell === cell ? "0" : "-1");
      if (drawn.cell === cell) drawn.node.focus({ preventScroll: true });
    }
  }

  /** @param {string | null} chamber */
  mark(chamber) {
    if (this.block.kind !== "chamber") return;
    for (const { cell, node } of this.cells) node.setAttribute("aria-pressed", String(cell.vessel.name === chamber));
  }

  /** @param {LiveState} state */
  update(state) {
    /** @type {Record<string, number>} */
    const counts = {};
    for (const drawn of this.cells) {
      for (const word of this.updateCell(drawn, state)) counts[word] = (counts[word] ?? 0) + 1;
    }
    const words = Object.entries(counts);
    const every = words.length === 1 && words[0][1] === this.cells.length;
    setText(this.summary, every ? words[0][0] : words.map(([word, count]) => `${count} ${word}`).join(", "));
  }

  /**
   * Bring one cell up to date; return the words that count in the summary.
   * @param {DrawnCell} drawn
   * @param {LiveState} state
   * @returns {string[]}
   */
  updateCell(drawn, state) {
    const { vessel } = drawn.cell;
    const content = state.volumes[vessel.name];
    const text = content ? volume(content.ul).join(" ") : "–";
    const color = mediumColor(vessel, this.rig, state);
    if (color !== drawn.color) drawn.node.style.setProperty("--liquid", color);
    drawn.color = color;
    const share = content ? Math.min(Math.max(content.ul / vessel.capacity_ul, 0), 1) : 0;
    if (drawn.liquid) drawn.liquid.style.transform = `translateY(${((1 - share) * drawn.cell.h).toFixed(1)}px)`;
    if (drawn.volume) setText(drawn.volume, text);
    if (vessel.kind === "chamber") return this.updateChamber(drawn, text, state);
    setText(drawn.title, `${vessel.name}: ${text}`);
    return [];
  }

  /**
   * Show how a chamber is supplied, and whether it has an alarm; return the words that count in the summary.
   * @param {DrawnCell} drawn
   * @param {string} content - its volume
   * @param {LiveState} state
   * @returns {string[]}
   */
  updateChamber(drawn, content, state) {
    const { vessel } = drawn.cell;
    const supply = supplyOf(this.rig, state, vessel.name);
    const alarms = alarmsOf(this.rig, state, vessel.name).length;
    const tissue = this.rig.tissue.find((each) => each.chamber === vessel.name);
    drawn.node.dataset.supply = supply;
    drawn.node.classList.toggle("alarmed", alarms > 0);
    drawn.node.classList.toggle("empty", !tissue);
    const spoken = [content, tissue ? organoids(tissue.count) : "no tissue", WORDS[supply]];
    if (alarms) spoken.push(`${alarms} alarm${alarms > 1 ? "s" : ""}`);
    const label = `${vessel.name}: ${spoken.join(", ")}`;
    if (drawn.title.textContent !== label) {
      drawn.title.textContent = label;
      drawn.node.setAttribute("aria-label", label);
    }
    return [WORDS[supply], ...(alarms ? ["with an alarm"] : []), ...(tissue ? [] : ["without tissue"])];
  }
}

/**
 * Return the letters of the rows and the numbers of the columns of a plate.
 * @param {Block} block
 */
function plateTexts({ x, y, cells }) {
  const rows = new Map(cells.map((cell) => [cell.row, cell.y + cell.h / 2 + 4]));
  const columns = new Map(cells.map((cell) => [cell.column, cell.x + cell.w / 2]));
  const text = { class: "plate-text", "text-anchor": "middle" };
  return [
    ...[...rows].map(([row, at]) => s("text", { ...text, x: x + 20, y: at, text: String.fromCharCode(65 + row) })),
    ...[...columns].map(([column, at]) => s("text", { ...text, x: at, y: y + 25, text: column + 1 })),
  ];
}

let made = 0;

/**
 * Return the symbol of a cell: a round well, or a box with its name and volume.
 * @param {Cell} cell
 * @param {boolean} plate
 * @returns {DrawnCell}
 */
function drawCell(cell, plate) {
  const { x, y, w, h, vessel } = cell;
  const title = s("title");
  const middle = { x: x + w / 2, y: y + h / 2 + 6, "text-anchor": "middle" };
  const alarm = s("text", { class: "cell-alarm", ...(plate ? middle : { x: x + w - 13, y: y + 21 }), text: "!" });
  const about = { class: `cell ${plate ? "well" : "box"}`, "data-vessel": vessel.name };
  if (plate) {
    const round = s("circle", { class: "cell-edge", cx: x + w / 2, cy: y + h / 2, r: w / 2 - 2 });
    const short = vessel.name.slice(vessel.name.lastIndexOf("-") + 1);
    const name = w >= NAMED_WELL ? s("text", { class: "cell-name", ...middle, text: short }) : null;
    return { cell, node: s("g", about, round, name, alarm, title), liquid: null, volume: null, title, color: "" };
  }
  const id = `cell-${made++}`;
  const size = { x, y, width: w, height: h, rx: 8 };
  const liquid = s("rect", { class: "cell-liquid", x, y, width: w, height: h });
  const content = s("text", { class: "cell-volume", x: x + 10, y: y + h - 12 });
  const node = s(
    "g",
    about,
    s("clipPath", { id }, s("rect", size)),
    s("g", { "clip-path": `url(#${id})` }, liquid),
    s("rect", { class: "cell-edge", ...size }),
    s("circle", { class: "cell-dot", cx: x + w - 14, cy: y + h - 17, r: 5 }),
    s("text", { class: "cell-name", x: x + 10, y: y + 21, text: shortened(vessel.name, w - 28, NAME_LETTER) }),
    content,
    alarm,
    title,
  );
  return { cell, node, liquid, volume: content, title, color: "" };
}
