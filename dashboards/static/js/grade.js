// The last grade: the letter, what decided it, and what every variable said.

import { byId, h, redraw } from "./dom.js";
import { fixed, inUtc, moment, named, percent } from "./words.js";

const WORDS = { A: "Good enough to reuse", B: "Condition, then reuse", C: "Replace at least half", D: "Discard" };
const UNITS = { lactate_mm: "mM", ammonia_mm: "mM", glucose_mm: "mM", oxygen_pct: "%", osmolality_change_pct: "%", passes: "×" };

export function showGrade(found) {
  redraw(byId("grade-body"), found, () => (found ? picture(found) : [h("p", { class: "empty", text: "Nothing has been graded yet; “recycle” grades each batch." })]));
}

function picture(found) {
  const limiting = found.limiting && found.limiting !== "none";
  const variables = Object.entries(found.variables ?? {}).sort(([, a], [, b]) => (b.grade ?? "").localeCompare(a.grade ?? ""));
  return [
    h("div", { class: "grade-row" },
      h("div", { class: `letter grade-${found.grade}`, "data-testid": "grade-letter", "aria-label": `Grade ${found.grade}`, text: found.grade }),
      h("div", { class: "grade-words" },
        h("strong", { text: WORDS[found.grade] ?? "" }),
        h("span", { text: limiting ? `Limited by ${named(found.limiting)}` : "Nothing limits it" }),
        h("span", { class: "dim", title: inUtc(found.utc), text: `${found.of === "loop" ? "the loop · " : ""}${found.cycle ? `cycle ${found.cycle} · ` : ""}${moment(found.utc)} · confidence ${percent(found.confidence)}` }))),
    found.reasons?.length ? h("p", { class: "note", text: found.reasons.map((reason) => reason.replace(/^[a-z_]+/, named)).join("; ") }) : null,
    h("ul", { class: "variables" }, variables.map(([name, one]) =>
      h("li", { class: one.grade ? null : "lesser", title: `${named(name)}: ${one.reason}. Limits: ${one.limits}` },
        h("i", { class: `mini grade-${one.grade ?? "none"}`, text: one.grade ?? "–" }),
        h("span", { text: named(name) }),
        h("span", { class: "variable-value", text: reading(name, one.input) })))),
  ].filter(Boolean);
}

function reading(name, input) {
  if (input === null || input === undefined) return "missing";
  if (typeof input === "string") return input.replace("barrier ", "");
  const value = Math.abs(input.value);
  const digits = name === "ph" || value < 1 ? 2 : value < 100 ? 1 : 0;
  return `${fixed(Math.abs(input.value) < 0.005 ? 0 : input.value, name === "passes" ? 1 : digits)} ${UNITS[name] ?? ""}`.trim();
}
