// The alarm list, most urgent first.
//
// Rows are keyed and updated in place. While the list is in use (pointer, press or keyboard focus), rows keep their
// places: new alarms are added below, alarms that are gone stay, greyed, until the list is idle. So a press always
// reaches the row that the user saw, however fast alarms come and go.

import { byId, h, keyed, setText } from "../dom.js";
import { moment } from "../format.js";
import { actionFor } from "../handling.js";
import { spoken } from "../words.js";
import { AlarmRow, stateName } from "./row.js";

/** @import { Alarm } from "../../../types/live.d.ts" */

/** One line of the list: an alarm or a remark. @typedef {{id: string, alarm?: Alarm, rest?: number}} Item */

const SHOWN = 3;
const IDLE_MS = 3000;
const HOVER_MS = 20000;
const AS_OF = "as of";
const MORE = "more";
const SUPPRESSED = "suppressed";

export class AlarmList {
  /**
   * @param {boolean} mayOperate - whether the user may acknowledge
   * @param {((vessel: string, action?: string) => void) | null} enter - opens the dialog for what was done to a vessel
   */
  constructor(mayOperate, enter) {
    this.node = byId("alarm-list");
    this.showAll = false;
    /** @type {Alarm[]} */
    this.alarms = [];
    /** @type {Alarm[]} */
    this.suppressed = [];
    /** The time of the last state, while the connection is lost; empty while the list is current. */
    this.asOf = "";
    /** @type {Alarm[]} The alarms in the order in which the page shows them. */
    this.placed = [];
    /** When the list was last in use (ms of the page's clock). */
    this.usedAt = -Infinity;
    /** @type {number | undefined} The timer that sorts the rows again. */
    this.sorting = undefined;
    /** @type {WeakMap<Element, AlarmRow>} */
    this.rows = new WeakMap();
    this.rowOptions = {
      mayOperate,
      handle: enter && ((/** @type {Alarm} */ alarm) => enter(alarm.source, actionFor(alarm))),
      used: () => this.markUsed(),
    };
    this.listen();
  }

  listen() {
    for (const kind of ["pointermove", "pointerdown", "keydown", "focusin"]) {
      this.node.addEventListener(kind, () => this.markUsed());
    }
    // A finger does not hover: a user who scrolls while the list is in view may be about to press in it.
    const scrolled = () => {
      if (this.node.getBoundingClientRect().bottom > 0) this.markUsed();
    };
    addEventListener("scroll", scrolled, { passive: true });
  }

  markUsed() {
    this.usedAt = performance.now();
  }

  /**
   * Show these alarms.
   * @param {Alarm[]} alarms - announced alarms, most urgent first
   * @param {Alarm[] | undefined} suppressed - alarms that are shelved, suppressed by design or out of service
   */
  show(alarms, suppressed) {
    this.alarms = alarms;
    this.suppressed = suppressed ?? [];
    byId("calm").hidden = alarms.length > 0 || this.suppressed.length > 0;
    this.draw();
  }

  /**
   * Mark the list as of an earlier time.
   * @param {string | null} utc - the time of the last state; null while the list is current
   */
  markAsOf(utc) {
    const text = utc ? moment(utc) : "";
    if (text === this.asOf) return;
    this.asOf = text;
    this.draw();
  }

  /** Return the alarms to show: by urgency, or in their present places while the list is in use. */
  arranged() {
    // A pointer that rests on the list may be about to press there; after HOVER_MS it was only left there.
    const idleMs = this.node.matches(":hover") ? HOVER_MS : IDLE_MS;
    const inUse = performance.now() - this.usedAt < idleMs && this.placed.length > 0;
    clearTimeout(this.sorting);
    if (!inUse) return this.showAll ? this.alarms : this.alarms.slice(0, SHOWN);
    this.sorting = setTimeout(() => this.draw(), IDLE_MS);
    return this.inPlace();
  }

  /** Return the alarms of the present rows, and the new ones below them. */
  inPlace() {
    const present = new Map(this.alarms.map((each) => [each.id, each]));
    const kept = this.placed.map((each) => present.get(each.id) ?? { ...each, gone: true });
    const ids = new Set(kept.map((each) => each.id));
    const added = this.alarms.filter((each) => !ids.has(each.id));
    if (this.showAll) return [...kept, ...added];
    const urgent = added.filter((each) => each.priority === "critical" && each.state === "unacknowledged");
    return [...kept, ...urgent.slice(0, SHOWN)].slice(0, 4 * SHOWN);
  }

  draw() {
    this.placed = this.arranged();
    const ids = new Set(this.placed.map((each) => each.id));
    const rest = this.alarms.filter((each) => !ids.has(each.id)).length;
    /** @type {Item[]} */
    const items = this.placed.map((alarm) => ({ id: `alarm ${alarm.id}`, alarm }));
    if (this.asOf) items.unshift({ id: AS_OF });
    if (rest > 0 || (this.showAll && this.alarms.length > SHOWN)) items.push({ id: MORE, rest });
    if (this.suppressed.length) items.push({ id: SUPPRESSED });
    keyed(
      this.node,
      items,
      (item) => item.id,
      (item) => this.make(item),
      (node, item) => this.update(node, item),
    );
  }

  /**
   * @param {Item} item
   * @returns {HTMLElement}
   */
  make(item) {
    if (item.alarm) {
      const row = new AlarmRow(this.rowOptions);
      this.rows.set(row.node, row);
      return row.node;
    }
    if (item.id === MORE) return h("button", { class: "more", onclick: () => this.toggleAll() });
    if (item.id === SUPPRESSED) return h("p", { class: "suppressed dim small", "data-testid": "suppressed" });
    return h("p", { class: "as-of" });
  }

  toggleAll() {
    this.showAll = !this.showAll;
    this.usedAt = -Infinity;
    this.draw();
    this.markUsed();
  }

  /**
   * @param {Element} node
   * @param {Item} item
   */
  update(node, item) {
    if (item.alarm) this.rows.get(node)?.show(item.alarm);
    else if (item.id === MORE) setText(node, item.rest ? `${item.rest} more` : "Show fewer");
    else if (item.id === SUPPRESSED) setText(node, `Not announced: ${this.suppressed.map(suppressedText).join("; ")}`);
    else
      setText(node, `${this.alarms.length ? "Alarms" : "No alarms"} as of ${this.asOf}; later changes are not known`);
  }
}

/**
 * Return the text of a suppressed alarm: its state, by whom, until when and why.
 * @param {Alarm} alarm
 */
function suppressedText(alarm) {
  const until = alarm.until_utc ? ` until ${moment(alarm.until_utc)}` : "";
  const by = alarm.suppressed_by ? ` by ${alarm.suppressed_by}` : "";
  const reason = alarm.suppression_reason ? `: ${alarm.suppression_reason}` : "";
  return `${spoken(alarm.kind)} · ${spoken(alarm.source)} (${stateName(alarm.state)}${until}${by}${reason})`;
}
