// The estimate of viability: its interval, its course over a week, and what page, report and API say of it.

import { h, s } from "./dom.js";
import { capital } from "./format.js";

/** @import { ViabilityEstimate } from "../../types/live.d.ts" */

const WIDTH = 320;
const HEIGHT = 64;
const LEVEL = { normal: "good", loss: "fair", harmful: "poor" };

/**
 * Return the estimate as a headline with its course and its sentences.
 * @param {ViabilityEstimate} estimate
 */
export function estimateView(estimate) {
  const [finding, , ...rest] = estimate.sentences;
  return h(
    "div",
    { class: "estimate", "data-testid": "estimate" },
    h("p", { class: `estimate-finding ${LEVEL[estimate.status]}`, text: finding ?? "" }),
    h(
      "p",
      { class: "estimate-range", title: capital(estimate.label) },
      h("strong", { text: range(estimate) }),
      h("span", { text: since(estimate) }),
    ),
    course(estimate),
    rest.map((sentence) => h("p", { class: "note", text: sentence })),
  );
}

/** @param {ViabilityEstimate} estimate */
const range = ({ low, high }) => `${Math.round(low * 100)}–${Math.round(high * 100)}\u00a0%`;

/**
 * Return what the second sentence adds to the interval.
 * @param {ViabilityEstimate} estimate
 */
function since({ sentences }) {
  const trend = (sentences[1] ?? "").split(", ")[1] ?? "";
  return ` viability${trend ? `, ${trend.replace(/\.$/, "")}` : ""}`;
}

/**
 * Return the interval and its median over the last days.
 * @param {ViabilityEstimate} estimate
 */
function course({ past, past_step_h: step, status }) {
  if (past.length < 3) return null;
  const x = (/** @type {number} */ index) => ((index / (past.length - 1)) * WIDTH).toFixed(1);
  const y = (/** @type {number} */ share) => ((1 - share) * (HEIGHT - 4) + 2).toFixed(1);
  const high = past.map(([, , top], index) => `${x(index)},${y(top)}`);
  const low = past.map(([bottom], index) => `${x(index)},${y(bottom)}`).reverse();
  const median = past.map(([, value], index) => `${x(index)},${y(value)}`);
  const hours = (past.length - 1) * step;
  const time = hours < 48 ? `${hours} hours` : `${Math.round(hours / 24)} days`;
  const label = `Viability over the last ${time}, 0 to 100 %`;
  return s(
    "svg",
    { class: `estimate-course ${LEVEL[status]}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    s("title", { text: label }),
    s("polygon", { points: [...high, ...low].join(" ") }),
    s("polyline", { points: median.join(" ") }),
  );
}
