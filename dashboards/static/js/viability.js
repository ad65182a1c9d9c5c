// The viability ring: one arc a part, as long as its weight, as full as its score; what is missing is left open.
// Under it welfare and the rating made of both, and what the organoid's age and its review allow.

import { byId, h, redraw, s } from "./dom.js";
import { capital, fixed, named, percent } from "./words.js";

const SIZE = 180, MIDDLE = SIZE / 2, RADIUS = 74, GAP = 0.045;

export function showViability(found) {
  redraw(byId("viability-body"), found && shown(found), () => (found ? picture(found) : [h("p", { class: "empty", text: "The first score comes within a minute of rig time." })]));
}

/** What the picture is made of: the inputs and the baselines change with every look and are not in it. */
const shown = ({ inputs, baseline, ...rest }) => rest;

function picture(found) {
  const parts = Object.entries(found.parts);
  const total = parts.reduce((sum, [, part]) => sum + part.weight, 0);
  const range = between(found);
  const ring = s("svg", { class: "ring", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": `Viability ${percent(found.score)}, between ${range}, coverage ${percent(found.coverage)}` });
  let angle = -Math.PI / 2;
  for (const [name, part] of parts) {
    const span = (part.weight / total) * 2 * Math.PI;
    const begin = angle + GAP / 2, end = angle + span - GAP / 2;
    angle += span;
    ring.append(s("path", { class: part.coverage === 0 ? "arc missing" : "arc", d: arc(begin, end) }, s("title", { text: tell(name, part) })));
    if (part.coverage > 0 && part.score > 0.01) {
      ring.append(s("path", { class: `arc full ${level(part.known)}`, d: arc(begin, begin + (end - begin) * part.score) }));
    }
  }
  ring.append(
    s("text", { class: "ring-score", x: MIDDLE, y: MIDDLE + 5, "text-anchor": "middle" }, s("tspan", { text: Math.round(found.score * 100) }), s("tspan", { class: "ring-sign", dx: 3, text: "%" })),
    s("text", { class: "ring-under", x: MIDDLE, y: MIDDLE + 25, "text-anchor": "middle", text: `${range}` }),
    s("text", { class: "ring-under", x: MIDDLE, y: MIDDLE + 42, "text-anchor": "middle", text: `coverage ${percent(found.coverage)}` }));
  const shut = Object.entries(found.gates).filter(([, gate]) => !gate.open);
  return [
    h("div", { class: "ring-place" }, ring),
    shut.map(([name, gate]) => h("p", { class: "note", text: `${capital(named(name))}: ${gate.text}. This alone makes the score 0.` })),
    h("ul", { class: "parts" }, parts.map(([name, part]) => row(name, part, found.limiting === name))),
    rating(found),
    h("p", { class: "note", text: `${capital(found.label)}. What is missing counts as if it had failed; of what is known: ${found.of_known === null ? "–" : percent(found.of_known)}.` }),
  ];
}

function row(name, part, limiting) {
  const missing = part.coverage === 0;
  const bar = h("i", { class: `bar ${missing ? "missing" : level(part.known)}` }, h("b", {}));
  bar.firstChild.style.width = `${missing ? 0 : Math.max(part.score * 100, 2)}%`;
  return h("li", { class: limiting ? "part limiting" : "part", title: tell(name, part) },
    h("span", { class: "part-name", text: named(name) }),
    h("span", { class: "part-value", text: missing ? "missing" : part.coverage < 1 ? `${value(part.value)} of ${fixed(part.coverage, 2)}` : value(part.value) }), bar,
    h("span", { class: "part-weight", text: percent(part.weight), title: "weight" }));
}

/** Welfare, the rating made of both, and what may be asked of the tissue. */
function rating({ welfare, happiness, stimulation }) {
  const why = Object.entries(welfare.parts).map(([name, part]) => tell(name, part)).join("\n");
  const asked = stimulation && (stimulation.reason && stimulation.level !== "none" ? `${stimulation.level} level: ${stimulation.reason}` : stimulation.reason);
  return h("dl", { class: "rating", "data-testid": "rating" },
    h("div", { title: why }, h("dt", { text: "Welfare" }), h("dd", { text: `${percent(welfare.score)} (${between(welfare)})` })),
    h("div", { title: capital(happiness.label) }, h("dt", { text: "“Happiness”" }), h("dd", { text: `${percent(happiness.score)} (${between(happiness)}), coverage ${percent(happiness.coverage)}` })),
    stimulation && stimulation.tier > 0 && h("div", { title: capital(asked || "what the stimulation envelope allows") },
      h("dt", { text: `Stimulation, tier ${stimulation.tier}` }),
      h("dd", { text: `${percent(stimulation.load)} of its budget, ${stimulation.level} level${stimulation.response_lost ? ", response lost: resting" : ""}` })),
    stimulation && stimulation.tier > 1 && h("p", { class: "note", text: `${capital(stimulation.reason)}.` }));
}

const between = (score) => `${Math.round(score.low * 100)} to ${percent(score.high)}`;
const level = (score) => (score >= 0.8 ? "good" : score >= 0.5 ? "fair" : "poor");
const value = (found) => (typeof found === "number" ? fixed(found, 2) : String(found));

function tell(name, part) {
  const known = part.coverage === 0 ? "missing, counts as failed" : `${value(part.value)}, scores ${fixed(part.score, 2)} (${fixed(part.low, 2)} to ${fixed(part.high, 2)})`;
  const partly = part.coverage > 0 && part.coverage < 1 ? `; ${percent(part.coverage)} of it is known` : "";
  return `${capital(named(name))}: ${known}${partly}; weight ${percent(part.weight)}${part.note ? `; ${part.note}` : ""}`;
}

function arc(begin, end) {
  const point = (angle) => `${(MIDDLE + RADIUS * Math.cos(angle)).toFixed(2)} ${(MIDDLE + RADIUS * Math.sin(angle)).toFixed(2)}`;
  return `M ${point(begin)} A ${RADIUS} ${RADIUS} 0 ${end - begin > Math.PI ? 1 : 0} 1 ${point(end)}`;
}
