// The schematic, alive: levels, colours, flows, valves, warmth, gas, tissue and every sensor at its place.

import { byId, calm, h, s, say } from "../dom.js";
import { told } from "../feed.js";
import { flow, quantity, spoken, step, unit, volume } from "../words.js";
import { layOut } from "./layout.js";
import { mediumColor, phenolRed } from "./medium.js";
import { chip, doubt, filter, pump, valve, vessel } from "./symbols.js";
import { tissue } from "./tissue.js";

const LABELS = { pH: "pH", oxygen: "O₂", temperature: "temp", pressure: "pressure", mass: "mass", flow: "flow" };
const ORGANS = { heart: "heart", kidney: "kidney", immune: "immune", gut: "gut", liver: "liver" };
const STALE_PERIODS = 4;
const LEAST_STALE_S = 12;
const PIXELS_PER_DASH = 22;

export class Schematic {
  /** `enter(vessel)` asks what was done to a vessel by hand; null for who may not tell. */
  constructor(rig, enter) {
    this.rig = rig;
    this.enter = enter;
    this.plan = layOut(rig.schematic);
    this.svg = byId("schematic");
    this.svg.setAttribute("viewBox", `0 0 ${Math.round(this.plan.width)} ${Math.round(this.plan.height)}`);
    this.vessels = {};
    this.lines = {};
    this.devices = {};
    this.chips = {};
    this.spans = Object.fromEntries(rig.schematic.vessels.map((each) => [each.name, each.capacity_ul]));
    this.svg.append(this.drawLines(), this.drawGas(), this.drawVessels(), this.drawDevices(), this.drawChips(), this.drawLegend(), this.drawNow());
    this.showMiddle();
    this.before = performance.now();
    if (!calm()) requestAnimationFrame((now) => this.move(now));
  }

  // --- drawing once -------------------------------------------------------------------------------------

  drawLines() {
    const layer = s("g", { class: "lines" });
    for (const [name, line] of Object.entries(this.plan.lines)) {
      const d = rounded(line.points);
      const liquid = s("path", { class: "pipe-liquid", d });
      const dashes = s("path", { class: "pipe-flow", d });
      const node = s("g", { class: "line", "data-line": name }, s("path", { class: "pipe", d }), liquid, dashes, s("title", { text: `${name}: ${line.from} to ${line.to}` }));
      layer.append(node, head(line.points));
      this.lines[name] = { node, line, dashes, flow: 0, offset: 0 };
    }
    return layer;
  }

  drawVessels() {
    const layer = s("g", { class: "vessels" });
    for (const [name, box] of Object.entries(this.plan.vessels)) {
      const drawn = vessel(box);
      this.vessels[name] = { ...drawn, box };
      if (this.rig.schematic.probes.some((probe) => probe.at === name && probe.quantity === "mass")) {
        layer.append(s("path", { class: "balance-pan", d: `M${box.x - 14} ${box.y + box.h + 4} h${box.w + 28} l-8 7 h${-box.w - 12} z` }));
      }
      if (box.organoid) {
        this.tissue = tissue(drawn.inside, box, this.rig);
        const unsure = doubt(box.x + box.w - 4, box.y + box.h + 13);
        this.heater = { node: s("g", { class: "device heater", "data-device": this.rig.schematic.heater }, s("rect", { class: "hot-plate", x: box.x + 10, y: box.y + box.h + 3, width: box.w - 20, height: 8, rx: 4 }),
          unsure.node, s("title", { text: "heater" })), why: unsure.why };
        layer.append(this.heater.node);
      }
      if (this.enter && !box.organoid) this.mayBeHandled(drawn.node, name);
      layer.append(drawn.node);
    }
    return layer;
  }

  mayBeHandled(node, name) {
    for (const [attribute, value] of Object.entries({ role: "button", tabindex: 0, "aria-label": `${name}: enter what was done to it by hand` })) node.setAttribute(attribute, value);
    node.classList.add("handled");
    node.addEventListener("click", () => this.enter(name));
    node.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.enter(name); } });
  }

  drawDevices() {
    const layer = s("g", { class: "devices" });
    for (const line of Object.values(this.plan.lines)) {
      for (const device of line.devices) {
        const angle = angleAt(line, device);
        const drawn = device.kind === "pump" ? pump({ ...device, angle }) : device.kind === "valve" ? valve(device) : filter(device, this.filterWords(device.name));
        drawn.node.setAttribute("data-device", device.name);
        layer.append(drawn.node);
        if (device.kind === "pump") {
          drawn.flow = line.vertical ? s("text", { class: "device-flow", x: device.x + 28, y: device.y + 16 }) : s("text", { class: "device-flow", x: device.x, y: device.y + 38, "text-anchor": "middle" });
          const place = line.vertical ? { x: device.x + 28, y: device.y - 3 } : { x: device.x, y: device.y - 28, "text-anchor": "middle" };
          layer.append(s("text", { class: "organ", ...place, text: ORGANS[line.organ] === "immune" ? "kidney" : ORGANS[line.organ] ?? line.name }), drawn.flow);
          drawn.direction(1);
          drawn.line = line.name;
        }
        if (device.kind === "filter") layer.append(s("text", { class: "organ", x: device.x, y: device.y + 38, "text-anchor": "middle", text: "immune" }));
        this.devices[device.name] = drawn;
      }
    }
    return layer;
  }

  filterWords(name) {
    const found = this.rig.schematic.filters?.[name];
    return found ? `${name} filter: ${found.pore_um} µm, ${found.area_cm2} cm², at most ${found.max_pressure_kpa} kPa` : name;
  }

  drawGas() {
    const layer = s("g", { class: "gas" });
    const { gas } = this.rig.schematic;
    if (!this.plan.gas) return layer;
    const { x, y, w, h: high, to } = this.plan.gas;
    const pipe = `M${to[0]} ${y + high} V${to[1] + 12}`;
    this.gasFlow = s("path", { class: "gas-flow", d: pipe });
    layer.append(s("path", { class: "gas-pipe", d: pipe }), this.gasFlow, s("rect", { class: "gas-box", x, y, width: w, height: high, rx: 12 }),
      s("text", { class: "organ", x: x + 14, y: y + 21, text: "lung" }), s("text", { class: "gas-unit", x: x + w - 14, y: y + 21, "text-anchor": "end", text: "mL/min" }));
    this.gases = [["air", "Air"], ["co2", "CO₂"], ["o2", "O₂"]].map(([name, label], i) => {
      const value = s("text", { class: "gas-value", x: x + w - 14, y: y + 50 + i * 27, "text-anchor": "end" });
      layer.append(s("text", { class: "gas-name", x: x + 14, y: y + 50 + i * 27, text: label }), value);
      return { point: gas[name], value };
    });
    return layer;
  }

  drawChips() {
    const layer = s("g", { class: "chips" });
    for (const place of this.plan.chips) {
      const drawn = chip(place, LABELS[place.quantity] ?? place.quantity, place.point);
      this.chips[place.point] = { ...drawn, probe: place };
      layer.append(drawn.node);
    }
    return layer;
  }

  /** On a narrow screen the picture is wider than its place: begin where the tissue's medium is. */
  showMiddle() {
    const loop = Object.values(this.plan.vessels).find((box) => box.kind === "loop");
    const place = this.svg.parentElement;
    if (loop) place.scrollLeft = ((loop.x + loop.w / 2) / this.plan.width) * place.scrollWidth - place.clientWidth / 2;
  }

  /** What the colour of medium means. */
  drawLegend() {
    const right = this.plan.width - 32, wide = 150;
    const stops = [6.6, 7, 7.4, 7.8].map((ph, i) => s("stop", { offset: `${(i * 100) / 3}%`, "stop-color": phenolRed(ph) }));
    return s("g", { class: "legend-place" }, s("defs", {}, s("linearGradient", { id: "phenol-red" }, stops)),
      s("text", { class: "legend", x: right, y: 38, "text-anchor": "end", text: "Tinted by pH, as phenol red" }),
      s("rect", { x: right - wide, y: 49, width: wide, height: 9, rx: 4.5, fill: "url(#phenol-red)" }),
      ...[6.6, 7, 7.4, 7.8].map((ph, i) => s("text", { class: "legend", x: right - wide + (i * wide) / 3, y: 76, "text-anchor": ["start", "middle", "middle", "end"][i], text: ph.toFixed(1) })));
  }

  /** What is being done, in words that are read across a room. */
  drawNow() {
    const x = this.plan.width - 32, y = this.plan.height - 40;
    this.now = { what: s("text", { class: "now-what", x, y, "text-anchor": "end" }), run: s("text", { class: "now-run", x, y: y - 32, "text-anchor": "end" }) };
    return s("g", { class: "now", "data-testid": "now" }, this.now.run, this.now.what);
  }

  setNow(state) {
    const { run } = state;
    const at = run?.progress.at(-1);
    say(this.now.run, run ? `${run.protocol} · ${run.state}` : "no protocol");
    say(this.now.what, run && !run.ended && at ? waiting(run, at, state.utc) ?? step(at.verb, at.args) : this.circulation(state));
  }

  circulation(state) {
    const heart = told(state.actuators[this.rig.heart.pump]);
    if (!heart) return "The heart does not answer";
    return heart.on ? "Circulating" : "The heart stands";
  }

  // --- keeping up ---------------------------------------------------------------------------------------

  update(state) {
    this.fillVessels(state);
    this.setDevices(state);
    this.setFlows(state);
    for (const [point, drawn] of Object.entries(this.chips)) this.setChip(drawn, point, state);
    for (const { point, value } of this.gases ?? []) {
      const reading = state.readings[point];
      say(value, reading ? quantity(reading.value, "mL/min") : "–");
      value.classList.toggle("bad", !!reading && reading.quality !== "good");
    }
    this.tissue?.update(state);
    this.setNow(state);
    this.tell(state);
  }

  fillVessels(state) {
    for (const [name, drawn] of Object.entries(this.vessels)) {
      const found = state.volumes[name];
      if (!found) continue;
      drawn.level(found.ul / drawn.box.capacity_ul);
      drawn.text(found.ul, found.sd_ul);
      drawn.color(mediumColor(drawn.box, this.rig, state));
    }
    for (const { node, line } of Object.values(this.lines)) {
      const from = this.vessels[line.from];
      if (from?.now && node.style.getPropertyValue("--liquid") !== from.now) node.style.setProperty("--liquid", from.now);
    }
  }

  setDevices(state) {
    const tripped = new Set(state.trips.flatMap((trip) => trip.actuators));
    const all = { ...this.devices };
    if (this.heater) all[this.rig.schematic.heater] = this.heater;
    for (const [name, drawn] of Object.entries(all)) {
      const seen = state.actuators[name];
      const status = told(seen);
      const on = Boolean(status?.on);
      drawn.node.classList.toggle("on", on);
      drawn.node.classList.toggle("tripped", tripped.has(name));
      drawn.node.classList.toggle("unknown", Boolean(seen) && !status);
      if (drawn.why) say(drawn.why, seen?.fault ?? "");
      if (!drawn.flow) continue;
      const rate = status?.flow_ul_min ?? 0;
      drawn.direction(rate < 0 ? -1 : 1);
      say(drawn.flow, on ? flow(Math.abs(rate)) : "");
    }
  }

  /** Pumped lines as their pumps say; what flows over by itself is what comes in and is not pumped out. */
  setFlows(state) {
    const net = {};
    for (const entry of Object.values(this.lines)) {
      const { line } = entry;
      if (!line.pump) continue;
      const status = told(state.actuators[line.pump]);
      const open = !line.valve || told(state.actuators[line.valve])?.on;
      entry.flow = status?.on && open ? status.flow_ul_min : 0;
      net[line.to] = (net[line.to] ?? 0) + entry.flow;
      net[line.from] = (net[line.from] ?? 0) - entry.flow;
    }
    for (const entry of Object.values(this.lines)) {
      if (entry.line.passive) entry.flow = Math.max(0, net[entry.line.from] ?? 0);
      entry.node.classList.toggle("flowing", Math.abs(entry.flow) > 1);
    }
  }

  setChip(drawn, point, state) {
    const reading = state.readings[point];
    const device = point.split(".")[0];
    const age = reading?.at_s === null || !reading ? null : state.at_s - reading.at_s;
    const stale = age !== null && age > Math.max(STALE_PERIODS * (this.rig.periods_s[device] ?? 5), LEAST_STALE_S);
    const status = !reading || reading.value === null ? "none" : stale && reading.quality === "good" ? "stale" : reading.quality;
    const settling = status === "good" && !reading.stable;
    drawn.node.dataset.quality = status;
    drawn.node.classList.toggle("settling", settling);
    say(drawn.value, reading ? quantity(reading.value, reading.unit) : "–");
    say(drawn.unit, reading && reading.unit !== "pH" ? unit(reading.unit) : "");
    say(drawn.state, settling ? "settling" : { missing: "missing", stale: "stale", suspect: "suspect", none: "none" }[status] ?? "");
    say(drawn.title, `${point} (${drawn.probe.model}) at ${drawn.probe.at}: ${status}${settling ? ", settling" : ""}${age === null ? "" : `, ${Math.max(0, age).toFixed(0)} s old`}${reading?.detail ? `. ${reading.detail}` : ""}`);
  }

  /** The same for those who do not see the picture, a few times a minute. */
  tell(state) {
    const now = performance.now();
    if (now - (this.told ?? -1e9) < 10000) return;
    this.told = now;
    const volumes = Object.entries(state.volumes).map(([name, found]) => h("li", { text: `${name} ${volume(found.ul).join(" ")}` }));
    const readings = Object.entries(state.readings).map(([point, reading]) => h("li", { text: `${spoken(point)} ${quantity(reading.value, reading.unit)} ${unit(reading.unit)}, ${reading.quality}${reading.stable ? "" : ", settling"}` }));
    byId("schematic-words").replaceChildren(...volumes, ...readings);
  }

  move(now) {
    const seconds = Math.min((now - this.before) / 1000, 0.1);
    this.before = now;
    if (!document.hidden) {
      for (const entry of Object.values(this.lines)) {
        const size = Math.abs(entry.flow);
        if (size <= 1) continue;
        const speed = (14 + 26 * Math.log10(1 + size / 200)) * Math.sign(entry.flow);
        entry.offset = (entry.offset - speed * seconds) % PIXELS_PER_DASH;
        entry.dashes.setAttribute("stroke-dashoffset", entry.offset.toFixed(2));
      }
      for (const drawn of Object.values(this.devices)) {
        if (drawn.line && this.lines[drawn.line].flow) drawn.turn(this.lines[drawn.line].flow > 0 ? 120 * seconds : -120 * seconds);
      }
      this.tissue?.move(now);
    }
    requestAnimationFrame((next) => this.move(next));
  }
}

/** “Next cycle in 6 h 40 min”, when that is what a run waits for. */
function waiting(run, at, utc) {
  if (at.args.elapsed_s === undefined) return null;
  const left = Date.parse(run.started_utc) / 1000 + at.args.elapsed_s - Date.parse(utc) / 1000;
  if (!(left > 0)) return null;
  const hours = Math.floor(left / 3600), minutes = Math.ceil((left % 3600) / 60);
  return `Next cycle in ${hours ? `${hours} h ` : ""}${minutes} min`;
}

function angleAt(line, device) {
  const points = line.points;
  for (let i = 1; i < points.length; i++) {
    const [[ax, ay], [bx, by]] = [points[i - 1], points[i]];
    const within = Math.min(ax, bx) - 1 <= device.x && device.x <= Math.max(ax, bx) + 1 && Math.min(ay, by) - 1 <= device.y && device.y <= Math.max(ay, by) + 1;
    if (within) return (Math.atan2(by - ay, bx - ax) * 180) / Math.PI;
  }
  return 0;
}

/** An arrow head at a line's end, so that a still picture tells the direction too. */
function head(points) {
  const [ax, ay] = points.at(-2), [bx, by] = points.at(-1);
  const angle = (Math.atan2(by - ay, bx - ax) * 180) / Math.PI;
  const back = 11;
  const x = bx - Math.cos((angle * Math.PI) / 180) * back, y = by - Math.sin((angle * Math.PI) / 180) * back;
  return s("path", { class: "pipe-head", d: "M-5 -5 L4 0 L-5 5", transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) rotate(${angle.toFixed(0)})` });
}

function rounded(points, radius = 12) {
  let text = `M${points[0].join(" ")}`;
  for (let i = 1; i < points.length - 1; i++) {
    const [before, at, after] = [points[i - 1], points[i], points[i + 1]];
    const toward = (a, b) => { const size = Math.hypot(b[0] - a[0], b[1] - a[1]); const cut = Math.min(radius, size / 2); return [a[0] + ((b[0] - a[0]) * cut) / size, a[1] + ((b[1] - a[1]) * cut) / size]; };
    text += ` L${toward(at, before).join(" ")} Q${at.join(" ")} ${toward(at, after).join(" ")}`;
  }
  return `${text} L${points.at(-1).join(" ")}`;
}
