// Where the medium went: millilitres, the share that was used again, and whether the books balance.

import { byId, h, redraw } from "./dom.js";
import { fixed, percent } from "./words.js";

export function showLedger(found) {
  redraw(byId("ledger-body"), found, () => (found ? picture(found) : []));
}

function picture(found) {
  const inside = Math.abs(found.mass_balance_error_ml) <= found.mass_balance_bound_ml;
  const entered = found.recycled_ml + found.fresh_ml;
  const bar = h("div", { class: "share", role: "img", "aria-label": `${percent(found.recycled_fraction)} of what entered the loop had been there before` }, h("b", {}));
  bar.firstChild.style.width = `${found.recycled_fraction * 100}%`;
  return [
    h("div", { class: "share-row" }, h("span", { class: "share-number", text: entered > 0 ? percent(found.recycled_fraction) : "–" }),
      h("span", { class: "share-words" }, "recycled", h("small", { text: "of what entered the loop" }))),
    bar,
    h("table", { class: "books" }, h("tbody", {},
      line("Fresh used", found.fresh_ml), line("Recycled", found.recycled_ml), line("Discarded", found.discarded_ml),
      line("Glucose and base", found.glucose_ml + found.base_ml, "lesser"), line("Evaporated (est.)", found.evaporated_ml, "lesser"),
      h("tr", { class: inside ? "balance" : "balance broken" },
        h("th", { scope: "row" }, h("span", { class: "ok-mark", "aria-hidden": "true", text: inside ? "✓" : "!" }), "Balance error"),
        h("td", { title: "What weighings found that no transfer explains, within three standard deviations of what was moved and weighed" },
          fixed(found.mass_balance_error_ml, 2), h("small", { text: ` ± ${fixed(found.mass_balance_bound_ml, 2)} mL` }))))),
  ];
}

const line = (name, ml, rank) => h("tr", { class: rank }, h("th", { scope: "row", text: name }), h("td", {}, fixed(ml, 1), h("small", { text: " mL" })));
