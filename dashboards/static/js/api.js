// Asking the API. A failure is thrown as the API's own words and shown as a toast.

import { byId, h } from "./dom.js";

export class Failure extends Error {
  constructor(status, error) {
    super(error.what);
    this.status = status;
    this.error = error;
  }
}

let seenUtc = null;

/** The `utc` of the latest state on the page: a command tells the controller on which state it was decided. */
export function seen(utc) {
  seenUtc = utc;
}

// crypto.randomUUID needs HTTPS or localhost; a laboratory's own network may have neither.
function commandId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** One request; returns the parsed answer. `quiet` leaves the showing of a failure to the caller. */
export async function call(method, path, body, { token, quiet } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") {
    headers["Choroid-Command-Id"] = commandId();
    if (seenUtc) headers["Choroid-Seen"] = seenUtc;
  }
  if (token) headers.Authorization = `Bearer ${token}`;
  let reply;
  try {
    reply = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    const error = { what: "The controller does not answer", where: path, cause: "it has ended, or the network is down", action: "look at the computer it runs on" };
    if (!quiet) toast(error);
    throw new Failure(0, error);
  }
  if (reply.status === 204) return null;
  const answer = await reply.json().catch(() => ({}));
  if (reply.ok) return answer;
  const error = answer.error ?? { what: `The controller answered ${reply.status}`, where: path, cause: "", action: "look at its log" };
  if (!quiet) toast(error);
  throw new Failure(reply.status, error);
}

/** For event handlers: ask, and let the toast speak when it fails. */
export const act = (method, path, body) => call(method, path, body).catch((failure) => (failure instanceof Failure ? null : Promise.reject(failure)));

const SHOWN_MS = 14000;

/** Tell somebody what went wrong (an error of the API) or what was done ({done}). */
export function toast(error) {
  const close = () => node.remove();
  const node = h("div", { class: error.done ? "toast done" : "toast", role: error.done ? "status" : "alert" },
    h("button", { class: "toast-close", "aria-label": "Close this message", onclick: close, text: "×" }),
    h("strong", { text: sentence(error.done ?? error.what) }),
    error.where ? h("span", { class: "toast-where", text: error.where }) : null,
    error.cause ? h("p", {}, h("b", { text: "Why " }), sentence(error.cause)) : null,
    error.action ? h("p", {}, h("b", { text: "Next " }), sentence(error.action)) : null);
  const place = byId("toasts");
  while (place.children.length >= 3) place.firstChild.remove();
  place.append(node);
  setTimeout(close, error.done ? 4000 : SHOWN_MS);
}

function sentence(text) {
  const trimmed = text.trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1) + (/[.!?”]$/.test(trimmed) ? "" : ".");
}
