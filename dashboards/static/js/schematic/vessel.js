// The symbol of a vessel: its outline in glass, its level, and the marks of its limits.

import { s } from "../dom.js";
import { volume } from "../format.js";

/** @import { Box, Label } from "./plan.js" */

/** @type {Record<string, (box: Box) => string>} */
const OUTLINES = {
  source: ({ x, y, w, h }) => {
    const neck = w * 0.17;
    const [left, right, bottom] = [x + w / 2 - neck, x + w / 2 + neck, y + h];
    return (
      `M${left} ${y} H${right} V${y + 12} C${right} ${y + 26} ${x + w} ${y + 24} ${x + w} ${y + 44}` +
      ` V${bottom - 12} Q${x + w} ${bottom} ${x + w - 12} ${bottom} H${x + 12} Q${x} ${bottom} ${x} ${bottom - 12}` +
      ` V${y + 44} C${x} ${y + 24} ${left} ${y + 26} ${left} ${y + 12} z`
    );
  },
  process: ({ x, y, w, h }) =>
    `M${x} ${y + 4} q0 -4 4 -4 H${x + w - 4} q4 0 4 4 V${y + h - 20} q0 20 -20 20 H${x + 20} q-20 0 -20 -20 z`,
  loop: ({ x, y, w, h }) =>
    `M${x + 22} ${y} H${x + w - 22} q22 0 22 22 V${y + h - 22} q0 22 -22 22 H${x + 22} q-22 0 -22 -22` +
    ` V${y + 22} q0 -22 22 -22 z`,
  chamber: ({ x, y, w, h }) =>
    `M${x} ${y + 16} q0 -16 16 -16 H${x + w - 16} q16 0 16 16 V${y + h - 16} q0 16 -16 16 H${x + 16} q-16 0 -16 -16 z`,
  waste: ({ x, y, w, h }) =>
    `M${x + 12} ${y + 12} H${x + w - 46} q4 0 4 -4 v-4 q0 -4 4 -4 h18 q4 0 4 4 v4 q0 4 4 4 q12 0 12 12` +
    ` V${y + h - 12} q0 12 -12 12 H${x + 12} q-12 0 -12 -12 V${y + 24} q0 -12 12 -12 z`,
};

let made = 0;

/** A vessel on the page. */
export class VesselSymbol {
  /** @param {Box} box */
  constructor(box) {
    this.box = box;
    /** The present colour of the medium. */
    this.color = "";
    this.label = "";
    this.inside = s("g", { class: "inside" });
    this.title = s("title");
    this.place = box.label ?? labelPlace(box);
    const { x, y, anchor } = this.place;
    this.name = s("text", { class: "vessel-name", x, y, "text-anchor": anchor, text: this.place.text });
    const { height, ...body } = { x: box.x - 2, y: box.y, width: box.w + 4, height: box.h + 40 };
    this.liquid = s(
      "g",
      { class: "liquid" },
      s("rect", { class: "liquid-body", ...body, height }),
      s("rect", { class: "liquid-top", ...body, height: 3.5 }),
    );
    this.node = this.draw();
  }

  draw() {
    const { box } = this;
    const id = `vessel-${made++}`;
    const d = (OUTLINES[box.kind] ?? OUTLINES.loop)(box);
    const gloss = `M${box.x + box.w * 0.1} ${box.y + box.h * 0.1} v${box.h * 0.8} h${box.w * 0.07} v${-box.h * 0.8} z`;
    return s(
      "g",
      { class: `vessel vessel-${box.kind}`, "data-vessel": box.name },
      s("clipPath", { id }, s("path", { d })),
      s("path", { class: "glass", d }),
      s("g", { "clip-path": `url(#${id})` }, this.liquid, this.inside, s("path", { class: "gloss", d: gloss })),
      s("path", { class: "glass-edge", d }),
      limitMarks(box),
      this.name,
      this.title,
    );
  }

  /** @param {number} share - of the capacity */
  setLevel(share) {
    const empty = 1 - Math.min(Math.max(share, 0), 1);
    this.liquid.style.transform = `translateY(${(empty * this.box.h).toFixed(2)}px)`;
  }

  /** @param {string} color */
  setColor(color) {
    if (this.color === color) return;
    this.node.style.setProperty("--liquid", color);
    this.color = color;
  }

  /**
   * Show the volume.
   * @param {number} ul
   * @param {number} sd - standard deviation (µL)
   */
  setVolume(ul, sd) {
    const { box } = this;
    const label = volume(ul).join(" ");
    if (this.label === label) return;
    this.label = label;
    const { x, text, twoLines } = this.place;
    this.name.replaceChildren(
      s("tspan", { x: twoLines ? x : null, text }),
      s("tspan", { class: "vessel-volume", ...(twoLines ? { x, dy: 20 } : { dx: 8 }), text: label }),
    );
    this.title.textContent = `${box.name}: ${label} ± ${volume(sd).join(" ")} of ${volume(box.capacity_ul).join(" ")}`;
  }
}

/**
 * Return the place of a vessel's name in a row.
 * @param {Box} box
 * @returns {Label}
 */
function labelPlace({ kind, name, x, y, w, h }) {
  if (kind === "source") return { x: x + w / 2, y: y - 30, anchor: "middle", text: name, twoLines: true };
  if (kind === "waste") return { x: x + w + 14, y: y + h / 2 - 2, anchor: "start", text: name, twoLines: true };
  return { x: x + w / 2, y: y + h + 25, anchor: "middle", text: name, twoLines: false };
}

/**
 * Return the marks of the lowest and highest level.
 * @param {Box} box
 */
function limitMarks(box) {
  /** @type {[kind: string, ul: number][]} */
  const limits = [];
  if (box.ceiling_ul && box.ceiling_ul < box.capacity_ul) limits.push(["ceiling", box.ceiling_ul]);
  if (box.floor_ul > 0 && box.kind !== "source") limits.push(["floor", box.floor_ul]);
  return limits.map(([kind, ul]) => {
    const y = box.y + (1 - ul / box.capacity_ul) * box.h;
    return s("path", { class: `mark ${kind}`, d: `M${box.x + box.w} ${y} h-14` }, s("title", { text: kind }));
  });
}
