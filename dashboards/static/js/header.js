// The head of the page: which rig, in which mode, at which hour, and the way to stop everything.

import { alarmsAsOf } from "./alarms.js";
import { act, seen, toast } from "./api.js";
import { ask } from "./dialog.js";
import { byId, h, say } from "./dom.js";
import { clock, day, inUtc } from "./words.js";

const SPEEDS = [1, 10, 60, 200, 600];
const LINK_WORDS = { connecting: "connecting", live: "live", lost: "connection lost", refused: "signed out", still: "control loop stands" };

export class Header {
  /** What somebody may only look at has no control that could be pressed (S2). */
  constructor(rig, mayOperate) {
    this.rig = rig;
    this.mayOperate = mayOperate;
    byId("estop").disabled = !mayOperate;
    byId("estop").hidden = !mayOperate;
    byId("estop-reset").hidden = !mayOperate;
    this.status = "connecting";
    this.ticks = true;
    this.utc = null;
    const { count, diameter_mm: diameter, age_d: age } = rig.organoid;
    document.title = `${rig.name} · Choroid`;
    say(byId("rig-name"), rig.name);
    say(byId("organoid-line"), `${count} organoids · ${diameter} mm · day ${Math.round(age)}`);
    byId("user").textContent = `${rig.user}, ${rig.role}`;
    byId("speed").onchange = (event) => act("PUT", "/api/speed", { speed: Number(event.target.value), reason: "set on the page" });
    byId("theme").onclick = turnTheme;
    byId("estop").onclick = stopEverything;
  }

  link(status) {
    this.status = status;
    this.showLink();
  }

  /** A page that is connected to a control loop that stands shows nothing newer than one that is not. */
  showLink() {
    const shown = this.status === "live" && !this.ticks ? "still" : this.status;
    const place = byId("link");
    place.dataset.status = shown;
    say(place.lastElementChild, LINK_WORDS[shown]);
    document.body.classList.toggle("lost", shown !== "live");
    alarmsAsOf(shown === "live" ? null : this.utc);
  }

  update(state) {
    this.ticks = state.health?.ok ?? true;
    this.utc = state.utc || null;
    seen(this.utc);
    this.showLink();
    say(byId("clock"), state.utc ? clock(state.utc) : "–");
    say(byId("date"), state.utc ? day(state.utc) : "");
    this.mode(state.speed);
    byId("clock").parentElement.title = `The rig’s own clock, in its time zone (${this.rig.time_zone}): ${inUtc(state.utc)}`;
    emergency(state.emergency, this.mayOperate);
  }

  mode(speed) {
    const badge = byId("mode");
    const simulated = this.rig.simulated;
    badge.dataset.mode = simulated ? "simulated" : this.rig.mixed ? "mixed" : "live";
    say(badge, simulated ? (speed ? `SIMULATED · ${speed}×` : "SIMULATED") : this.rig.mixed ? "LIVE, WITH SIMULATED PARTS" : "LIVE");
    const box = byId("speed-box");
    box.hidden = !speed || !this.mayOperate;
    const select = byId("speed");
    if (!speed || document.activeElement === select) return;
    if (![...select.options].some((option) => Number(option.value) === speed) || !select.options.length) {
      const speeds = [...new Set([...SPEEDS, speed])].sort((a, b) => a - b);
      select.replaceChildren(...speeds.map((value) => h("option", { value, text: `${value}×` })));
    }
    select.value = String(speed);
  }
}

function emergency(who, mayOperate) {
  const bar = byId("emergency");
  bar.hidden = !who;
  byId("estop").disabled = Boolean(who) || !mayOperate;
  if (!who) return;
  say(byId("emergency-who"), who);
  byId("estop-reset").onclick = async () => {
    const reason = await ask({ title: "End the emergency stop?", text: "Regulators and protocols may move things again.", confirm: "Reset", reason: "required" });
    if (reason) await act("POST", "/api/estop/reset", { reason });
  };
}

async function stopEverything() {
  const reason = await ask({
    title: "Stop everything?",
    text: "Every transfer, dose, valve and the heater stop at once. The heart keeps its basal flow. It stays so until somebody resets it.",
    confirm: "Stop everything",
    danger: true,
  });
  if (reason === null) return;
  const answer = await act("POST", "/api/estop", { reason });
  if (answer && answer.confirmed === false) {
    toast({ what: "the stop is in force, and some device has not confirmed it yet", where: "emergency stop",
      cause: "a device or the electrode engine does not answer", action: "look at the devices and the alarms; switch off by hand what still runs" });
  }
}

export function chooseTheme() {
  const kept = localStorage.getItem("choroid-theme");
  const light = kept ? kept === "light" : matchMedia("(prefers-color-scheme: light)").matches;
  document.documentElement.dataset.theme = light ? "light" : "dark";
}

function turnTheme() {
  const next = document.documentElement.dataset.theme === "light" ? "dark" : "light";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("choroid-theme", next);
}
