// Dialogs: confirmation with a reason for the record, and a form.

import { failureText } from "./api.js";
import { h } from "./dom.js";

/** @import { Attributes, Child } from "../../types/dom.d.ts" */

const MAX_REASON = 500;

/**
 * Create a modal dialog, still hidden. Closing it removes it.
 * @param {Attributes} attributes
 * @param {Attributes} form - attributes of the form
 * @param {...Child} content
 */
export function modal(attributes, form, ...content) {
  const dialog = h("dialog", attributes, h("form", { method: "dialog", ...form }, ...content));
  document.body.append(dialog);
  return dialog;
}

/** @param {HTMLDialogElement} dialog */
export function close(dialog) {
  dialog.close();
  dialog.remove();
}

/**
 * Return the buttons of a dialog.
 * @param {string} confirm - the text of the button that confirms
 * @param {boolean} danger
 * @param {() => void} [cancel] - there is no Cancel button without it
 */
export function buttons(confirm, danger, cancel) {
  const cancelButton = { type: "button", "data-testid": "dialog-cancel", onclick: cancel, text: "Cancel" };
  const className = danger ? "danger" : "primary";
  return h(
    "div",
    { class: "dialog-buttons" },
    cancel && h("button", cancelButton),
    h("button", { type: "submit", class: className, "data-testid": "dialog-confirm", text: confirm }),
  );
}

/**
 * A question before an action that cannot be undone.
 * @typedef {object} Question
 * @property {string} title
 * @property {string} text
 * @property {string} confirm - the text of the button that confirms
 * @property {boolean} [danger]
 * @property {"optional" | "required"} [reason] - whether a reason must be given
 */

/**
 * Ask for confirmation and for a reason.
 * @param {Question} question
 * @returns {Promise<string | null>} the reason (perhaps empty) when confirmed, else null
 */
export function ask({ title, text, confirm, danger = false, reason = "optional" }) {
  return new Promise((resolve) => {
    const required = reason === "required";
    const field = h("input", { id: "dialog-reason", maxlength: MAX_REASON, autocomplete: "off", required });
    const caption = required ? "Reason, for the record" : "Reason, for the record (optional)";
    /** @param {string | null} answer */
    const finish = (answer) => {
      close(dialog);
      resolve(answer);
    };
    /** @param {SubmitEvent} event */
    const onsubmit = (event) => {
      event.preventDefault();
      finish(field.value.trim());
    };
    const dialog = modal(
      { "aria-label": title, oncancel: () => finish(null) },
      { onsubmit },
      h("h2", { text: title }),
      h("p", { text }),
      h("label", { class: "field", for: "dialog-reason" }, h("span", { text: caption }), field),
      buttons(confirm, danger, () => finish(null)),
    );
    dialog.showModal();
  });
}

/**
 * One field of a form: an input's attributes and its label.
 * @typedef {{name: string, label: string} & Attributes} Field
 */

/**
 * A form whose fields depend on a choice.
 * @typedef {object} ChoiceForm
 * @property {string} title
 * @property {string} text
 * @property {string} confirm - the text of the button that confirms
 * @property {{value: string, text: string, fields: Field[]}[]} choices
 * @property {string} [chosen] - the choice to begin with
 * @property {(choice: string, values: Record<string, string>) => Promise<unknown>} send
 */

/**
 * Show a form until `send` succeeds or the user cancels.
 * @param {ChoiceForm} form
 * @returns {Promise<boolean>} whether it was sent
 */
export function fillIn({ title, text, confirm, choices, chosen, send }) {
  return new Promise((resolve) => {
    const trouble = h("p", { class: "trouble", role: "alert" });
    const fields = h("div", { class: "fields" });
    const options = choices.map((each) =>
      h("option", { value: each.value, selected: each.value === chosen, text: each.text }),
    );
    const select = h("select", { "aria-label": "Action", "data-testid": "dialog-choice" }, options);
    const showFields = () => {
      const choice = choices.find((each) => each.value === select.value);
      fields.replaceChildren(...(choice?.fields ?? []).map(fieldNode));
    };
    /** @param {boolean} sent */
    const finish = (sent) => {
      close(dialog);
      resolve(sent);
    };
    /** @param {SubmitEvent} event */
    const onsubmit = async (event) => {
      event.preventDefault();
      const all = [...fields.querySelectorAll("input")];
      const inputs = all.filter((input) => input.type !== "checkbox" || input.checked);
      try {
        await send(select.value, Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()])));
        finish(true);
      } catch (failure) {
        trouble.textContent = failureText(failure);
      }
    };
    const dialog = modal(
      { "aria-label": title, oncancel: () => finish(false) },
      { onsubmit },
      h("h2", { text: title }),
      h("p", { text }),
      select,
      fields,
      trouble,
      buttons(confirm, false, () => finish(false)),
    );
    select.onchange = showFields;
    showFields();
    dialog.showModal();
  });
}

/** @param {Field} field */
function fieldNode({ label, ...input }) {
  const common = { autocomplete: "off", spellcheck: "false", "data-testid": `dialog-${input.name}` };
  const box = input.type === "checkbox" ? "field box" : "field";
  return h("label", { class: box }, h("span", { text: label }), h("input", { ...common, ...input }));
}
