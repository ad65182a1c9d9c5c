// The spike raster: the last five seconds, one row for each electrode, with its mean rate at the right.

import { animate, byId, setText } from "./dom.js";
import { fixed } from "./format.js";

/** @import { FiringModel } from "../../types/api.d.ts" */
/** @import { Spike } from "../../types/live.d.ts" */

const SECONDS = 5;
/** Spikes are kept a little longer than they are shown, for a feed that comes late (s). */
const MARGIN_S = 1.5;
const RATES_PX = 46;
const MIN_FULL_RATE_HZ = 8;
/** A clock difference above this is followed at once, a smaller one with CLOCK_GAIN for each message (s). */
const CLOCK_JUMP_S = 2;
const CLOCK_GAIN = 0.05;

export class Raster {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {number} electrodes
   */
  constructor(canvas, electrodes) {
    this.canvas = canvas;
    this.paint = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.electrodes = electrodes;
    /** @type {Spike[]} */
    this.spikes = [];
    /** @type {number[]} */
    this.ratesHz = [];
    /** The clock of the array minus that of the page (s). @type {number | null} */
    this.lead = null;
    this.width = 0;
    this.height = 0;
    byId("nerves").hidden = false;
    new ResizeObserver(() => this.fit()).observe(canvas);
    this.fit();
    animate(() => this.draw());
  }

  fit() {
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.paint.setTransform(scale, 0, 0, scale, 0, 0);
  }

  /**
   * Take the spikes of a message.
   * @param {Spike[] | undefined} spikes
   * @param {boolean} whole - whether these are all spikes; else they are the new ones
   * @param {FiringModel | null} nerves
   */
  update(spikes, whole, nerves) {
    if (spikes) this.spikes = whole ? spikes : this.spikes.concat(spikes);
    const newest = this.spikes.at(-1);
    if (newest) {
      this.lead = follow(this.lead, newest[0] - performance.now() / 1000);
      // Spikes after the newest one come from before a restart of the engine, which sets its clock to zero.
      this.spikes = this.spikes.filter(([at]) => at > newest[0] - SECONDS - MARGIN_S && at <= newest[0]);
    }
    this.ratesHz = nerves ? nerves.rates_hz : [];
    const muted = nerves ? nerves.electrodes - nerves.observed_electrodes : 0;
    const active =
      nerves &&
      `${nerves.active_electrodes} of ${nerves.electrodes} electrodes active${muted ? `, ${muted} muted` : ""}`;
    setText(byId("nerves-rate"), nerves ? fixed(nerves.firing_rate_hz, 1) : "–");
    setText(byId("nerves-active"), active ?? "no data from the electrode engine");
  }

  draw() {
    const { paint } = this;
    const style = getComputedStyle(this.canvas);
    const [ink, faint, line] = ["--spike", "--faint", "--line"].map((name) => style.getPropertyValue(name).trim());
    const plotWidth = this.width - RATES_PX;
    paint.clearRect(0, 0, this.width, this.height);
    paint.fillStyle = line;
    for (let second = 1; second < SECONDS; second++) {
      paint.fillRect((plotWidth * second) / SECONDS, 0, 1, this.height);
    }
    paint.fillStyle = faint;
    this.drawRates(plotWidth);
    paint.fillStyle = ink;
    if (this.lead !== null) this.drawSpikes(plotWidth, this.lead + performance.now() / 1000);
    paint.globalAlpha = 1;
  }

  /** @param {number} plotWidth */
  drawRates(plotWidth) {
    const row = this.height / this.electrodes;
    const full = Math.max(MIN_FULL_RATE_HZ, ...this.ratesHz);
    this.ratesHz.forEach((rate, electrode) => {
      const length = Math.max(1, ((RATES_PX - 8) * rate) / full);
      this.paint.fillRect(plotWidth + 8, electrode * row + row * 0.2, length, Math.max(1, row * 0.6));
    });
  }

  /**
   * @param {number} plotWidth
   * @param {number} now - on the clock of the array (s)
   */
  drawSpikes(plotWidth, now) {
    const row = this.height / this.electrodes;
    for (const [at, electrode] of this.spikes) {
      const age = (now - at) / SECONDS;
      if (age < 0 || age > 1) continue;
      this.paint.globalAlpha = 0.35 + 0.65 * (1 - age);
      this.paint.fillRect(plotWidth * (1 - age) - 1, electrode * row + row * 0.1, 2, Math.max(1.5, row * 0.8));
    }
  }
}

/**
 * Return the estimate of a clock difference after a new observation.
 * @param {number | null} known
 * @param {number} observed
 */
function follow(known, observed) {
  if (known === null || Math.abs(observed - known) > CLOCK_JUMP_S) return observed;
  return known + (observed - known) * CLOCK_GAIN;
}
