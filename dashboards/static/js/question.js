// The question that a held run waits for: a number with its unit, one of several choices, or a text.

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
    const { value } = /** @type {HTMLInputElement} */ (input);
    const body = { answer: value, step: question.step, reason: "answered on the page" };
    const run = await act("POST", `/api/runs/${encodeURIComponent(this.run.id)}/answer`, body);
    if (run) showDone(`Answered: ${value}`);
  }
}

/**
 * Return the question of a run that asks for an answer; null for a run that is only to be resumed.
 * @param {Run | null} run
 * @returns {QuestionModel | null}
 */
export const open = (run) => (run?.question?.kind ? run.question : null);

/** @param {QuestionModel} question */
function field({ kind, choices, unit, default: proposed }) {
  if (kind === "choice") {
    const options = ["", ...choices].map((text) => h("option", { value: text, text: text || "Choose" }));
    return h("select", { ...FIELD, class: "wide" }, options);
  }
  if (kind === "text") return h("textarea", { ...FIELD, maxlength: 500, rows: 3 });
  const example = proposed || `8.2 ${unit}`.trim();
  return h("input", { ...FIELD, maxlength: 64, spellcheck: "false", placeholder: `for example ${example}` });
}
