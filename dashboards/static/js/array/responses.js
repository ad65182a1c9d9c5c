// Spikes of the selected electrode around the latest pulses (peri-stimulus time histogram): picture and table.

import { h, redraw, setText } from "../dom.js";
import { fixed } from "../format.js";

/** @import { ResponsesModel } from "../../../types/api.d.ts" */

const MIN_HZ = 5;
const HATCH_PX = 5;

export class ResponsePlot {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {HTMLElement} caption
   * @param {HTMLElement} rows
   */
  constructor(canvas, caption, rows) {
    this.canvas = canvas;
    this.caption = caption;
    this.rows = rows;
  }

  /** @param {ResponsesModel | null} found */
  show(found) {
    setText(this.caption, found ? said(found) : "No responses: the engine does not answer");
    this.canvas.setAttribute("aria-label", `Responses to pulses: ${this.caption.textContent}`);
    const shown = found?.trials ? found : null;
    redraw(this.rows, shown && [shown.electrode, shown.counts, shown.observed_s], () => rows(shown));
    const paint = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    const scale = Math.min(devicePixelRatio || 1, 2);
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    paint.setTransform(scale, 0, 0, scale, 0, 0);
    if (shown) draw(paint, getComputedStyle(this.canvas), shown, width, height);
  }
}

/**
 * Return what the histogram shows, in words.
 * @param {ResponsesModel} found
 */
function said(found) {
  const minutes = `last ${fixed(found.seconds / 60, found.seconds < 600 ? 1 : 0)} min`;
  if (!found.trials) return `No pulse in the ${minutes}`;
  const after = found.rate_hz.map((rate, bin) => (found.edges_ms[bin] >= 0 && rate !== null ? rate : -1));
  const best = after.indexOf(Math.max(...after));
  const hidden = found.rate_hz.filter((rate, bin) => rate === null && found.edges_ms[bin] >= 0).length;
  const width = found.edges_ms[1] - found.edges_ms[0];
  return [
    `${found.trials} pulses in the ${minutes}`,
    ...(found.overlapping ? [`${found.overlapping} with another one near`] : []),
    after[best] > 0
      ? `highest ${fixed(after[best], 0)} Hz at ${fixed(found.edges_ms[best], 1)} ms`
      : "no spike after them",
    ...(found.baseline_hz === null
      ? []
      : [
          `before ${fixed(found.baseline_hz, 1)} Hz` +
            ` (95 %: ${fixed(found.baseline_low_hz ?? 0, 1)} to ${fixed(found.baseline_high_hz ?? 0, 1)})`,
        ]),
    `not observed: ${fixed(hidden * width, 1)} ms`,
  ].join(", ");
}

/**
 * Return the rows of the table.
 * @param {ResponsesModel | null} found
 */
const rows = (found) => found?.counts.map((_, bin) => row(found, bin)) ?? [];

/**
 * Return a row of the table.
 * @param {ResponsesModel} found
 * @param {number} bin
 */
function row(found, bin) {
  const rate = found.rate_hz[bin];
  const whole = (found.trials * (found.edges_ms[bin + 1] - found.edges_ms[bin])) / 1000;
  return h(
    "tr",
    null,
    h("th", { scope: "row", text: `${fixed(found.edges_ms[bin], 1)} to ${fixed(found.edges_ms[bin + 1], 1)}` }),
    h("td", { text: rate === null ? "not observed" : fixed(rate, 1) }),
    h("td", { text: rate === null ? "–" : String(found.counts[bin]) }),
    h("td", { text: `${fixed((100 * found.observed_s[bin]) / whole, 0)} %` }),
  );
}

/**
 * Draw bars, the interval of the rate before, the moment of the pulse, and hatching where nothing was observed.
 * @param {CanvasRenderingContext2D} paint
 * @param {CSSStyleDeclaration} style
 * @param {ResponsesModel} found
 * @param {number} width
 * @param {number} height
 */
function draw(paint, style, found, width, height) {
  const [first, last] = [found.edges_ms[0], /** @type {number} */ (found.edges_ms.at(-1))];
  const top = Math.max(MIN_HZ, found.baseline_high_hz ?? 0, ...found.rate_hz.map((rate) => rate ?? 0)) * 1.1;
  /** @type {(ms: number) => number} */
  const x = (ms) => ((ms - first) / (last - first)) * width;
  /** @type {(hz: number) => number} */
  const y = (hz) => height - (hz / top) * height;
  /** @type {(name: string) => string} */
  const colour = (name) => style.getPropertyValue(name).trim();
  if (found.baseline_low_hz !== null && found.baseline_high_hz !== null) {
    paint.fillStyle = colour("--line");
    paint.fillRect(0, y(found.baseline_high_hz), width, y(found.baseline_low_hz) - y(found.baseline_high_hz));
  }
  found.rate_hz.forEach((rate, bin) => {
    const [left, right] = [x(found.edges_ms[bin]), x(found.edges_ms[bin + 1])];
    if (rate === null) hatch(paint, colour("--dim"), left, right, height);
    paint.fillStyle = colour("--spike");
    if (rate) paint.fillRect(left, y(rate), Math.max(right - left - 1, 1), height - y(rate));
  });
  paint.strokeStyle = colour("--ink");
  paint.lineWidth = 1;
  paint.beginPath();
  paint.moveTo(x(0), 0);
  paint.lineTo(x(0), height);
  paint.moveTo(0, height - 0.5);
  paint.lineTo(width, height - 0.5);
  paint.stroke();
  paint.fillStyle = colour("--dim");
  paint.font = "11px sans-serif";
  paint.fillText(`${fixed(top, 0)} Hz`, 2, 11);
  paint.textAlign = "right";
  paint.fillText(`${fixed(last, 0)} ms`, width - 2, 11);
  paint.fillText("pulse", x(0) - 3, 11);
  paint.textAlign = "left";
}

/**
 * Hatch a stretch over the whole height.
 * @param {CanvasRenderingContext2D} paint
 * @param {string} colour
 * @param {number} left
 * @param {number} right
 * @param {number} height
 */
function hatch(paint, colour, left, right, height) {
  paint.save();
  paint.beginPath();
  paint.rect(left, 0, right - left, height);
  paint.clip();
  paint.strokeStyle = colour;
  paint.globalAlpha = 0.6;
  paint.lineWidth = 1;
  paint.beginPath();
  const begin = Math.floor((left - height) / HATCH_PX) * HATCH_PX;
  for (let at = begin; at < right; at += HATCH_PX) {
    paint.moveTo(at, height);
    paint.lineTo(at + height, 0);
  }
  paint.stroke();
  paint.restore();
}
