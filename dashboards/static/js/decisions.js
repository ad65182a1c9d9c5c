// The latest decisions about the medium: grade, treatment, cost and the reasons of the cost model.

import { call } from "./api.js";
import { byId, h, redraw } from "./dom.js";
import { capital, fixed, inUtc, moment } from "./format.js";
import { named, spoken } from "./words.js";

/** @import { DecisionModel, DecisionsModel, RetreatModel, WeighedUp } from "../../types/api.d.ts" */

const ROWS = 12;
const PERIOD_MS = 4000;
/** @type {Record<string, string>} */
const ACTIONS = {
  rest: "No treatment",
  return: "Returned untreated",
  condition: "Conditioned and returned",
  dilute: "Diluted and returned",
  dialyse: "Dialysed and returned",
  discard: "Discarded and replaced by fresh medium",
};

/** Read the decisions now and then, and show them. */
export function startDecisions() {
  const refresh = async () => {
    if (document.hidden) return;
    /** @type {DecisionsModel | null} */
    const found = await call("GET", `/api/decisions?limit=${ROWS}`, undefined, { quiet: true }).catch(() => null);
    if (!found) return;
    show(found.decisions);
    showRetreat(found.retreat ?? null);
  };
  refresh();
  setInterval(refresh, PERIOD_MS);
}

/** @param {DecisionModel[]} decisions */
function show(decisions) {
  const none = () => h("li", { class: "empty", text: "None yet: “recycle” records a decision for each batch." });
  const keys = decisions.map((each) => each.seq);
  redraw(byId("decisions"), keys, () => (decisions.length ? decisions.map(item) : none()));
}

/** @param {RetreatModel | null} retreat */
function showRetreat(retreat) {
  const place = byId("retreat");
  place.hidden = !retreat;
  redraw(place, retreat, () => retreat && retreatText(retreat));
}

/** @param {RetreatModel} retreat */
const retreatText = ({ utc, text, exchanged_ml_d: amount }) => [
  h("strong", { text: `No recycling now: ${fixed(amount, 0)}\u00a0mL of fresh medium a day instead` }),
  h("span", { text: `${capital(text.replace(/`([^`]+)`/g, "“$1”"))}.` }),
  h("span", { class: "dim", title: inUtc(utc), text: `Since ${moment(utc)}` }),
];

/** @param {DecisionModel} each */
function item(each) {
  const risk = `${fixed(each.risk * 100, 1)}\u00a0% (${named(each.worst)})`;
  return h(
    "li",
    { class: "decision", "data-testid": "decision", title: `row ${each.seq} of the journal: ${each.reason}` },
    h("i", { class: `mini grade-${each.grade}`, "aria-label": `Grade ${each.grade}`, text: each.grade }),
    h(
      "div",
      { class: "decision-what" },
      h("strong", { text: ACTIONS[each.action] ?? spoken(each.action) }),
      h("span", { class: "dim", title: inUtc(each.utc), text: `cycle ${each.cycle} · ${moment(each.utc)}` }),
    ),
    h(
      "div",
      { class: "decision-why" },
      h("span", { text: gradeText(each) }),
      h("span", { text: `${euro(each.eur)}, risk ${risk}` }),
      h("span", { class: "dim", text: `alternatives: ${each.others.map(alternative).join("; ")}` }),
    ),
  );
}

/** @param {DecisionModel} decision */
function gradeText({ of, grade, limiting, grade_reasons: reasons }) {
  const what = of === "loop" ? "Loop" : "Batch";
  if (limiting === "none") return `${what}: grade ${grade}, no limiting variable`;
  return `${what}: grade ${grade} by ${reasons.length ? reasons.map(finding).join("; ") : named(limiting)}`;
}

/**
 * Return a reason such as “lactate_mm 6.2 (5.1 to 7.3) mM: B” with its printed name and without the grade.
 * @param {string} reason
 */
const finding = (reason) => reason.replace(/^[a-z_]+/, named).replace(/( pH)?: [A-D]$/, "");

/** @param {WeighedUp} candidate */
function alternative({ action, eur, refused, still }) {
  if (refused) return `not ${action}: ${refused}`;
  return `${action} ${euro(eur)}${still ? `, but the loop would remain bad by ${named(still)}` : ""}`;
}

/** @param {number} amount */
const euro = (amount) => `${fixed(amount, 2)}\u00a0€`;
