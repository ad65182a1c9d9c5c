// Where everything stands: from the rig's description to coordinates. Pure; knows nothing of the page.
//
// Sources stand in a row on top, above what they feed. The main row goes from process vessels over the loop to the chamber.
// Waste stands below, to the right of what empties into it. Lines run straight between neighbours, down from sources, and
// through lanes under the main row otherwise. The space between two vessels follows from what sits on the lines there.

export const ROWS = { top: 58, pumps: 196, lanes: 232, main: 262, waste: 566 };
const SIZES = { source: [88, 96], process: [136, 168], loop: [136, 168], chamber: [204, 132], waste: [126, 92] };
const ORDER = ["process", "loop", "chamber"];
const MARGIN = 30;
const BESIDE = 34;
const DEVICE = 76;
const CHIP = 104;
const LANE = 16;
const GAS_WIDTH = 168;

export function layOut(schematic) {
  const plan = { vessels: {}, lines: {}, chips: [], gas: null };
  const main = ORDER.flatMap((kind) => schematic.vessels.filter((vessel) => vessel.kind === kind));
  const floor = ROWS.main + SIZES.process[1];
  placeMain(plan, schematic, main, floor);
  placeSources(plan, schematic, main);
  placeWaste(plan, schematic, floor);
  route(plan, schematic, main, floor);
  placeChips(plan, schematic, floor);
  const boxes = Object.values(plan.vessels);
  const right = [...boxes.map((box) => box.x + box.w), ...plan.chips.map((chip) => chip.x + CHIP), plan.gas ? plan.gas.x + GAS_WIDTH : 0];
  plan.width = Math.max(...right) + MARGIN;
  plan.height = Math.max(...boxes.map((box) => box.y + box.h + (box.kind === "waste" ? 14 : 0)), floor + 84) + 10;
  return plan;
}

const devicesOf = (line) => [line.filter && "filter", line.valve && "valve", line.pump && "pump"].filter(Boolean);
const middle = (box) => box.x + box.w / 2;

function feeding(schematic, vessel) {
  const lines = schematic.lines.filter((line) => line.to === vessel.name);
  return schematic.vessels.filter((each) => each.kind === "source" && lines.some((line) => line.from === each.name));
}

function placeMain(plan, schematic, main, floor) {
  const topOf = (vessel) => Math.max(feeding(schematic, vessel).length * (SIZES.source[0] + BESIDE) - BESIDE, schematic.gas?.vessel === vessel.name ? GAS_WIDTH : 0);
  const chipsOf = (vessel) => schematic.probes.filter((probe) => probe.at === vessel.name).length * (CHIP + 8) - 8;
  let before = null;
  for (const vessel of main) {
    const [w, h] = SIZES[vessel.kind];
    const half = Math.max(w, topOf(vessel), chipsOf(vessel)) / 2;
    let center = MARGIN + half;
    if (before) {
      const between = schematic.lines.filter((line) => [line.from, line.to].includes(before.name) && [line.from, line.to].includes(vessel.name));
      const most = Math.max(1, ...between.map((line) => devicesOf(line).length));
      center = Math.max(before.right + most * DEVICE + 74 + w / 2, before.top + 26 + topOf(vessel) / 2, before.chips + 20 + chipsOf(vessel) / 2);
    }
    plan.vessels[vessel.name] = { ...vessel, x: center - w / 2, y: floor - h, w, h };
    before = { name: vessel.name, right: center + w / 2, top: center + topOf(vessel) / 2, chips: center + chipsOf(vessel) / 2 };
    if (schematic.gas?.vessel === vessel.name) plan.gas = { x: center - GAS_WIDTH / 2, y: 30, w: GAS_WIDTH, h: 120, to: [center, floor - h] };
  }
}

function placeSources(plan, schematic, main) {
  const [w, h] = SIZES.source;
  const placed = new Set();
  for (const vessel of main) {
    const group = feeding(schematic, vessel).filter((each) => !placed.has(each.name));
    const wide = group.length * (w + BESIDE) - BESIDE;
    group.forEach((source, i) => {
      placed.add(source.name);
      const beside = plan.gas && schematic.gas.vessel === vessel.name ? plan.gas.x - wide - BESIDE : middle(plan.vessels[vessel.name]) - wide / 2;
      plan.vessels[source.name] = { ...source, x: beside + i * (w + BESIDE), y: ROWS.top, w, h };
    });
  }
  const idle = schematic.vessels.filter((each) => each.kind === "source" && !placed.has(each.name));
  const edge = Math.max(0, ...Object.values(plan.vessels).map((box) => box.x + box.w));
  idle.forEach((source, i) => { plan.vessels[source.name] = { ...source, x: edge + BESIDE + i * (w + BESIDE), y: ROWS.top, w, h }; });
}

function placeWaste(plan, schematic, floor) {
  const [w, h] = SIZES.waste;
  let edge = 0;
  for (const vessel of schematic.vessels.filter((each) => each.kind === "waste")) {
    const inflow = schematic.lines.filter((line) => line.to === vessel.name);
    const from = inflow.map((line) => plan.vessels[line.from]).filter(Boolean);
    const most = Math.max(1, ...inflow.map((line) => devicesOf(line).length));
    const x = Math.max(edge, (from.length ? Math.max(...from.map((box) => box.x + box.w)) : MARGIN) + 46 + most * DEVICE + 30);
    plan.vessels[vessel.name] = { ...vessel, x, y: Math.max(ROWS.waste, floor + 100) - h / 2, w, h };
    edge = x + w + 200;
  }
}

function route(plan, schematic, main, floor) {
  const position = Object.fromEntries(main.map((vessel, i) => [vessel.name, i]));
  const gutters = new Map();
  const tops = new Map();
  const lanes = [];
  for (const line of schematic.lines) {
    const from = plan.vessels[line.from], to = plan.vessels[line.to];
    if (!from || !to) continue;
    const a = position[line.from], b = position[line.to];
    if (from.kind === "source" && b !== undefined) tops.set(line.to, [...(tops.get(line.to) ?? []), line]);
    else if (a !== undefined && b !== undefined && Math.abs(a - b) === 1) gutters.set(Math.min(a, b), [...(gutters.get(Math.min(a, b)) ?? []), line]);
    else lanes.push(line);
  }
  for (const [target, lines] of tops) fromAbove(plan, plan.vessels[target], lines, plan.gas && schematic.gas.vessel === target);
  for (const [left, lines] of gutters) across(plan, schematic, position, left, lines, main);
  lanes.forEach((line, i) => below(plan, line, i, floor));
}

/** From sources down into the top of a vessel, each on a lane of its own so that none cross. */
function fromAbove(plan, target, lines, gas) {
  const sorted = [...lines].sort((one, two) => plan.vessels[one.from].x - plan.vessels[two.from].x);
  const spacing = Math.min(34, (target.w - 40) / Math.max(sorted.length, 1));
  const shift = gas ? -target.w / 4 : 0;
  sorted.forEach((line, i) => {
    const from = plan.vessels[line.from];
    const x = middle(from), port = middle(target) + shift + (i - (sorted.length - 1) / 2) * spacing;
    // The one that goes farthest runs lowest on its side.
    const lane = ROWS.lanes + 2;
    const points = Math.abs(x - port) < 1 ? [[x, from.y + from.h], [port, target.y + 26]] : [[x, from.y + from.h], [x, lane], [port, lane], [port, target.y + 26]];
    plan.lines[line.name] = { ...line, points, devices: spread(line, [x, ROWS.pumps], [0, 0]), vertical: true };
  });
}

/** Straight between neighbours: what goes towards the chamber above, what comes back below. */
function across(plan, schematic, position, left, lines, main) {
  const sorted = [...lines].sort((one, two) => Number(position[one.from] > position[one.to]) - Number(position[two.from] > position[two.to]));
  const a = plan.vessels[main[left].name], b = plan.vessels[main[left + 1].name];
  const top = Math.max(a.y, b.y) + 26, bottom = Math.min(a.y + a.h, b.y + b.h) - 44;
  sorted.forEach((line, i) => {
    const y = sorted.length === 1 ? (top + bottom) / 2 : top + ((bottom - top) * i) / (sorted.length - 1);
    const ends = [[a.x + a.w, y], [b.x, y]];
    const points = position[line.from] < position[line.to] ? ends : ends.reverse();
    const count = devicesOf(line).length;
    const sign = Math.sign(points[1][0] - points[0][0]);
    // A pump alone stands nearer to where it draws from, which leaves room for a probe behind it.
    const share = count === 1 && schematic.probes.some((probe) => probe.at === line.name) ? 0.34 : 0.5;
    const center = points[0][0] + (points[1][0] - points[0][0]) * share;
    plan.lines[line.name] = { ...line, points, devices: spread(line, [center - (sign * DEVICE * (count - 1)) / 2, y], [sign * DEVICE, 0]) };
  });
}

/** Out of the lower right, down to a lane under the main row, and along it. */
function below(plan, line, i, floor) {
  const from = plan.vessels[line.from], to = plan.vessels[line.to];
  const stub = [from.x + from.w, from.y + from.h - 14];
  const out = stub[0] + 40 + i * LANE;
  const lane = to.kind === "waste" ? to.y + to.h / 2 : floor + 96 + i * LANE;
  const rightwards = middle(to) > out;
  const goal = to.kind === "waste" ? [rightwards ? to.x : to.x + to.w, lane] : [middle(to) + i * LANE, to.y + to.h];
  const points = [stub, [out, stub[1]], [out, lane], ...(to.kind === "waste" ? [goal] : [[goal[0], lane], goal])];
  const sign = rightwards ? 1 : -1;
  plan.lines[line.name] = { ...line, points, devices: spread(line, [out + sign * (DEVICE * 0.85), lane], [sign * DEVICE, 0]) };
}

function spread(line, begin, stride) {
  return devicesOf(line).map((kind, i) => ({ kind, name: line[kind], x: begin[0] + stride[0] * i, y: begin[1] + stride[1] * i, direction: line.direction }));
}

function placeChips(plan, schematic, floor) {
  for (const [name, box] of Object.entries(plan.vessels)) {
    const probes = schematic.probes.filter((probe) => probe.at === name);
    const wide = probes.length * (CHIP + 8) - 8;
    const y = ["source", "waste"].includes(box.kind) ? box.y + box.h + 22 : floor + 36;
    probes.forEach((probe, i) => plan.chips.push({ ...probe, x: middle(box) - wide / 2 + i * (CHIP + 8), y }));
  }
  for (const [name, line] of Object.entries(plan.lines)) {
    const probes = schematic.probes.filter((probe) => probe.at === name && !plan.vessels[name]);
    if (!probes.length) continue;
    const [x, y] = tapOf(line);
    probes.forEach((probe, i) => plan.chips.push({ ...probe, x: x - CHIP / 2 + i * (CHIP + 8), y: y - 88, stem: [x, y] }));
  }
}

/** Where a probe on a line taps it: in the middle of the widest stretch without a device, rather not the last one. */
function tapOf(line) {
  const [begin, end] = longest(line.points);
  const along = (point) => Math.hypot(point[0] - begin[0], point[1] - begin[1]);
  const stops = [0, ...line.devices.map((each) => along([each.x, each.y])), along(end)];
  let best = 0, widest = 0;
  for (let i = 1; i < stops.length; i++) {
    const gap = (stops[i] - stops[i - 1]) * (i === stops.length - 1 ? 0.9 : 1);
    if (gap >= widest - 0.5) [widest, best] = [gap, (stops[i] + stops[i - 1]) / 2];
  }
  const share = best / along(end);
  return [begin[0] + (end[0] - begin[0]) * share, begin[1] + (end[1] - begin[1]) * share];
}

function longest(points) {
  let best = [points[0], points[1]];
  const size = ([a, b]) => Math.hypot(b[0] - a[0], b[1] - a[1]);
  for (let i = 1; i < points.length; i++) if (size([points[i - 1], points[i]]) > size(best)) best = [points[i - 1], points[i]];
  return best;
}
