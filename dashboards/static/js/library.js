// The library of uploaded protocols: submit, review by another person, release, withdraw.

import { act, call, showDone } from "./api.js";
import { byId, h } from "./dom.js";

/** @import { LibraryModel, VersionModel } from "../../types/api.d.ts" */

const SHORT = 12;

/** The actions of each state: text of the button, path, body. */
const ACTIONS = /** @type {Record<string, [string, string, Record<string, unknown>][]>} */ ({
  submitted: [
    ["Accept", "review", { accept: true }],
    ["Reject", "review", { accept: false }],
  ],
  reviewed: [["Release", "release", {}]],
  loading: [
    ["Release", "release", {}],
    ["Withdraw", "withdraw", {}],
  ],
  released: [["Withdraw", "withdraw", {}]],
  superseded: [["Release", "release", {}]],
});

/** Called after each change of a version. */
let changed = () => {};

/**
 * Show the library when its panel is opened.
 * @param {boolean} mayOperate
 * @param {() => void} onChange called after each change of a version
 */
export function startLibrary(mayOperate, onChange) {
  changed = onChange;
  const panel = byId("library");
  panel.hidden = !mayOperate;
  panel.querySelector("details")?.addEventListener("toggle", show);
  byId("library-form").onsubmit = (event) => {
    event.preventDefault();
    submit();
  };
}

/** Upload the chosen file for review. */
async function submit() {
  const input = byId("library-file", HTMLInputElement);
  const file = input.files?.[0];
  if (!file) return;
  const body = { file: file.name, text: await file.text(), reason: reason() };
  const version = await act("POST", "/api/library", body);
  if (version) done(`Submitted ${version.name} for review`);
}

/** Show the versions, newest first. */
async function show() {
  /** @type {LibraryModel | null} */
  const found = await call("GET", "/api/library", undefined, { quiet: true }).catch(() => null);
  const versions = found?.versions ?? [];
  byId("library-list").replaceChildren(...versions.map(item).reverse());
}

/** @param {VersionModel} version */
function item(version) {
  const people = [
    `submitted by ${version.submitted_by}`,
    version.reviewed_by && `reviewed by ${version.reviewed_by}`,
    version.released_by && `released by ${version.released_by}`,
  ];
  const buttons = (ACTIONS[version.state] ?? []).map(([text, path, body]) =>
    h("button", { type: "button", text, onclick: () => change(version, text, path, body) }),
  );
  return h(
    "li",
    { "data-testid": "library-version", "data-state": version.state },
    h("strong", { text: `${version.name}${version.suffix}: ${version.state}` }),
    h("span", { class: "dim", text: `${version.sha256.slice(0, SHORT)}, ${people.filter(Boolean).join(", ")}` }),
    h("div", {}, h("button", { type: "button", text: "Read", onclick: () => read(version) }), buttons),
  );
}

/**
 * Change the state of a version; the field of the panel holds the reason.
 * @param {VersionModel} version
 * @param {string} text
 * @param {string} path
 * @param {Record<string, unknown>} body
 */
async function change(version, text, path, body) {
  const answer = await act("POST", `/api/library/${version.sha256}/${path}`, { ...body, reason: reason() });
  if (answer) done(`${text}: ${answer.name} is ${answer.state}`);
}

/**
 * Show the text of a version below the list.
 * @param {VersionModel} version
 */
async function read(version) {
  const found = await act("GET", `/api/library/${version.sha256}`);
  byId("library-text").hidden = !found;
  byId("library-text").textContent = found?.text ?? "";
}

/** The reason that a person has written. */
const reason = () => byId("library-reason", HTMLInputElement).value.trim();

/** @param {string} text */
function done(text) {
  showDone(text);
  byId("library-form", HTMLFormElement).reset();
  show();
  changed();
}
