// The viability ring: one arc a part, as long as its weight, as full as its score; what is missing is left open.

import { byId, h, redraw, s } from "./dom.js";
import { fixed, named, percent } from "./words.js";

const SIZE = 180, MIDDLE = SIZE / 2, RADIUS = 74, GAP = 0.045;

const UNITS = { oxygen_pct: " %", temperature_c: " °C" };
const DIGITS = { oxygen_pct: 1, temperature_c: 1, ph: 2, ph_spread: 2, firing_ratio: 2, lactate_ratio: 2 };

export function showViability(found) {
  redraw(byId("viability-body"), found, () => (found ? picture(found) : [h("p", { class: "empty", text: "The first score comes within a minute of rig time." })]));
}

function picture(found) {
  const parts = Object.entries(found.parts);
  const total = parts.reduce((sum, [, part]) => sum + part.weight, 0);
  const ring = s("svg", { class: "ring", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": `Viability ${percent(found.score)}, confidence ${percent(found.confidence)}` });
  let angle = -Math.PI / 2;
  for (const [name, part] of parts) {
    const span = (part.weight / total) * 2 * Math.PI;
    const begin = angle + GAP / 2, end = angle + span - GAP / 2;
    angle += span;
    const missing = found.missing.includes(name);
    ring.append(s("path", { class: missing ? "arc missing" : "arc", d: arc(begin, end) }, s("title", { text: tell(name, part, missing) })));
    if (!missing && part.score > 0.01) {
      ring.append(s("path", { class: `arc full ${level(part.score)}`, d: arc(begin, begin + (end - begin) * part.score) }));
    }
  }
  ring.append(
    s("text", { class: "ring-score", x: MIDDLE, y: MIDDLE + 13, "text-anchor": "middle" }, s("tspan", { text: Math.round(found.score * 100) }), s("tspan", { class: "ring-sign", dx: 3, text: "%" })),
    s("text", { class: "ring-under", x: MIDDLE, y: MIDDLE + 36, "text-anchor": "middle", text: `confidence ${percent(found.confidence)}` }));
  const rows = parts.map(([name, part]) => row(name, part, found.missing.includes(name), found.limiting === name));
  return [
    h("div", { class: "ring-place" }, ring),
    h("ul", { class: "parts" }, rows),
    h("p", { class: "note", text: found.label.charAt(0).toUpperCase() + found.label.slice(1) + "." }),
  ];
}

function row(name, part, missing, limiting) {
  const bar = h("i", { class: `bar ${missing ? "missing" : level(part.score)}` }, h("b", {}));
  bar.firstChild.style.width = `${missing ? 0 : Math.max(part.score * 100, 2)}%`;
  return h("li", { class: limiting ? "part limiting" : "part", title: tell(name, part, missing) },
    h("span", { class: "part-name" }, named(name)),
    h("span", { class: "part-value", text: missing ? "missing" : value(name, part.value) }), bar,
    h("span", { class: "part-weight", text: percent(part.weight), title: "weight" }));
}

const level = (score) => (score >= 0.8 ? "good" : score >= 0.5 ? "fair" : "poor");
const value = (name, found) => (typeof found === "number" ? fixed(found, DIGITS[name] ?? 2) + (UNITS[name] ?? "") : String(found));
const tell = (name, part, missing) => `${named(name)}: ${missing ? "missing, counts as 0" : `${value(name, part.value)}, scores ${fixed(part.score, 2)}`}; weight ${percent(part.weight)}`;

function arc(begin, end) {
  const point = (angle) => `${(MIDDLE + RADIUS * Math.cos(angle)).toFixed(2)} ${(MIDDLE + RADIUS * Math.sin(angle)).toFixed(2)}`;
  return `M ${point(begin)} A ${RADIUS} ${RADIUS} 0 ${end - begin > Math.PI ? 1 : 0} 1 ${point(end)}`;
}
