// The readings of the schematic: a chip for each sensor, and the gas mixer.

import { s, setText } from "../dom.js";
import { quantity, scaled } from "../format.js";
import { shortened } from "./columns/sizes.js";
import { chip } from "./symbols.js";

/** @import { ReadingView } from "../../../types/api.d.ts" */
/** @import { LiveState, Probe, Rig } from "../../../types/live.d.ts" */
/** @import { Chip, Plan } from "./plan.js" */

/** @typedef {ReturnType<typeof chip> & {probe: Probe}} DrawnChip */
/** @typedef {"good" | "suspect" | "stale" | "missing" | "none"} Quality */

/** @type {Record<string, string>} */
const LABELS = {
  oxygen: "O₂",
  temperature: "temp",
  "air in line": "air",
  "carbon dioxide": "CO₂",
  conductivity: "cond.",
  "liquid flow": "flow",
  "redox potential": "redox",
  "heating power": "power",
  "valve position": "position",
};
/** The width of a letter of a label, and the space that a label has. */
const LETTER = 8.6;
const LABEL_ROOM = 74;
/** A value with its unit is set in smaller letters from this length on. */
const LONG = 7;
/** A reading is stale after this many sampling periods, but not before MIN_STALE_S. */
const STALE_PERIODS = 4;
const MIN_STALE_S = 12;
const DEFAULT_PERIOD_S = 5;

export class Readings {
  /**
   * @param {Rig} rig
   * @param {Plan} plan
   */
  constructor(rig, plan) {
    this.rig = rig;
    this.node = s("g", { class: "chips" });
    /** @type {DrawnChip[]} */
    this.chips = plan.chips.map((place) => ({ ...chip(place, labelOf(place, plan.chips)), probe: place }));
    this.node.append(...this.chips.map((drawn) => drawn.node));
  }

  /** @param {LiveState} state */
  update(state) {
    for (const drawn of this.chips) {
      /** @type {ReadingView | undefined} */
      const reading = state.readings[drawn.probe.point];
      const age = reading && reading.at_s !== null ? state.at_s - reading.at_s : null;
      this.show(drawn, reading, age);
    }
  }

  /**
   * @param {DrawnChip} drawn
   * @param {ReadingView | undefined} reading
   * @param {number | null} age - seconds
   */
  show(drawn, reading, age) {
    const { point, model, at } = drawn.probe;
    const quality = this.quality(point, reading, age);
    const settling = quality === "good" && !reading?.stable;
    drawn.node.dataset.quality = quality;
    drawn.node.classList.toggle("settling", settling);
    const [value, name] = reading ? scaled(reading.value, reading.unit) : ["–", ""];
    setText(drawn.value, value);
    setText(drawn.unit, name === "pH" ? "" : name);
    drawn.node.classList.toggle("tight", value.length + name.length >= LONG);
    setText(drawn.quality, qualityText(quality, settling));
    const old = age === null ? "" : `, ${Math.max(0, age).toFixed(0)} s old`;
    const detail = reading?.detail ? `. ${reading.detail}` : "";
    setText(drawn.title, `${point} (${model}) at ${at}: ${quality}${settling ? ", settling" : ""}${old}${detail}`);
  }

  /**
   * Return the quality to show: a good reading that is too old is stale.
   * @param {string} point
   * @param {ReadingView | undefined} reading
   * @param {number | null} age - seconds
   * @returns {Quality}
   */
  quality(point, reading, age) {
    if (!reading || reading.value === null) return "none";
    const period = this.rig.periods_s[point.split(".")[0]] ?? DEFAULT_PERIOD_S;
    const stale = age !== null && age > Math.max(STALE_PERIODS * period, MIN_STALE_S);
    return stale && reading.quality === "good" ? "stale" : reading.quality;
  }
}

/**
 * Return what a reading is called: its quantity; its device or channel where a quantity is read twice at one place.
 * @param {Chip} place
 * @param {Chip[]} all
 */
function labelOf({ point, quantity: what, at }, all) {
  const like = all.filter((each) => each.at === at && each.quantity === what).map((each) => each.point.split("."));
  const [device, channel] = point.split(".");
  const same = like.filter(([other]) => other === device).length > 1;
  const own = same ? channel : device;
  const several = what === "pH" ? `pH ${own}` : own; // a pH has no unit that would tell it
  return shortened(like.length > 1 ? several : (LABELS[what] ?? what), LABEL_ROOM, LETTER);
}

/**
 * Return the mark of a reading; empty for a good and stable one.
 * @param {Quality} quality
 * @param {boolean} settling
 */
function qualityText(quality, settling) {
  if (settling) return "settling";
  return quality === "good" ? "" : quality;
}

/** The gas mixer: the measured flow of each gas. */
export class GasMixer {
  /**
   * @param {Rig} rig
   * @param {Plan} plan
   */
  constructor(rig, plan) {
    this.node = s("g", { class: "gas" });
    /** @type {{point: string | null, value: SVGElement}[]} */
    this.gases = [];
    const { gas } = rig.schematic;
    if (plan.gas && gas) this.draw(plan.gas, gas);
  }

  /**
   * @param {NonNullable<Plan["gas"]>} box
   * @param {NonNullable<Rig["schematic"]["gas"]>} gas
   */
  draw({ x, y, w, h, to }, gas) {
    const d = `M${to[0]} ${y + h} V${to[1] + 12}`;
    const right = { x: x + w - 14, "text-anchor": "end" };
    this.node.append(
      s("path", { class: "gas-pipe", d }),
      s("path", { class: "gas-flow", d }),
      s("rect", { class: "gas-box", x, y, width: w, height: h, rx: 12 }),
      s("text", { class: "organ", x: x + 14, y: y + 21, text: "lung" }),
      s("text", { class: "gas-unit", ...right, y: y + 21, text: "mL/min" }),
    );
    /** @type {[string, string | null][]} */
    const gases = [
      ["Air", gas.air],
      ["CO₂", gas.co2],
      ["O₂", gas.o2],
    ];
    gases.forEach(([label, point], i) => {
      const row = y + 50 + i * 27;
      const value = s("text", { class: "gas-value", ...right, y: row });
      this.node.append(s("text", { class: "gas-name", x: x + 14, y: row, text: label }), value);
      this.gases.push({ point, value });
    });
  }

  /** @param {LiveState} state */
  update(state) {
    for (const { point, value } of this.gases) {
      /** @type {ReadingView | undefined} */
      const reading = state.readings[point ?? ""];
      setText(value, reading ? quantity(reading.value, "mL/min") : "–");
      value.classList.toggle("bad", reading !== undefined && reading.quality !== "good");
    }
  }
}
