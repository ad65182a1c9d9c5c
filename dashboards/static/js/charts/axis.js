// Ranges, ticks and paths of a chart.

import { clock, stamp } from "../format.js";

/** One row of the history: UTC (s), mean, minimum, maximum. @typedef {[number, number, number, number]} Row */

/** Converts a value to a pixel. @typedef {(value: number) => number} Scale */

/** @type {Record<string, number>} The smallest range of the value axis, by unit. */
const MIN_SPAN = { degC: 0.8, "%": 8, pH: 0.2, kPa: 4, g: 4, "mL/min": 1, Hz: 1.5 };
const MARGIN = 0.08;

/**
 * Return the lower and upper end of the value axis.
 * @param {Row[]} rows
 * @param {number[]} setpoints
 * @param {string} unit
 * @returns {[low: number, high: number]}
 */
export function valueRange(rows, setpoints, unit) {
  const minSpan = MIN_SPAN[unit] ?? 1;
  let low = Math.min(...rows.map((row) => row[2]), ...setpoints);
  let high = Math.max(...rows.map((row) => row[3]), ...setpoints);
  if (!Number.isFinite(low)) [low, high] = [0, minSpan];
  if (high - low < minSpan) {
    const middle = (high + low) / 2;
    [low, high] = [middle - minSpan / 2, middle + minSpan / 2];
  }
  const pad = (high - low) * MARGIN;
  // A value that cannot be negative does not get a negative axis.
  return [low >= 0 && low - pad < 0 ? Math.min(low, 0) : low - pad, high + pad];
}

/**
 * Return the decimal places of the tick labels.
 * @param {number} span
 */
export function tickDigits(span) {
  if (span < 0.5) return 2;
  return span < 10 ? 1 : 0;
}

/**
 * Return about three round values between the ends of the axis.
 * @param {number} low
 * @param {number} high
 */
export function ticks(low, high) {
  const rough = (high - low) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = ([1, 2, 5].find((each) => each * power >= rough) ?? 10) * power;
  const found = [];
  for (let value = Math.ceil(low / size) * size; value <= high; value += size) {
    found.push(Math.abs(value) < size / 1000 ? 0 : value);
  }
  return found;
}

const TIME_STEPS_S = [300, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800];
const MAX_TIME_STEP_S = 172800;
const DAY_S = 86400;
const LABEL_PX = 58;

/**
 * Return the labels of the time axis.
 * @param {number} begin - UTC (s)
 * @param {number} end - UTC (s)
 * @param {Scale} x
 * @param {number} left - the left end of the axis (px)
 * @returns {{x: number, text: string}[]}
 */
export function timeLabels(begin, end, x, left) {
  const width = x(end) - x(begin);
  const size = TIME_STEPS_S.find((each) => width / ((end - begin) / each) >= LABEL_PX) ?? MAX_TIME_STEP_S;
  const labels = [];
  for (let at = Math.ceil(begin / size) * size; at < end; at += size) {
    if (x(at) < left + 16 || x(at) > x(end) - 16) continue;
    const utc = new Date(at * 1000).toISOString();
    const text = size >= DAY_S ? stamp(utc).split(" ").slice(0, 2).join(" ") : clock(utc).slice(0, 5);
    labels.push({ x: x(at), text });
  }
  return labels;
}
