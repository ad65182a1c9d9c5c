// Protocols: choose one, start it, pause, resume or abort its run, and follow its steps.

import { act, call, showDone } from "./api.js";
import { ask } from "./dialog.js";
import { byId, h, redraw, setText } from "./dom.js";
import { duration, inUtc, moment, typed, volume } from "./format.js";
import { open, QuestionCard } from "./question.js";
import { result, spoken, step } from "./words.js";

/** @import { ParamView, ProtocolView } from "../../types/api.d.ts" */
/** @import { Run, Step, StepResult } from "../../types/live.d.ts" */

const SHOWN_STEPS = 9;
const PAUSED = "‖";
/** @type {Record<string, string>} */
const MARKS = { done: "✓", running: "", interrupted: PAUSED };
const ACTIVE = ["running", "restarting"];

export class Protocols {
  /**
   * @param {ProtocolView[]} protocols
   * @param {boolean} mayOperate
   */
  constructor(protocols, mayOperate) {
    /** @type {ProtocolView[]} */
    this.protocols = [];
    this.mayOperate = mayOperate;
    /** @type {Run | null} */
    this.run = null;
    this.question = new QuestionCard(mayOperate);
    this.select = byId("protocol-select", HTMLSelectElement);
    this.select.onchange = () => this.showParameters();
    byId("start-form").onpointerenter = () => this.reload(); // another person may have released one
    byId("start-form").onsubmit = (event) => {
      event.preventDefault();
      this.start();
    };
    byId("pause-run").onclick = () => this.command("pause");
    byId("resume-run").onclick = () => this.command("resume");
    byId("abort-run").onclick = () => this.abort();
    this.offer(protocols);
    this.update(null);
  }

  /** Ask which protocols may be started now. */
  async reload() {
    const found = await call("GET", "/api/protocols", undefined, { quiet: true }).catch(() => null);
    if (found && JSON.stringify(found.protocols) !== JSON.stringify(this.protocols)) this.offer(found.protocols);
  }

  /**
   * Offer protocols for a start; the chosen one stays chosen.
   * @param {ProtocolView[]} protocols
   */
  offer(protocols) {
    const chosen = this.select.value;
    this.protocols = protocols;
    this.select.replaceChildren(...protocols.map((each) => h("option", { value: each.name, text: each.name })));
    if (protocols.some((each) => each.name === chosen)) this.select.value = chosen;
    this.showParameters();
  }

  showParameters() {
    const chosen = this.protocols.find((each) => each.name === this.select.value);
    if (!chosen) return;
    setText(byId("protocol-title"), chosen.title);
    byId("params").replaceChildren(...chosen.params.map(parameter));
  }

  async start() {
    const inputs = [...byId("params").querySelectorAll("input")];
    const params = Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()]));
    const reason = byId("start-reason", HTMLInputElement).value.trim();
    const run = await act("POST", "/api/runs", { protocol: this.select.value, params, reason });
    if (run) showDone(`${run.protocol} is ${run.state}`);
  }

  /**
   * Send a command to the run. The feed shows its effect: a late answer would show a state that is over.
   * @param {"pause" | "resume" | "abort"} verb
   * @param {string} [reason]
   */
  async command(verb, reason = `${verb} on the page`) {
    if (this.run) await act("POST", `/api/runs/${encodeURIComponent(this.run.id)}/${verb}`, { reason });
  }

  async abort() {
    const reason = await ask({
      title: "Abort this run?",
      text: "Its transfers stop, the volume moved so far is measured and recorded, and the run cannot be resumed.",
      confirm: "Abort the run",
      danger: true,
    });
    if (reason !== null) await this.command("abort", reason);
  }

  /**
   * Show the run.
   * @param {Run | null} run
   */
  update(run) {
    this.run = run;
    const state = run ? run.state : "idle";
    const active = run !== null && !run.ended;
    const badge = byId("run-state");
    badge.dataset.state = state;
    setText(badge, state);
    byId("start-form").hidden = active;
    byId("run").hidden = !run;
    this.question.update(run);
    this.enableButtons(state, active);
    if (run) this.showRun(run, active);
  }

  /**
   * @param {string} state
   * @param {boolean} active
   */
  enableButtons(state, active) {
    byId("run-buttons").hidden = !active;
    /** @type {(id: string, possible: boolean) => void} */
    const enable = (id, possible) => {
      byId(id, HTMLButtonElement).disabled = !possible || !this.mayOperate;
    };
    enable("start-run", !active);
    enable("pause-run", ACTIVE.includes(state));
    enable("resume-run", state === "held" && !open(this.run));
    enable("abort-run", active && state !== "aborting");
  }

  /**
   * @param {Run} run
   * @param {boolean} active
   */
  showRun(run, active) {
    setText(byId("run-title"), run.protocol);
    const parameters = Object.entries(run.params).map(parameterText).filter(Boolean).join(" · ");
    setText(byId("run-about"), `${run.id} · since ${moment(run.started_utc)} · ${parameters}`);
    byId("run-about").title = inUtc(run.started_utc);
    const message = run.messages.at(-1);
    byId("run-message").hidden = !message || !active;
    setText(byId("run-message"), message ?? "");
    const shown = run.progress.slice(-SHOWN_STEPS);
    redraw(byId("steps"), [shown, run.state], () => shown.map((each) => stepItem(each, run.state)).reverse());
  }
}

/** @param {ParamView} param */
function parameter(param) {
  const id = `param-${param.name}`;
  const input = {
    id,
    name: param.name,
    value: typed(param.default, param.unit),
    "data-testid": id,
    spellcheck: "false",
    inputmode: param.unit ? "text" : "numeric",
  };
  const help = `${param.help}; ${typed(param.low, param.unit)} to ${typed(param.high, param.unit)}`;
  return h(
    "label",
    { class: "param", for: id },
    h("span", { class: "param-name", text: spoken(param.name) }),
    h("input", input),
    h("span", { class: "param-help", text: help }),
  );
}

/**
 * @param {Step} each
 * @param {string} runState
 */
function stepItem(each, runState) {
  const paused = each.state === "running" && runState !== "running";
  return h(
    "li",
    { class: `step ${each.state}${paused ? " still" : ""}`, "data-testid": "step" },
    h("span", { class: "step-mark", "aria-hidden": "true", text: paused ? PAUSED : (MARKS[each.state] ?? "") }),
    h(
      "span",
      { class: "step-what" },
      h("span", { class: "step-number", text: each.n }),
      each.branch ? `${each.branch}: ` : "",
      step(each.verb, each.args),
    ),
    h("span", { class: "step-result", title: bounds(each.result) }, upload(each.result) ?? result(each.result)),
  );
}

/**
 * Return a link to the upload of a step, with a photo as its image; null for a step without one.
 * @param {StepResult | null} found
 */
function upload(found) {
  if (!found?.file) return null;
  const path = `/api/attachments/${encodeURIComponent(found.file)}`;
  const text = result(found);
  const photo = { src: path, alt: text, class: "step-photo", loading: "lazy" };
  const shown = text.includes("(image/") ? h("img", photo) : text;
  return h("a", { href: path, target: "_blank", rel: "noopener", title: text, "data-testid": "step-upload" }, shown);
}

/**
 * Return the bounds of an amount for a tooltip.
 * @param {StepResult | null} found
 */
function bounds(found) {
  if (!found || found.low_ul === undefined || found.low_ul === null) return null;
  return `between ${volume(found.low_ul).join(" ")} and ${volume(found.high_ul).join(" ")}`;
}

/**
 * Return a parameter of a run with its unit, which is the suffix of its name; empty for a zero count.
 * @param {[string, number]} parameter
 */
function parameterText([name, value]) {
  if (name.endsWith("_ul")) return `${spoken(name.slice(0, -3))} ${volume(value).join(" ")}`;
  if (name.endsWith("_s")) return `${spoken(name.slice(0, -2))} ${duration(value)}`;
  if (name.endsWith("_pct")) return `${spoken(name.slice(0, -4))} ${value}\u00a0%`;
  return value ? `${spoken(name)} ${value}` : "";
}
