// The viability card: the estimate with its sentences, and one level down the care rating, welfare and "happiness".
//
// The care rating is a ring with one arc for each part, as long as its weight and as full as its score. The number
// in it is the possible range; it only widens when an input goes missing. Coverage and the score of the known parts
// stand next to it, then the parts, the welfare and the rating made of both.

import { byId, h, redraw, s } from "./dom.js";
import { basisView, estimateView } from "./estimate.js";
import { capital, fixed, percent } from "./format.js";
import { named } from "./words.js";

/** @import { Rating, Score, ScoreGate, ScorePart, Scores, Stimulation } from "../../types/live.d.ts" */

const SIZE = 180;
const MIDDLE = SIZE / 2;
const RADIUS = 78;
const GAP = 0.045;
const KNOWN_TITLE =
  "The score of the known parts alone. It can rise when a bad reading goes missing: use the range for decisions";

/**
 * Show the scores, or that there are none yet.
 * @param {Scores | null | undefined} found
 */
export function showViability(found) {
  const none = () => h("p", { class: "empty", text: "The first score follows within one minute of rig time." });
  redraw(byId("viability-body"), found && keyOf(found), () => (found ? picture(found) : none()));
}

/**
 * Return what the picture shows: inputs and baseline change with each score and are not shown.
 * @param {Scores} found
 */
function keyOf(found) {
  return { ...found, care_rating: { ...found.care_rating, inputs: undefined }, baseline: undefined };
}

/**
 * Return the estimate, and the care rating with its parts one level down.
 * @param {Scores} found
 */
function picture(found) {
  const { viability, stimulation } = found;
  const details = folded("rating-details", "Care rating and happiness", ratings(found));
  const failed = Object.entries(found.unknown ?? {});
  const soon = failed.length > 0 ? "There is no estimate." : "The first estimate follows soon.";
  return [
    viability ? estimateView(viability) : h("p", { class: "empty", text: soon }),
    failed.map(([name, reason]) => h("p", { class: "note", text: `${capital(named(name))} is unknown: ${reason}.` })),
    shutGates(found.care_rating).map(gateNote),
    viability && folded("basis-details", "What the estimate rests on", basisView(viability)),
    details,
    stimulationNotes(stimulation),
    viability && h("p", { class: "note", text: `${viability.meaning}.` }),
  ];
}

/**
 * Return what is one level down, as open as it was before.
 * @param {string} name - its class
 * @param {string} title
 * @param {(Node | null | undefined | false)[]} content
 */
function folded(name, title, content) {
  const before = /** @type {HTMLDetailsElement | null} */ (byId("viability-body").querySelector(`.${name}`));
  const details = h("details", { class: `card-details ${name}` }, h("summary", { text: title }), content);
  /** @type {HTMLDetailsElement} */ (details).open = before?.open ?? false;
  return details;
}

/** @param {Score} rating */
const shutGates = (rating) => Object.entries(rating.gates).filter(([, gate]) => !gate.open);

/**
 * Return the care rating with its parts, then welfare and happiness.
 * @param {Scores} found
 */
function ratings({ care_rating: found, welfare, happiness }) {
  const parts = Object.entries(found.parts);
  const shut = shutGates(found).length > 0;
  return [
    h("div", { class: "vital-row" }, ring(found, shut), summary(found, shut)),
    h(
      "ul",
      { class: "parts" },
      parts.map(([name, part]) => partRow(name, part, found.limiting === name)),
    ),
    ratingTable(welfare, happiness),
    h("p", { class: "note", text: `${capital(found.label)}.` }),
  ];
}

/**
 * @param {Score} found
 * @param {boolean} shut - whether a gate is shut or not known
 */
function summary(found, shut) {
  const known = { class: "dim", "data-testid": "known", title: KNOWN_TITLE };
  return h(
    "div",
    { class: "vital-words" },
    h("strong", { text: shut ? "a gate is not open" : "possible range" }),
    h("span", { text: `coverage ${percent(found.coverage)}`, title: "The weight of the parts that are known" }),
    h("span", { ...known, text: `known parts: ${percentOrDash(found.of_known)}` }),
    h("span", { class: "dim", "data-testid": "score", text: scoreText(found, shut) }),
  );
}

/** @param {[string, ScoreGate]} entry */
function gateNote([name, gate]) {
  const effect = gate.open === null ? "Until it is known, the care rating is 0" : "This alone makes the care rating 0";
  return h("p", { class: "note", text: `${capital(named(name))}: ${gate.text}. ${effect}.` });
}

/**
 * @param {Score} found
 * @param {boolean} shut
 */
function ring(found, shut) {
  const parts = Object.entries(found.parts);
  const total = parts.reduce((sum, [, part]) => sum + part.weight, 0);
  const label = `Care rating: possible range ${range(found)}, coverage ${percent(found.coverage)}`;
  const image = s("svg", { class: "ring", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": label });
  let angle = -Math.PI / 2;
  for (const [name, part] of parts) {
    const span = (part.weight / total) * 2 * Math.PI;
    image.append(...arcs(name, part, angle + GAP / 2, angle + span - GAP / 2));
    angle += span;
  }
  const text = { class: shut ? "ring-score shut" : "ring-score", x: MIDDLE, y: MIDDLE + 12, "text-anchor": "middle" };
  const sign = s("tspan", { class: "ring-sign", dx: 2, text: "%" });
  image.append(s("text", text, s("tspan", { text: ends(found) }), sign));
  return image;
}

/**
 * Return the arcs of one part: its weight, and the share that its score fills.
 * @param {string} name
 * @param {ScorePart} part
 * @param {number} begin - radians
 * @param {number} end - radians
 */
function arcs(name, part, begin, end) {
  const className = part.coverage === 0 ? "arc missing" : "arc";
  const title = s("title", { text: partText(name, part) });
  const weight = s("path", { class: className, d: arcPath(begin, end) }, title);
  if (part.coverage === 0 || part.score <= 0.01) return [weight];
  const d = arcPath(begin, begin + (end - begin) * part.score);
  return [weight, s("path", { class: `arc full ${level(part.known)}`, d })];
}

/**
 * Return the score that API and journal report, and why it is the lower end of the range.
 * @param {Score} found
 * @param {boolean} shut
 */
function scoreText(found, shut) {
  const score = `score ${percent(found.score)}`;
  if (shut) return `${score} until every gate is open`;
  return found.coverage > 0.999 ? score : `${score}: missing parts count as failed`;
}

/**
 * @param {string} name
 * @param {ScorePart} part
 * @param {boolean} limiting
 */
function partRow(name, part, limiting) {
  const missing = part.coverage === 0;
  const filled = h("b");
  filled.style.width = `${Math.max(part.score * 100, 2)}%`;
  const mark = limiting ? " limiting" : "";
  return h(
    "li",
    { class: `part${missing ? " unknown" : mark}`, title: partText(name, part) },
    h("span", { class: "part-name", text: named(name) }),
    h("span", { class: "part-value", text: partValue(part) }),
    missing ? null : h("i", { class: `bar ${level(part.known)}` }, filled),
    h("span", { class: "part-weight", text: percent(part.weight), title: "weight" }),
  );
}

/** @param {ScorePart} part */
function partValue(part) {
  if (part.coverage === 0) return "missing";
  return part.coverage < 1 ? `${percent(part.coverage)} known` : valueText(part.value);
}

/**
 * Return welfare and the rating made of care rating and welfare: possible range, coverage, and the score of
 * the known parts.
 * @param {Score} welfare
 * @param {Rating} happiness
 */
function ratingTable(welfare, happiness) {
  const parts = Object.entries(welfare.parts).map(([name, part]) => partText(name, part));
  const headings = ["possible", "coverage", "of known"].map((text) => h("th", { scope: "col", text }));
  return h(
    "table",
    { class: "rating", "data-testid": "rating" },
    h("thead", {}, h("tr", {}, h("td"), headings)),
    h(
      "tbody",
      {},
      ratingRow("Welfare", welfare, parts.join("\n")),
      ratingRow("“Happiness”", happiness, capital(happiness.label)),
    ),
  );
}

/**
 * @param {string} name
 * @param {Rating} score
 * @param {string} title
 */
function ratingRow(name, score, title) {
  return h(
    "tr",
    { title },
    h("th", { scope: "row", text: name }),
    h("td", { class: "strong", text: range(score) }),
    h("td", { text: percent(score.coverage) }),
    h("td", { class: "dim", text: percentOrDash(score.of_known) }),
  );
}

/**
 * Return what the stimulation envelope allows.
 * @param {Stimulation | null} stimulation
 */
function stimulationNotes(stimulation) {
  if (!stimulation || stimulation.tier === 0) return [];
  const { tier, level: allowed, reason } = stimulation;
  const title = reason && allowed !== "none" ? `${allowed} level: ${reason}` : reason;
  const review = tier > 1 ? `, ${allowed}` : "";
  const lost = stimulation.response_lost ? ", response lost: resting" : "";
  return [
    h(
      "p",
      { class: "allowed", title: capital(title || "what the stimulation envelope allows") },
      h("span", { class: "dim", text: `Stimulation, tier ${tier}` }),
      h("span", { text: `${percent(stimulation.load)} of budget${review}${lost}` }),
    ),
    tier > 1 && h("p", { class: "note", text: `${capital(reason)}.` }),
  ];
}

/** @param {number | null} share */
const percentOrDash = (share) => (share === null ? "–" : percent(share));

/**
 * Return minimum and maximum of the possible range as whole per cent; one number where they are equal.
 * @param {Rating} score
 */
function ends(score) {
  const [low, high] = [score.low, score.high].map((end) => Math.round(end * 100));
  return low === high ? `${low}` : `${low}–${high}`;
}

/** @param {Rating} score */
const range = (score) => `${ends(score)}\u00a0%`;

/** @param {number} score */
function level(score) {
  if (score >= 0.8) return "good";
  return score >= 0.5 ? "fair" : "poor";
}

/** @param {ScorePart["value"]} value */
const valueText = (value) => (typeof value === "number" ? fixed(value, 2) : String(value));

/**
 * Return a part as a sentence, for a tooltip.
 * @param {string} name
 * @param {ScorePart} part
 */
function partText(name, part) {
  const scores = `${fixed(part.score, 2)} (${fixed(part.low, 2)} to ${fixed(part.high, 2)})`;
  const known = part.coverage === 0 ? "missing, counts as failed" : `${valueText(part.value)}, scores ${scores}`;
  const partly = part.coverage > 0 && part.coverage < 1 ? `; ${percent(part.coverage)} of it is known` : "";
  const note = part.note ? `; ${part.note}` : "";
  return `${capital(named(name))}: ${known}${partly}; weight ${percent(part.weight)}${note}`;
}

/**
 * @param {number} begin - radians
 * @param {number} end - radians
 */
function arcPath(begin, end) {
  /** @param {number} angle */
  const point = (angle) =>
    `${(MIDDLE + RADIUS * Math.cos(angle)).toFixed(2)} ${(MIDDLE + RADIUS * Math.sin(angle)).toFixed(2)}`;
  const large = end - begin > Math.PI ? 1 : 0;
  return `M ${point(begin)} A ${RADIUS} ${RADIUS} 0 ${large} 1 ${point(end)}`;
}
