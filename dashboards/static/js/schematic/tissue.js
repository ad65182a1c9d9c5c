// The organoids in their chamber, on the electrodes that hear them; an electrode lights up when it hears a spike.

import { calm, s } from "../dom.js";

const MOST_DRAWN = 24;
const GLOW_S = 0.35;

export function tissue(place, box, rig) {
  const drawn = Math.min(rig.organoid.count, MOST_DRAWN);
  const rows = drawn > 10 ? 2 : 1;
  const across = Math.ceil(drawn / rows);
  const radius = Math.min(17, (box.w - 30) / across / 2.1);
  const organoids = Array.from({ length: drawn }, (_, i) => {
    const row = Math.floor(i / across), column = i % across;
    const wobble = (seed) => Math.sin(seed * 12.9898) * 4;
    const x = box.x + 20 + radius + column * ((box.w - 40 - 2 * radius) / Math.max(across - 1, 1)) + wobble(i) * 0.5;
    const y = box.y + box.h - 38 - row * (radius * 2.3) + wobble(i + 31) * 0.6;
    const node = s("g", { class: "organoid", transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` },
      s("path", { class: "organoid-body", d: blob(radius, i) }),
      [0, 1, 2].map((k) => s("circle", { class: "rosette", r: radius * 0.15, cx: radius * 0.42 * Math.cos(i * 1.7 + k * 2.1), cy: radius * 0.42 * Math.sin(i * 1.7 + k * 2.1) })));
    return node;
  });
  const electrodes = Math.min(rig.electrodes, 64);
  const dots = Array.from({ length: electrodes }, (_, i) => {
    const half = Math.ceil(electrodes / 2), row = Math.floor(i / half);
    return s("circle", { class: "electrode", r: 2.6, cx: box.x + 16 + ((i % half) * (box.w - 32)) / Math.max(half - 1, 1), cy: box.y + box.h - 8 - row * 8 });
  });
  const shade = s("radialGradient", { id: "organoid-shade", cx: "38%", cy: "34%", r: "70%" },
    s("stop", { offset: "0%", class: "organoid-light" }), s("stop", { offset: "100%", class: "organoid-deep" }));
  place.append(s("defs", {}, shade), s("g", { class: "tissue" }, organoids), s("g", { class: "electrodes" }, dots));
  const lit = new Array(electrodes).fill(-10);
  return {
    update(state) {
      const now = performance.now() / 1000;
      const spikes = state.spikes ?? [];
      if (spikes === this.seen || !spikes.length) return;
      this.seen = spikes;
      const newest = spikes.at(-1)[0];
      for (const [at, electrode] of spikes) if (newest - at < 0.5 && electrode < electrodes) lit[electrode] = now + (at - newest) * 0.5;
    },
    move(milliseconds) {
      if (calm()) return;
      const now = milliseconds / 1000;
      dots.forEach((dot, i) => {
        const glow = Math.max(0, 1 - (now - lit[i]) / GLOW_S);
        if (glow > 0 || dot.glowing) {
          dot.style.setProperty("--glow", Math.min(glow, 1).toFixed(2));
          dot.glowing = glow > 0;
        }
      });
    },
  };
}

/** A round that is not quite one, different for each. */
function blob(radius, seed) {
  const points = Array.from({ length: 8 }, (_, i) => {
    const angle = (i / 8) * 2 * Math.PI, size = radius * (1 + 0.09 * Math.sin(seed * 7.1 + i * 2.3));
    return [Math.cos(angle) * size, Math.sin(angle) * size];
  });
  const middle = (a, b) => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  const pair = (point) => point.map((value) => value.toFixed(2)).join(" ");
  let text = `M${pair(middle(points[7], points[0]))}`;
  points.forEach((point, i) => { text += ` Q${pair(point)} ${pair(middle(point, points[(i + 1) % 8]))}`; });
  return `${text} z`;
}
