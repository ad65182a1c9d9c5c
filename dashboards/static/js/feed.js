// The live feed: keeps the whole state, merges what changed, and reconnects by itself.

/** @import { Actuator, ActuatorStatus, LiveMessage, LiveState } from "../../types/live.d.ts" */

/** The parts of the state of which a message contains only the changed entries. */
const KEYED = ["readings", "actuators", "volumes", "links"];
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
    /** When the last message came (ms of the page's clock); 0 before the first. */
    this.heardAt = 0;
    setInterval(() => this.checkSilence(), 1000);
    this.connect();
  }

  connect() {
    this.onLink(this.state ? "lost" : "connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
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
    if (!message.whole && !this.state) return;
    const before = message.whole ? {} : this.state;
    const state = /** @type {LiveState} */ (merged(/** @type {Record<string, unknown>} */ ({ ...before }), message));
    this.state = state;
    this.onLink("live");
    this.onState(state, message);
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
 * Return the state after a message.
 * @param {Record<string, unknown>} state
 * @param {LiveMessage} message
 * @returns {unknown}
 */
function merged(state, message) {
  const result = { ...state };
  for (const [name, value] of Object.entries(message)) {
    const entries = KEYED.includes(name) && !message.whole;
    result[name] = entries ? mergedEntries(state[name], value) : value;
  }
  return result;
}

/**
 * Return the entries of a part after a change; an entry that is null is gone.
 * @param {any} before
 * @param {any} changes
 */
function mergedEntries(before, changes) {
  const entries = Object.entries({ ...before, ...changes });
  return Object.fromEntries(entries.filter(([, value]) => value !== null));
}
