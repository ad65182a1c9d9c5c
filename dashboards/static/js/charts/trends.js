// The trends: small charts over one period. Pointing at one of them shows the same moment in all.

import { follow, remember } from "../address.js";
import { call } from "../api.js";
import { byId } from "../dom.js";
import { statusOf } from "../feed.js";
import { Chart, PAD } from "./chart.js";
import { chartsOf } from "./series.js";

/** @import { HistoryView } from "../../../types/api.d.ts" */
/** @import { LiveState, Rig } from "../../../types/live.d.ts" */
/** @import { Row } from "./axis.js" */
/** @import { Series } from "./chart.js" */

/** The period unless the address or a person chooses another (s). */
const PERIOD_S = 3600;
const REFRESH_MS = 6000;
const DRAW_MS = 500;
const MAX_POINTS = 300;
const MAX_PUMP_ROWS = 4000;
const DROPPED_PUMP_ROWS = 1000;
/** Live values are added at most this many times in a period. */
const LIVE_ROWS = 600;

export class Trends {
  /** @param {Rig} rig */
  constructor(rig) {
    /** The length of the period (s). */
    this.seconds = PERIOD_S;
    /** The end of the period: UTC (s); 0 before the first state. */
    this.end = 0;
    /** @type {number | null} */
    this.pointed = null;
    this.rig = rig;
    const place = byId("charts");
    /** @type {Chart[]} */
    this.charts = [];
    this.choose(null);
    this.listen(place);
    setInterval(() => document.hidden || this.refresh(), REFRESH_MS);
    setInterval(() => document.hidden || this.draw(), DRAW_MS);
  }

  /**
   * Draw the charts again, with the series of a chamber where there are too many.
   * @param {string | null} chamber
   */
  choose(chamber) {
    const place = byId("charts");
    place.replaceChildren();
    this.charts = chartsOf(this.rig, chamber).map((each) => new Chart(each, place));
    byId("trends").hidden = !this.charts.length;
  }

  /** @param {HTMLElement} place */
  listen(place) {
    const buttons = [...byId("window").querySelectorAll("button")];
    for (const button of buttons) {
      button.onclick = () => {
        remember("period", button.dataset.seconds ?? null);
        this.setPeriod(buttons, button);
      };
    }
    follow("period", (seconds) => {
      const usual = buttons.find((each) => Number(each.dataset.seconds) === PERIOD_S);
      const chosen = buttons.find((each) => each.dataset.seconds === seconds) ?? usual;
      if (chosen) this.setPeriod(buttons, chosen);
    });
    place.addEventListener("pointermove", (event) => this.point(event));
    place.addEventListener("pointerleave", () => {
      this.pointed = null;
      this.draw();
    });
  }

  /**
   * Show the period of a button.
   * @param {HTMLButtonElement[]} buttons
   * @param {HTMLButtonElement} chosen
   */
  setPeriod(buttons, chosen) {
    this.seconds = Number(chosen.dataset.seconds);
    for (const each of buttons) each.setAttribute("aria-pressed", String(each === chosen));
    this.refresh();
  }

  /** @param {PointerEvent} event */
  point(event) {
    const svg = event.target instanceof Element ? event.target.closest("svg.plot") : null;
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const share = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
    this.pointed = share < 0 || share > 1 ? null : share;
    this.draw();
  }

  /** Read the history of all series that have a value. */
  async refresh() {
    const { seconds } = this;
    for (const one of this.charts.flatMap((chart) => chart.series)) {
      if (!one.known) continue;
      const query = new URLSearchParams({
        point: one.point ?? `${one.pump}.flow`,
        seconds: String(seconds),
        max_points: String(MAX_POINTS),
      });
      /** @type {HistoryView | null} */
      const found = await call("GET", `/api/history?${query}`, undefined, { quiet: true }).catch(() => null);
      if (!found || seconds !== this.seconds) continue;
      one.rows = one.pump ? found.rows.map(inMlMin) : found.rows;
    }
    this.draw();
  }

  /**
   * Add the newest values, between two readings of the history.
   * @param {LiveState} state
   */
  update(state) {
    if (!state.utc) return;
    this.end = Date.parse(state.utc) / 1000;
    let added = false;
    for (const one of this.charts.flatMap((chart) => chart.series)) {
      const wasKnown = one.known;
      if (one.pump) this.updateFlow(one, one.pump, state);
      else if (one.point) this.updateReading(one, one.point, state);
      added ||= one.known && !wasKnown;
    }
    if (added) this.refresh();
  }

  /**
   * @param {Series} one
   * @param {string} pump
   * @param {LiveState} state
   */
  updateFlow(one, pump, state) {
    const status = statusOf(state.actuators[pump]);
    one.known = true;
    this.append(one, this.end, status ? (status.flow_ul_min ?? 0) / 1000 : null);
    if (one.rows.length > MAX_PUMP_ROWS) one.rows.splice(0, DROPPED_PUMP_ROWS);
  }

  /**
   * @param {Series} one
   * @param {string} point
   * @param {LiveState} state
   */
  updateReading(one, point, state) {
    const reading = state.readings[point];
    if (!reading || reading.value === null || reading.at_s === null) return;
    one.known = true;
    one.quality = reading.quality;
    this.append(one, this.end - (state.at_s - reading.at_s), reading.value);
  }

  /**
   * @param {Series} one
   * @param {number} at - UTC (s)
   * @param {number | null} value
   */
  append(one, at, value) {
    one.now = value;
    const last = one.rows.at(-1);
    const due = !last || at > last[0] + this.seconds / LIVE_ROWS;
    if (value !== null && due) one.rows.push([at, value, value, value]);
  }

  draw() {
    if (!this.end) return;
    for (const chart of this.charts) chart.draw(this.end - this.seconds, this.end, this.pointed);
  }
}

/**
 * Convert a row of a flow from µL/min to mL/min.
 * @param {Row} row
 * @returns {Row}
 */
const inMlMin = ([at, mean, low, high]) => [at, mean / 1000, low / 1000, high / 1000];
