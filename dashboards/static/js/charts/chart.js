// One chart: mean as a line, minimum and maximum as a band, set-point and limits as rules.

import { h, s, setText } from "../dom.js";
import { fixed, moment, quantity, unit } from "../format.js";
import { tickDigits, ticks, timeLabels, valueRange } from "./axis.js";

/** @import { ChartDefinition, SeriesDefinition } from "./series.js" */
/** @import { Row, Scale } from "./axis.js" */

/**
 * A series with its data: history rows, the latest value and its quality; `known` once a value has come.
 * @typedef {SeriesDefinition & {
 *   rows: Row[], now: number | null, quality?: string, known: boolean, color: string
 * }} Series
 */

export const PAD = { left: 40, right: 8, top: 8, bottom: 20 };
const MIN_WIDTH = 120;
const MIN_HEIGHT = 60;
/** A gap in the data of more than this share of the period, and at least MIN_GAP_S, interrupts the line. */
const GAP_SHARE = 1 / 20;
const MIN_GAP_S = 60;

export class Chart {
  /**
   * @param {ChartDefinition} definition
   * @param {Element} parent
   */
  constructor({ title, unit: name, series }, parent) {
    this.unit = name;
    /** @type {Series[]} */
    this.series = series.map((one, i) => ({ ...one, rows: [], now: null, known: false, color: `series-${i + 1}` }));
    this.values = this.series.map((one) => h("span", { class: `chart-value ${one.color}` }));
    this.when = h("span", { class: "chart-when" });
    this.svg = s("svg", { class: "plot", role: "img", "aria-label": `${title} over time` });
    this.width = MIN_WIDTH;
    this.height = MIN_HEIGHT;
    /** What the drawing depends on, as it was drawn last. @type {unknown[]} */
    this.drawn = [];
    // With several series, a place is printed next to each number, and the unit goes into the title.
    const several = series.length > 1;
    const heading = several && name !== "pH" ? `${title}, ${unit(name)}` : title;
    const caption = (/** @type {number} */ i) =>
      several
        ? h("small", {}, h("em", { class: this.series[i].color, text: this.series[i].label }))
        : h("small", { text: unit(name === "pH" ? "" : name) });
    const numbers = this.values.map((value, i) => h("span", { class: "chart-one" }, value, caption(i)));
    parent.append(
      h(
        "figure",
        { class: "chart" },
        h("figcaption", {}, h("span", { class: "chart-title", text: heading }), this.when),
        h("div", { class: "chart-values" }, numbers),
        this.svg,
      ),
    );
    new ResizeObserver(() => this.fit()).observe(this.svg);
    this.fit();
  }

  fit() {
    this.width = Math.max(this.svg.clientWidth, MIN_WIDTH);
    this.height = Math.max(this.svg.clientHeight, MIN_HEIGHT);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
  }

  /**
   * Show the period. It is drawn again when it has moved by a pixel, or when something else than time has changed.
   * @param {number} begin - UTC (s)
   * @param {number} end - UTC (s)
   * @param {number | null} pointed - the share of the period at which the pointer stands
   */
  draw(begin, end, pointed) {
    const plotWidth = this.width - PAD.left - PAD.right;
    const plotHeight = this.height - PAD.top - PAD.bottom;
    const shown = this.series.map((one) => one.rows.filter((row) => row[0] >= begin && row[0] <= end + 5));
    const at = pointed === null ? null : begin + pointed * (end - begin);
    this.showValues(shown, at);
    const pixel = Math.floor((end / (end - begin)) * plotWidth);
    const data = this.series.flatMap(({ rows }) => [rows, rows.length]);
    const drawn = [pixel, end - begin, pointed, this.width, this.height, ...data];
    if (drawn.every((each, i) => each === this.drawn[i])) return;
    this.drawn = drawn;
    const [low, high] = valueRange(shown.flat(), this.setpoints(), this.unit);
    /** @type {Scale} */
    const x = (time) => PAD.left + ((time - begin) / (end - begin)) * plotWidth;
    /** @type {Scale} */
    const y = (value) => PAD.top + (1 - (value - low) / (high - low)) * plotHeight;
    this.svg.replaceChildren(
      ...this.grid(low, high, y),
      ...this.rules(low, high, y),
      ...timeLabels(begin, end, x, PAD.left).map((label) => tick(label.x, this.height - 5, "middle", label.text)),
      ...shown.flatMap((rows, i) => lines(rows, this.series[i].color, x, y, (end - begin) * GAP_SHARE)),
      ...(at === null ? [] : [this.cross(x(at))]),
    );
  }

  setpoints() {
    return this.series.flatMap((one) => one.goal.setpoint ?? []);
  }

  /**
   * @param {number} low
   * @param {number} high
   * @param {Scale} y
   */
  grid(low, high, y) {
    const digits = tickDigits(high - low);
    return ticks(low, high).flatMap((value) => [
      this.horizontal("grid", y(value)),
      tick(PAD.left - 6, y(value) + 4, "end", fixed(value, digits)),
    ]);
  }

  /**
   * Return the set-points, and the limits that lie within the range.
   * @param {number} low
   * @param {number} high
   * @param {Scale} y
   */
  rules(low, high, y) {
    return this.series.flatMap(({ goal }) => {
      const limits = [goal.low ?? NaN, goal.high ?? NaN].filter((limit) => limit > low && limit < high);
      const setpoint = goal.setpoint ?? null;
      return [
        ...(setpoint === null ? [] : [this.horizontal("goal", y(setpoint))]),
        ...limits.map((limit) => this.horizontal("limit", y(limit))),
      ];
    });
  }

  /**
   * @param {string} className
   * @param {number} at - px
   */
  horizontal(className, at) {
    return s("line", { class: className, x1: PAD.left, x2: this.width - PAD.right, y1: at, y2: at });
  }

  /** @param {number} at - px */
  cross(at) {
    return s("line", { class: "cross", x1: at, x2: at, y1: PAD.top, y2: this.height - PAD.bottom });
  }

  /**
   * Show the latest values, or those at the pointer.
   * @param {Row[][]} shown
   * @param {number | null} at - UTC (s)
   */
  showValues(shown, at) {
    setText(this.when, at === null ? "" : moment(new Date(at * 1000).toISOString()));
    this.series.forEach((one, i) => {
      const value = at === null ? one.now : nearest(shown[i], at);
      setText(this.values[i], value === null ? "–" : quantity(value, this.unit));
      const bad = at === null && one.quality !== undefined && one.quality !== "good";
      this.values[i].classList.toggle("bad", bad);
    });
  }
}

/**
 * @param {number} x
 * @param {number} y
 * @param {string} anchor
 * @param {string} text
 */
const tick = (x, y, anchor, text) => s("text", { class: "tick", x, y, "text-anchor": anchor, text });

/**
 * Return one series as a line, over a band from minimum to maximum.
 * @param {Row[]} rows
 * @param {string} color
 * @param {Scale} x
 * @param {Scale} y
 * @param {number} gap - the time without data that interrupts the line (s)
 */
function lines(rows, color, x, y, gap) {
  if (!rows.length) return [];
  const line = s("path", { class: `trend ${color}`, d: linePath(rows, x, y, gap) });
  if (!rows.some((row) => row[3] > row[2])) return [line];
  return [s("path", { class: `band ${color}`, d: bandPath(rows, x, y) }), line];
}

/**
 * @param {Row[]} rows
 * @param {Scale} x
 * @param {Scale} y
 * @param {number} gap
 */
function linePath(rows, x, y, gap) {
  let text = "";
  let before = -Infinity;
  for (const [at, mean] of rows) {
    const move = at - before > Math.max(gap, MIN_GAP_S);
    text += `${move ? "M" : "L"}${x(at).toFixed(1)} ${y(mean).toFixed(1)}`;
    before = at;
  }
  return text;
}

/**
 * @param {Row[]} rows
 * @param {Scale} x
 * @param {Scale} y
 */
function bandPath(rows, x, y) {
  const above = rows.map((row) => `${x(row[0]).toFixed(1)} ${y(row[3]).toFixed(1)}`);
  const below = rows.map((row) => `${x(row[0]).toFixed(1)} ${y(row[2]).toFixed(1)}`).reverse();
  return `M${above.join("L")}L${below.join("L")}Z`;
}

/**
 * Return the mean of the row that is nearest in time; null without rows.
 * @param {Row[]} rows
 * @param {number} at
 */
function nearest(rows, at) {
  /** @type {number | null} */
  let found = null;
  let distance = Infinity;
  for (const row of rows) {
    if (Math.abs(row[0] - at) < distance) [found, distance] = [row[1], Math.abs(row[0] - at)];
  }
  return found;
}
