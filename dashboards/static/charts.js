// Trends: small multiples of the readings that matter, with the range of each stretch as a band and the set-point as a line.
import { call, element } from "./api.js";

const SVG = "http://www.w3.org/2000/svg";
const svg = (tag, attributes) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};
const NAMES = { temperature: "temperature", oxygen: "dissolved oxygen", ph: "pH", pressure: "pressure", mass: "mass", firing_rate: "firing rate" };
const DIGITS = { temperature: 2, oxygen: 1, ph: 3, pressure: 1, mass: 2, firing_rate: 2 };
const LEAST_SPAN = { temperature: 0.6, oxygen: 6, ph: 0.15, pressure: 3, mass: 4, firing_rate: 1 };

export class Charts {
  constructor(place, picker, rig) {
    this.place = place;
    this.picker = picker;
    this.seconds = 86400;
    this.charts = new Map();
    const goals = { temperature: rig.setpoints.temperature_c, oxygen: rig.setpoints.oxygen_pct };
    for (const probe of rig.schematic.probes) {
      const kind = probe.point.split(".")[1];
      if (kind === "flow") continue;
      const goal = kind === "ph" && probe.at === this.loop(rig) ? rig.setpoints.ph : goals[kind];
      this.add(probe.point, kind, probe.at, goal);
    }
    if (rig.electrodes) this.add("nerves.firing_rate", "firing_rate", "array");
    picker.onclick = (event) => {
      if (!event.target.dataset.s) return;
      this.seconds = Number(event.target.dataset.s);
      for (const button of picker.children) button.classList.toggle("on", button === event.target);
      this.refresh();
    };
  }

  loop(rig) {
    return (rig.schematic.vessels.find((vessel) => vessel.kind === "loop") || {}).name;
  }

  add(point, kind, at, goal) {
    const now = element("span", { class: "now", text: "–" });
    const picture = svg("svg", { viewBox: "0 0 300 84", preserveAspectRatio: "none" });
    const axis = element("div", { class: "axis" }, element("span"), element("span"));
    this.place.append(element("div", { class: "chart" }, element("div", { class: "top" }, element("span", { text: `${NAMES[kind] || kind}, ${at}` }), now), picture, axis));
    this.charts.set(point, { now, picture, axis, kind, goal });
  }

  begin() {
    this.refresh();
    setInterval(() => document.hidden || this.refresh(), 4000);
  }

  live(state) {
    for (const [point, chart] of this.charts) {
      const reading = state.readings[point];
      if (!reading || reading.value === null) continue;
      chart.now.textContent = reading.value.toFixed(DIGITS[chart.kind] ?? 2);
      chart.now.append(" ", element("small", { text: reading.unit === "degC" ? "°C" : reading.unit }));
    }
  }

  async refresh() {
    for (const [point, chart] of this.charts) {
      const reply = await fetch(`/api/history?point=${point}&seconds=${this.seconds}&max_points=300`).catch(() => null);
      if (reply && reply.ok) this.draw(chart, (await reply.json()).rows);
    }
  }

  draw(chart, rows) {
    if (rows.length < 2) return;
    const end = rows.at(-1)[0];
    const begin = Math.max(rows[0][0], end - this.seconds);
    let low = Math.min(...rows.map((row) => row[2])), high = Math.max(...rows.map((row) => row[3]));
    if (chart.goal !== undefined) { low = Math.min(low, chart.goal); high = Math.max(high, chart.goal); }
    const least = LEAST_SPAN[chart.kind] ?? 1;
    if (high - low < least) { const middle = (high + low) / 2; low = middle - least / 2; high = middle + least / 2; }
    const pad = (high - low) * 0.08;
    low -= pad; high += pad;
    const x = (at) => ((at - begin) / Math.max(end - begin, 1)) * 300;
    const y = (value) => 82 - ((value - low) / (high - low)) * 80;
    const path = (column) => rows.map((row) => `${x(row[0]).toFixed(1)},${y(row[column]).toFixed(1)}`);
    const parts = [svg("polygon", { class: "band", points: [...path(3), ...path(2).reverse()].join(" ") })];
    if (chart.goal !== undefined) parts.push(svg("line", { class: "goal", x1: 0, x2: 300, y1: y(chart.goal), y2: y(chart.goal) }));
    parts.push(svg("polyline", { class: "line", points: path(1).join(" ") }));
    chart.picture.replaceChildren(...parts);
    const digits = DIGITS[chart.kind] ?? 2;
    chart.axis.firstChild.textContent = `${low.toFixed(Math.min(digits, 2))} – ${high.toFixed(Math.min(digits, 2))}`;
    chart.axis.lastChild.textContent = `last ${span(end - begin)}`;
  }
}

function span(seconds) {
  if (seconds >= 172800) return `${(seconds / 86400).toFixed(1)} d`;
  if (seconds >= 5400) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.max(1, Math.round(seconds / 60))} min`;
}
