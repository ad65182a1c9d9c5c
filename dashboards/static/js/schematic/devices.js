// The devices on the lines, and the heater: what they do, whether they respond, and which an interlock has tripped.

import { s, setText } from "../dom.js";
import { statusOf } from "../feed.js";
import { flow } from "../format.js";
import { angleAt } from "./geometry.js";
import { doubt, filter, pump, valve } from "./symbols.js";

/** @import { Actuator, ActuatorStatus, LiveState, Rig } from "../../../types/live.d.ts" */
/** @import { Box, PlacedDevice, PlacedLine, Plan } from "./layout.js" */
/** @import { Lines } from "./lines.js" */

/** @typedef {ReturnType<typeof pump> & {flow: SVGElement, line: string}} DrawnPump */
/** @typedef {{node: SVGElement, why?: SVGElement}} Drawn */

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
    /** @type {Record<string, Drawn>} */
    this.drawn = {};
    /** @type {Record<string, DrawnPump>} */
    this.pumps = {};
    for (const line of Object.values(plan.lines)) {
      for (const device of line.devices) this.draw(line, device);
    }
  }

  /**
   * @param {PlacedLine} line
   * @param {PlacedDevice} device
   */
  draw(line, device) {
    const { name } = device;
    if (device.kind === "pump") {
      const drawn = { ...pump(device, angleAt(line, device)), ...pumpTexts(line, device), line: line.name };
      this.pumps[name] = drawn;
      this.add(name, drawn, drawn.organ, drawn.flow);
      drawn.setDirection(1);
    } else if (device.kind === "valve") {
      this.add(name, valve(device));
    } else {
      const place = { x: device.x, y: device.y + 38, "text-anchor": "middle" };
      this.add(name, filter(device, this.filterText(name)), s("text", { class: "organ", ...place, text: "immune" }));
    }
  }

  /**
   * @param {string} name
   * @param {Drawn} drawn
   * @param {...SVGElement} texts
   */
  add(name, drawn, ...texts) {
    drawn.node.setAttribute("data-device", name);
    this.drawn[name] = drawn;
    this.node.append(drawn.node, ...texts);
  }

  /** @param {string} name */
  filterText(name) {
    const found = this.rig.schematic.filters?.[name];
    if (!found) return name;
    return `${name} filter: ${found.pore_um} µm, ${found.area_cm2} cm², at most ${found.max_pressure_kpa} kPa`;
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
    this.drawn[name] = { node, why: unsure.why };
    return node;
  }

  /** @param {LiveState} state */
  update(state) {
    const tripped = new Set(state.trips.flatMap((trip) => trip.actuators));
    for (const [name, drawn] of Object.entries(this.drawn)) {
      setDevice(drawn, state.actuators[name], tripped.has(name));
    }
    for (const [name, drawn] of Object.entries(this.pumps)) setPump(drawn, statusOf(state.actuators[name]));
  }

  /**
   * Turn the rotors of the pumps that pump.
   * @param {number} seconds - since the last call
   * @param {Lines} lines
   */
  animate(seconds, lines) {
    for (const drawn of Object.values(this.pumps)) {
      const rate = lines.flowIn(drawn.line);
      if (rate) drawn.turn(Math.sign(rate) * DEGREES_PER_S * seconds);
    }
  }
}

/**
 * Show whether a device is on, tripped by an interlock, or does not respond.
 * @param {Drawn} drawn
 * @param {Actuator | undefined} actuator
 * @param {boolean} tripped
 */
function setDevice(drawn, actuator, tripped) {
  const status = statusOf(actuator);
  drawn.node.classList.toggle("on", Boolean(status?.on));
  drawn.node.classList.toggle("tripped", tripped);
  drawn.node.classList.toggle("unknown", Boolean(actuator) && !status);
  if (drawn.why) setText(drawn.why, actuator?.fault ?? "");
}

/**
 * Show the direction and the flow of a pump.
 * @param {DrawnPump} drawn
 * @param {ActuatorStatus | null} status
 */
function setPump(drawn, status) {
  const rate = status?.flow_ul_min ?? 0;
  drawn.setDirection(rate < 0 ? -1 : 1);
  setText(drawn.flow, status?.on ? flow(Math.abs(rate)) : "");
}

/**
 * Return the texts of a pump: its organ above it, and its flow below; at the right of a pump on a vertical line.
 * @param {PlacedLine} line
 * @param {PlacedDevice} device
 */
function pumpTexts(line, { x, y }) {
  const organ = line.vertical ? { x: x + 28, y: y - 3 } : { x, y: y - 28, "text-anchor": "middle" };
  const rate = line.vertical ? { x: x + 28, y: y + 16 } : { x, y: y + 38, "text-anchor": "middle" };
  return {
    organ: s("text", { class: "organ", ...organ, text: ORGANS[line.organ ?? ""] ?? line.name }),
    flow: s("text", { class: "device-flow", ...rate }),
  };
}
