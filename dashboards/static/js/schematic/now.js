// The texts of the schematic: what is being done, and what the colour of medium means.

import { s, setText } from "../dom.js";
import { statusOf } from "../feed.js";
import { step } from "../words.js";
import { phenolRed } from "./medium.js";

/** @import { LiveState, Rig, Run, Step } from "../../../types/live.d.ts" */
/** @import { Plan } from "./plan.js" */

const RIGHT_MARGIN = 32;
const LEGEND_PH = [6.6, 7, 7.4, 7.8];
const LEGEND_ANCHORS = ["start", "middle", "middle", "end"];
const LEGEND_WIDTH = 150;

const CAPTION_PX = 25;

/** The caption of the schematic: what is being done, in large letters. */
export class Now {
  /**
   * @param {Rig} rig
   * @param {Plan} plan
   */
  constructor(rig, plan) {
    this.rig = rig;
    this.maxWidth = plan.captionWidth;
    /** The text whose letters have the right size. @type {string | null} */
    this.fitted = null;
    const x = plan.width - RIGHT_MARGIN;
    const y = plan.height - 40;
    this.what = s("text", { class: "now-what", x, y, "text-anchor": "end" });
    this.run = s("text", { class: "now-run", x, y: y - 32, "text-anchor": "end" });
    this.node = s("g", { class: "now", "data-testid": "now" }, this.run, this.what);
  }

  /** @param {LiveState} state */
  update(state) {
    const { run } = state;
    setText(this.run, run ? `${run.protocol} · ${run.state}` : "no protocol");
    setText(this.what, stepText(run, state.utc) ?? this.circulation(state));
    this.fit();
  }

  /** Use smaller letters for a text that is wider than its place. */
  fit() {
    if (this.fitted === this.what.textContent) return;
    this.what.style.fontSize = "";
    const width = this.what.getComputedTextLength();
    if (!width) return; // not drawn yet
    this.fitted = this.what.textContent;
    if (width > this.maxWidth) this.what.style.fontSize = `${Math.floor((CAPTION_PX * this.maxWidth) / width)}px`;
  }

  /** @param {LiveState} state */
  circulation(state) {
    const { hearts, schematic } = this.rig;
    if (!hearts.length) return this.restText(state);
    const statuses = hearts.map(({ pump }) => statusOf(state.actuators[pump ?? ""]));
    const lost = statuses.filter((status) => !status).length;
    const stopped = statuses.filter((status) => status && !status.on).length;
    if (lost) return heartsText(lost, hearts.length, "does not respond", "do not respond");
    if (stopped) return heartsText(stopped, hearts.length, "is stopped", "are stopped");
    return schematic.vessels.some((each) => each.kind === "loop") ? "Circulating" : "Perfusing";
  }

  /**
   * Return what a rig without a heart does.
   * @param {LiveState} state
   */
  restText(state) {
    const pumps = this.rig.schematic.lines.flatMap((line) => line.pump ?? []);
    if (!pumps.length) return "Static culture";
    return pumps.some((pump) => statusOf(state.actuators[pump])?.on) ? "Pumping" : "Pumps at rest";
  }
}

/**
 * Return a sentence about some of the hearts.
 * @param {number} count
 * @param {number} total
 * @param {string} one - the verb for one heart
 * @param {string} several
 */
const heartsText = (count, total, one, several) =>
  total === 1 ? `The heart pump ${one}` : `${count} of ${total} heart pumps ${count === 1 ? one : several}`;

/**
 * Return what a run does; null while none is active.
 * @param {Run | null} run
 * @param {string} utc
 */
function stepText(run, utc) {
  const latest = run?.progress.at(-1);
  if (!run || run.ended || !latest) return null;
  return waitText(run, latest, utc) ?? step(latest.verb, latest.args);
}

/**
 * Return “Next cycle in 6 h 40 min” when that is what a run waits for, else null.
 * @param {Run} run
 * @param {Step} latest
 * @param {string} utc
 */
function waitText(run, latest, utc) {
  if (latest.args.elapsed_s === undefined) return null;
  const left = Date.parse(run.started_utc) / 1000 + latest.args.elapsed_s - Date.parse(utc) / 1000;
  if (!(left > 0)) return null;
  const hours = Math.floor(left / 3600);
  return `Next cycle in ${hours ? `${hours} h ` : ""}${Math.ceil((left % 3600) / 60)} min`;
}

/**
 * Return the legend of the colours of medium.
 * @param {Plan} plan
 */
export function legend(plan) {
  const right = plan.width - RIGHT_MARGIN;
  const left = right - LEGEND_WIDTH;
  const stops = LEGEND_PH.map((ph, i) => s("stop", { offset: `${(i * 100) / 3}%`, "stop-color": phenolRed(ph) }));
  const numbers = LEGEND_PH.map((ph, i) => {
    const place = { x: left + (i * LEGEND_WIDTH) / 3, y: 76, "text-anchor": LEGEND_ANCHORS[i] };
    return s("text", { class: "legend", ...place, text: ph.toFixed(1) });
  });
  return s(
    "g",
    { class: "legend-place" },
    s("defs", {}, s("linearGradient", { id: "phenol-red" }, stops)),
    s("text", { class: "legend", x: right, y: 38, "text-anchor": "end", text: "Colour: pH, as phenol red" }),
    s("rect", { x: left, y: 49, width: LEGEND_WIDTH, height: 9, rx: 4.5, fill: "url(#phenol-red)" }),
    numbers,
  );
}
