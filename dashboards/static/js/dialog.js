// Asking before what cannot be undone, and for the reason that goes on record.

import { h } from "./dom.js";

/** Resolves with the reason (perhaps empty) when confirmed, else with null. */
export function ask({ title, text, confirm, danger = false, reason = "optional" }) {
  return new Promise((resolve) => {
    const field = h("input", { id: "dialog-reason", maxlength: 500, autocomplete: "off", required: reason === "required" });
    const label = reason === "none" ? null
      : h("label", { class: "field", for: "dialog-reason" }, h("span", { text: reason === "required" ? "Reason, for the record" : "Reason, for the record (optional)" }), field);
    const finish = (answer) => { dialog.close(); dialog.remove(); resolve(answer); };
    const form = h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); finish(field.value.trim()); } },
      h("h2", { text: title }), h("p", { text }), label,
      h("div", { class: "dialog-buttons" },
        h("button", { type: "button", "data-testid": "dialog-cancel", onclick: () => finish(null), text: "Cancel" }),
        h("button", { type: "submit", class: danger ? "danger" : "primary", "data-testid": "dialog-confirm", text: confirm })));
    const dialog = h("dialog", { "aria-label": title, oncancel: () => finish(null) }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A form whose fields depend on a choice; stays open until `send(choice, values)` has not thrown. Resolves with whether it was sent. */
export function fillIn({ title, text, confirm, choices, chosen, send }) {
  return new Promise((resolve) => {
    const trouble = h("p", { class: "trouble", role: "alert" });
    const fields = h("div", { class: "fields" });
    const select = h("select", { "aria-label": "What was done", "data-testid": "dialog-choice" }, choices.map((each) => h("option", { value: each.value, selected: each.value === chosen, text: each.text })));
    const show = () => fields.replaceChildren(...choices.find((each) => each.value === select.value).fields.map(({ label, ...input }) =>
      h("label", { class: "field" }, h("span", { text: label }), h("input", { autocomplete: "off", spellcheck: "false", "data-testid": `dialog-${input.name}`, ...input }))));
    const finish = (sent) => { dialog.close(); dialog.remove(); resolve(sent); };
    const form = h("form", {
      method: "dialog",
      onsubmit: async (event) => {
        event.preventDefault();
        const values = Object.fromEntries([...fields.querySelectorAll("input")].map((input) => [input.name, input.value.trim()]));
        try {
          await send(select.value, values);
          finish(true);
        } catch (failure) {
          trouble.textContent = failure.error ? `${failure.error.what}. ${failure.error.action}.` : String(failure);
        }
      },
    },
      h("h2", { text: title }), h("p", { text }), select, fields, trouble,
      h("div", { class: "dialog-buttons" },
        h("button", { type: "button", "data-testid": "dialog-cancel", onclick: () => finish(false), text: "Cancel" }),
        h("button", { type: "submit", class: "primary", "data-testid": "dialog-confirm", text: confirm })));
    const dialog = h("dialog", { "aria-label": title, oncancel: () => finish(false) }, form);
    select.onchange = show;
    show();
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Asks for a token until one is taken; resolves when signed in. */
export function signIn(tryToken) {
  return new Promise((resolve) => {
    const field = h("input", { id: "token", type: "password", required: true, autocomplete: "off", spellcheck: "false", "data-testid": "token" });
    const trouble = h("p", { class: "trouble", role: "alert" });
    const form = h("form", {
      method: "dialog",
      onsubmit: async (event) => {
        event.preventDefault();
        try {
          await tryToken(field.value.trim());
          dialog.close();
          dialog.remove();
          resolve();
        } catch (failure) {
          trouble.textContent = failure.error ? `${failure.error.what}. ${failure.error.action}.` : String(failure);
        }
      },
    },
      h("h2", { text: "Sign in" }),
      h("p", { text: "This rig answers only to people it knows. Open the link that “choroid run” printed, or paste its token here." }),
      h("label", { class: "field", for: "token" }, h("span", { text: "Token" }), field), trouble,
      h("div", { class: "dialog-buttons" }, h("button", { type: "submit", class: "primary", text: "Sign in" })));
    const dialog = h("dialog", { "aria-label": "Sign in", "data-testid": "sign-in", oncancel: (event) => event.preventDefault() }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}
