// Work leases: the members of a job, and how far its training is.

import { h, table } from "./elements.js";
import { quantity } from "./format.js";

/** @import { WorkLeaseModel, WorkRankModel } from "../../types/api.d.ts" */
/** @import { Child } from "../../types/elements.d.ts" */

/**
 * Return the work leases.
 * @param {WorkLeaseModel[]} known
 * @returns {Child}
 */
export function work(known) {
  if (!known.length) return h("p", { class: "empty" }, "No job runs.");
  return known.map(lease);
}

/** @param {WorkLeaseModel} one */
function lease(one) {
  return h(
    "article",
    { class: "item" },
    h("h3", {}, `${one.job} `, h("span", { class: `tag ${one.state === "active" ? "good" : "fair"}` }, one.state)),
    h("p", { class: "dim" }, about(one)),
    one.reason !== "" && h("p", { class: "note" }, one.reason),
    one.outer_steps > 0 ? progress(one) : h("p", {}, one.ranks.map((rank) => rank.member).join(", ")),
  );
}

/** @param {WorkLeaseModel} one */
function about(one) {
  const kind = one.outer_steps > 0 ? `${one.preset}, ${one.engine}, ${one.outer_steps} exchanges, ` : "";
  return `${kind}held by ${one.holder}, lease ${one.lease}`;
}

/** @param {WorkLeaseModel} one */
function progress(one) {
  return table(
    ["member", "exchanges", "loss", "held out", "sent in one", "state"],
    one.ranks.map((rank) => [
      h("strong", {}, rank.member),
      `${rank.outer} of ${one.outer_steps}`,
      rank.loss === null ? "–" : short(rank.loss),
      h("span", { class: "text" }, heldOut(rank)),
      rank.outer > 0 ? quantity(rank.sent_bytes, "B") : "–",
      h("span", { class: rank.state === "failed" ? "text bad" : "text" }, state(rank)),
    ]),
  );
}

/** @param {number} value */
const short = (value) => String(Number(value.toPrecision(4)));

/** @param {WorkRankModel} rank */
const heldOut = (rank) =>
  Object.entries(rank.scores)
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${short(value)}`)
    .join(", ") || "–";

/** @param {WorkRankModel} rank */
function state(rank) {
  if (rank.state === "") return "not begun";
  return rank.reason === "" ? rank.state : `${rank.state}: ${rank.reason}`;
}
