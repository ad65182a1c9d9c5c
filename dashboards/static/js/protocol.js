// Protocols: choose one, start it, hold it, let it go on, end it; and see what it does.

import { act, toast } from "./api.js";
import { ask } from "./dialog.js";
import { byId, h, redraw, say } from "./dom.js";
import { duration, inUtc, moment, result, step, typed, volume } from "./words.js";

const SHOWN = 9;
const MARKS = { done: "✓", running: "", interrupted: "‖" };
const MOVING = ["running", "restarting"];

export class Protocol {
  constructor(protocols, mayOperate) {
    this.protocols = protocols;
    this.mayOperate = mayOperate;
    this.run = null;
    const select = byId("protocol-select");
    select.replaceChildren(...protocols.map((each) => h("option", { value: each.name, text: each.name })));
    select.onchange = () => this.choose();
    byId("start-form").onsubmit = (event) => { event.preventDefault(); this.start(); };
    byId("pause-run").onclick = () => this.command("pause");
    byId("resume-run").onclick = () => this.command("resume");
    byId("abort-run").onclick = () => this.abort();
    this.choose();
    this.update(null);
  }

  choose() {
    const chosen = this.protocols.find((each) => each.name === byId("protocol-select").value);
    if (!chosen) return;
    say(byId("protocol-title"), chosen.title);
    byId("params").replaceChildren(...chosen.params.map((param) => {
      const id = `param-${param.name}`;
      return h("label", { class: "param", for: id },
        h("span", { class: "param-name", text: param.name }),
        h("input", { id, name: param.name, value: typed(param.default, param.unit), "data-testid": id, spellcheck: "false", inputmode: param.unit ? "text" : "numeric" }),
        h("span", { class: "param-help", text: `${param.help}; ${typed(param.low, param.unit)} to ${typed(param.high, param.unit)}` }));
    }));
  }

  async start() {
    const params = Object.fromEntries([...byId("params").querySelectorAll("input")].map((input) => [input.name, input.value.trim()]));
    const body = { protocol: byId("protocol-select").value, params, reason: byId("start-reason").value.trim() };
    const run = await act("POST", "/api/runs", body);
    if (run) toast({ done: `${run.protocol} is ${run.state}` });
  }

  /** What comes of it the feed tells: an answer that comes late would show a state that is over. */
  async command(verb, reason = `${verb} on the page`) {
    if (this.run) await act("POST", `/api/runs/${encodeURIComponent(this.run.id)}/${verb}`, { reason });
  }

  async abort() {
    const reason = await ask({ title: "Abort this run?", text: "What it moves comes to rest, what has moved is measured and recorded, and the run ends for good.", confirm: "Abort the run", danger: true });
    if (reason !== null) await this.command("abort", reason);
  }

  update(run) {
    this.run = run;
    const state = run ? run.state : "idle";
    const active = Boolean(run) && !run.ended;
    const badge = byId("run-state");
    badge.dataset.state = state;
    say(badge, state);
    byId("start-form").hidden = active;
    byId("run").hidden = !run;
    byId("run-buttons").hidden = !active;
    byId("start-run").disabled = active || !this.mayOperate;
    byId("pause-run").disabled = !MOVING.includes(state) || !this.mayOperate;
    byId("resume-run").disabled = state !== "held" || !this.mayOperate;
    byId("abort-run").disabled = !active || state === "aborting" || !this.mayOperate;
    if (!run) return;
    say(byId("run-title"), run.protocol);
    say(byId("run-about"), `${run.id} · since ${moment(run.started_utc)} · ${Object.entries(run.params).map(about).filter(Boolean).join(" · ")}`);
    byId("run-about").title = inUtc(run.started_utc);
    const message = run.messages.at(-1);
    byId("run-message").hidden = !message || !active;
    say(byId("run-message"), message ?? "");
    const shown = run.progress.slice(-SHOWN);
    redraw(byId("steps"), [shown, state], () => shown.map((each) => this.step(each, state)).reverse());
  }

  step(each, state) {
    const still = each.state === "running" && state !== "running";
    return h("li", { class: `step ${each.state}${still ? " still" : ""}`, "data-testid": "step" },
      h("span", { class: "step-mark", "aria-hidden": "true", text: still ? "‖" : MARKS[each.state] ?? "" }),
      h("span", { class: "step-what" }, h("span", { class: "step-number", text: each.n }), each.branch ? `${each.branch}: ` : "", step(each.verb, each.args)),
      h("span", { class: "step-result", title: bounds(each.result), text: result(each.result) }));
  }
}

function bounds(found) {
  if (!found || found.low_ul === undefined || found.low_ul === null) return null;
  return `between ${volume(found.low_ul).join(" ")} and ${volume(found.high_ul).join(" ")}`;
}

function about([name, value]) {
  if (name.endsWith("_ul")) return `${spaced(name.slice(0, -3))} ${volume(value).join(" ")}`;
  if (name.endsWith("_s")) return `${spaced(name.slice(0, -2))} ${duration(value)}`;
  return value ? `${spaced(name)} ${value}` : "";
}
const spaced = (name) => name.replaceAll("_", " ");
