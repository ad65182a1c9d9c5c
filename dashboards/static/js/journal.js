// The tail of the audit trail, as sentences.

import { call } from "./api.js";
import { byId, h, redraw } from "./dom.js";
import { inUtc, moment, named, spoken, stamp, volume } from "./words.js";

const ROWS = 40;
const EVERY_MS = 3000;

const by = (body) => (body.user ? ` by ${body.user}` : "") + (body.reason ? `: ${body.reason}` : "");
const SENTENCES = {
  "alarm.raised": (b) => ["bad", `Alarm ${spoken(b.alarm.replace(":", " · "))}: ${b.detail}`],
  "alarm.acknowledged": (b) => ["", `Alarm ${spoken(b.alarm.replace(":", " · "))} acknowledged${by(b)}`],
  "alarm.returned": (b) => ["", `Alarm ${spoken(b.alarm.replace(":", " · "))} has gone away`],
  "controller.started": (b) => ["", `Controller started for rig ${b.rig}`],
  "controller.stopped": () => ["", "Controller stopped"],
  "ledger.level": (b) => ["", `Level of ${b.vessel} read: ${volume(b.ul).join(" ")}${by(b)}`],
  "ledger.loaded": (b) => ["", `${b.replaces ? "Another bottle as" : "Topped up:"} ${b.vessel}, lot ${b.lot}: ${volume(b.ul).join(" ")}${by(b)}`],
  "ledger.weighed": (b) => ["", `Balance corrects ${b.vessel} by ${volume(b.change_ul).join(" ")}`],
  "ledger.reconciled": (b) => ["", `${b.vessel} set to ${volume(b.ul).join(" ")}${by(b)}`],
  moved: (b) => ["flow", `${spoken(b.line)}: ${volume(b.ul).join(" ")} moved, by ${b.source}`],
  "note.grade": (b) => ["good", `${b.of === "loop" ? "Loop" : "Batch"} graded ${b.grade}${b.limiting && b.limiting !== "none" ? `, limited by ${named(b.limiting)}` : ""}`],
  "note.recycle": (b) => ["good", b.action === "rest" ? `Cycle ${b.cycle}: the loop is left alone` : `Cycle ${b.cycle}: ${volume(b.given_back_ul).join(" ")} given back, ${volume(b.discarded_ul).join(" ")} discarded`],
  "page.signed_in": (b) => ["", `${b.user} signed in as ${b.role}`],
  "run.start": (b) => ["", `Run of ${b.protocol} started${by(b)}`],
  "run.state": (b) => ["", `Run ${b.from} → ${b.to}${by(b)}`],
  "run.message": (b) => ["warn", b.text],
  "safety.trip": (b) => ["bad", `Interlock ${spoken(b.interlock)}: ${b.detail}`],
  "safety.clear": (b) => ["good", `Interlock ${spoken(b.interlock)} is content again`],
  "safety.estop": (b) => ["bad", `Emergency stop${by(b)}`],
  "safety.reset": (b) => ["warn", `Emergency stop reset${by(b)}`],
  "act.refused": (b) => ["warn", `${spoken(b.actuator)} refused: ${spoken((b.reasons ?? []).join("; "))}`],
  "fault.made": (b) => ["warn", `${spoken(b.fault)} of ${b.on} made by hand${by(b)}`],
  "fault.mended": (b) => ["", `${spoken(b.fault)} mended${by(b)}`],
  "speed.set": (b) => ["", `Speed ${b.old}× → ${b.new}×${by(b)}`],
};

export function beginJournal() {
  const refresh = async () => {
    if (document.hidden) return;
    const found = await call("GET", `/api/audit?limit=${ROWS}`, undefined, { quiet: true }).catch(() => null);
    if (found) show(found.entries);
  };
  refresh();
  setInterval(refresh, EVERY_MS);
}

function show(entries) {
  redraw(byId("journal"), entries.map((entry) => entry.seq), () => entries.map((entry) => {
    const [tone, text] = sentence(entry);
    return h("li", { class: tone, title: `row ${entry.seq} · ${entry.kind} · sha256 ${entry.sha256.slice(0, 12)}…` },
      h("time", { datetime: entry.utc, title: `${moment(entry.utc)} · ${inUtc(entry.utc)}`, text: stamp(entry.utc) }), h("span", { text }));
  }));
}

function sentence(entry) {
  try {
    return SENTENCES[entry.kind]?.(entry.body) ?? ["", spoken(entry.kind)];
  } catch {
    return ["", spoken(entry.kind)];
  }
}
