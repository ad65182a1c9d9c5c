// The estimate of viability: its interval, its course over a week, and what page, report and API say of it.

import { h, s } from "./dom.js";
import { capital } from "./format.js";

/** @import { ViabilityEstimate } from "../../types/live.d.ts" */

const WIDTH = 320;
const HEIGHT = 72;
const LEVEL = { normal: "good", loss: "fair", harmful: "poor" };

/**
 * Return the estimate as a headline with its course and its sentences. All text is that of the API and of the report.
 * @param {ViabilityEstimate} estimate
 */
export function estimateView(estimate) {
  const [finding = "", where = "", ...rest] = estimate.sentences;
  const comma = where.indexOf(",");
  const range = comma < 0 ? where : where.slice(0, comma);
  return h(
    "div",
    { class: "estimate", "data-testid": "estimate" },
    h("p", { class: `estimate-finding ${LEVEL[estimate.status]}`, text: finding }),
    h(
      "p",
      { class: "estimate-range", title: capital(estimate.label) },
      h("strong", { text: range }),
      h("span", { text: where.slice(range.length) }),
    ),
    course(estimate),
    rest.map((sentence) => h("p", { class: "note", text: sentence })),
  );
}

/**
 * Return what the estimate rests on, for one level down.
 * @param {ViabilityEstimate} estimate
 */
export function basisView({ basis, label }) {
  return [...basis, `${capital(label)}.`].map((sentence) => h("p", { class: "note", text: sentence }));
}

/**
 * Return the interval, its median and the baseline over the last days, with an axis.
 * @param {ViabilityEstimate} estimate
 */
function course({ past, past_step_h: step, status, wide, baseline }) {
  if (past.length < 3) return null;
  const x = (/** @type {number} */ index) => ((index / (past.length - 1)) * WIDTH).toFixed(1);
  const y = (/** @type {number} */ share) => ((1 - share) * (HEIGHT - 4) + 2).toFixed(1);
  const high = past.map(([, , top], index) => `${x(index)},${y(top)}`);
  const low = past.map(([bottom], index) => `${x(index)},${y(bottom)}`).reverse();
  const median = past.map(([, value], index) => `${x(index)},${y(value)}`);
  const hours = (past.length - 1) * step;
  const time = hours < 48 ? `${hours} hours` : `${Math.round(hours / 24)} days`;
  const label = `Viability over the last ${time}, 0 to 1: median, range, and baseline (dashed)`;
  const line = { class: "estimate-baseline", x1: 0, x2: WIDTH, y1: y(baseline), y2: y(baseline) };
  return h(
    "figure",
    { class: `estimate-course ${wide && status === "normal" ? "unknown" : LEVEL[status]}` },
    h("div", { class: "estimate-scale", "aria-hidden": "true" }, h("span", { text: "1" }), h("span", { text: "0" })),
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      s("title", { text: label }),
      s("polygon", { points: [...high, ...low].join(" ") }),
      s("line", line),
      s("polyline", { points: median.join(" ") }),
    ),
    h(
      "figcaption",
      { "aria-hidden": "true" },
      h("span", { text: `${time} ago` }),
      h("span", { class: "estimate-key", text: "baseline" }),
      h("span", { text: "now" }),
    ),
  );
}
