// Requests to the API. A failure carries the API's own text and is shown as a message.

import { byId, h } from "./dom.js";

/** @import { Error as ApiError } from "../../types/api.d.ts" */

/** A request that failed; `status` is 0 when there was no answer. */
export class Failure extends Error {
  /**
   * @param {number} status
   * @param {ApiError} error
   */
  constructor(status, error) {
    super(error.what);
    this.status = status;
    this.error = error;
  }
}

/** @type {string | null} */
let shownUtc = null;

/**
 * Remember the time of the state that the page shows. Commands carry it, so that the controller knows on which state
 * they were decided.
 * @param {string | null} utc
 */
export function setShownUtc(utc) {
  shownUtc = utc;
}

/** Return a random id for a command. `crypto.randomUUID` needs HTTPS, which a laboratory network may not have. */
function commandId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Return the headers of a request.
 * @param {string} method
 * @param {unknown} body
 * @param {string | undefined} token
 */
function headersOf(method, body, token) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (body instanceof Blob) headers["Content-Type"] = "application/octet-stream";
  else if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") {
    headers["Choroid-Command-Id"] = commandId();
    if (shownUtc) headers["Choroid-Seen"] = shownUtc;
  }
  if (token) headers.Authorization = `Bearer ${token}`;
  return headers;
}

/**
 * Send one request and return the parsed answer.
 *
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body] - is sent as JSON, a file as it is
 * @param {{token?: string, quiet?: boolean}} [options] - `quiet`: do not show a failure
 * @returns {Promise<any>} null when the answer has no content
 * @throws {Failure}
 */
export async function call(method, path, body, { token, quiet } = {}) {
  /** @type {(status: number, error: ApiError) => Failure} */
  const failed = (status, error) => {
    if (!quiet) showError(error);
    return new Failure(status, error);
  };
  const content = body === undefined || body instanceof Blob ? body : JSON.stringify(body);
  let reply;
  try {
    reply = await fetch(path, { method, headers: headersOf(method, body, token), body: content });
  } catch {
    throw failed(0, {
      what: "The controller does not respond",
      where: path,
      cause: "it has stopped, or the network is down",
      action: "check the computer on which it runs",
    });
  }
  if (reply.status === 204) return null;
  const answer = await reply.json().catch(() => ({}));
  if (reply.ok) return answer;
  const unknown = { what: `The controller answered ${reply.status}`, where: path, cause: "", action: "read its log" };
  throw failed(reply.status, answer.error ?? unknown);
}

/**
 * Send one request from an event handler: a failure is shown and gives null.
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function act(method, path, body) {
  try {
    return await call(method, path, body);
  } catch (failure) {
    if (failure instanceof Failure) return null;
    throw failure;
  }
}

/**
 * Return a failure as text for a dialog.
 * @param {unknown} failure
 */
export function failureText(failure) {
  if (!(failure instanceof Failure)) return String(failure);
  return [failure.error.what, failure.error.action].filter(Boolean).map(sentence).join(" ");
}

const ERROR_MS = 14000;
const DONE_MS = 4000;
const MAX_MESSAGES = 3;

/**
 * Show what failed.
 * @param {ApiError} error
 */
export function showError(error) {
  /** @type {(label: string, text: string) => HTMLElement | null} */
  const line = (label, text) => (text ? h("p", {}, h("b", { text: `${label} ` }), sentence(text)) : null);
  showMessage(
    "toast",
    "alert",
    [
      h("strong", { text: sentence(error.what) }),
      error.where ? h("span", { class: "toast-where", text: error.where }) : null,
      line("Cause:", error.cause),
      line("Next:", error.action),
    ],
    ERROR_MS,
  );
}

/**
 * Show that something was done.
 * @param {string} text
 */
export function showDone(text) {
  showMessage("toast done", "status", [h("strong", { text: sentence(text) })], DONE_MS);
}

/**
 * Show a message for some time, or until it is closed.
 * @param {string} className
 * @param {string} role
 * @param {(HTMLElement | null)[]} content
 * @param {number} durationMs
 */
function showMessage(className, role, content, durationMs) {
  const close = () => node.remove();
  const button = h("button", { class: "toast-close", "aria-label": "Close this message", onclick: close, text: "×" });
  const node = h("div", { class: className, role }, button, content);
  const place = byId("toasts");
  while (place.children.length >= MAX_MESSAGES) place.firstElementChild?.remove();
  place.append(node);
  setTimeout(close, durationMs);
}

/**
 * Return the text with a capital and a full stop.
 * @param {string} text
 */
function sentence(text) {
  const trimmed = text.trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + (/[.!?”]$/.test(trimmed) ? "" : ".");
}
