// The spike raster: one row an electrode, the last five seconds.
const SPAN_S = 5;

export class Raster {
  constructor(canvas, electrodes) {
    this.canvas = canvas;
    this.electrodes = electrodes || 32;
    this.spikes = [];
  }

  update(spikes) {
    this.spikes = spikes;
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.canvas.width !== width * ratio) {
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
    }
    const paint = this.canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    paint.fillStyle = style.getPropertyValue("--bg");
    paint.fillRect(0, 0, width, height);
    const row = height / this.electrodes;
    paint.fillStyle = style.getPropertyValue("--faint");
    for (let line = 8; line < this.electrodes; line += 8) paint.fillRect(0, line * row, width, 1);
    if (!spikes.length) {
      paint.fillStyle = style.getPropertyValue("--quiet");
      paint.font = "13px system-ui";
      paint.fillText("no spikes in the last five seconds", 14, height / 2);
      return;
    }
    const last = spikes.reduce((most, spike) => Math.max(most, spike[0]), 0);
    paint.fillStyle = style.getPropertyValue("--accent");
    for (const [at, electrode] of spikes) {
      const x = width - ((last - at) / SPAN_S) * width;
      paint.fillRect(x - 1, electrode * row + row * 0.12, 1.8, row * 0.76);
    }
  }
}
