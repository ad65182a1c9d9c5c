// The protocol card: choose, start, pause, resume, abort, and see each step.
import { call, element, toast } from "./api.js";

const $ = (id) => document.getElementById(id);
const OVER = new Set(["complete", "stopped", "aborted"]);
const WORDS = {
  "kidney.draw": "draw from the loop", "kidney.give_back": "give back through the filter", "kidney.discard": "discard",
  "gut.feed": "fresh medium", "liver.add_glucose": "glucose", "liver.add_base": "bicarbonate", measure: "measure",
  estimate: "estimate lactate and ammonia", note: "note", sleep: "wait", sleep_until: "wait for the next cycle", ask: "ask a person",
};

function asText(value, unit) {
  if (unit === "uL") return value >= 1000 ? `${value / 1000} mL` : `${value} uL`;
  if (unit === "s") return value % 3600 === 0 ? `${value / 3600} h` : value % 60 === 0 ? `${value / 60} min` : `${value} s`;
  return unit ? `${value} ${unit}` : String(value);
}

export class Protocol {
  constructor(rig) {
    this.may = rig.role !== "viewer";
    this.run = null;
    $("start-form").onsubmit = (event) => { event.preventDefault(); this.start(); };
    for (const verb of ["pause", "resume", "abort"]) {
      $(`${verb}-run`).onclick = () => {
        if (verb !== "abort" || confirm("End this run for good? What it moves is brought to rest first."))
          call("POST", `/api/runs/${this.run.id}/${verb}`, { reason: `${verb} on the page` }).catch(() => {});
      };
    }
  }

  async load() {
    this.protocols = (await call("GET", "/api/protocols")).protocols;
    const select = $("protocol-select");
    const names = [...this.protocols].sort((a, b) => (b.name === "recycle") - (a.name === "recycle"));
    select.replaceChildren(...names.map((protocol) => element("option", { value: protocol.name, text: `${protocol.name}: ${protocol.title}` })));
    select.onchange = () => this.params();
    this.params();
  }

  params() {
    const chosen = this.protocols.find((protocol) => protocol.name === $("protocol-select").value);
    $("params").replaceChildren(...chosen.params.map((param) => element("label", { title: `${param.help}; ${asText(param.low, param.unit)} to ${asText(param.high, param.unit)}` },
      element("span", { text: param.name }), element("input", { name: param.name, value: asText(param.default, param.unit), "aria-label": `${param.name}: ${param.help}` }))));
  }

  async start() {
    const params = Object.fromEntries([...$("params").querySelectorAll("input")].map((input) => [input.name, input.value]));
    await call("POST", "/api/runs", { protocol: $("protocol-select").value, params, reason: "started on the page" })
      .then((run) => { toast({ what: `${run.protocol} started` }, true); this.update(run); }).catch(() => {});
  }

  update(run) {
    this.run = run;
    const state = run ? run.state : "idle";
    const over = !run || OVER.has(state);
    const pill = $("run-state");
    pill.textContent = state;
    pill.className = `pill ${state}`;
    pill.title = run ? `${run.protocol}, ${run.id}` : "";
    $("start-form").hidden = !over;
    $("run-buttons").hidden = over;
    $("start-run").disabled = !this.may || !over;
    $("pause-run").disabled = !this.may || state !== "running";
    $("resume-run").disabled = !this.may || state !== "held";
    $("abort-run").disabled = !this.may || over;
    if (!run) return;
    const steps = run.progress.filter((step) => step.verb !== "note").slice(-9);
    $("steps").replaceChildren(...steps.map((step) => element("li", { class: step.state },
      element("span", { text: this.words(step) }), element("span", { text: this.result(step) }))));
    $("run-message").textContent = run.messages.length ? run.messages.at(-1) : "";
  }

  words(step) {
    const name = WORDS[step.verb] || step.verb;
    return step.verb === "measure" && step.args.point ? `measure ${step.args.point}` : name;
  }

  result(step) {
    const found = step.result;
    if (found && typeof found === "object" && "ul" in found) return `${(found.ul / 1000).toFixed(2)} mL`;
    if (found && found.interval) return `${found.interval.value.toFixed(2)} ${found.unit === "degC" ? "°C" : found.unit}`;
    if (step.state === "running" && step.args.volume_ul) return `${(step.args.volume_ul / 1000).toFixed(1)} mL`;
    return "";
  }
}
