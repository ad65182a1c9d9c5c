// Spikes of the last five seconds, one row an electrode, sliding in real time; beside each row its mean rate.

import { byId, calm, say } from "./dom.js";
import { fixed } from "./words.js";

const SECONDS = 5;
const RATES_PX = 46;

export class Raster {
  constructor(canvas, electrodes) {
    this.canvas = canvas;
    this.electrodes = Math.max(electrodes, 1);
    this.spikes = [];
    this.rates = [];
    this.lead = null;
    new ResizeObserver(() => this.fit()).observe(canvas);
    this.fit();
    const draw = () => { if (!document.hidden) this.draw(); (calm() ? () => setTimeout(draw, 1000) : () => requestAnimationFrame(draw))(); };
    draw();
  }

  fit() {
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
  }

  /** `spikes`: [seconds of the array's clock, electrode]; all of them when `whole`, else the new ones. */
  take(spikes, whole, nerves) {
    if (spikes) this.spikes = whole ? spikes : this.spikes.concat(spikes);
    if (this.spikes.length) {
      const newest = this.spikes.at(-1)[0];
      const lead = newest - performance.now() / 1000;
      // The array's clock against the browser's: a jump follows at once, else slide there gently.
      this.lead = this.lead === null || Math.abs(lead - this.lead) > 2 ? lead : this.lead + (lead - this.lead) * 0.05;
      // What lies beyond the newest is of an engine that was started again since, with its clock at zero.
      this.spikes = this.spikes.filter(([at]) => at > newest - SECONDS - 1.5 && at <= newest);
    }
    this.rates = nerves ? nerves.rates_hz : [];
    say(byId("nerves-rate"), nerves ? fixed(nerves.firing_rate_hz, 1) : "–");
    say(byId("nerves-active"), nerves ? `${nerves.active_electrodes} of ${nerves.electrodes} electrodes active` : "no word from the electrode engine");
  }

  draw() {
    const paint = this.canvas.getContext("2d");
    const style = getComputedStyle(this.canvas);
    const [ink, faint, line] = ["--spike", "--faint", "--line"].map((name) => style.getPropertyValue(name).trim());
    const wide = this.width - RATES_PX, row = this.height / this.electrodes;
    paint.clearRect(0, 0, this.width, this.height);
    paint.fillStyle = line;
    for (let second = 1; second < SECONDS; second++) paint.fillRect((wide * second) / SECONDS, 0, 1, this.height);
    const greatest = Math.max(8, ...this.rates);
    paint.fillStyle = faint;
    this.rates.forEach((rate, electrode) => paint.fillRect(wide + 8, electrode * row + row * 0.2, Math.max(1, ((RATES_PX - 8) * rate) / greatest), Math.max(1, row * 0.6)));
    if (this.lead === null) return;
    const now = this.lead + performance.now() / 1000;
    paint.fillStyle = ink;
    for (const [at, electrode] of this.spikes) {
      const age = now - at;
      if (age < 0 || age > SECONDS) continue;
      paint.globalAlpha = 0.35 + 0.65 * (1 - age / SECONDS);
      paint.fillRect(wide * (1 - age / SECONDS) - 1, electrode * row + row * 0.1, 2, Math.max(1.5, row * 0.8));
    }
    paint.globalAlpha = 1;
  }
}
