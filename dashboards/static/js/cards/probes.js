// The health that probes report of themselves: each figure with the range in which the probe is fit for use.

import { call } from "../api.js";
import { addCard, follow } from "../card.js";
import { h, redraw } from "../dom.js";
import { capital, fixed, inUtc, moment } from "../format.js";
import { named } from "../words.js";

/** @import { ProbeFigure, ProbeModel, ProbesModel } from "../../../types/api.d.ts" */

const PERIOD_MS = 60_000;
const FIRST_MS = 5_000;

/** Show the health of the probes; without any the card stays hidden. */
export function start() {
  const { card, list } = addCard("probes", "Probes", "What the probes say of their own health");
  const show = async () => {
    /** @type {ProbesModel | null} */
    const found = await call("GET", "/api/probes", undefined, { quiet: true });
    if (!found) return;
    card.hidden = !found.probes.length;
    redraw(list, found.probes, () => found.probes.map(item));
  };
  follow(show, PERIOD_MS, FIRST_MS);
}

/** @param {ProbeModel} probe */
function item({ point, at_utc: utc, problem, figures }) {
  const when = utc ? h("span", { class: "dim", title: inUtc(utc), text: `As of ${moment(utc)}` }) : null;
  return h(
    "li",
    { "data-probe": point },
    h("strong", { text: named(point) }),
    h("span", { text: utc ? figures.map(told).filter(Boolean).join("; ") : "It has not answered yet." }),
    ...(problem ? [h("span", { class: "frame-problem", text: problem.replace(/`([^`]+)`/g, "“$1”") })] : []),
    ...(when ? [when] : []),
  );
}

/** @param {ProbeFigure} figure */
function told({ meaning, unit, value, sound }) {
  if (value === null) return "";
  const amount = `${fixed(value, Number.isInteger(value) ? 0 : 2)}${unit ? `\u00a0${unit}` : ""}`;
  return `${capital(meaning)} ${amount}${sound ? "" : " (out of range)"}`;
}
