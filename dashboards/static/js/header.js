// The head of the page: rig, mode, time and connection, and the emergency stop.

import { showAccount, watchIdle } from "./account.js";
import { act, setShownUtc, showError } from "./api.js";
import { organoids } from "./chambers.js";
import { ask } from "./dialog.js";
import { byId, h, setText } from "./dom.js";
import { clock, day, inUtc, shownZone, useZone, zoneName } from "./format.js";

/** @import { TissueView } from "../../types/api.d.ts" */
/** @import { LiveState, Rig } from "../../types/live.d.ts" */
/** @import { LinkStatus } from "./feed.js" */

const SPEEDS = [1, 10, 60, 200, 600];
const LINK_TEXTS = {
  connecting: "connecting",
  live: "live",
  lost: "connection lost",
  refused: "signed out",
  still: "control loop stopped",
};
const THEME_KEY = "choroid-theme";
const ZONE_KEY = "choroid-zone";

export class Header {
  /**
   * Fill the head. A user who may only look gets no control that could be pressed.
   * @param {Rig} rig
   * @param {boolean} mayOperate
   * @param {(utc: string | null) => void} onAsOf - called with the time of the last state while the page is not current
   */
  constructor(rig, mayOperate, onAsOf) {
    this.rig = rig;
    this.mayOperate = mayOperate;
    this.onAsOf = onAsOf;
    /** @type {LinkStatus} */
    this.status = "connecting";
    this.loopRuns = true;
    /** @type {string | null} */
    this.utc = null;
    this.speed = byId("speed", HTMLSelectElement);
    this.stop = byId("estop", HTMLButtonElement);
    this.stop.disabled = !mayOperate;
    this.stop.hidden = !mayOperate;
    byId("estop-reset").hidden = !mayOperate;
    document.title = `${rig.name} · Choroid`;
    setText(byId("rig-name"), rig.name);
    setText(byId("organoid-line"), tissueText(rig.tissue));
    setText(byId("user"), `${rig.user}, ${rig.role}`);
    byId("user").onclick = showAccount;
    watchIdle();
    this.speed.onchange = () => setSpeed(Number(this.speed.value));
    byId("theme").onclick = switchTheme;
    byId("rig-clock").onclick = () => rig.time_zone === "UTC" || switchZone();
    this.stop.onclick = stopEverything;
    byId("estop-reset").onclick = resetStop;
  }

  /**
   * Show the state of the connection.
   * @param {LinkStatus} status
   */
  setLink(status) {
    this.status = status;
    this.showLink();
  }

  /** Mark the page as not current without a connection, and also while the control loop has stopped. */
  showLink() {
    const shown = this.status === "live" && !this.loopRuns ? "still" : this.status;
    const place = byId("link");
    place.dataset.status = shown;
    if (place.lastElementChild) setText(place.lastElementChild, LINK_TEXTS[shown]);
    document.body.classList.toggle("lost", shown !== "live");
    this.onAsOf(shown === "live" ? null : this.utc);
  }

  /** @param {LiveState} state */
  update(state) {
    this.loopRuns = state.health?.ok ?? true;
    this.utc = state.utc || null;
    setShownUtc(this.utc);
    this.showLink();
    setText(byId("clock"), state.utc ? clock(state.utc) : "–");
    if (state.utc) this.showZone(state.utc);
    this.showMode(state.speed);
    this.showSpeed(state.speed);
    this.showEmergency(state.emergency);
  }

  /** @param {string} utc */
  showZone(utc) {
    const name = zoneName(utc);
    setText(byId("date"), `${day(utc)} ${name}`);
    for (const place of document.querySelectorAll(".shown-zone")) setText(place, `times in ${name}`);
    const other = shownZone() === this.rig.time_zone ? "UTC" : this.rig.time_zone;
    byId("rig-clock").title =
      other === shownZone()
        ? "Time of the rig, in UTC"
        : `Time of the rig in ${shownZone()} (${inUtc(utc)}); press to show times in ${other}`;
  }

  /** @param {number | null} speed - times real time; null for a real rig */
  showMode(speed) {
    const badge = byId("mode");
    const { simulated, mixed } = this.rig;
    if (simulated) {
      badge.dataset.mode = "simulated";
      setText(badge, speed ? `SIMULATED · ${speed}×` : "SIMULATED");
    } else {
      badge.dataset.mode = mixed ? "mixed" : "live";
      setText(badge, mixed ? "LIVE, WITH SIMULATED PARTS" : "LIVE");
    }
  }

  /** @param {number | null} speed - times real time; null for a real rig */
  showSpeed(speed) {
    byId("speed-box").hidden = !speed || !this.mayOperate;
    if (!speed || document.activeElement === this.speed) return;
    if (![...this.speed.options].some((option) => Number(option.value) === speed)) {
      const speeds = [...new Set([...SPEEDS, speed])].sort((a, b) => a - b);
      this.speed.replaceChildren(...speeds.map((value) => h("option", { value, text: `${value}×` })));
    }
    this.speed.value = String(speed);
  }

  /** @param {string | null} who - who stopped, and why; null without an emergency stop */
  showEmergency(who) {
    byId("emergency").hidden = !who;
    this.stop.disabled = Boolean(who) || !this.mayOperate;
    if (who) setText(byId("emergency-who"), who);
  }
}

/**
 * Return the tissue of the rig in one line: “16 organoids · 2.5 mm · day 60”, and of several chambers their number.
 * @param {TissueView[]} tissue
 */
function tissueText(tissue) {
  const total = tissue.reduce((sum, { count }) => sum + count, 0);
  const chambers = tissue.length > 1 ? `${tissue.length} chambers · ` : "";
  const diameters = span(tissue.map((each) => each.diameter_mm));
  const days = span(tissue.map((each) => Math.round(each.age_d)));
  return `${chambers}${organoids(total)} · ${diameters} mm · day ${days}`;
}

/**
 * Return the range of some numbers: “60”, or “60–75”.
 * @param {number[]} values
 */
function span(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low === high ? `${low}` : `${low}–${high}`;
}

/** @param {number} speed - times real time */
const setSpeed = (speed) => act("PUT", "/api/speed", { speed, reason: "set on the page" });

async function stopEverything() {
  const reason = await ask({
    title: "Emergency stop?",
    text:
      "All transfers, doses, valves and the heater stop at once. The heart pump keeps its basal flow. " +
      "The stop stays in force until it is reset.",
    confirm: "Emergency stop",
    danger: true,
  });
  if (reason === null) return;
  const answer = await act("POST", "/api/estop", { reason });
  if (answer?.confirmed === false) {
    showError({
      what: "The emergency stop is in force, but a device has not confirmed it yet",
      where: "emergency stop",
      cause: "a device or the electrode engine does not respond",
      action: "check the devices and the alarms; switch off by hand what still runs",
    });
  }
}

async function resetStop() {
  const reason = await ask({
    title: "Reset the emergency stop?",
    text: "Regulators and protocols can then operate actuators again.",
    confirm: "Reset",
    reason: "required",
  });
  if (reason) await act("POST", "/api/estop/reset", { reason });
}

/** Apply the theme that the user chose before, else that of the system. */
export function applyTheme() {
  const kept = localStorage.getItem(THEME_KEY);
  const light = kept ? kept === "light" : matchMedia("(prefers-color-scheme: light)").matches;
  document.documentElement.dataset.theme = light ? "light" : "dark";
}

function switchTheme() {
  const next = document.documentElement.dataset.theme === "light" ? "dark" : "light";
  document.documentElement.dataset.theme = next;
  localStorage.setItem(THEME_KEY, next);
}

/**
 * Show times in the zone of the laboratory, or in UTC if the user chose that.
 * @param {string} laboratory
 */
export function applyZone(laboratory) {
  useZone(localStorage.getItem(ZONE_KEY) === "UTC" ? "UTC" : laboratory);
}

/** Show times in UTC, or again in the zone of the laboratory: everything that has been drawn has the other one. */
function switchZone() {
  if (localStorage.getItem(ZONE_KEY) === "UTC") localStorage.removeItem(ZONE_KEY);
  else localStorage.setItem(ZONE_KEY, "UTC");
  location.reload();
}
