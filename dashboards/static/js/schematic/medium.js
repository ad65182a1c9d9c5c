// The colour of medium: that of phenol red at the measured pH (yellow when acid, red at 7.4, magenta when alkaline)
// where a pH probe sits; elsewhere it follows from what the rig file says the vessel contains.

/** @import { LiveState, Rig, Vessel } from "../../../types/live.d.ts" */

/** @type {[ph: number, rgb: number[]][]} */
const PHENOL_RED = [
  [6.4, [246, 205, 92]],
  [6.9, [244, 160, 84]],
  [7.2, [235, 110, 92]],
  [7.4, [228, 92, 116]],
  [7.7, [214, 80, 146]],
  [8.2, [190, 70, 168]],
];
const NORMAL_PH = 7.4;
const OTHERS = ["rgb(236 206 130)", "rgb(126 184 228)", "rgb(160 200 150)", "rgb(190 160 220)"];
const WASTE = "rgb(186 160 112)";

/** @param {number[]} rgb */
const css = (rgb) => `rgb(${rgb.map(Math.round).join(" ")})`;

/**
 * Return the colour of phenol red at this pH.
 * @param {number} ph
 */
export function phenolRed(ph) {
  const above = PHENOL_RED.findIndex(([at]) => ph <= at);
  if (above === 0) return css(PHENOL_RED[0][1]);
  if (above < 0) return css(PHENOL_RED[PHENOL_RED.length - 1][1]);
  const [[low, from], [high, to]] = [PHENOL_RED[above - 1], PHENOL_RED[above]];
  const share = (ph - low) / (high - low);
  return css(to.map((value, i) => from[i] + (value - from[i]) * share));
}

/**
 * Return the colour of the medium in a vessel.
 * @param {Vessel} vessel
 * @param {Rig} rig
 * @param {LiveState} state
 * @returns {string}
 */
export function mediumColor(vessel, rig, state) {
  if (vessel.kind === "waste") return WASTE;
  const ph = measuredPh(vessel, rig, state);
  if (ph !== null) return phenolRed(Math.round(ph * 50) / 50);
  const { vessels } = rig.schematic;
  const loop = vessels.find((each) => each.kind === "loop") ?? vessels.find((each) => each.kind === "chamber");
  if (loop && vessel.contains === loop.contains) {
    const supplied = vessel.kind === "chamber" && loop.name !== vessel.name;
    return supplied ? mediumColor(loop, rig, state) : phenolRed(NORMAL_PH);
  }
  const others = vessels.map((each) => each.contains).filter((name) => name && name !== loop?.contains);
  const index = [...new Set(others)].indexOf(vessel.contains);
  return OTHERS[Math.max(0, index) % OTHERS.length];
}

/**
 * Return the pH that a probe in the vessel measures; null without a good reading.
 * @param {Vessel} vessel
 * @param {Rig} rig
 * @param {LiveState} state
 */
function measuredPh(vessel, rig, state) {
  const probe = rig.schematic.probes.find((each) => each.at === vessel.name && each.quantity === "pH");
  const reading = probe && state.readings[probe.point];
  return reading && reading.quality === "good" ? reading.value : null;
}
