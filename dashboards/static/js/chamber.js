// The details of the chamber that is selected in the schematic.

import { remember } from "./address.js";
import { alarmsOf, feedersOf, probesIn, supplyOf, tissueText } from "./chambers.js";
import { byId, h, redraw, setText } from "./dom.js";
import { flow, percent, quantity, unit, volume } from "./format.js";
import { named } from "./words.js";

/** @import { LiveState, Rig } from "../../types/live.d.ts" */
/** @import { Supply } from "./chambers.js" */

/** @type {Record<Supply, string>} */
export const SUPPLY = {
  perfused: "perfused",
  stopped: "not perfused: the heart is stopped",
  unknown: "not known: the heart does not respond",
  dosed: "no heart; dosed by a pump",
  static: "static: no pump leads here",
};

export class ChamberDetails {
  /**
   * @param {Rig} rig
   * @param {((vessel: string) => void) | null} enter - opens the dialog for manual work
   * @param {(chamber: string | null) => void} onSelect - called with the chamber that is selected now
   */
  constructor(rig, enter, onSelect) {
    this.rig = rig;
    this.onSelect = onSelect;
    /** @type {string | null} */
    this.chamber = null;
    /** @type {LiveState | null} */
    this.state = null;
    byId("chamber-close").onclick = () => this.select(null);
    byId("chamber-work").hidden = !enter;
    byId("chamber-work").onclick = () => this.chamber && enter?.(this.chamber);
  }

  /**
   * Show another chamber; null or the present one closes the details.
   * @param {string | null} chamber
   */
  select(chamber) {
    remember("chamber", chamber === this.chamber ? null : chamber);
    this.show(chamber === this.chamber ? null : chamber);
  }

  /**
   * Show a chamber if the rig has it; null closes the details.
   * @param {string | null} name
   */
  show(name) {
    const chamber = this.rig.tissue.some((each) => each.chamber === name) ? name : null;
    if (chamber === this.chamber) return;
    this.chamber = chamber;
    byId("chamber").hidden = !this.chamber;
    setText(byId("chamber-title"), this.chamber ?? "");
    this.onSelect(this.chamber);
    if (this.state) this.update(this.state);
  }

  /** @param {LiveState} state */
  update(state) {
    this.state = state;
    const { chamber } = this;
    if (!chamber) return;
    const facts = this.facts(chamber, state);
    redraw(byId("chamber-body"), facts, () =>
      facts.map(([name, value]) => h("div", {}, h("dt", { text: name }), h("dd", { text: value }))),
    );
  }

  /**
   * Return what is known of a chamber.
   * @param {string} chamber
   * @param {LiveState} state
   * @returns {[name: string, value: string][]}
   */
  facts(chamber, state) {
    const { rig } = this;
    const tissue = rig.tissue.find((each) => each.chamber === chamber);
    const vessel = rig.schematic.vessels.find((each) => each.name === chamber);
    const content = state.volumes[chamber];
    const capacity = volume(vessel?.capacity_ul).join(" ");
    const contained = content && `${volume(content.ul).join(" ")} ± ${volume(content.sd_ul).join(" ")} of ${capacity}`;
    const lines = rig.schematic.lines.filter((line) => line.from === chamber || line.to === chamber);
    const through = lines.map(({ name, from, to }) => `${name} (${from === chamber ? `to ${to}` : `from ${from}`})`);
    const alarms = alarmsOf(rig, state, chamber).map((alarm) => `${named(alarm.kind)}: ${alarm.source}`);
    /** @type {[string, string | undefined][]} */
    const all = [
      ["Tissue", tissueText(tissue)],
      ["Batch", tissue?.batch],
      ["Cell line", tissue?.cell_line],
      ["Volume", contained],
      ["Perfusion", this.perfusion(chamber, state)],
      ...this.readings(chamber, state),
      ["Zone", vessel?.zone ?? undefined],
      ["Lines", through.join(", ")],
      ["Alarms", alarms.join("; ") || (rig.tissue.length > 1 ? "none" : "")],
    ];
    return all.flatMap(([name, value]) => (value ? [/** @type {[string, string]} */ ([name, value])] : []));
  }

  /**
   * Return the flow through a chamber, and the hearts from which it comes.
   * @param {string} chamber
   * @param {LiveState} state
   */
  perfusion(chamber, state) {
    const supply = SUPPLY[supplyOf(this.rig, state, chamber)];
    const feeders = feedersOf(this.rig, state, chamber).map(({ name, share, flow: rate }) => {
      const part = share > 0.999 ? "all" : `about ${percent(share)}`;
      return `${rate === null ? "–" : flow(rate)}, ${part} of ${name === "heart" ? "the heart" : name}`;
    });
    return feeders.length ? `${supply}; ${feeders.join("; ")}` : supply;
  }

  /**
   * Return the readings in a chamber.
   * @param {string} chamber
   * @param {LiveState} state
   * @returns {[string, string][]}
   */
  readings(chamber, state) {
    return probesIn(this.rig, chamber).map(({ point, quantity: what }) => {
      const reading = state.readings[point];
      const value = reading ? `${quantity(reading.value, reading.unit)} ${unit(reading.unit)}` : "–";
      const quality = reading && reading.quality !== "good" ? `, ${reading.quality}` : "";
      return [`${what[0].toUpperCase()}${what.slice(1)}`.replace("PH", "pH"), `${value}${quality} (${point})`];
    });
  }
}
