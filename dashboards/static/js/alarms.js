// What a person must do something about: the most urgent first, with what happens otherwise and how long there is.
//
// Rows are keyed and updated in place. While somebody points at the list, presses in it or has keyboard focus there, rows keep
// their places: what is new is added below, what is gone stays, greyed, until the list is left alone. So a press lands on the
// row that was seen, however fast alarms come and go.

import { act } from "./api.js";
import { byId, h, keyed, say } from "./dom.js";
import { answerTo } from "./handling.js";
import { capital, inUtc, moment, spoken } from "./words.js";

const SHOWN = 3;
const IDLE_MS = 3000, HOVER_MS = 20000;
let all = false, alarms = [], aside = [], asOf = "", handled = null, mayOperate = false;
let placed = [];          // the alarms as they stand on the page, in their order
let usedAt = -Infinity;   // when the list was last pointed at, pressed or typed in
let later = null;         // the timer that puts the rows in order again

/** Begin: `operate` says whether this person may acknowledge. */
export function beginAlarms(operate) {
  mayOperate = operate;
  const list = byId("alarm-list");
  for (const kind of ["pointermove", "pointerdown", "keydown", "focusin"]) {
    list.addEventListener(kind, () => { usedAt = performance.now(); });
  }
  // A finger does not hover: who scrolls while the list is in view is about to press in it.
  addEventListener("scroll", () => { if (list.getBoundingClientRect().bottom > 0) usedAt = performance.now(); }, { passive: true });
}

/** `enter(vessel, deed)` asks what was done to a vessel; null for who may not tell. */
export function showAlarms(now, setAside, enter) {
  alarms = now;
  aside = setAside ?? [];
  handled = enter;
  byId("calm").hidden = alarms.length > 0 || aside.length > 0;
  draw();
}

/** The list is no newer than `utc`, since when nothing was heard; null while it is kept up. */
export function alarmsAsOf(utc) {
  const text = utc ? moment(utc) : "";
  if (text === asOf) return;
  asOf = text;
  draw();
}

/** The rows to show: in order of urgency, or while the list is in use as they stand. */
function arranged() {
  // A mouse that rests on the list is about to press there; one that was left there is not.
  const idle = byId("alarm-list").matches(":hover") ? HOVER_MS : IDLE_MS;
  const inUse = performance.now() - usedAt < idle && placed.length > 0;
  clearTimeout(later);
  if (!inUse) return all ? alarms : alarms.slice(0, SHOWN);
  later = setTimeout(draw, IDLE_MS);
  const present = new Map(alarms.map((each) => [each.id, each]));
  const kept = placed.map((each) => present.get(each.id) ?? { ...each, gone: true });
  const standing = new Set(kept.map((each) => each.id));
  const fresh = alarms.filter((each) => !standing.has(each.id));
  const room = all ? fresh : fresh.filter((each) => each.priority === "critical" && each.state === "unacknowledged").slice(0, SHOWN);
  return [...kept, ...room].slice(0, all ? undefined : 4 * SHOWN);
}

function draw() {
  const rows = arranged();
  placed = rows;
  const here = new Set(rows.map((each) => each.id));
  const rest = alarms.filter((each) => !here.has(each.id)).length;
  const items = rows.map((alarm) => ({ id: `alarm ${alarm.id}`, alarm }));
  if (asOf) items.unshift({ id: "as of" });
  if (rest > 0 || (all && alarms.length > SHOWN)) items.push({ id: "more", rest });
  if (aside.length) items.push({ id: "aside" });
  keyed(byId("alarm-list"), items, (item) => item.id, make, update);
}

function make(item) {
  if (item.alarm) return row();
  if (item.id === "more") return h("button", { class: "more", onclick: () => { all = !all; usedAt = -Infinity; draw(); usedAt = performance.now(); } });
  if (item.id === "aside") return h("p", { class: "aside dim small", "data-testid": "set-aside" });
  return h("p", { class: "as-of" });
}

function update(node, item) {
  if (item.alarm) return show(node, item.alarm);
  if (item.id === "more") return say(node, item.rest > 0 ? `${item.rest} more` : "Show fewer");
  if (item.id === "aside") return say(node, `Not announced: ${aside.map(why).join("; ")}`);
  return say(node, `${alarms.length ? "Alarms" : "No alarms"} as of ${asOf}; what has happened since is not known here`);
}

const STATES = { out_of_service: "out of service", suppressed: "suppressed by design" };
const why = (each) => `${spoken(each.kind)} · ${spoken(each.source)} (${STATES[each.state] ?? each.state}${each.until_utc ? ` until ${moment(each.until_utc)}` : ""}${each.aside_by ? ` by ${each.aside_by}` : ""}${each.aside_reason ? `: ${each.aside_reason}` : ""})`;

/** An empty row; its parts are found again by their names. */
function row() {
  const part = {
    mark: h("div", { class: "alarm-mark", "aria-hidden": "true" }),
    title: h("strong", {}),
    detail: h("span", { class: "alarm-detail" }),
    response: h("span", {}), within: h("b", {}), otherwise: h("span", { class: "alarm-else" }),
    state: h("time", { class: "alarm-state" }),
    handled: h("button", { "data-testid": "handled", text: "Done…" }),
    seen: h("span", { class: "alarm-seen" }),
    acknowledge: h("button", { "data-testid": "acknowledge", text: "Acknowledge" }),
  };
  const node = h("article", { "data-testid": "alarm" }, part.mark,
    h("div", { class: "alarm-what" }, h("div", { class: "alarm-said" }, part.title, part.detail),
      h("span", { class: "alarm-do" }, h("b", { text: "Do: " }), part.response, " ", part.within, part.otherwise)),
    h("div", { class: "alarm-side" }, part.state, part.handled, part.seen, part.acknowledge));
  node.cells = part;
  for (const button of [part.acknowledge, part.handled]) {
    // Text above may wrap and push the row while it is pressed: the release belongs to the button that was pressed.
    button.addEventListener("pointerdown", (event) => button.setPointerCapture(event.pointerId));
  }
  part.acknowledge.addEventListener("click", () => acknowledge(node));
  part.handled.addEventListener("click", () => handled?.(node.alarm.source, answerTo(node.alarm)));
  return node;
}

async function acknowledge(node) {
  usedAt = performance.now();
  if (node.sent) return;
  node.sent = true;
  await act("POST", `/api/alarms/${encodeURIComponent(node.alarm.id)}/acknowledge`, { reason: "" });
  node.sent = false;
}

function show(node, alarm) {
  const part = node.cells;
  node.alarm = alarm;
  node.className = `alarm ${alarm.priority} ${alarm.state}${alarm.gone ? " gone" : ""}`;
  node.dataset.alarm = alarm.id;
  say(part.mark, alarm.priority === "critical" ? "!!" : "!");
  say(part.title, `${capital(spoken(alarm.kind))} · ${spoken(alarm.source)}`);
  say(part.detail, alarm.detail);
  part.detail.title = alarm.detail;
  say(part.response, alarm.response);
  say(part.within, `within ${alarm.respond_within}`);
  say(part.otherwise, `, or ${alarm.consequence}`);
  say(part.state, `${alarm.priority} · ${alarm.gone ? "gone" : alarm.state} · ${moment(alarm.raised_utc)}`);
  part.state.dateTime = alarm.raised_utc;
  part.state.title = inUtc(alarm.raised_utc);
  const acknowledged = alarm.state === "acknowledged";
  part.handled.hidden = !(handled && answerTo(alarm)) || Boolean(alarm.gone);
  part.seen.hidden = !acknowledged;
  say(part.seen, acknowledged ? `seen by ${alarm.acknowledged_by}` : "");
  // A button that goes takes the keyboard's place in the page with it: the focus passes to the next one.
  // Under a mouse or a finger the page does not scroll for it: the next press is being aimed already.
  const goes = acknowledged || !mayOperate || Boolean(alarm.gone);
  if (goes && document.activeElement === part.acknowledge) next(node)?.focus({ preventScroll: !part.acknowledge.matches(":focus-visible") });
  part.acknowledge.hidden = goes;
}

/** The next Acknowledge below or above this row, else nothing. */
function next(node) {
  const open = [...byId("alarm-list").querySelectorAll("[data-testid=acknowledge]:not([hidden])")].filter((each) => !node.contains(each));
  return open.find((each) => node.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING) ?? open[0];
}
