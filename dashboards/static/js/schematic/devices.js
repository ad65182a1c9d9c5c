// The devices on the lines, and the heater: what they do, whether they respond, and which an interlock has tripped.

import { s, setText } from "../dom.js";
import { statusOf } from "../feed.js";
import { flow } from "../format.js";
import { shortened } from "./columns/sizes.js";
import { angleAt } from "./geometry.js";
import { dialyser, doubt, filter, pump, valve } from "./symbols.js";

/** @import { LiveState, Rig } from "../../../types/live.d.ts" */
/** @import { Box, PlacedDevice, PlacedLine, Plan } from "./plan.js" */
/** @import { Lines } from "./lines.js" */

/** @typedef {{names: string[], node: SVGElement, why?: SVGElement}} Drawn */
/** @typedef {ReturnType<typeof pump> & {names: string[], times: number, flow: SVGElement, line: string}} DrawnPump */

/** @type {Record<string, string>} Names of organs; the return line, with the immune filter, belongs to the kidney. */
const ORGANS = { heart: "heart", kidney: "kidney", immune: "kidney", gut: "gut", liver: "liver" };
const DEGREES_PER_S = 120;

export class Devices {
  /**
   * @param {Rig} rig
   * @param {Plan} plan
   */
  constructor(rig, plan) {
    this.rig = rig;
    this.node = s("g", { class: "devices" });
    /** A device that sits on several lines is drawn on each. @type {Drawn[]} */
    this.drawn = [];
    /** @type {DrawnPump[]} */
    this.pumps = [];
    for (const line of Object.values(plan.lines)) {
      for (const device of line.devices) this.draw(line, device);
    }
  }

  /**
   * @param {PlacedLine} line
   * @param {PlacedDevice} device
   */
  draw(line, device) {
    const { kind, names } = device;
    if (kind === "pump") {
      const texts = pumpTexts(line, device, this.rig.hearts.length > 1);
      const times = line.members.length / names.length;
      const drawn = { ...pump(device, angleAt(line, device)), ...texts, names, times, line: line.name };
      this.pumps.push(drawn);
      this.add(drawn, drawn.organ, drawn.flow);
      drawn.setDirection(1);
    } else if (kind === "valve") {
      this.add({ ...valve(device), names });
    } else if (kind === "dialyser") {
      const place = { x: device.x, y: device.y + 36, "text-anchor": "middle" };
      const symbol = dialyser(device, names.map((name) => this.dialyserText(name)).join("\n"));
      this.add(
        { ...symbol, names },
        s("text", { class: "organ", ...place, text: shortened(names[0], FILTER_ROOM, LETTER) }),
      );
    } else {
      const place = { x: device.x, y: device.y + 38, "text-anchor": "middle" };
      const symbol = filter(device, names.map((name) => this.filterText(name)).join("\n"));
      this.add({ ...symbol, names }, s("text", { class: "organ", ...place, text: filterLabel(line) }));
    }
  }

  /**
   * @param {Drawn} drawn
   * @param {...SVGElement} texts
   */
  add(drawn, ...texts) {
    drawn.node.setAttribute("data-device", drawn.names.join(" "));
    this.drawn.push(drawn);
    this.node.append(drawn.node, ...texts);
  }

  /** @param {string} name */
  filterText(name) {
    const found = this.rig.schematic.filters?.[name];
    if (!found) return name;
    return `${name} filter: ${found.pore_um} µm, ${found.area_cm2} cm², at most ${found.max_pressure_kpa} kPa`;
  }

  /** @param {string} name */
  dialyserText(name) {
    const found = this.rig.schematic.dialysers[name];
    return found ? `${name}: hollow fibres in ${found.vessel}, cut-off ${found.cut_off_kda} kDa` : name;
  }

  /**
   * Add the heater under the chamber.
   * @param {Box} box
   * @param {string} name
   */
  addHeater(box, name) {
    const unsure = doubt(box.x + box.w - 4, box.y + box.h + 13);
    const plate = { x: box.x + 10, y: box.y + box.h + 3, width: box.w - 20, height: 8, rx: 4 };
    const node = s(
      "g",
      { class: "device heater", "data-device": name },
      s("rect", { class: "hot-plate", ...plate }),
      unsure.node,
      s("title", { text: "heater" }),
    );
    this.drawn.push({ names: [name], node, why: unsure.why });
    return node;
  }

  /** @param {LiveState} state */
  update(state) {
    const tripped = new Set(state.trips.flatMap((trip) => trip.actuators));
    for (const drawn of this.drawn) setDevice(drawn, state, tripped);
    for (const drawn of this.pumps) setPump(drawn, state);
  }

  /**
   * Turn the rotors of the pumps that pump.
   * @param {number} seconds - since the last call
   * @param {Lines} lines
   */
  animate(seconds, lines) {
    for (const drawn of this.pumps) {
      const rate = lines.flowIn(drawn.line);
      if (rate) drawn.turn(Math.sign(rate) * DEGREES_PER_S * seconds);
    }
  }
}

/**
 * Show whether a device is on, tripped by an interlock, or does not respond; of several devices, whether any is.
 * @param {Drawn} drawn
 * @param {LiveState} state
 * @param {Set<string>} tripped
 */
function setDevice({ names, node, why }, state, tripped) {
  const actuators = names.map((name) => state.actuators[name]);
  node.classList.toggle(
    "on",
    actuators.some((each) => statusOf(each)?.on),
  );
  node.classList.toggle(
    "tripped",
    names.some((name) => tripped.has(name)),
  );
  node.classList.toggle(
    "unknown",
    actuators.some((each) => each && !statusOf(each)),
  );
  if (why) setText(why, actuators.flatMap((each) => each?.fault || []).join("\n"));
}

/**
 * Show the direction and the flow of a pump; of several pumps their total, or how many of them run.
 * @param {DrawnPump} drawn
 * @param {LiveState} state
 */
function setPump(drawn, state) {
  const running = drawn.names.map((name) => statusOf(state.actuators[name])).filter((status) => status?.on);
  const rate = running.reduce((sum, status) => sum + (status?.flow_ul_min ?? 0), 0);
  drawn.setDirection(rate < 0 ? -1 : 1);
  const some = running.length > 0 && running.length < drawn.names.length;
  const each = drawn.times > 1 ? ` × ${drawn.times}` : ""; // the cassettes of one head
  const total = running.length ? `${flow(Math.abs(rate))}${each}` : "";
  setText(drawn.flow, some ? `${running.length} of ${drawn.names.length}` : total);
}

/** The width of a letter of the texts at a device, estimated upwards. */
const LETTER = 9;
const DEFAULT_ROOM = 120;
const FILTER_ROOM = 84;

/**
 * Return the texts of a pump: its organ above it, and its flow below; at the right of a pump on a vertical line.
 * @param {PlacedLine} line
 * @param {PlacedDevice} device
 * @param {boolean} several - whether the rig has several hearts, which then show their names
 */
function pumpTexts(line, { x, y, names }, several) {
  const organ = line.vertical ? { x: x + 28, y: y - 3 } : { x, y: y - 28, "text-anchor": "middle" };
  const rate = line.vertical ? { x: x + 28, y: y + 16 } : { x, y: y + 38, "text-anchor": "middle" };
  const text = names.length > 1 ? `${names.length} ${pumpsText(line)}` : pumpText(line, several);
  return {
    organ: s("text", { class: "organ", ...organ, text: shortened(text, line.room ?? DEFAULT_ROOM, LETTER) }),
    flow: s("text", { class: "device-flow", ...rate }),
  };
}

/** @param {PlacedLine} line */
const pumpsText = ({ members }) => (members.every((member) => member.heart) ? "hearts" : "pumps");

/**
 * @param {PlacedLine} line
 * @param {boolean} several
 */
const pumpText = ({ name, heart, organ }, several) => (several && heart ? heart : (ORGANS[organ ?? ""] ?? name));

/**
 * Return what is written at a filter: its organ on the way back from the kidney, else its name.
 * @param {PlacedLine} line
 */
const filterLabel = (line) => (line.organ === "immune" ? "immune" : shortened(line.filter ?? "", FILTER_ROOM, LETTER));
