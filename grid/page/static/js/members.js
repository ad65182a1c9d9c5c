// Members and laboratories: roles, measured figures, present work.

import { h } from "./elements.js";
import { quantity, utc } from "./format.js";

/** @import { MemberModel } from "../../types/api.d.ts" */
/** @import { Child } from "../../types/elements.d.ts" */

/**
 * Return the members; `all` counts those as well that are not listed.
 * @param {{ members: MemberModel[], all: number }} known
 * @returns {Child}
 */
export function members(known) {
  if (!known.members.length) return h("p", { class: "empty" }, "No one has asked to join yet.");
  const left = known.all - known.members.length;
  return [
    ...known.members.map(member),
    left > 0 && h("p", { class: "note" }, `${left} more: choroid grid member list lists all of them.`),
  ];
}

/** @param {MemberModel} one */
function member(one) {
  return h(
    "article",
    { class: "item" },
    h(
      "h3",
      {},
      `${one.name} `,
      one.kind === "lab" && h("span", { class: "tag" }, "laboratory"),
      h("span", { class: `tag ${one.connected ? "good" : "fair"}` }, presence(one)),
      ...one.roles.map((role) => h("span", { class: "tag role" }, role.replace("_", " "))),
    ),
    one.work.map((text) => h("p", {}, text)),
    one.kind === "member" && one.connected && !one.work.length && h("p", { class: "dim" }, "idle"),
    one.reason !== "" && h("p", { class: "note" }, one.reason),
    one.figures.length > 0 &&
      h(
        "dl",
        { class: "figures" },
        ...one.figures.map((each) =>
          h("div", {}, h("dt", {}, each.label), h("dd", {}, quantity(each.value, each.unit))),
        ),
      ),
    details(one),
  );
}

/** @param {MemberModel} one */
function presence(one) {
  if (one.state === "pending") return "waits for approval";
  if (one.state !== "approved") return one.state;
  return one.connected ? "connected" : "not connected";
}

/** @param {MemberModel} one */
function details(one) {
  return h(
    "details",
    { id: `member-${one.id}` },
    h("summary", {}, one.refusals.length ? "identity, refused roles" : "identity"),
    h("p", { class: "code" }, one.id),
    one.measured_utc !== "" && h("p", { class: "dim" }, `measured ${utc(one.measured_utc)}`),
    one.seen_utc !== "" && !one.connected && h("p", { class: "dim" }, `last seen ${utc(one.seen_utc)}`),
    h(
      "ul",
      {},
      ...one.refusals.map((each) =>
        h("li", {}, h("strong", {}, `no ${each.role.replace("_", " ")}: `), each.reasons.join("; ")),
      ),
    ),
  );
}
