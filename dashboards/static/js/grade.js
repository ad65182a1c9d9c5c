// The last grade of the medium: the letter, the limiting variable, and all variables.

import { byId, h, redraw } from "./dom.js";
import { fixed, inUtc, moment, percent } from "./format.js";
import { named } from "./words.js";

/** @import { Grade, GradedVariable, ViabilityEstimate } from "../../types/live.d.ts" */

/** @typedef {ViabilityEstimate["quantities"]} Quantities */

/** @type {Record<string, string>} */
const MEANINGS = {
  A: "Good enough to reuse",
  B: "Condition, then reuse",
  C: "Replace at least half",
  D: "Discard",
};
/** @type {Record<string, string>} */
const UNITS = {
  lactate_mm: "mM",
  ammonia_mm: "mM",
  glucose_mm: "mM",
  oxygen_pct: "%",
  osmolality_change_pct: "%",
  passes: "×",
};

/**
 * Show the last grade, or that there is none yet.
 * @param {Grade | null | undefined} grade
 * @param {Quantities} quantities - how each quantity of the medium is known now
 */
export function showGrade(grade, quantities) {
  const none = () => h("p", { class: "empty", text: "Nothing has been graded yet; “recycle” grades each batch." });
  const estimated = estimatedOf(grade, quantities);
  redraw(byId("grade-body"), grade && { grade, estimated }, () => (grade ? picture(grade, estimated) : none()));
}

/**
 * Return the graded quantities that nothing measures now.
 * @param {Grade | null | undefined} grade
 * @param {Quantities} quantities
 */
function estimatedOf(grade, quantities) {
  const names = Object.keys(grade?.variables ?? {}).map(named);
  return Object.entries(quantities ?? {})
    .filter(([name, { how }]) => how === "estimated" && names.includes(name))
    .map(([name]) => name);
}

/**
 * @param {Grade} found
 * @param {string[]} estimated
 */
function picture(found, estimated) {
  const limited = found.limiting && found.limiting !== "none";
  const source = [found.of === "loop" ? "the loop" : "", found.cycle ? `cycle ${found.cycle}` : ""];
  const about = [...source, moment(found.utc), `confidence ${percent(found.confidence)}`].filter(Boolean).join(" · ");
  const letter = {
    class: `letter grade-${found.grade}`,
    "data-testid": "grade-letter",
    "aria-label": `Grade ${found.grade}`,
    text: found.grade,
  };
  const words = h(
    "div",
    { class: "grade-words" },
    h("strong", { text: MEANINGS[found.grade] ?? "" }),
    h("span", { text: limited ? `Limited by ${named(found.limiting ?? "")}` : "No limiting variable" }),
    h("span", { class: "dim", title: inUtc(found.utc), text: about }),
  );
  return [
    h("div", { class: "grade-row" }, h("div", letter), words),
    reasons(found.reasons ?? []),
    h("ul", { class: "variables" }, sorted(found).map(variable)),
    estimated.length > 0 && h("p", { class: "note", text: `Estimated, not measured: ${estimated.join(", ")}.` }),
  ];
}

/** @param {string[]} found */
function reasons(found) {
  return (
    found.length > 0 && h("p", { class: "note", text: found.map((one) => one.replace(/^[a-z_]+/, named)).join("; ") })
  );
}

/**
 * Return the variables, worst grade first.
 * @param {Grade} grade
 */
function sorted(grade) {
  const entries = Object.entries(grade.variables ?? {});
  return entries.sort(([, a], [, b]) => (b.grade ?? "").localeCompare(a.grade ?? ""));
}

/** @param {[string, GradedVariable]} entry */
function variable([name, one]) {
  const title = `${named(name)}: ${one.reason}. Limits: ${one.limits}`;
  return h(
    "li",
    { class: one.grade ? null : "lesser", title },
    h("i", { class: `mini grade-${one.grade ?? "none"}`, text: one.grade ?? "–" }),
    h("span", { text: named(name) }),
    h("span", { class: "variable-value", text: inputText(name, one.input) }),
  );
}

/**
 * Return the value of a variable with its unit.
 * @param {string} name
 * @param {GradedVariable["input"] | undefined} input
 */
function inputText(name, input) {
  if (input === null || input === undefined) return "missing";
  if (typeof input === "string") return input.replace("barrier ", "");
  const value = Math.abs(input.value) < 0.005 ? 0 : input.value;
  return `${fixed(value, digitsOf(name, Math.abs(input.value)))} ${UNITS[name] ?? ""}`.trim();
}

/**
 * Return the decimal places of a variable.
 * @param {string} name
 * @param {number} size
 */
function digitsOf(name, size) {
  if (name === "passes") return 1;
  if (name === "ph" || size < 1) return 2;
  return size < 100 ? 1 : 0;
}
