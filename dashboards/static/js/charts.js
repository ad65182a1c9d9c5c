// Trends: small multiples over one period. Mean as a line, least and greatest as a band, set-point and limits as rules.
// Pointing anywhere shows the same moment in all of them.

import { call } from "./api.js";
import { byId, h, s, say } from "./dom.js";
import { told } from "./feed.js";
import { clock, fixed, moment, quantity, stamp, unit } from "./words.js";

const REFRESH_MS = 6000;
const DRAW_MS = 500;
const POINTS = 300;
const PAD = { left: 40, right: 8, top: 8, bottom: 20 };
const LEAST_SPAN = { degC: 0.8, "%": 8, pH: 0.2, kPa: 4, g: 4, "mL/min": 1, Hz: 1.5, "flow mL/min": 1 };

/** What is worth a chart on this rig: one a quantity, with a series for each place where it is measured. */
export function chartsOf(rig) {
  const { probes, gas } = rig.schematic;
  const goal = (point) => rig.goals.find((each) => each.point === point) ?? {};
  const of = (quantityName, title) => {
    const found = probes.filter((probe) => probe.quantity === quantityName);
    return found.length ? [{ title, unit: found[0].unit, series: found.map((probe) => ({ point: probe.point, label: probe.at ?? "", goal: goal(probe.point) })) }] : [];
  };
  const charts = [
    ...of("temperature", "Temperature"), ...of("oxygen", "Dissolved oxygen"), ...of("pH", "pH"),
    ...(rig.electrodes ? [{ title: "Firing rate", unit: "Hz", series: [{ point: "nerves.firing_rate", label: "array", goal: {} }] }] : []),
    ...of("pressure", "Pressure"), ...of("mass", "Mass on the balance"),
  ];
  if (rig.heart.pump) charts.push({ title: "Heart flow", unit: "mL/min", series: [{ pump: rig.heart.pump, label: "heart", goal: { setpoint: rig.heart.flow_ul_min / 1000 } }] });
  if (gas) charts.push({ title: "Gas", unit: "mL/min", series: [["co2", "CO₂"], ["o2", "O₂"]].filter(([name]) => gas[name]).map(([name, label]) => ({ point: gas[name], label, goal: {} })) });
  return charts;
}

export class Charts {
  constructor(rig) {
    this.seconds = 3600;
    this.end = 0;
    this.pointed = null;
    const place = byId("charts");
    this.charts = chartsOf(rig).map((each) => new Chart(each, place));
    const buttons = [...byId("window").querySelectorAll("button")];
    for (const button of buttons) {
      button.onclick = () => {
        this.seconds = Number(button.dataset.seconds);
        for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
        this.refresh();
      };
    }
    place.addEventListener("pointermove", (event) => this.point(event));
    place.addEventListener("pointerleave", () => { this.pointed = null; this.draw(); });
    setInterval(() => document.hidden || this.refresh(), REFRESH_MS);
    setInterval(() => document.hidden || this.draw(), DRAW_MS);
  }

  point(event) {
    const svg = event.target.closest("svg.plot");
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const share = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
    this.pointed = share < 0 || share > 1 ? null : share;
    this.draw();
  }

  async refresh() {
    const seconds = this.seconds;
    for (const one of this.charts.flatMap((chart) => chart.series)) {
      if (!one.known) continue;
      const query = new URLSearchParams({ point: one.point ?? `${one.pump}.flow`, seconds, max_points: POINTS });
      const found = await call("GET", `/api/history?${query}`, undefined, { quiet: true }).catch(() => null);
      if (!found || seconds !== this.seconds) continue;
      one.rows = one.pump ? found.rows.map(([at, ...ulMin]) => [at, ...ulMin.map((each) => each / 1000)]) : found.rows;
    }
    this.draw();
  }

  /** Take the newest readings between two looks at the history. */
  live(state) {
    if (!state.utc) return;
    this.end = Date.parse(state.utc) / 1000;
    let fresh = false;
    for (const chart of this.charts) {
      for (const one of chart.series) {
        let value = null, at = this.end;
        if (one.pump) {
          const status = told(state.actuators[one.pump]);
          value = status ? status.flow_ul_min / 1000 : null;
          fresh ||= !one.known;
          one.known = true;
        } else {
          const reading = state.readings[one.point];
          if (!reading || reading.value === null || reading.at_s === null) continue;
          fresh ||= !one.known;
          value = reading.value;
          at = this.end - (state.at_s - reading.at_s);
          one.quality = reading.quality;
          one.known = true;
        }
        one.now = value;
        const last = one.rows.at(-1);
        if (value !== null && (!last || at > last[0] + this.seconds / 600)) one.rows.push([at, value, value, value]);
        if (one.pump && one.rows.length > 4000) one.rows.splice(0, 1000);
      }
    }
    if (fresh) this.refresh();
  }

  draw() {
    if (!this.end) return;
    for (const chart of this.charts) chart.draw(this.end - this.seconds, this.end, this.pointed);
  }
}

class Chart {
  constructor({ title, unit: name, series }, place) {
    this.unit = name;
    this.series = series.map((one, i) => ({ ...one, rows: [], now: null, color: `series-${i + 1}` }));
    this.values = this.series.map((one) => h("span", { class: `chart-value ${one.color}` }));
    const several = series.length > 1; // then the unit stands in the title: beside each number there is its place
    this.when = h("span", { class: "chart-when" });
    this.svg = s("svg", { class: "plot", role: "img", "aria-label": `${title} over time` });
    place.append(h("figure", { class: "chart" },
      h("figcaption", {}, h("span", { class: "chart-title", text: several && name !== "pH" ? `${title}, ${unit(name)}` : title }), this.when),
      h("div", { class: "chart-values" }, this.values.map((value, i) => h("span", { class: "chart-one" }, value,
        several ? h("small", {}, h("em", { class: this.series[i].color, text: this.series[i].label })) : h("small", { text: unit(name === "pH" ? "" : name) })))),
      this.svg));
    new ResizeObserver(() => this.fit()).observe(this.svg);
    this.fit();
  }

  fit() {
    this.width = Math.max(this.svg.clientWidth, 120);
    this.height = Math.max(this.svg.clientHeight, 60);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
  }

  draw(begin, end, pointed) {
    const x = (at) => PAD.left + ((at - begin) / (end - begin)) * (this.width - PAD.left - PAD.right);
    const shown = this.series.map((one) => one.rows.filter((row) => row[0] >= begin && row[0] <= end + 5));
    const [low, high] = this.range(shown);
    const y = (value) => PAD.top + (1 - (value - low) / (high - low)) * (this.height - PAD.top - PAD.bottom);
    const parts = [...this.rules(low, high, y), ...times(begin, end, x, this.height)];
    shown.forEach((rows, i) => {
      if (!rows.length) return;
      const color = this.series[i].color;
      if (rows.some((row) => row[3] > row[2])) parts.push(s("path", { class: `band ${color}`, d: band(rows, x, y) }));
      parts.push(s("path", { class: `trend ${color}`, d: path(rows, x, y, (end - begin) / 20) }));
    });
    const at = pointed === null ? null : begin + pointed * (end - begin);
    if (at !== null) parts.push(s("line", { class: "cross", x1: x(at), x2: x(at), y1: PAD.top, y2: this.height - PAD.bottom }));
    this.svg.replaceChildren(...parts);
    this.tell(shown, at);
  }

  tell(shown, at) {
    say(this.when, at === null ? "" : moment(new Date(at * 1000).toISOString()));
    this.series.forEach((one, i) => {
      const value = at === null ? one.now : nearest(shown[i], at);
      say(this.values[i], value === null ? "–" : quantity(value, this.unit));
      this.values[i].classList.toggle("bad", at === null && one.quality !== undefined && one.quality !== "good");
    });
  }

  range(shown) {
    const rows = shown.flat();
    const goals = this.series.map((one) => one.goal.setpoint).filter((value) => value !== null && value !== undefined);
    const least = LEAST_SPAN[this.unit] ?? 1;
    let low = Math.min(...rows.map((row) => row[2]), ...goals), high = Math.max(...rows.map((row) => row[3]), ...goals);
    if (!Number.isFinite(low)) [low, high] = [0, least];
    if (high - low < least) {
      const middle = (high + low) / 2;
      [low, high] = [middle - least / 2, middle + least / 2];
    }
    const pad = (high - low) * 0.08;
    return [low >= 0 && low - pad < 0 ? Math.min(low, 0) : low - pad, high + pad];
  }

  rules(low, high, y) {
    const digits = high - low < 2 ? (high - low < 0.5 ? 2 : 1) : high - low < 10 ? 1 : 0;
    const parts = ticks(low, high).flatMap((value) => [
      s("line", { class: "grid", x1: PAD.left, x2: this.width - PAD.right, y1: y(value), y2: y(value) }),
      s("text", { class: "tick", x: PAD.left - 6, y: y(value) + 4, "text-anchor": "end", text: fixed(value, digits) }),
    ]);
    for (const { goal } of this.series) {
      if (goal.setpoint !== null && goal.setpoint !== undefined) parts.push(rule("goal", goal.setpoint, y, this.width));
      for (const limit of [goal.low, goal.high]) {
        if (limit !== null && limit !== undefined && limit > low && limit < high) parts.push(rule("limit", limit, y, this.width));
      }
    }
    return parts;
  }
}

const rule = (kind, value, y, width) => s("line", { class: kind, x1: PAD.left, x2: width - PAD.right, y1: y(value), y2: y(value) });

function ticks(low, high) {
  const rough = (high - low) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
  const found = [];
  for (let value = Math.ceil(low / size) * size; value <= high; value += size) found.push(Math.abs(value) < size / 1000 ? 0 : value);
  return found;
}

const STEPS_S = [300, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800];

function times(begin, end, x, height) {
  const size = STEPS_S.find((each) => (x(end) - x(begin)) / ((end - begin) / each) >= 58) ?? 172800;
  const parts = [];
  for (let at = Math.ceil(begin / size) * size; at < end; at += size) {
    if (x(at) < PAD.left + 16 || x(at) > x(end) - 16) continue;
    const text = new Date(at * 1000).toISOString();
    parts.push(s("text", { class: "tick", x: x(at), y: height - 5, "text-anchor": "middle", text: size >= 86400 ? stamp(text).split(" ").slice(0, 2).join(" ") : clock(text).slice(0, 5) }));
  }
  return parts;
}

function path(rows, x, y, gap) {
  let text = "", before = null;
  for (const [at, mean] of rows) {
    text += `${before === null || at - before > Math.max(gap, 60) ? "M" : "L"}${x(at).toFixed(1)} ${y(mean).toFixed(1)}`;
    before = at;
  }
  return text;
}

function band(rows, x, y) {
  const above = rows.map((row) => `${x(row[0]).toFixed(1)} ${y(row[3]).toFixed(1)}`);
  const below = rows.map((row) => `${x(row[0]).toFixed(1)} ${y(row[2]).toFixed(1)}`).reverse();
  return `M${above.join("L")}L${below.join("L")}Z`;
}

function nearest(rows, at) {
  let found = null, distance = Infinity;
  for (const row of rows) {
    if (Math.abs(row[0] - at) < distance) [found, distance] = [row[1], Math.abs(row[0] - at)];
  }
  return found;
}
