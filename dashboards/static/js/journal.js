// The newest rows of the journal, as sentences; and the data that were discarded.

import { call } from "./api.js";
import { byId, h, redraw } from "./dom.js";
import { capital, fixed, inUtc, moment, stamp, volume } from "./format.js";
import { detailOf, faultName, named, spoken } from "./words.js";

/** @import { AuditModel, EntryModel, RecordsView } from "../../types/api.d.ts" */

const ROWS = 40;
const PERIOD_MS = 3000;

/** The body of a row; its fields depend on the kind of the row. @typedef {Record<string, any>} Body */
/** @typedef {"" | "good" | "warn" | "bad" | "flow"} Tone */
/** @typedef {[tone: Tone, text: string]} Sentence */

/** @param {Body} body */
const by = (body) => (body.user ? ` by ${body.user}` : "") + (body.reason ? `: ${body.reason}` : "");
/** @param {number} ul */
const vol = (ul) => volume(ul).join(" ");
/** @param {Body} body */
const alarm = (body) => `Alarm ${spoken(body.alarm.replace(":", " · "))}`;

/** @param {Body} b */
function gradeSentence(b) {
  const limit = b.limiting && b.limiting !== "none" ? `, limited by ${named(b.limiting)}` : "";
  return `${b.of === "loop" ? "Loop" : "Batch"} graded ${b.grade}${limit}`;
}

/** @param {Body} b */
function cycleSentence(b) {
  if (b.action === "rest") return `Cycle ${b.cycle}: no treatment of the loop`;
  return `Cycle ${b.cycle}: ${vol(b.given_back_ul)} given back, ${vol(b.discarded_ul)} discarded`;
}

/**
 * @param {Body} b
 * @returns {Sentence}
 */
function faultEnded(b) {
  return ["", `${spoken(b.fault)} cleared${by(b)}`];
}

/** @type {Record<string, (body: Body) => Sentence>} */
const SENTENCES = {
  "act.refused": (b) => ["warn", `${spoken(b.actuator)} refused: ${spoken((b.reasons ?? []).join("; "))}`],
  "alarm.acknowledged": (b) => ["", `${alarm(b)} acknowledged${by(b)}`],
  "alarm.raised": (b) => ["bad", `${alarm(b)}: ${detailOf(b.alarm.slice(b.alarm.indexOf(":") + 1), b.detail)}`],
  "alarm.return_to_normal_unacknowledged": (b) => ["", `${alarm(b)} returned to normal`],
  "clock.stepped": (b) => ["warn", `The wall clock stepped by ${fixed(b.step_s, 1)} s`],
  "controller.started": (b) => ["", `Controller started for rig ${b.rig}`],
  "controller.stopped": () => ["", "Controller stopped"],
  "fault.made": (b) => ["warn", `${capital(faultName(b.fault))} (${b.on}) injected${by(b)}`],
  "fault.ended": faultEnded,
  "ledger.balanced": (b) => [b.gross ? "warn" : "", `Balance corrects ${b.vessel} by ${vol(b.change_ul)}`],
  "ledger.level": (b) => ["", `Level of ${b.vessel} read: ${vol(b.ul)}${by(b)}`],
  "ledger.loaded": (b) => [
    "",
    `${b.replaces ? "New bottle for" : "Topped up:"} ${b.vessel}, lot ${b.lot}: ${vol(b.ul)}${by(b)}`,
  ],
  "ledger.reconciled": (b) => ["", `${b.vessel} set to ${vol(b.ul)}${by(b)}`],
  "ledger.sampled": (b) => ["", `Sample of ${vol(b.ul)} taken from ${b.vessel}${by(b)}`],
  "ledger.weighed": (b) => ["", `Balance corrects ${b.vessel} by ${vol(b.change_ul)}`],
  moved: (b) => ["flow", `${spoken(b.line)}: ${vol(b.ul)} moved, by ${b.source}`],
  "note.grade": (b) => ["good", gradeSentence(b)],
  "note.recycle": (b) => ["good", cycleSentence(b)],
  "page.sign_ins_failed": (b) => ["warn", `${b.count} sign-ins failed, from ${b.sources} addresses`],
  "users.password_set": (b) => ["", `${b.user} set a new password`],
  "page.signed_in": (b) => ["", `${b.user} signed in as ${b.role}`],
  "probe.health": (b) => [
    b.faults.length ? "bad" : "",
    `${named(b.point)}: ${b.faults.length ? `not fit for use: ${b.faults.join("; ")}` : "the probe is fit for use"}`,
  ],
  "run.message": (b) => ["warn", b.text],
  "run.start": (b) => ["", `Run of ${b.protocol} started${by(b)}`],
  "run.state": (b) => ["", `Run ${b.from} → ${b.to}${by(b)}`],
  "safety.clear": (b) => ["good", `Interlock ${spoken(b.interlock)} cleared`],
  "safety.estop": (b) => ["bad", `Emergency stop${by(b)}`],
  "safety.reset": (b) => ["warn", `Emergency stop reset${by(b)}`],
  "safety.trip": (b) => ["bad", `Interlock ${spoken(b.interlock)} tripped: ${b.detail}`],
  "task.done": (b) => ["good", `Done: ${spoken(b.task)}${by(b)}`],
  "speed.set": (b) => ["", `Speed ${b.old}× → ${b.new}×${by(b)}`],
};

/** Read the journal now and then, and show its newest rows. */
export function startJournal() {
  const refresh = async () => {
    if (document.hidden) return;
    /** @type {AuditModel | null} */
    const found = await call("GET", `/api/audit?limit=${ROWS}`, undefined, { quiet: true }).catch(() => null);
    if (found) show(found.entries);
    /** @type {RecordsView | null} */
    const records = await call("GET", "/api/records", undefined, { quiet: true }).catch(() => null);
    if (records) showDiscarded(records);
  };
  refresh();
  setInterval(refresh, PERIOD_MS);
}

/** @param {RecordsView} records */
function showDiscarded(records) {
  const place = byId("discarded");
  const counts = records.discarded.map((each) => `${named(each.where)}: ${each.count} ${each.what}`);
  place.hidden = !counts.length;
  place.textContent = counts.length ? `Discarded: ${counts.join("; ")}` : "";
}

/** @param {EntryModel[]} entries */
function show(entries) {
  const keys = entries.map((entry) => entry.seq);
  redraw(byId("journal"), keys, () => entries.map(item));
}

/** @param {EntryModel} entry */
function item(entry) {
  const [tone, text] = sentence(entry);
  const title = `row ${entry.seq} · ${entry.kind} · sha256 ${entry.sha256.slice(0, 12)}…`;
  const time = { datetime: entry.utc, title: `${moment(entry.utc)} · ${inUtc(entry.utc)}`, text: stamp(entry.utc) };
  return h("li", { class: tone, title }, h("time", time), h("span", { text }));
}

/**
 * Return a row as a sentence. Of a row that lacks a field its kind is shown.
 * @param {EntryModel} entry
 * @returns {Sentence}
 */
function sentence(entry) {
  try {
    return SENTENCES[entry.kind]?.(entry.body) ?? ["", spoken(entry.kind)];
  } catch {
    return ["", spoken(entry.kind)];
  }
}
