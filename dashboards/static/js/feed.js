// The live feed: keeps the whole state, merges what changed, and reconnects by itself and after a missing message.

/** @import { Actuator, ActuatorStatus, LiveMessage, LiveState } from "../../types/live.d.ts" */

const SILENCE_MS = 6000;
const MIN_WAIT_MS = 400;
const MAX_WAIT_MS = 8000;
const WAIT_GROWTH = 1.8;
/** Codes with which the server closes a connection that it does not accept (any more). */
const REFUSED = [4401, 4403];

/**
 * Return what an actuator reports; null while it does not respond.
 * @param {Actuator | undefined} actuator
 * @returns {ActuatorStatus | null}
 */
export const statusOf = (actuator) => (actuator?.fault ? null : (actuator?.status ?? null));

/** @typedef {"connecting" | "live" | "lost" | "refused"} LinkStatus */

export class Feed {
  /**
   * @param {(state: LiveState, changes: LiveMessage) => void} onState - called at each message
   * @param {(status: LinkStatus) => void} onLink - called when the connection changes, and at each message
   */
  constructor(onState, onLink) {
    this.onState = onState;
    this.onLink = onLink;
    /** @type {LiveState | null} */
    this.state = null;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.waitMs = MIN_WAIT_MS;
    /** Number of the last message. */
    this.last = 0;
    /** When the last message came (ms of the page's clock); 0 before the first. */
    this.heardAt = 0;
    setInterval(() => this.checkSilence(), 1000);
    this.connect();
  }

  connect() {
    this.onLink(this.state ? "lost" : "connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws?form=patch`);
    this.socket = socket;
    socket.onmessage = (event) => this.take(JSON.parse(event.data));
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.onLink(REFUSED.includes(event.code) ? "refused" : "lost");
      setTimeout(() => this.connect(), this.waitMs);
      this.waitMs = Math.min(this.waitMs * WAIT_GROWTH, MAX_WAIT_MS);
    };
  }

  /**
   * Merge one message into the state.
   * @param {LiveMessage} message
   */
  take(message) {
    if (message.error) return;
    this.heardAt = performance.now();
    this.waitMs = MIN_WAIT_MS;
    const { n, gone, ...change } = message;
    if (!this.follows(message)) {
      this.socket?.close(); // a message is missing: a new connection begins with the whole state
      return;
    }
    this.last = n ?? this.last;
    const state = /** @type {LiveState} */ (patched(message.whole ? {} : this.state, change));
    for (const path of gone ?? []) remove(state, path);
    this.state = state;
    this.onLink("live");
    this.onState(state, message);
  }

  /**
   * Return whether a message can be merged: it is the next one, or the whole state.
   * @param {LiveMessage} message
   */
  follows({ n, whole }) {
    return Boolean(whole || (this.state && (n === undefined || n === this.last + 1)));
  }

  /** Reconnect when nothing comes: a connection can die without notice, and the feed always has something to send. */
  checkSilence() {
    if (!this.socket || !this.heardAt || performance.now() - this.heardAt <= SILENCE_MS) return;
    this.heardAt = 0;
    const silent = this.socket;
    this.socket = null;
    silent.close();
    this.connect();
  }
}

/**
 * Return an object with the changed members of another one, which may be objects themselves.
 * @param {any} before
 * @param {any} change
 * @returns {any}
 */
function patched(before, change) {
  if (!isObject(before) || !isObject(change)) return change;
  const result = { ...before };
  for (const [name, value] of Object.entries(change)) result[name] = patched(before[name], value);
  return result;
}

/** @param {unknown} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Remove a member; the objects on the way to it are new ones already, because the message names them.
 * @param {any} state
 * @param {string[]} path
 */
function remove(state, path) {
  const [name, ...rest] = path;
  if (rest.length) remove(state[name], rest);
  else delete state[name];
}
