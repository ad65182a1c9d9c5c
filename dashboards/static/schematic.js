// The schematic: this rig, drawn from its description, with live levels, flows and valves.
// Vessels stand in columns by what they are for; lines leave and enter at ports spread along their sides.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1120, HEIGHT = 620;
const COLUMN = { source: 0, process: 1, loop: 2, chamber: 3, waste: 3 };
const CENTRE_X = [88, 372, 712, 1005];
const SIZE = { source: [104, 112], process: [150, 190], loop: [150, 200], chamber: [190, 150], waste: [120, 130] };
const COLOURS = { fresh: "--fresh", glucose_stock: "--glucose", base_stock: "--base" };
const UNITS = { degC: "°C" };

function make(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) name === "text" ? (node.textContent = value) : node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export class Schematic {
  constructor(place, rig) {
    this.rig = rig;
    this.plan = rig.schematic;
    this.vessels = new Map();
    this.lines = new Map();
    this.chips = new Map();
    place.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    this.pipes = make("g");
    this.glass = make("g");
    this.marks = make("g");
    place.replaceChildren(this.pipes, this.glass, this.marks);
    this.arrange();
    for (const vessel of this.plan.vessels) this.drawVessel(vessel);
    this.drawLines();
    this.drawChips();
    this.drawGas();
  }

  arrange() {
    const columns = [[], [], [], []];
    for (const vessel of this.plan.vessels) columns[COLUMN[vessel.kind]].push(vessel);
    this.boxes = new Map();
    columns.forEach((column, number) => {
      column.forEach((vessel, row) => {
        const [w, h] = SIZE[vessel.kind];
        const room = HEIGHT / column.length;
        const bias = { process: 10, loop: -28 }[vessel.kind] || 0;
        this.boxes.set(vessel.name, { x: CENTRE_X[number] - w / 2, y: room * (row + 0.5) - h / 2 + bias - 6, w, h, kind: vessel.kind });
      });
    });
  }

  drawVessel(vessel) {
    const box = this.boxes.get(vessel.name);
    const colour = COLOURS[vessel.contains] || (vessel.kind === "waste" ? "--waste" : "--fresh");
    const tone = vessel.kind === "process" ? "--spent" : colour;
    const clip = `clip-${vessel.name}`;
    const shape = { x: box.x, y: box.y, width: box.w, height: box.h, rx: 14 };
    const liquid = make("rect", { class: "liquid", x: box.x, y: box.y + box.h, width: box.w, height: 0, fill: `var(${tone})`, opacity: 0.72 });
    const group = make("g", {}, make("clipPath", { id: clip }, make("rect", shape)), make("rect", { class: "glass", ...shape }),
      make("g", { "clip-path": `url(#${clip})` }, liquid));
    if (vessel.kind !== "source" && vessel.kind !== "chamber") {
      const y = box.y + box.h * (1 - vessel.ceiling_ul / vessel.capacity_ul);
      group.append(make("line", { class: "ceiling", x1: box.x + 4, x2: box.x + box.w - 4, y1: y, y2: y }));
    }
    if (vessel.kind === "chamber") this.drawOrganoids(group, box);
    const label = vessel.kind === "process" || vessel.kind === "loop" || vessel.kind === "chamber" ? box.y - 24 : box.y - 10;
    group.append(make("text", { class: "name", x: box.x + box.w / 2, y: label, "text-anchor": "middle", text: vessel.name }));
    const amount = make("text", { class: "val", x: box.x + box.w / 2, y: label === box.y - 24 ? box.y - 8 : box.y + box.h + 17, "text-anchor": "middle" });
    group.append(amount);
    this.glass.append(group);
    this.vessels.set(vessel.name, { ...box, capacity: vessel.capacity_ul, liquid, amount });
  }

  drawOrganoids(group, box) {
    const count = Math.min(this.rig.organoid.count, 24);
    const across = Math.ceil(Math.sqrt(count * 1.7));
    const rows = Math.ceil(count / across);
    for (let number = 0; number < count; number++) {
      const x = box.x + (box.w / (across + 0.4)) * ((number % across) + 0.7);
      const y = box.y + box.h * 0.26 + ((box.h * 0.66) / rows) * (Math.floor(number / across) + 0.5);
      group.append(make("circle", { class: "organoid", cx: x, cy: y, r: 9.5, stroke: "var(--card)", "stroke-width": 1.5 }));
    }
    this.warm = make("path", { class: "warm", d: coil(box.x + 22, box.y + box.h + 14, box.w - 44), fill: "none", stroke: "var(--warn)", "stroke-width": 3.4, "stroke-linecap": "round" });
    this.warm.style.fill = "none";
    group.append(this.warm);
  }

  drawLines() {
    const ports = new Map();
    const side = (name, edge) => { const key = `${name}|${edge}`; if (!ports.has(key)) ports.set(key, []); return ports.get(key); };
    const ends = this.plan.lines.map((line) => {
      const from = this.boxes.get(line.from), to = this.boxes.get(line.to);
      const right = to.x + to.w / 2 >= from.x + from.w / 2;
      if (line.pump && to.x - from.x > WIDTH * 0.45) return { line, from, to, under: true };  // passes below what stands between
      const out = { line, centre: to.y + to.h / 2 }, into = { line, centre: from.y + from.h / 2 };
      side(line.from, right ? "r" : "l").push(out);
      side(line.to, right ? "l" : "r").push(into);
      return { line, right, out, into, from, to };
    });
    for (const [key, list] of ports) {
      const box = this.boxes.get(key.split("|")[0]);
      list.sort((a, b) => a.centre - b.centre);
      list.forEach((end, index) => { end.y = box.y + (box.h / (list.length + 1)) * (index + 1); });
    }
    // Lines between the same two columns get bends of their own, so that none runs over another.
    const gaps = new Map();
    for (const end of ends) {
      if (end.under) { this.drawUnder(end); continue; }
      const x1 = end.right ? end.from.x + end.from.w : end.from.x;
      const x2 = end.right ? end.to.x : end.to.x + end.to.w;
      const key = Math.round(Math.min(x1, x2) / 40);
      const list = gaps.get(key) || gaps.set(key, []).get(key);
      list.push(Object.assign(end, { x1, x2 }));
    }
    for (const list of gaps.values()) {
      const pairs = new Set(list.map(({ line }) => [line.from, line.to].sort().join("|")));
      if (pairs.size === 1 && list.length > 1) {
        // Between one pair of vessels, climbing lines bend from left to right as they lie from top to bottom.
        const ends = (end) => (end.right ? [end.out.y, end.into.y] : [end.into.y, end.out.y]);
        list.sort((a, b) => ends(a)[0] - ends(b)[0]);
        list.forEach((end, index) => {
          const [left, right] = ends(end);
          const part = (index + 1) / (list.length + 1);
          const fromLeft = right < left ? part : 1 - part;
          this.drawLine(end, end.right ? fromLeft : 1 - fromLeft);
        });
        continue;
      }
      // Elsewhere, the further a line has to climb or fall, the nearer to its goal it bends: a fan does not cross itself.
      list.sort((a, b) => Math.abs(a.out.y - a.into.y) - Math.abs(b.out.y - b.into.y));
      list.forEach((end, index) => this.drawLine(end, list.length > 1 ? 0.45 + (0.4 * index) / (list.length - 1) : 0.6));
    }
  }

  drawUnder({ line, from, to }) {
    const x1 = from.x + from.w / 2, y1 = from.y + from.h, x2 = to.x, y2 = to.y + to.h / 2;
    const low = Math.max(y2, y1 + 40);
    this.pipe(line, `M${x1},${y1} V${low} H${x2 - 40} V${y2} H${x2}`, [x1 + 20, x2 - 60, low]);
  }

  drawLine(end, share) {
    const { line, x1, x2 } = end;
    const y1 = end.out.y, y2 = end.into.y;
    if (Math.abs(y1 - y2) < 3) return this.pipe(line, `M${x1},${y1} H${x2}`, [x1, x2, y1]);
    const marks = [line.pump, line.valve, line.filter].filter(Boolean).length;
    const middle = x1 + (x2 - x1) * (marks > 1 ? 0.9 : share);
    const legs = [[x1, middle, y1], [middle, x2, y2]];
    const leg = legs.reduce((best, each) => (Math.abs(each[1] - each[0]) > Math.abs(best[1] - best[0]) ? each : best));
    return this.pipe(line, `M${x1},${y1} H${middle} V${y2} H${x2}`, leg);
  }

  pipe(line, path, leg) {
    const flow = make("path", { class: "flow", d: path, stroke: "var(--accent)" });
    this.pipes.append(make("path", { class: "pipe", d: path }), flow);
    const entry = { flow, line, at: { x: (leg[0] + leg[1]) / 2, y: leg[2] } };
    const marks = [line.pump && "pump", line.valve && "valve", line.filter && "filter"].filter(Boolean);
    marks.forEach((mark, number) => {
      const x = leg[0] + (leg[1] - leg[0]) * ((number + 1) / (marks.length + 1));
      entry[mark] = this[mark](x, leg[2], line);
    });
    this.lines.set(line.name, entry);
  }

  pump(x, y, line) {
    const rotor = make("g", { class: "spinner" }, make("circle", { cx: x, cy: y, r: 15, fill: "transparent" }),
      make("path", { class: "rotor", d: `M${x},${y - 10} V${y + 10} M${x - 8.7},${y - 5} L${x + 8.7},${y + 5} M${x - 8.7},${y + 5} L${x + 8.7},${y - 5}` }));
    const group = make("g", {}, make("circle", { class: "device", cx: x, cy: y, r: 16 }), rotor, make("title", { text: line.pump }));
    const name = make("text", { class: "val", x, y: y - 22, "text-anchor": "middle", text: line.name });
    const rate = make("text", { class: "val", x, y: y + 31, "text-anchor": "middle" });
    this.marks.append(group, name, rate);
    return { group, rotor, rate };
  }

  valve(x, y, line) {
    const bow = make("path", { class: "device", d: `M${x - 12},${y - 9} L${x + 12},${y + 9} V${y - 9} L${x - 12},${y + 9} Z`, "stroke-linejoin": "round" });
    const label = make("text", { class: "val", x, y: y + 27, "text-anchor": "middle" });
    this.marks.append(bow, label, make("title", { text: line.valve }));
    return { group: bow, label };
  }

  filter(x, y, line) {
    const group = make("g", {}, make("rect", { class: "device", x: x - 9, y: y - 17, width: 18, height: 34, rx: 4 }),
      make("line", { class: "rotor", x1: x, x2: x, y1: y - 13, y2: y + 13, "stroke-dasharray": "3 3" }), make("title", { text: `${line.filter} filter` }));
    this.marks.append(group);
    return { group };
  }

  drawChips() {
    const stacks = new Map();
    for (const probe of this.plan.probes) {
      const box = this.boxes.get(probe.at), line = this.lines.get(probe.at);
      if (!box && !line) continue;
      const row = stacks.get(probe.at) || 0;
      stacks.set(probe.at, row + 1);
      const x = box ? box.x + box.w / 2 : line.at.x;
      const inside = box && box.kind !== "chamber";
      const y = inside ? box.y + box.h - 22 - row * 28 : box ? box.y + box.h + 46 : line.at.y + (this.plan.lines.find((each) => each.name === probe.at).valve ? 54 : -50);
      this.chips.set(probe.point, this.chip(x, y));
    }
  }

  drawGas() {
    const loop = [...this.boxes.values()].find((box) => box.kind === "loop");
    if (!loop) return;
    this.gas = make("text", { class: "val", x: loop.x + loop.w / 2, y: loop.y + loop.h + 22, "text-anchor": "middle" });
    this.marks.append(this.gas);
  }

  chip(x, y) {
    const text = make("text", { x, y: y + 5, "text-anchor": "middle" });
    const group = make("g", { class: "chip" }, make("rect", { x: x - 48, y: y - 11, width: 96, height: 23, rx: 11.5 }), text);
    this.marks.append(group);
    return { group, text };
  }

  update(state) {
    for (const [name, vessel] of this.vessels) {
      const volume = state.volumes[name];
      if (!volume) continue;
      const height = vessel.h * Math.min(1, Math.max(0, volume.ul / vessel.capacity));
      vessel.liquid.setAttribute("y", vessel.y + vessel.h - height);
      vessel.liquid.setAttribute("height", height);
      vessel.amount.textContent = `${(volume.ul / 1000).toFixed(1)} mL`;
    }
    for (const [, entry] of this.lines) this.updateLine(entry, state);
    for (const [point, chip] of this.chips) {
      const reading = state.readings[point];
      const bad = !reading || reading.value === null || reading.quality === "bad";
      chip.group.classList.toggle("bad", bad);
      const digits = reading && reading.unit === "pH" ? 2 : reading && reading.unit === "g" ? 2 : 1;
      chip.text.textContent = bad ? "no reading" : `${reading.unit === "pH" ? "pH " : ""}${reading.value.toFixed(digits)}${reading.unit === "pH" ? "" : ` ${UNITS[reading.unit] || reading.unit}`}`;
    }
    const heater = state.actuators[this.plan.heater];
    if (this.warm) this.warm.classList.toggle("on", Boolean(heater && heater.on));
    if (this.gas) {
      const part = (point) => (state.readings[point] && state.readings[point].value) || 0;
      const { air, co2, o2 } = this.plan.gas;
      const total = part(air) + part(co2) + part(o2);
      this.gas.textContent = total > 0.5 ? `gas ${total.toFixed(0)} mL/min, CO₂ ${((part(co2) / total) * 100).toFixed(1)} %` : "no gas";
    }
  }

  updateLine(entry, state) {
    const { line, flow } = entry;
    let rate = 0;
    if (line.pump) {
      const pump = state.actuators[line.pump];
      rate = pump && pump.on ? pump.flow_ul_min : 0;
      entry.pump.group.classList.toggle("on", rate !== 0);
      entry.pump.rotor.classList.toggle("spin", rate !== 0);
      entry.pump.rate.textContent = rate ? `${(Math.abs(rate) / 1000).toFixed(1)} mL/min` : "";
    } else if (line.passive) {
      const feeding = this.plan.lines.find((other) => other.to === line.from && other.pump);
      const pump = feeding && state.actuators[feeding.pump];
      rate = pump && pump.on ? pump.flow_ul_min : 0;
    }
    flow.classList.toggle("on", rate !== 0);
    flow.style.animationDirection = rate < 0 ? "reverse" : "normal";
    flow.style.animationDuration = `${Math.max(0.35, 1.6 / Math.sqrt(Math.max(Math.abs(rate) / 1000, 0.3)))}s`;
    if (entry.valve) {
      const valve = state.actuators[line.valve];
      const open = Boolean(valve && valve.on);
      entry.valve.group.classList.toggle("on", open);
      entry.valve.label.textContent = open ? "open" : "closed";
    }
  }
}

function coil(x, y, width) {
  const turns = 7, step = width / turns;
  let path = `M${x},${y}`;
  for (let turn = 0; turn < turns; turn++) path += ` q${step / 4},-9 ${step / 2},0 t${step / 2},0`;
  return path;
}
