// The live feed: keeps the whole state, merges what changes, comes back by itself.

const KEYED = ["readings", "actuators", "volumes", "links"];
const SILENCE_MS = 6000;
const LONGEST_WAIT_MS = 8000;

/** What an actuator says that it does; null when it has not answered lately, whatever it said before. */
export const told = (actuator) => (actuator?.fault ? null : actuator?.status ?? null);

export class Feed {
  /** `onstate(state, changes)` at each message, `onlink(status)` with connecting, live or lost. */
  constructor(onstate, onlink) {
    this.onstate = onstate;
    this.onlink = onlink;
    this.state = null;
    this.wait = 400;
    this.heard = 0;
    setInterval(() => this.listenForSilence(), 1000);
    this.connect();
  }

  connect() {
    this.onlink(this.state ? "lost" : "connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    this.socket = socket;
    socket.onmessage = (event) => this.take(JSON.parse(event.data));
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.onlink(event.code === 4401 || event.code === 4403 ? "refused" : "lost");
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(this.wait * 1.8, LONGEST_WAIT_MS);
    };
  }

  take(message) {
    if (message.error) return;
    this.heard = performance.now();
    this.wait = 400;
    if (message.whole) this.state = {};
    if (!this.state) return;
    for (const [name, value] of Object.entries(message)) {
      if (KEYED.includes(name) && !message.whole) this.merge(name, value);
      else this.state[name] = value;
    }
    this.onlink("live");
    this.onstate(this.state, message);
  }

  merge(name, changes) {
    const kept = { ...this.state[name] };
    for (const [key, value] of Object.entries(changes)) {
      if (value === null) delete kept[key];
      else kept[key] = value;
    }
    this.state[name] = kept;
  }

  /** A connection can die without a word; the feed always has something to say. */
  listenForSilence() {
    if (this.socket && this.heard && performance.now() - this.heard > SILENCE_MS) {
      this.heard = 0;
      const silent = this.socket;
      this.socket = null;
      silent.close();
      this.connect();
    }
  }
}
