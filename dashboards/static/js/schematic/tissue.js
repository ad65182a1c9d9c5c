// The organoids in their chamber, above the electrodes; an electrode lights up at a spike.

import { reducedMotion, s } from "../dom.js";

/** @import { LiveState, Rig, Spike } from "../../../types/live.d.ts" */
/** @import { Box } from "./plan.js" */

const MAX_ORGANOIDS = 24;
const MAX_ELECTRODES = 64;
const MAX_IN_ONE_ROW = 10;
const MAX_RADIUS = 17;
/** The distance of the lower row of organoids from the bottom of the chamber, with electrodes and without. */
const ABOVE_ELECTRODES = 38;
const ABOVE_FLOOR = 25;
const GLOW_S = 0.35;
/** Spikes older than this are not shown (s). */
const RECENT_S = 0.5;

export class Tissue {
  /**
   * @param {Element} parent
   * @param {Box} box - the chamber
   * @param {Rig} rig
   */
  constructor(parent, box, rig) {
    const count = rig.tissue.find((each) => each.chamber === box.name)?.count ?? 0;
    const here = rig.schematic.electrodes?.vessel === box.name;
    const electrodes = here ? Math.min(rig.electrodes, MAX_ELECTRODES) : 0;
    this.electrodes = electrodeNodes(electrodes, box);
    /** @type {number[]} When each electrode last had a spike (s of the page's clock). */
    this.lit = new Array(electrodes).fill(-10);
    /** @type {Set<number>} */
    this.glowing = new Set();
    /** @type {Spike[] | null} */
    this.spikes = null;
    const shade = s(
      "radialGradient",
      { id: "organoid-shade", cx: "38%", cy: "34%", r: "70%" },
      s("stop", { offset: "0%", class: "organoid-light" }),
      s("stop", { offset: "100%", class: "organoid-deep" }),
    );
    parent.append(
      s("defs", {}, shade),
      s(
        "g",
        { class: "tissue" },
        organoidNodes(Math.min(count, MAX_ORGANOIDS), box, electrodes ? ABOVE_ELECTRODES : ABOVE_FLOOR),
      ),
      s("g", { class: "electrodes" }, this.electrodes),
    );
  }

  /** @param {LiveState} state */
  update(state) {
    const spikes = state.spikes ?? [];
    const newest = spikes.at(-1);
    if (spikes === this.spikes || !newest) return;
    this.spikes = spikes;
    const now = performance.now() / 1000;
    for (const [at, electrode] of spikes) {
      const age = newest[0] - at;
      if (age < RECENT_S && electrode < this.lit.length) this.lit[electrode] = now - age * 0.5;
    }
  }

  /**
   * Let the light of the electrodes fade.
   * @param {number} milliseconds - of the page's clock
   */
  animate(milliseconds) {
    if (reducedMotion()) return;
    this.electrodes.forEach((node, i) => {
      const glow = Math.max(0, 1 - (milliseconds / 1000 - this.lit[i]) / GLOW_S);
      if (glow === 0 && !this.glowing.has(i)) return;
      node.style.setProperty("--glow", Math.min(glow, 1).toFixed(2));
      if (glow > 0) this.glowing.add(i);
      else this.glowing.delete(i);
    });
  }
}

/**
 * @param {number} count
 * @param {Box} box
 * @param {number} above - the distance of the lower row from the floor
 */
function organoidNodes(count, box, above) {
  const rows = count > MAX_IN_ONE_ROW ? 2 : 1;
  const across = Math.ceil(count / rows);
  const radius = Math.min(MAX_RADIUS, (box.w - 30) / across / 2.1);
  const stride = (box.w - 40 - 2 * radius) / Math.max(across - 1, 1);
  /** @param {number} seed */
  const wobble = (seed) => Math.sin(seed * 12.9898) * 4;
  return Array.from({ length: count }, (_, i) => {
    const left = across === 1 ? box.w / 2 : 20 + radius;
    const x = box.x + left + (i % across) * stride + wobble(i) * 0.5;
    const y = box.y + box.h - above - Math.floor(i / across) * (radius * 2.3) + wobble(i + 31) * 0.6;
    const transform = `translate(${x.toFixed(1)} ${y.toFixed(1)})`;
    const body = s("path", { class: "organoid-body", d: blobPath(radius, i) });
    return s("g", { class: "organoid", transform }, body, rosettes(radius, i));
  });
}

/**
 * @param {number} radius
 * @param {number} seed
 */
function rosettes(radius, seed) {
  return [0, 1, 2].map((k) => {
    const angle = seed * 1.7 + k * 2.1;
    const cx = radius * 0.42 * Math.cos(angle);
    const cy = radius * 0.42 * Math.sin(angle);
    return s("circle", { class: "rosette", r: radius * 0.15, cx, cy });
  });
}

/**
 * @param {number} count
 * @param {Box} box
 */
function electrodeNodes(count, box) {
  const half = Math.ceil(count / 2);
  return Array.from({ length: count }, (_, i) => {
    const cx = box.x + 16 + ((i % half) * (box.w - 32)) / Math.max(half - 1, 1);
    const cy = box.y + box.h - 8 - Math.floor(i / half) * 8;
    return s("circle", { class: "electrode", r: 2.6, cx, cy });
  });
}

/**
 * Return the outline of an organoid: nearly round, and different for each.
 * @param {number} radius
 * @param {number} seed
 */
function blobPath(radius, seed) {
  const points = Array.from({ length: 8 }, (_, i) => {
    const angle = (i / 8) * 2 * Math.PI;
    const size = radius * (1 + 0.09 * Math.sin(seed * 7.1 + i * 2.3));
    return [Math.cos(angle) * size, Math.sin(angle) * size];
  });
  /** @type {(a: number[], b: number[]) => number[]} */
  const middle = (a, b) => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  /** @param {number[]} point */
  const pair = (point) => point.map((value) => value.toFixed(2)).join(" ");
  let text = `M${pair(middle(points[7], points[0]))}`;
  points.forEach((point, i) => {
    text += ` Q${pair(point)} ${pair(middle(point, points[(i + 1) % 8]))}`;
  });
  return `${text} z`;
}
