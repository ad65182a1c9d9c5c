// One row of the alarm list: what happened, what to do and until when, and the buttons of the alarm.

import { act } from "../api.js";
import { byId, h, setText } from "../dom.js";
import { capital, inUtc, moment } from "../format.js";
import { actionFor } from "../handling.js";
import { detailOf, spoken } from "../words.js";

/** @import { Alarm } from "../../../types/live.d.ts" */

/** @type {Record<string, string>} The names of ISA-18.2 where they differ from the identifier. */
const STATES = {
  return_to_normal_unacknowledged: "return-to-normal unacknowledged",
  suppressed_by_design: "suppressed by design",
  out_of_service: "out of service",
};

/**
 * Return the name of an alarm's state.
 * @param {string} state
 */
export const stateName = (state) => STATES[state] ?? state;

/**
 * What a row may do.
 * @typedef {object} RowOptions
 * @property {boolean} mayOperate - whether the user may acknowledge
 * @property {((alarm: Alarm) => void) | null} handle - opens the dialog for what was done about an alarm
 * @property {() => void} used - reports that the list is in use
 */

export class AlarmRow {
  /** @param {RowOptions} options */
  constructor(options) {
    this.options = options;
    /** @type {Alarm | null} */
    this.alarm = null;
    this.sending = false;
    this.mark = h("div", { class: "alarm-mark", "aria-hidden": "true" });
    this.title = h("strong");
    this.detail = h("span", { class: "alarm-detail", onclick: () => this.detail.classList.toggle("open") });
    this.response = h("span");
    this.within = h("b");
    this.consequence = h("span", { class: "alarm-else" });
    this.state = h("time", { class: "alarm-state" });
    this.handled = h("button", { "data-testid": "handled", text: "Done…" });
    this.acknowledgedBy = h("span", { class: "alarm-seen" });
    this.acknowledge = h("button", { "data-testid": "acknowledge", text: "Acknowledge" });
    const action = [h("b", { text: "Do: " }), this.response, " ", this.within, this.consequence];
    this.node = h(
      "article",
      { "data-testid": "alarm" },
      this.mark,
      h(
        "div",
        { class: "alarm-what" },
        h("div", { class: "alarm-said" }, this.title, this.detail),
        h("span", { class: "alarm-do" }, action),
      ),
      h("div", { class: "alarm-side" }, this.state, this.handled, this.acknowledgedBy, this.acknowledge),
    );
    this.listen();
  }

  listen() {
    for (const button of [this.acknowledge, this.handled]) {
      // Text above may wrap and move the row during a press: the release still belongs to the button that was pressed.
      button.addEventListener("pointerdown", (event) => button.setPointerCapture(event.pointerId));
    }
    this.acknowledge.addEventListener("click", () => this.sendAcknowledge());
    this.handled.addEventListener("click", () => this.alarm && this.options.handle?.(this.alarm));
  }

  async sendAcknowledge() {
    this.options.used();
    if (this.sending || !this.alarm) return;
    this.sending = true;
    await act("POST", `/api/alarms/${encodeURIComponent(this.alarm.id)}/acknowledge`, { reason: "" });
    this.sending = false;
  }

  /**
   * Show the present state of the alarm.
   * @param {Alarm} alarm
   */
  show(alarm) {
    this.alarm = alarm;
    this.node.className = `alarm ${alarm.priority} ${alarm.state}${alarm.gone ? " gone" : ""}`;
    this.node.dataset.alarm = alarm.id;
    setText(this.mark, alarm.priority === "critical" ? "!!" : "!");
    setText(this.title, `${capital(spoken(alarm.kind))} · ${spoken(alarm.source)}`);
    setText(this.detail, detailOf(alarm.source, alarm.detail));
    this.detail.title = alarm.detail;
    setText(this.response, alarm.response);
    setText(this.within, `within ${alarm.respond_within}`);
    setText(this.consequence, `, or ${alarm.consequence}`);
    setText(this.state, [alarm.priority, stateOf(alarm), moment(alarm.raised_utc)].join(" · "));
    this.state.dateTime = alarm.raised_utc;
    this.state.title = inUtc(alarm.raised_utc);
    this.showButtons(alarm);
  }

  /** @param {Alarm} alarm */
  showButtons(alarm) {
    const acknowledged = alarm.state === "acknowledged";
    this.handled.hidden = !(this.options.handle && actionFor(alarm)) || Boolean(alarm.gone);
    this.acknowledgedBy.hidden = !acknowledged;
    setText(this.acknowledgedBy, acknowledged ? `acknowledged by ${alarm.acknowledged_by}` : "");
    const hide = acknowledged || !this.options.mayOperate || Boolean(alarm.gone);
    // A button that is hidden loses the keyboard focus: it passes to the next button. The page scrolls for that only
    // when the keyboard is in use, because a mouse or a finger already aims at its next target.
    if (hide && document.activeElement === this.acknowledge) {
      nextButton(this.node)?.focus({ preventScroll: !this.acknowledge.matches(":focus-visible") });
    }
    this.acknowledge.hidden = hide;
  }
}

/** @param {Alarm} alarm */
const stateOf = (alarm) => (alarm.gone ? "no longer listed" : stateName(alarm.state));

/**
 * Return the next Acknowledge button below this row, else the first one above it.
 * @param {HTMLElement} node
 * @returns {HTMLElement | undefined}
 */
function nextButton(node) {
  /** @type {NodeListOf<HTMLElement>} */
  const buttons = byId("alarm-list").querySelectorAll("[data-testid=acknowledge]:not([hidden])");
  const others = [...buttons].filter((each) => !node.contains(each));
  const below = others.find((each) => node.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING);
  return below ?? others[0];
}
