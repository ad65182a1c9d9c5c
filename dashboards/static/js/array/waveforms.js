// Waveforms of the selected electrode: the raw samples around its latest spikes, and their mean.

import { setText } from "../dom.js";
import { fixed } from "../format.js";

/** @import { WaveformsModel } from "../../../types/api.d.ts" */

const MIN_UV = 40;
const EDGE = 1.15;

export class WaveformPlot {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {HTMLElement} caption
   */
  constructor(canvas, caption) {
    this.canvas = canvas;
    this.caption = caption;
  }

  /** @param {WaveformsModel | null} found */
  show(found) {
    const traces = found?.traces_uv ?? [];
    const paint = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    const scale = Math.min(devicePixelRatio || 1, 2);
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    paint.setTransform(scale, 0, 0, scale, 0, 0);
    if (!found || !traces.length) {
      setText(this.caption, found ? "No spike in the last seconds" : "No waveforms: the engine does not answer");
      this.canvas.setAttribute("aria-label", this.caption.textContent ?? "");
      return;
    }
    const level = Math.max(MIN_UV, ...traces.flat().map(Math.abs)) * EDGE;
    const samples = traces[0].length;
    const mean = traces[0].map((_, at) => traces.reduce((sum, trace) => sum + trace[at], 0) / traces.length);
    const style = getComputedStyle(this.canvas);
    /** @type {(trace: number[], colour: string, line: number, alpha: number) => void} */
    const draw = (trace, colour, line, alpha) => {
      paint.globalAlpha = alpha;
      paint.strokeStyle = style.getPropertyValue(colour).trim();
      paint.lineWidth = line;
      paint.beginPath();
      trace.forEach((uv, at) => paint.lineTo((at * width) / (samples - 1), height / 2 - ((uv / level) * height) / 2));
      paint.stroke();
    };
    draw([0, ...new Array(samples - 1).fill(0)], "--line", 1, 1);
    traces.forEach((trace) => draw(trace, "--spike", 1, 0.35));
    draw(mean, "--ink", 2, 1);
    const depth = Math.min(...mean);
    const text = `${traces.length} spikes, mean trough ${fixed(depth, 0)} µV, height ±${fixed(level, 0)} µV, 3 ms`;
    setText(this.caption, text);
    this.canvas.setAttribute("aria-label", `Waveforms: ${text}`);
  }
}
