// The live schematic of the rig: levels, colours, flows, devices, gas, tissue, and every sensor at its place.

import { animate, byId, h, reducedMotion, s } from "../dom.js";
import { quantity, unit, volume } from "../format.js";
import { spoken } from "../words.js";
import { Blocks } from "./blocks.js";
import { Devices } from "./devices.js";
import { flowsOf } from "./flows.js";
import { layOut } from "./layout.js";
import { Lines } from "./lines.js";
import { mediumColor } from "./medium.js";
import { legend, Now } from "./now.js";
import { GasMixer, Readings } from "./readings.js";
import { Selectors } from "./selectors.js";
import { manifold, zoneFrame } from "./symbols.js";
import { Tissue } from "./tissue.js";
import { VesselSymbol } from "./vessel.js";

/** @import { LiveState, Rig } from "../../../types/live.d.ts" */
/** @import { Box } from "./plan.js" */

const TEXT_PERIOD_MS = 10000;
const MAX_FRAME_S = 0.3;

export class Schematic {
  /**
   * @param {Rig} rig
   * @param {((vessel: string) => void) | null} enter - opens the dialog for what was done to a vessel
   * @param {(chamber: string) => void} select - shows the details of a chamber
   */
  constructor(rig, enter, select) {
    this.rig = rig;
    this.enter = enter;
    this.select = select;
    this.plan = layOut(rig.schematic);
    const { top, width, height } = this.plan;
    this.svg = byId("schematic", SVGSVGElement);
    this.svg.setAttribute("viewBox", [0, top, width, height - top].map(Math.round).join(" "));
    this.svg.style.setProperty("--drawing-width", `${Math.round(width)}px`);
    /** @type {Record<string, VesselSymbol>} */
    this.vessels = {};
    /** @type {Tissue[]} */
    this.tissue = [];
    this.lines = new Lines(this.plan, rig.schematic);
    this.gas = new GasMixer(rig, this.plan);
    this.devices = new Devices(rig, this.plan);
    this.readings = new Readings(rig, this.plan);
    this.blocks = new Blocks(this.plan, rig, select);
    this.selectors = new Selectors(rig, this.plan);
    this.now = new Now(rig, this.plan);
    const vessels = s("g", { class: "vessels" });
    for (const box of Object.values(this.plan.vessels)) vessels.append(...this.drawVessel(box));
    const zones = s("g", { class: "zones" }, this.plan.zones.map(zoneFrame));
    const manifolds = s("g", { class: "manifolds" }, this.plan.manifolds.map(manifold));
    const inside = [{ node: manifolds }, { node: vessels }, this.blocks, this.selectors, this.devices, this.readings];
    const layers = [{ node: zones }, this.lines, this.gas, ...inside];
    const key = this.plan.legend ? [legend(this.plan)] : [];
    this.svg.append(...layers.map((layer) => layer.node), ...key, this.now.node);
    this.scrollToLoop();
    this.textAt = -Infinity;
    this.frameAt = performance.now();
    if (!reducedMotion()) animate((now) => this.animate(now));
  }

  /**
   * Return the nodes of a vessel, with the balance on which it stands or the heater below it.
   * @param {Box} box
   */
  drawVessel(box) {
    const symbol = new VesselSymbol(box);
    this.vessels[box.name] = symbol;
    /** @type {SVGElement[]} */
    const nodes = [];
    if (this.rig.schematic.probes.some((probe) => probe.at === box.name && probe.quantity === "mass")) {
      const d = `M${box.x - 14} ${box.y + box.h + 4} h${box.w + 28} l-8 7 h${-box.w - 12} z`;
      nodes.push(s("path", { class: "balance-pan", d }));
    }
    const { heater, heated } = this.rig.schematic;
    if (heater && heated === box.name) nodes.push(this.devices.addHeater(box, heater));
    if (box.organoid) {
      this.tissue.push(new Tissue(symbol.inside, box, this.rig));
    }
    if (box.kind === "chamber") {
      makeButton(symbol.node, `${box.name}: details`, () => this.select(box.name));
    } else if (this.enter) {
      makeButton(symbol.node, `${box.name}: enter manual work`, () => this.enter?.(box.name));
    }
    return [...nodes, symbol.node];
  }

  /**
   * Mark the chamber whose details are shown.
   * @param {string | null} chamber
   */
  mark(chamber) {
    this.blocks.mark(chamber);
    for (const [name, symbol] of Object.entries(this.vessels)) symbol.node.classList.toggle("chosen", name === chamber);
  }

  /** On a narrow screen the drawing is wider than its place: begin with the loop. */
  scrollToLoop() {
    const loop = Object.values(this.plan.vessels).find((box) => box.kind === "loop");
    const place = this.svg.parentElement;
    if (!loop || !place) return;
    const share = (loop.x + loop.w / 2) / this.plan.width;
    place.scrollLeft = share * place.scrollWidth - place.clientWidth / 2;
  }

  /** @param {LiveState} state */
  update(state) {
    this.fillVessels(state);
    this.blocks.update(state);
    this.lines.setColors({ ...this.vessels, ...this.blocks.colors });
    this.devices.update(state);
    this.selectors.update(state);
    this.lines.setFlows(flowsOf(this.rig.schematic, state));
    this.readings.update(state);
    this.gas.update(state);
    this.tissue.forEach((each) => each.update(state));
    this.now.update(state);
    this.updateText(state);
  }

  /** @param {LiveState} state */
  fillVessels(state) {
    for (const [name, symbol] of Object.entries(this.vessels)) {
      const found = state.volumes[name];
      if (!found) continue;
      symbol.setLevel(found.ul / symbol.box.capacity_ul);
      symbol.setVolume(found.ul, found.sd_ul);
      symbol.setColor(mediumColor(symbol.box, this.rig, state));
    }
  }

  /**
   * Bring the text for screen readers up to date, a few times a minute.
   * @param {LiveState} state
   */
  updateText(state) {
    const now = performance.now();
    if (now - this.textAt < TEXT_PERIOD_MS) return;
    this.textAt = now;
    const volumes = Object.entries(state.volumes).map(([name, found]) => `${name} ${volume(found.ul).join(" ")}`);
    const readings = Object.entries(state.readings).map(([point, reading]) => {
      const value = `${quantity(reading.value, reading.unit)} ${unit(reading.unit)}`;
      return `${spoken(point)} ${value}, ${reading.quality}${reading.stable ? "" : ", settling"}`;
    });
    byId("schematic-words").replaceChildren(...[...volumes, ...readings].map((text) => h("li", { text })));
  }

  /** @param {number} now - ms of the page's clock */
  animate(now) {
    const seconds = Math.min((now - this.frameAt) / 1000, MAX_FRAME_S);
    this.frameAt = now;
    this.lines.animate(seconds);
    this.devices.animate(seconds, this.lines);
    this.tissue.forEach((each) => each.animate(now));
  }
}

/**
 * Let a drawn node act as a button, for pointer and keyboard.
 * @param {SVGElement} node
 * @param {string} label
 * @param {() => void} press
 */
function makeButton(node, label, press) {
  node.setAttribute("role", "button");
  node.setAttribute("tabindex", "0");
  node.setAttribute("aria-label", label);
  node.classList.add("handled");
  node.addEventListener("click", press);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    press();
  });
}
