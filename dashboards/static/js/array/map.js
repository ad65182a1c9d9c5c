// The electrode map: one cell for each electrode, coloured by a figure or by state. Cells lie as the electrodes do,
// y up; where their positions are not known, in the order of their numbers.

import { h, setText } from "../dom.js";
import { fixed } from "../format.js";
import { neighbour, placesOf } from "./places.js";
import { FIGURES, MARKS, rangeOf, shareOf, words } from "./scale.js";

/** @import { ElectrodesModel } from "../../../types/api.d.ts" */

const LARGE = 100;
/** Steps of the keys from one electrode to another; a row is added as a multiple. */
const KEYS = /** @type {Record<string, [number, number]>} */ ({
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
});

export class ElectrodeMap {
  /**
   * @param {HTMLElement} box
   * @param {HTMLElement} legend
   * @param {number} electrodes
   * @param {(electrode: number) => void} onSelect
   */
  constructor(box, legend, electrodes, onSelect) {
    this.box = box;
    this.legend = legend;
    this.onSelect = onSelect;
    this.selected = 0;
    this.figure = "rate";
    /** @type {ElectrodesModel | null} */
    this.table = null;
    this.cells = Array.from({ length: electrodes }, (_, electrode) =>
      h("button", {
        type: "button",
        role: "gridcell",
        tabindex: electrode ? -1 : 0,
        "data-electrode": electrode,
        "aria-label": `Electrode ${electrode}`,
      }),
    );
    box.classList.toggle("large", electrodes > LARGE);
    this.placed = "";
    /** @type {import("./places.js").Place[]} */
    this.places = [];
    this.place([], []);
    box.addEventListener("click", (event) => this.clicked(event.target));
    box.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** @param {EventTarget | null} target */
  clicked(target) {
    if (target instanceof HTMLButtonElement) this.select(Number(target.dataset.electrode));
  }

  /**
   * Lay the cells as the electrodes lie. Nothing happens while that does not change.
   * @param {(number | null)[]} xUm
   * @param {(number | null)[]} yUm - up
   */
  place(xUm, yUm) {
    const key = `${xUm.join()};${yUm.join()}`;
    if (key === this.placed) return;
    this.placed = key;
    this.places = placesOf(this.cells.length, xUm, yUm);
    const columns = Math.max(...this.places.map(({ column }) => column)) + 1;
    const rows = Math.max(...this.places.map(({ row }) => row)) + 1;
    this.box.style.setProperty("--columns", String(columns));
    this.box.style.setProperty("--rows", String(rows));
    this.box.setAttribute("aria-rowcount", String(rows));
    this.box.setAttribute("aria-colcount", String(columns));
    const lines = Array.from({ length: rows }, () => h("div", { role: "row" }));
    const order = this.cells.map((_, electrode) => electrode);
    order.sort((one, other) => this.places[one].column - this.places[other].column);
    for (const electrode of order) {
      const { row, column } = this.places[electrode];
      this.cells[electrode].style.gridColumn = String(column + 1);
      this.cells[electrode].setAttribute("aria-colindex", String(column + 1));
      lines[row].append(this.cells[electrode]);
    }
    this.box.replaceChildren(...lines);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const last = this.cells.length - 1;
    const step = KEYS[event.key];
    let to = step ? neighbour(this.places, this.selected, step) : this.selected;
    if (event.key === "Home") to = 0;
    else if (event.key === "End") to = last;
    else if (!step) return;
    event.preventDefault();
    this.select(to);
    this.cells[to].focus();
  }

  /** @param {number} electrode */
  select(electrode) {
    this.cells[this.selected].tabIndex = -1;
    this.cells[this.selected].removeAttribute("aria-selected");
    this.selected = electrode;
    this.cells[electrode].tabIndex = 0;
    this.cells[electrode].setAttribute("aria-selected", "true");
    this.onSelect(electrode);
  }

  /** @param {string} figure - a key of FIGURES, or "state" */
  colourBy(figure) {
    this.figure = figure;
    this.draw();
  }

  /** @param {ElectrodesModel} table */
  update(table) {
    this.table = table;
    this.place(table.x_um, table.y_um);
    this.draw();
  }

  draw() {
    if (!this.table) return;
    const figure = FIGURES[this.figure];
    const values = figure ? figure.values(this.table) : [];
    const range = rangeOf(values, Boolean(figure?.signed));
    this.cells.forEach((cell, electrode) => this.drawCell(cell, electrode, values[electrode] ?? null, range));
    this.drawLegend(range);
  }

  /**
   * @param {HTMLButtonElement} cell
   * @param {number} electrode
   * @param {number | null} value
   * @param {[number, number]} range
   */
  drawCell(cell, electrode, value, range) {
    const state = this.table?.states[electrode] ?? "unknown";
    const figure = FIGURES[this.figure];
    const share = shareOf(value, range);
    cell.dataset.state = state;
    cell.dataset.scale = scaleOf(figure);
    cell.classList.toggle("unknown", Boolean(figure) && share === null);
    cell.style.setProperty("--share", (share ?? 0).toFixed(2));
    setText(cell, MARKS[state] ?? "");
    const label = figure ? `${figure.name.toLowerCase()} ${words(figure, value)}` : "";
    cell.setAttribute("aria-label", `Electrode ${electrode}: ${state}${label && `, ${label}`}`);
  }

  /** @param {[number, number]} range */
  drawLegend(range) {
    const figure = FIGURES[this.figure];
    const states = this.table?.states ?? [];
    if (figure) {
      const [low, high] = range.map((value) => fixed(value, figure.digits));
      this.legend.replaceChildren(
        h("span", { text: low }),
        h("i", { class: "ramp", "data-scale": scaleOf(figure), "aria-hidden": "true" }),
        h("span", { text: `${high} ${figure.unit}` }),
      );
      return;
    }
    const counts = ["ok", "blanked", "noisy", "saturated", "dead"].map((state) => {
      const count = states.filter((each) => each === state).length;
      return h("span", { class: "state-key", "data-state": state, text: `${count} ${state}` });
    });
    this.legend.replaceChildren(...counts);
  }
}

/**
 * Return which colours show a figure; without one they show the state.
 * @param {import("./scale.js").Figure | undefined} figure
 */
function scaleOf(figure) {
  if (!figure) return "state";
  return figure.signed ? "signed" : "one";
}
