// Boards: rankings with the scores of baselines. No answer of the hub contains a model.

import { h, table } from "./elements.js";

/** @import { RankingModel } from "../../types/api.d.ts" */
/** @import { Child } from "../../types/elements.d.ts" */

/**
 * Return the boards.
 * @param {RankingModel[]} known
 * @returns {Child}
 */
export function boards(known) {
  if (!known.length) return h("p", { class: "empty" }, "This hub has no boards.");
  return known.map(board);
}

/** @param {RankingModel} one */
function board(one) {
  const baselines = one.baselines.map((each) => `${each.name} ${score(each.score)}`).join(", ");
  return h(
    "article",
    { class: "item" },
    h("h3", {}, `${one.title} `, h("span", { class: "dim" }, one.key)),
    h("p", { class: "dim" }, `${one.metric.replaceAll("_", " ")} (${one.unit}), greater is better`),
    baselines !== "" && h("p", { class: "dim" }, `baselines: ${baselines}`),
    one.rows.length ? ranking(one) : h("p", { class: "empty" }, empty(one)),
  );
}

/** @param {RankingModel} one */
const empty = (one) => (one.rotation === null ? "This board has not begun." : "No model was submitted yet.");

/** @param {number} value */
const score = (value) => String(Number(value.toPrecision(6)));

/** @param {RankingModel} one */
function ranking(one) {
  return table(
    ["rank", "model", "member", "score", "state"],
    one.rows.map((row) => [
      row.rank ?? "–",
      h("strong", {}, row.name),
      row.member,
      row.score === null ? "–" : score(row.score),
      h("span", { class: "text" }, row.reason === "" ? row.state : `${row.state}: ${row.reason}`),
    ]),
  );
}
