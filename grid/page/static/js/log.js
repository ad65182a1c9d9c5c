// The log: its latest checkpoint, its witnesses, its last rows.

import { h, table } from "./elements.js";
import { counted, utc } from "./format.js";

/** @import { HeadModel, WatchedLogModel, WitnessModel } from "../../types/api.d.ts" */
/** @import { Child } from "../../types/elements.d.ts" */

/**
 * Return the head of the log.
 * @param {HeadModel} head
 * @returns {Child}
 */
export function log(head) {
  const rows = counted(head.rows, "row", "rows");
  return [
    h("p", {}, `${rows}, ${head.confirmed_rows} confirmed by witnesses`),
    head.witnesses.length
      ? table(["witness", "rows", "confirmed", "trouble"], head.witnesses.map(witness))
      : h("p", { class: "empty" }, "No other hub is a witness of this log."),
    head.watched.length > 0 &&
      table(["log of another hub", "rows", "confirmed here", "trouble"], head.watched.map(witness)),
    h("pre", { class: "code", "aria-label": "Latest checkpoint" }, head.checkpoint),
    h("p", { class: "note code" }, `key ${head.key}`),
    table(
      ["row", "time", "what", "about"],
      head.last.map((row) => [row.number, utc(row.utc), row.kind, h("span", { class: "text" }, row.about)]),
    ),
  ];
}

/**
 * @param {WitnessModel | WatchedLogModel} one
 * @returns {Child[]}
 */
const witness = (one) => [
  one.name,
  one.rows,
  one.utc === "" ? "never" : utc(one.utc),
  h("span", { class: one.trouble === "" ? "text" : "text bad" }, one.trouble || "none"),
];
