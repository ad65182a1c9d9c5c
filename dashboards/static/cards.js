// The cards at the side: viability with its parts, the last grade, the ledger, alarms.
import { call, element } from "./api.js";

const $ = (id) => document.getElementById(id);
const PARTS = {
  oxygen_pct: "oxygen", temperature_c: "warmth", ph: "pH", ph_spread: "pH calm", grade: "medium",
  firing_ratio: "firing", lactate_ratio: "metabolism",
};

export function viability(found) {
  if (!found) return;
  const percent = Math.round(found.score * 100);
  const ring = document.querySelector(".ring-value");
  ring.style.strokeDasharray = `${percent} 100`;
  ring.style.stroke = `var(--${percent >= 75 ? "good" : percent >= 50 ? "warn" : "bad"})`;
  $("ring-text").textContent = percent;
  $("parts").replaceChildren(...Object.entries(found.parts).map(([name, part]) => {
    const missing = found.missing.includes(name);
    const bar = element("i", {}, element("b", { style: `width:${missing ? 0 : Math.round(part.score * 100)}%` }));
    const row = element("div", { class: missing ? "part missing" : "part", title: `weight ${part.weight}` },
      element("span", { text: PARTS[name] || name }), bar, element("span", { text: missing ? "–" : Math.round(part.score * 100) }));
    return row;
  }));
  $("viability-note").textContent = `Confidence ${Math.round(found.confidence * 100)} %. A ${found.label}.`;
}

export function grade(found) {
  const letter = $("grade-letter");
  letter.textContent = found ? found.grade : "–";
  letter.className = `letter ${found ? found.grade : ""}`;
  if (!found) {
    $("grade-limit").textContent = "no batch graded yet";
    return;
  }
  $("grade-limit").textContent = found.limiting === "none" ? "every variable in range" : `limited by ${found.limiting}`;
  const estimate = found.estimate && found.estimate.spent;
  const words = [];
  if (estimate) {
    for (const [key, name] of [["lactate_mm", "lactate"], ["ammonia_mm", "ammonia"], ["glucose_mm", "glucose"]]) {
      const value = estimate[key];
      if (value) words.push(`${name} ${value.value.toFixed(key === "ammonia_mm" ? 2 : 1)} mM (${value.low.toFixed(1)}–${value.high.toFixed(1)})`);
    }
  }
  $("grade-why").textContent = words.join(" · ") || found.reasons.join("; ");
}

export function ledger(table, totals) {
  const rows = [
    ["drawn", totals.drawn_ml], ["given back", totals.recycled_ml], ["fresh medium used", totals.fresh_ml],
    ["discarded", totals.discarded_ml], ["glucose, bicarbonate", totals.glucose_ml + totals.base_ml],
  ];
  table.replaceChildren(...rows.map(([name, value]) => element("tr", {}, element("td", { text: name }), element("td", { text: `${value.toFixed(1)} mL` }))),
    element("tr", { class: "sum" }, element("td", { text: "recycled" }), element("td", { text: `${(totals.recycled_fraction * 100).toFixed(0)} %` })));
}

let shown = "";
export function alarms(place, list) {
  const key = JSON.stringify(list.map((alarm) => [alarm.id, alarm.state, alarm.detail]));
  if (key === shown) return;
  shown = key;
  place.replaceChildren(...list.map((alarm) => {
    const button = element("button", { text: alarm.state === "acknowledged" ? "acknowledged" : "Acknowledge" });
    button.disabled = alarm.state === "acknowledged";
    button.onclick = () => call("POST", `/api/alarms/${encodeURIComponent(alarm.id)}/acknowledge`, { reason: "" });
    return element("div", { class: `alarm ${alarm.priority} ${alarm.state}` },
      element("strong", { text: alarm.priority }),
      element("div", {},
        element("div", { text: `${alarm.kind.replaceAll("_", " ")}: ${alarm.source}. ${alarm.detail}` }),
        element("div", { class: "quiet small", text: `If nobody acts: ${alarm.consequence}. Do: ${alarm.response} (within ${alarm.respond_within}).` })),
      button);
  }));
}
