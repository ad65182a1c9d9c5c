// The electrode array: a dialog with map, waveforms, leases and stimulation ledger. It asks only while it is open.

import { follow, remember } from "../address.js";
import { call } from "../api.js";
import { byId, setText } from "../dom.js";
import { LeaseList } from "./leases.js";
import { ElectrodeMap } from "./map.js";
import { ResponsePlot } from "./responses.js";
import { FIGURES, words } from "./scale.js";
import { StimulationList } from "./stimulation.js";
import { WaveformPlot } from "./waveforms.js";

/** @import { ElectrodesModel, LeasesModel, ResponsesModel, WaveformsModel } from "../../../types/api.d.ts" */
/** @import { Rig } from "../../../types/live.d.ts" */

const PERIOD_MS = 2000;
/** Shown of the selected electrode, with its state. */
const FACTS = ["rate", "amplitude", "noise", "impedance", "deviation", "muted"];

export class ArrayPanel {
  /** @param {Rig & { electrodes: number }} rig */
  constructor(rig) {
    this.electrodes = rig.electrodes;
    this.dialog = byId("array", HTMLDialogElement);
    /** @type {ElectrodesModel | null} */
    this.table = null;
    this.map = new ElectrodeMap(byId("array-cells"), byId("array-legend"), rig.electrodes, (electrode) =>
      this.select(electrode),
    );
    this.plot = new WaveformPlot(byId("array-waves", HTMLCanvasElement), byId("array-caption"));
    this.responses = new ResponsePlot(
      byId("array-responses", HTMLCanvasElement),
      byId("array-responses-caption"),
      byId("array-responses-rows"),
    );
    this.leases = new LeaseList(rig.role, () => this.refresh());
    this.ledger = new StimulationList();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.listen();
    follow("electrode", (name) => this.show(name));
  }

  /** Connect the controls. */
  listen() {
    byId("array-open").onclick = () => this.open(this.map.selected);
    byId("array-close").onclick = () => this.dialog.close();
    this.dialog.addEventListener("close", () => {
      clearTimeout(this.timer);
      remember("electrode", null);
    });
    const number = byId("array-number", HTMLInputElement);
    number.max = String(this.electrodes - 1);
    number.onchange = () => {
      const wanted = Math.round(Number(number.value));
      if (wanted >= 0 && wanted < this.electrodes) this.map.select(wanted);
      else number.value = String(this.map.selected);
    };
    const figures = byId("array-figures");
    figures.onclick = ({ target }) => {
      if (!(target instanceof HTMLButtonElement) || !target.dataset.figure) return;
      for (const button of figures.querySelectorAll("button")) {
        button.setAttribute("aria-pressed", String(button === target));
      }
      this.map.colourBy(target.dataset.figure);
    };
  }

  /**
   * Show the electrode that the address names; null closes the dialog.
   * @param {string | null} name
   */
  show(name) {
    const electrode = Number(name ?? NaN);
    if (!Number.isInteger(electrode) || electrode < 0 || electrode >= this.electrodes) this.dialog.close();
    else if (this.dialog.open) this.map.select(electrode);
    else this.open(electrode);
  }

  /** @param {number} electrode */
  open(electrode) {
    this.dialog.showModal();
    this.map.select(electrode);
    this.ledger.reload();
    this.poll();
  }

  /** Renew what is shown, again and again while the dialog is open. */
  async poll() {
    clearTimeout(this.timer);
    if (!this.dialog.open) return;
    if (!document.hidden) await this.refresh();
    if (this.dialog.open) this.timer = setTimeout(() => this.poll(), PERIOD_MS);
  }

  async refresh() {
    await Promise.all([
      this.renewMap(),
      this.renewWaves(),
      this.renewResponses(),
      this.renewLeases(),
      this.ledger.refresh(),
    ]);
  }

  async renewMap() {
    /** @type {ElectrodesModel | null} */
    const table = await read("/api/nerves/electrodes");
    const answers = Boolean(table?.states.length);
    setText(byId("array-trouble"), answers ? "" : "The electrode engine does not answer.");
    if (!table || !answers) return;
    this.table = table;
    this.map.update(table);
    setText(byId("array-geometry"), table.geometry || "Positions are not known: cells in the order of the numbers.");
    this.describe();
  }

  async renewWaves() {
    const electrode = this.map.selected;
    /** @type {WaveformsModel | null} */
    const found = await read(`/api/nerves/waveforms/${electrode}`);
    if (electrode === this.map.selected) this.plot.show(found);
  }

  async renewResponses() {
    const electrode = this.map.selected;
    /** @type {ResponsesModel | null} */
    const found = await read(`/api/nerves/responses/${electrode}`);
    if (electrode === this.map.selected) this.responses.show(found);
  }

  async renewLeases() {
    /** @type {LeasesModel | null} */
    const found = await read("/api/nerves/leases");
    if (found) this.leases.show(found);
  }

  /** @param {number} electrode */
  select(electrode) {
    if (this.dialog.open) remember("electrode", String(electrode));
    byId("array-number", HTMLInputElement).value = String(electrode);
    this.describe();
    this.renewWaves();
    this.renewResponses();
  }

  /** Show the figures of the selected electrode as words. */
  describe() {
    const { table } = this;
    if (!table) return;
    const electrode = this.map.selected;
    const facts = FACTS.map((key) => [FIGURES[key], FIGURES[key].values(table)[electrode]]).map(
      ([figure, value]) =>
        `${/** @type {any} */ (figure).name} ${words(/** @type {any} */ (figure), /** @type {any} */ (value))}`,
    );
    const causes = Object.entries(table.muted_by)
      .filter(([, shares]) => shares[electrode])
      .map(([cause, shares]) => `${cause} ${words(FIGURES.muted, shares[electrode])}`);
    const muted = causes.length ? ` (${causes.join(", ")})` : "";
    setText(byId("array-words"), [table.states[electrode], ...facts].join(" · ") + muted);
  }
}

/**
 * Return the answer to a request that is made again soon; null if it failed.
 * @param {string} path
 */
const read = (path) => call("GET", path, undefined, { quiet: true }).catch(() => null);
