// The figures by which the electrode map is coloured: value, unit, colour and words of each.

import { fixed } from "../format.js";

/** @import { ElectrodesModel } from "../../../types/api.d.ts" */

/**
 * @typedef {object} Figure
 * @property {string} name
 * @property {string} unit
 * @property {(table: ElectrodesModel) => (number | null)[]} values
 * @property {number} digits
 * @property {boolean} [signed] - colours lie on both sides of zero
 */

/** @type {Record<string, Figure>} */
export const FIGURES = {
  rate: { name: "Rate", unit: "Hz", digits: 1, values: (table) => table.rates_hz },
  amplitude: { name: "Amplitude", unit: "µV", digits: 0, values: (table) => table.amplitudes_uv },
  noise: { name: "Noise", unit: "µV", digits: 1, values: (table) => table.noise_uv },
  impedance: { name: "Impedance", unit: "kΩ", digits: 0, values: (table) => table.impedances_kohm },
  deviation: { name: "Deviation", unit: "spreads", digits: 1, signed: true, values: (table) => table.deviation },
  muted: { name: "Muted", unit: "%", digits: 2, values: (table) => table.muted_pct },
};

/** States in which nothing is detected, with the letter that marks them. @type {Record<string, string>} */
export const MARKS = { dead: "D", noisy: "N", saturated: "S", unknown: "?" };

const HIGH_SHARE = 0.95;

/**
 * Return the range of the colours: up to the 95th percentile, so that one odd electrode does not dim all others.
 * @param {(number | null)[]} values
 * @param {boolean} signed
 * @returns {[number, number]}
 */
export function rangeOf(values, signed) {
  const known = values.filter((value) => value !== null).map((value) => (signed ? Math.abs(value) : value));
  known.sort((a, b) => a - b);
  const high = known.length ? known[Math.min(known.length - 1, Math.floor(HIGH_SHARE * known.length))] : 0;
  return [signed ? -(high || 1) : 0, high || 1];
}

/**
 * Return the share of a value in a range, 0 to 1; null for an unknown value.
 * @param {number | null} value
 * @param {[number, number]} range
 */
export function shareOf(value, [low, high]) {
  if (value === null) return null;
  return Math.min(Math.max((value - low) / (high - low), 0), 1);
}

/**
 * Return a value with its unit.
 * @param {Figure} figure
 * @param {number | null | undefined} value
 */
export function words(figure, value) {
  return value === null || value === undefined ? "not known" : `${fixed(value, figure.digits)} ${figure.unit}`;
}
