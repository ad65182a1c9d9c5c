// The health that probes report of themselves: each figure with the range in which the probe is fit for use.

import { call } from "./api.js";
import { byId, h, redraw } from "./dom.js";
import { capital, fixed, inUtc, moment } from "./format.js";
import { named } from "./words.js";

/** @import { ProbeFigure, ProbeModel, ProbesModel } from "../../types/api.d.ts" */

const PERIOD_MS = 60_000;
const FIRST_MS = 5_000;

/** Read the health of the probes now and then, and show it; without any the panel stays hidden. */
export function startProbes() {
  const refresh = async () => {
    if (document.hidden) return;
    /** @type {ProbesModel | null} */
    const found = await call("GET", "/api/probes", undefined, { quiet: true }).catch(() => null);
    if (found) show(found.probes);
  };
  refresh();
  setTimeout(refresh, FIRST_MS);
  setInterval(refresh, PERIOD_MS);
}

/** @param {ProbeModel[]} probes */
function show(probes) {
  byId("probes").hidden = !probes.length;
  redraw(byId("probe-list"), probes, () => probes.map(item));
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
