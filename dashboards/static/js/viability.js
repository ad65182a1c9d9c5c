// The viability ring: one arc a part, as long as its weight, as full as its score; what is missing is left open. Its number
// is the range of what is possible, which only widens when an input goes missing; coverage and what is known alone are beside it.
// Under it welfare and the rating made of both in the same manner, and what the organoid's age and its review allow.

import { byId, h, redraw, s } from "./dom.js";
import { capital, fixed, named, percent } from "./words.js";

const SIZE = 180, MIDDLE = SIZE / 2, RADIUS = 78, GAP = 0.045;

export function showViability(found) {
  redraw(byId("viability-body"), found && shown(found), () => (found ? picture(found) : [h("p", { class: "empty", text: "The first score comes within a minute of rig time." })]));
}

/** What the picture is made of: the inputs and the baselines change with every look and are not in it. */
const shown = ({ inputs, baseline, ...rest }) => rest;

function picture(found) {
  const parts = Object.entries(found.parts);
  const shut = Object.entries(found.gates).filter(([, gate]) => !gate.open);
  return [
    h("div", { class: "vital-row" }, ring(found, shut.length > 0),
      h("div", { class: "vital-words" },
        h("strong", { text: shut.length ? "a gate is not open" : "is possible" }),
        h("span", { text: `coverage ${percent(found.coverage)}`, title: "The weight of the parts that are known" }),
        h("span", { class: "dim", "data-testid": "known", title: KNOWN, text: `of what is known: ${whole(found.of_known)}` }),
        h("span", { class: "dim", "data-testid": "score", text: counted(found, shut.length > 0) }))),
    shut.map(([name, gate]) => h("p", { class: "note", text: `${capital(named(name))}: ${gate.text}. ${gate.open === null ? "Until it is known, the score is 0" : "This alone makes the score 0"}.` })),
    h("ul", { class: "parts" }, parts.map(([name, part]) => row(name, part, found.limiting === name))),
    rating(found),
    h("p", { class: "note", text: `${capital(found.label)}.` }),
  ];
}

function ring(found, shut) {
  const parts = Object.entries(found.parts);
  const total = parts.reduce((sum, [, part]) => sum + part.weight, 0);
  const image = s("svg", { class: "ring", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": `Viability possibly ${between(found)}, coverage ${percent(found.coverage)}` });
  let angle = -Math.PI / 2;
  for (const [name, part] of parts) {
    const span = (part.weight / total) * 2 * Math.PI;
    const begin = angle + GAP / 2, end = angle + span - GAP / 2;
    angle += span;
    image.append(s("path", { class: part.coverage === 0 ? "arc missing" : "arc", d: arc(begin, end) }, s("title", { text: tell(name, part) })));
    if (part.coverage > 0 && part.score > 0.01) {
      image.append(s("path", { class: `arc full ${level(part.known)}`, d: arc(begin, begin + (end - begin) * part.score) }));
    }
  }
  image.append(s("text", { class: shut ? "ring-score shut" : "ring-score", x: MIDDLE, y: MIDDLE + 12, "text-anchor": "middle" },
    s("tspan", { text: ends(found) }), s("tspan", { class: "ring-sign", dx: 2, text: "%" })));
  return image;
}

const KNOWN = "The parts that are known, by themselves. It can rise when a bad reading goes missing: judge by the range";

/** What the API's and the journal's score is, and why it is the lower end. */
function counted(found, shut) {
  const score = `score ${percent(found.score)}`;
  if (shut) return `${score} until every gate is open`;
  return found.coverage > 0.999 ? score : `${score}: what is missing counts as failed`;
}

function row(name, part, limiting) {
  const missing = part.coverage === 0;
  const bar = h("i", { class: `bar ${level(part.known)}` }, h("b", {}));
  bar.firstChild.style.width = `${Math.max(part.score * 100, 2)}%`;
  const said = missing ? "missing" : part.coverage < 1 ? `${percent(part.coverage)} known` : value(part.value);
  return h("li", { class: `part${limiting && !missing ? " limiting" : ""}${missing ? " unknown" : ""}`, title: tell(name, part) },
    h("span", { class: "part-name", text: named(name) }), h("span", { class: "part-value", text: said }), missing ? null : bar,
    h("span", { class: "part-weight", text: percent(part.weight), title: "weight" }));
}

/** Welfare and the rating made of both, each with what is possible, its coverage and what is known; and what may be asked of the tissue. */
function rating({ welfare, happiness, stimulation }) {
  const why = Object.entries(welfare.parts).map(([name, part]) => tell(name, part)).join("\n");
  const line = (name, score, title) => h("tr", { title }, h("th", { scope: "row", text: name }),
    h("td", { class: "strong", text: between(score) }), h("td", { text: percent(score.coverage) }), h("td", { class: "dim", text: whole(score.of_known) }));
  return [
    h("table", { class: "rating", "data-testid": "rating" },
      h("thead", {}, h("tr", {}, h("td", {}), ["possible", "coverage", "of known"].map((text) => h("th", { scope: "col", text })))),
      h("tbody", {}, line("Welfare", welfare, why),
        line("“Happiness”", happiness, capital(happiness.label)))),
    stimulation && stimulation.tier > 0 && allowed(stimulation),
  ];
}

function allowed(stimulation) {
  const asked = stimulation.reason && stimulation.level !== "none" ? `${stimulation.level} level: ${stimulation.reason}` : stimulation.reason;
  return [
    h("p", { class: "allowed", title: capital(asked || "what the stimulation envelope allows") },
      h("span", { class: "dim", text: `Stimulation, tier ${stimulation.tier}` }),
      h("span", { text: `${percent(stimulation.load)} of budget${stimulation.tier > 1 ? `, ${stimulation.level}` : ""}${stimulation.response_lost ? ", response lost: resting" : ""}` })),
    stimulation.tier > 1 && h("p", { class: "note", text: `${capital(stimulation.reason)}.` }),
  ];
}

const whole = (share) => (share === null ? "–" : percent(share));
/** The least and the most that is possible, as whole per cent; one number where they are the same. */
function ends(score) {
  const [low, high] = [score.low, score.high].map((end) => Math.round(end * 100));
  return low === high ? `${low}` : `${low}–${high}`;
}
const between = (score) => `${ends(score)}\u00a0%`;
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
