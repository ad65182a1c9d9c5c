// The question that a held run waits for: a number, one of several choices, a text, a photo or file, the result of an
// assay, or an approval.

import { act, showDone } from "./api.js";
import { byId, h, setText } from "./dom.js";

/** @import { QuestionModel } from "../../types/api.d.ts" */
/** @import { Run } from "../../types/live.d.ts" */

const FIELD = { id: "question-answer", "data-testid": "question-answer", required: true };

export class QuestionCard {
  /** @param {boolean} mayOperate */
  constructor(mayOperate) {
    this.mayOperate = mayOperate;
    /** @type {Run | null} */
    this.run = null;
    this.shown = "";
    byId("question").onsubmit = (event) => {
      event.preventDefault();
      this.answer();
    };
  }

  /**
   * Show the open question; what a person has typed stays until another question is open.
   * @param {Run | null} run
   */
  update(run) {
    this.run = run;
    const question = open(run);
    const key = question ? `${run?.id} ${question.step}` : "";
    if (key === this.shown) return;
    this.shown = key;
    byId("question").hidden = !question;
    byId("question-field").replaceChildren(...(question ? [field(question)] : []));
    setText(byId("question-label"), question ? `${question.message}: ${question.wants}` : "");
    byId("answer-run", HTMLButtonElement).disabled = !this.mayOperate;
  }

  async answer() {
    const question = open(this.run);
    const input = byId("question-field").querySelector("input, select, textarea");
    if (!this.run || !question || !input) return;
    const { value, files } = /** @type {HTMLInputElement} */ (input);
    const path = `/api/runs/${encodeURIComponent(this.run.id)}`;
    const more = byId("question-field").querySelector("[name=more]");
    const added = more ? /** @type {HTMLInputElement} */ (more).value.trim() : "";
    const run = await send(path, question, value, added, files?.[0]);
    if (run) showDone(`Answered: ${files?.[0]?.name ?? value}`);
  }
}

/**
 * Send one answer.
 * @param {string} path - of the run
 * @param {QuestionModel} question
 * @param {string} value
 * @param {string} added - reason of a decision, or time of a sample
 * @param {File | undefined} file
 */
function send(path, { kind, step }, value, added, file) {
  const reason = "answered on the page";
  if (file) {
    const query = new URLSearchParams({ name: file.name, step: String(step), reason });
    return act("POST", `${path}/upload?${query}`, file);
  }
  if (kind === "approval") {
    return act("POST", `${path}/decision`, { approve: value === "approve", step, reason: added });
  }
  return act("POST", `${path}/answer`, { answer: value, step, reason, ...(kind === "assay" ? { taken: added } : {}) });
}

/**
 * Return the question of a run that asks for an answer; null for a run that is only to be resumed.
 * @param {Run | null} run
 * @returns {QuestionModel | null}
 */
export const open = (run) => (run?.question?.kind ? run.question : null);

/** @param {QuestionModel} question */
function field({ kind, choices, unit, accept, default: proposed }) {
  if (kind === "photo" || kind === "file") {
    const camera = kind === "photo" ? { capture: "environment" } : {};
    return h("input", { ...FIELD, ...camera, type: "file", accept: accept.join(",") });
  }
  if (kind === "approval") {
    const options = [
      h("option", { value: "", text: "Choose" }),
      h("option", { value: "approve", text: "Approve" }),
      h("option", { value: "reject", text: "Reject" }),
    ];
    return h("div", {}, h("select", { ...FIELD, class: "wide" }, options), additional("Reason", 1000));
  }
  if (kind === "choice") {
    const options = ["", ...choices].map((text) => h("option", { value: text, text: text || "Choose" }));
    return h("select", { ...FIELD, class: "wide" }, options);
  }
  if (kind === "text") return h("textarea", { ...FIELD, maxlength: 500, rows: 3 });
  const example = proposed || `8.2 ${unit}`.trim();
  const input = h("input", { ...FIELD, maxlength: 64, spellcheck: "false", placeholder: `for example ${example}` });
  if (kind !== "assay") return input;
  return h("div", {}, input, additional("Time of the sample, such as 10:40 (default: now)", 40));
}

/**
 * Return a second field, which may stay empty.
 * @param {string} label
 * @param {number} maxlength
 */
function additional(label, maxlength) {
  const name = { name: "more", "data-testid": "question-more" };
  return h("input", { ...name, "aria-label": label, placeholder: label, maxlength, class: "wide" });
}
