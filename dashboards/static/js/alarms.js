// What a person must do something about: the most urgent first, with what happens otherwise and how long there is.

import { act } from "./api.js";
import { byId, h, redraw } from "./dom.js";
import { answerTo } from "./handling.js";
import { capital, clock, spoken } from "./words.js";

const SHOWN = 3;
let all = false, alarms = [], asOf = "", handled = null;

/** `enter(vessel, deed)` asks what was done to a vessel; null for who may not tell. */
export function showAlarms(now, enter) {
  alarms = now;
  handled = enter;
  byId("calm").hidden = alarms.length > 0;
  draw();
}

/** The list is no newer than `utc`, since when nothing was heard; null while it is kept up. */
export function alarmsAsOf(utc) {
  asOf = utc ? clock(utc).slice(0, 5) : "";
  draw();
}

function draw() {
  redraw(byId("alarm-list"), [alarms, all, asOf], () => {
    const shown = all ? alarms : alarms.slice(0, SHOWN);
    const rest = alarms.length - shown.length;
    const more = rest > 0 || all && alarms.length > SHOWN
      ? h("button", { class: "more", onclick: () => { all = !all; draw(); }, text: all ? "Show fewer" : `${rest} more` })
      : null;
    const old = asOf ? h("p", { class: "as-of", text: `${alarms.length ? "Alarms" : "No alarms"} as of ${asOf}; what has happened since is not known here` }) : null;
    return [old, ...shown.map(one), more];
  });
}

function one(alarm) {
  const seen = alarm.state === "acknowledged";
  const id = encodeURIComponent(alarm.id);
  return h("article", { class: `alarm ${alarm.priority} ${alarm.state}`, "data-testid": "alarm", "data-alarm": alarm.id },
    h("div", { class: "alarm-mark", "aria-hidden": "true", text: alarm.priority === "critical" ? "!!" : "!" }),
    h("div", { class: "alarm-what" },
      h("strong", {}, `${capital(spoken(alarm.kind))} · ${spoken(alarm.source)}`),
      h("span", { class: "alarm-detail", text: alarm.detail }),
      h("span", { class: "alarm-do" }, h("b", { text: "Do: " }), `${alarm.response} `, h("b", { text: `within ${alarm.respond_within}` }),
        h("span", { class: "alarm-else", text: `, or ${alarm.consequence}` }))),
    h("div", { class: "alarm-side" },
      h("span", { class: "alarm-state", text: `${alarm.priority} · ${alarm.state} · ${clock(alarm.raised_utc)}` }),
      handled && answerTo(alarm) ? h("button", { "data-testid": "handled", onclick: () => handled(alarm.source, answerTo(alarm)), text: "Done…" }) : null,
      seen ? h("span", { class: "alarm-seen", text: `seen by ${alarm.acknowledged_by}` })
        : h("button", { "data-testid": "acknowledge", onclick: () => act("POST", `/api/alarms/${id}/acknowledge`, { reason: "" }), text: "Acknowledge" })));
}
