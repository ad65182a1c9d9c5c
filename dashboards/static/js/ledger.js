// The medium ledger: fresh medium saved against the scheduled exchange, volumes, and the mass balance.

import { byId, h, redraw } from "./dom.js";
import { fixed, percent } from "./format.js";

/** @import { LedgerModel } from "../../types/api.d.ts" */

const ERROR_TITLE =
  "The difference that weighings found and no transfer explains. " +
  "Its uncertainty (±) is three standard deviations of the transfers and weighings.";

const BOUND_TITLE =
  "The least fresh medium that keeps lactate within grade B without a dialyser, by the estimated production, " +
  "and the ratio of the fresh medium used to it. Below 1 the loop holds more than grade B, or was dialysed.";

/**
 * Show the ledger.
 * @param {LedgerModel | undefined} ledger
 * @param {boolean} recycles - whether the rig returns medium
 */
export function showLedger(ledger, recycles) {
  redraw(byId("ledger-body"), ledger ?? null, () => ledger && (recycles ? picture(ledger) : plain(ledger)));
}

/**
 * Return the ledger of a rig that returns no medium.
 * @param {LedgerModel} found
 */
const plain = (found) =>
  h("table", { class: "books" }, h("tbody", {}, line("Fresh used", found.fresh_ml), balanceRow(found)));

/** @param {LedgerModel} found */
function picture(found) {
  const saved = found.saved_fraction;
  const share = saved === null ? 0 : Math.min(Math.max(saved, 0), 1);
  const filled = h("b");
  filled.style.width = `${share * 100}%`;
  const scheduled = `${fixed(found.scheduled_ml, 0)}\u00a0mL of daily exchange in ${fixed(found.days, 0)} days`;
  const words = saved === null ? "known after one day" : `of ${scheduled}`;
  const text = saved === null ? "–" : percent(saved);
  return [
    h(
      "div",
      { class: "share-row" },
      h("span", { class: "share-number", text }),
      h("span", { class: "share-words" }, "fresh medium saved", h("small", { text: words })),
    ),
    h("div", { class: "share", role: "img", "aria-label": `${text} of the scheduled fresh medium saved` }, filled),
    h("table", { class: "books" }, h("tbody", {}, volumeRows(found), balanceRow(found))),
  ];
}

/** @param {LedgerModel} found */
function volumeRows(found) {
  return [
    line("Fresh used", found.fresh_ml),
    boundRow(found),
    line("Recycled", found.recycled_ml),
    line("Discarded", found.discarded_ml),
    line("Glucose and base", found.glucose_ml + found.base_ml, "lesser"),
    line("Evaporated (est.)", found.evaporated_ml, "lesser"),
  ];
}

/** @param {LedgerModel} found */
function balanceRow(found) {
  const closes = Math.abs(found.mass_balance_error_ml) <= found.mass_balance_uncertainty_ml;
  const mark = h("span", { class: "ok-mark", "aria-hidden": "true", text: closes ? "✓" : "!" });
  return h(
    "tr",
    { class: closes ? "balance" : "balance broken" },
    h("th", { scope: "row" }, mark, "Balance error"),
    h(
      "td",
      { title: ERROR_TITLE },
      fixed(found.mass_balance_error_ml, 2),
      h("small", { text: ` ± ${fixed(found.mass_balance_uncertainty_ml, 2)} mL` }),
    ),
  );
}

/**
 * Return the ratio of the fresh medium to the mass-balance bound; nothing while it is unknown.
 * @param {LedgerModel} found
 */
function boundRow({ bound_ml: bound, bound_ratio: ratio }) {
  if (bound === null || bound === undefined) return null;
  const used = typeof ratio === "number" ? `, used\u00a0${fixed(ratio, 2)}\u00a0×` : "";
  return h(
    "tr",
    { title: BOUND_TITLE, "data-testid": "bound" },
    h("th", { scope: "row", text: "Mass-balance bound" }),
    h("td", {}, fixed(bound, 1), h("small", { text: `\u00a0mL${used}` })),
  );
}

/**
 * @param {string} name
 * @param {number} ml
 * @param {string} [rank]
 */
const line = (name, ml, rank) =>
  h(
    "tr",
    { class: rank },
    h("th", { scope: "row", text: name }),
    h("td", {}, fixed(ml, 1), h("small", { text: " mL" })),
  );
