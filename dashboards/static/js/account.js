// Who acts: the sign-in, and one's own account with its password and open sessions.

import { act, call, failureText, showDone } from "./api.js";
import { buttons, close, modal } from "./dialog.js";
import { h } from "./dom.js";
import { clock, day } from "./format.js";

/** @import { OwnAccount, SessionModel } from "../../types/api.d.ts" */

const SHARED_KEY = "choroid-shared-device";
const IDLE_MS = 10 * 60_000;

/**
 * Return a labelled field.
 * @param {string} name - also its id and test id
 * @param {string} label
 * @param {import("../../types/dom.d.ts").Attributes} attributes
 */
function field(name, label, attributes) {
  const input = h("input", { id: name, name, spellcheck: "false", "data-testid": name, ...attributes });
  return { input, node: h("label", { class: "field", for: name }, h("span", { text: label }), input) };
}

/**
 * Ask who acts, until a name with its password or a token is accepted.
 * @returns {Promise<void>}
 */
export function signIn() {
  return new Promise((resolve) => {
    const name = field("account-name", "Name", { autocomplete: "username", maxlength: 60 });
    const password = field("password", "Password", { type: "password", autocomplete: "current-password" });
    const token = field("token", "Or a token", { type: "password", autocomplete: "off" });
    const trouble = h("p", { class: "trouble", role: "alert" });
    /** @param {SubmitEvent} event */
    const onsubmit = async (event) => {
      event.preventDefault();
      const given = token.input.value.trim();
      try {
        if (given) await call("POST", "/api/session", undefined, { token: given, quiet: true });
        else {
          const body = { name: name.input.value.trim(), password: password.input.value };
          await call("POST", "/api/session/password", body, { quiet: true });
        }
        close(dialog);
        resolve();
      } catch (failure) {
        trouble.textContent = failureText(failure);
      }
    };
    const dialog = modal(
      {
        "aria-label": "Sign in",
        "data-testid": "sign-in",
        oncancel: (/** @type {Event} */ event) => event.preventDefault(),
      },
      { onsubmit },
      h("h2", { text: "Sign in" }),
      h("p", {
        text: "Enter your name and password. The first time, open the link of “choroid run” or paste a token.",
      }),
      name.node,
      password.node,
      token.node,
      trouble,
      buttons("Sign in", false),
    );
    dialog.showModal();
  });
}

/** Sign out, and ask for the next person. */
async function signOut() {
  await act("DELETE", "/api/session");
  location.reload();
}

/** On a device that several persons share, sign out after ten minutes without use. */
export function watchIdle() {
  let timer = 0;
  const begin = () => {
    clearTimeout(timer);
    if (localStorage.getItem(SHARED_KEY)) timer = setTimeout(signOut, IDLE_MS);
  };
  for (const kind of ["pointerdown", "keydown", "wheel", SHARED_KEY]) addEventListener(kind, begin, { passive: true });
  begin();
}

/** Show the account of the person who is signed in. */
export async function showAccount() {
  /** @type {OwnAccount | null} */
  const own = await act("GET", "/api/session");
  if (!own) return;
  const trouble = h("p", { class: "trouble", role: "alert" });
  const current = field("current", "Present password", { type: "password", autocomplete: "current-password" });
  const fresh = field("new-password", "New password, at least 15 characters", {
    type: "password",
    autocomplete: "new-password",
  });
  const until = own.password_until_utc;
  const setPassword = async () => {
    const body = { password: fresh.input.value, current: current.input.value };
    try {
      await call("PUT", "/api/session/password", body, { quiet: true });
      close(dialog);
      showDone("The new password holds from now on");
    } catch (failure) {
      trouble.textContent = failureText(failure);
    }
  };
  const shared = h("input", {
    type: "checkbox",
    checked: Boolean(localStorage.getItem(SHARED_KEY)),
    "data-testid": "shared-device",
    onchange: () => {
      if (shared.checked) localStorage.setItem(SHARED_KEY, "1");
      else localStorage.removeItem(SHARED_KEY);
      dispatchEvent(new Event(SHARED_KEY));
    },
  });
  const password = own.shared
    ? h("p", { text: "Several people may act under this name, so it has no password." })
    : h(
        "details",
        {},
        h("summary", { text: until ? `Password, valid until ${day(until)}` : "Set a password" }),
        until && current.node,
        fresh.node,
        h("button", { type: "button", text: "Set password", "data-testid": "set-password", onclick: setPassword }),
      );
  const dialog = modal(
    { "aria-label": "Your account", "data-testid": "account", class: "account" },
    {},
    h("h2", { text: `${own.name}, ${own.role}` }),
    h("h3", { text: "Open sessions" }),
    h(
      "ul",
      { class: "sessions" },
      own.sessions.map((each) => sessionNode(each, own.session)),
    ),
    password,
    trouble,
    h("label", { class: "field box" }, h("span", { text: "Shared device: sign out after 10 minutes idle" }), shared),
    h(
      "div",
      { class: "dialog-buttons" },
      h("button", { type: "submit", text: "Close" }),
      own.session && h("button", { type: "button", text: "Sign out", "data-testid": "sign-out", onclick: signOut }),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}

/**
 * @param {SessionModel} session
 * @param {string} present - id of this browser's session
 */
function sessionNode(session, present) {
  const used = session.used_utc ? `last used ${day(session.used_utc)}, ${clock(session.used_utc)}` : "";
  const end = async () => {
    const failed = await call("DELETE", `/api/session/${session.id}`).then(
      () => false,
      () => true,
    );
    if (!failed) row.remove();
  };
  const row = h(
    "li",
    {},
    h("span", { text: browserOf(session.device) }),
    h("span", { class: "dim", text: [session.source, used].filter(Boolean).join(", ") }),
    session.id === present
      ? h("span", { class: "dim", text: "this browser" })
      : h("button", { type: "button", text: "End this session", onclick: end }),
  );
  return row;
}

/**
 * Return browser and system from what a browser says of itself; all of it where neither is known.
 * @param {string} device
 */
function browserOf(device) {
  const browser = /Edg|Firefox|Chrome|Safari/.exec(device)?.[0].replace("Edg", "Edge");
  const system = /Android|iPhone|iPad|Windows|Mac OS|Linux/.exec(device)?.[0];
  return [browser, system].filter(Boolean).join(" on ") || device || "a program";
}
