// What a person must do something about: the most urgent first, with what happens otherwise and how long there is.

import { act } from "./api.js";
import { byId, h, redraw } from "./dom.js";
import { capital, clock, spoken } from "./words.js";

const SHOWN = 3;
let all = false;

export function showAlarms(alarms) {
  const place = byId("alarm-list");
  const calm = byId("calm");
  calm.hidden = alarms.length > 0;
  redraw(place, [alarms, all], () => {
    const shown = all ? alarms : alarms.slice(0, SHOWN);
    const rest = alarms.length - shown.length;
    const more = rest > 0 || all && alarms.length > SHOWN
      ? h("button", { class: "more", onclick: () => { all = !all; showAlarms(alarms); }, text: all ? "Show fewer" : `${rest} more` })
      : null;
    return [...shown.map(one), more].filter(Boolean);
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
      seen ? h("span", { class: "alarm-seen", text: `seen by ${alarm.acknowledged_by}` })
        : h("button", { "data-testid": "acknowledge", onclick: () => act("POST", `/api/alarms/${id}/acknowledge`, { reason: "" }), text: "Acknowledge" })));
}
