// What was done with the last batches, and why: the grade, the choice, what it cost, and the cost model's own words.

import { call } from "./api.js";
import { byId, h, redraw } from "./dom.js";
import { fixed, inUtc, moment, named, spoken } from "./words.js";

const ROWS = 12;
const EVERY_MS = 4000;
const ACTIONS = {
  rest: "Left alone", return: "Given back as it is", condition: "Conditioned and given back", dilute: "Thinned and given back",
  dialyse: "Dialysed and given back", discard: "Thrown away, fresh instead",
};

export function beginDecisions() {
  const refresh = async () => {
    if (document.hidden) return;
    const found = await call("GET", `/api/decisions?limit=${ROWS}`, undefined, { quiet: true }).catch(() => null);
    if (found) show(found.decisions);
  };
  refresh();
  setInterval(refresh, EVERY_MS);
}

function show(decisions) {
  redraw(byId("decisions"), decisions.map((each) => each.seq), () => (decisions.length ? decisions.map(one)
    : h("li", { class: "empty", text: "None yet: “recycle” weighs up each batch and writes down why." })));
}

function one(each) {
  return h("li", { class: "decision", "data-testid": "decision", title: `row ${each.seq} of the journal: ${each.reason}` },
    h("i", { class: `mini grade-${each.grade}`, "aria-label": `Grade ${each.grade}`, text: each.grade }),
    h("div", { class: "decision-what" },
      h("strong", { text: ACTIONS[each.action] ?? spoken(each.action) }),
      h("span", { class: "dim", title: inUtc(each.utc), text: `cycle ${each.cycle} · ${moment(each.utc)}` })),
    h("div", { class: "decision-why" },
      h("span", { text: graded(each) }),
      h("span", { text: `${euro(each.eur)}, risk ${fixed(each.risk * 100, 1)}\u00a0% (${named(each.worst)})` }),
      h("span", { class: "dim", text: `instead: ${each.others.map(other).join("; ")}` })));
}

function graded({ of, grade, limiting, grade_reasons: reasons }) {
  const what = of === "loop" ? "Loop" : "Batch";
  if (limiting === "none") return `${what}: grade ${grade}, nothing limits it`;
  return `${what}: grade ${grade} by ${reasons.length ? reasons.map(finding).join("; ") : named(limiting)}`;
}

/** “lactate_mm 6.2 (5.1 to 7.3) mM: B” of a batch whose letter has been said. */
const finding = (reason) => reason.replace(/^[a-z_]+/, named).replace(/( pH)?: [A-D]$/, "");

function other({ action, eur, refused, still }) {
  if (refused) return `${action} not, ${refused}`;
  return `${action} ${euro(eur)}${still ? `, but the loop would still be bad by ${named(still)}` : ""}`;
}

const euro = (amount) => `${fixed(amount, 2)}\u00a0€`;
