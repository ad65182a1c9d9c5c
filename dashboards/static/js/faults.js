// Faults that the user injects into the simulated laboratory of the demo.

import { act, call } from "./api.js";
import { byId, h, keyed, setText } from "./dom.js";
import { capital } from "./format.js";
import { faultName } from "./words.js";

/** @import { FaultKind, FaultsView, LastingFault } from "../../types/api.d.ts" */

const PERIOD_MS = 2000;
const UNTIL_CLEARED = "until cleared";
/** @type {[seconds: number, text: string][]} */
const DURATIONS = [
  [60, "1 min"],
  [300, "5 min"],
  [900, "15 min"],
  [3600, "1 h"],
  [0, UNTIL_CLEARED],
];
const DEFAULT_DURATION = "300";
/** @type {Record<string, string>} */
const GROUPS = { link: "Links", device: "Devices and readings", fluid: "Liquids" };

export class Faults {
  /** @param {boolean} mayOperate */
  constructor(mayOperate) {
    this.mayOperate = mayOperate;
    /** @type {FaultKind[]} */
    this.kinds = [];
    this.kind = byId("fault-kind", HTMLSelectElement);
    this.target = byId("fault-target", HTMLSelectElement);
    this.duration = byId("fault-for", HTMLSelectElement);
    byId("faults").hidden = false;
    this.duration.replaceChildren(...DURATIONS.map(([value, text]) => h("option", { value, text })));
    this.duration.value = DEFAULT_DURATION;
    this.kind.onchange = () => this.showKind();
    byId("fault-form").onsubmit = (event) => {
      event.preventDefault();
      this.inject();
    };
    byId("make-fault", HTMLButtonElement).disabled = !mayOperate;
    this.refresh();
  }

  /** Read the active faults, now and after every period. */
  async refresh() {
    const answer = await call("GET", "/api/faults", undefined, { quiet: true }).catch(() => null);
    if (answer) this.show(answer);
    setTimeout(() => this.refresh(), PERIOD_MS);
  }

  /** @param {FaultsView} answer */
  show({ kinds, lasting }) {
    if (!this.kinds.length) this.fillKinds(kinds);
    byId("fault-banner").hidden = !lasting.length;
    setText(byId("fault-banner-what"), lasting.map((each) => `${faultName(each.kind)}: ${each.target}`).join(" · "));
    keyed(
      byId("fault-list"),
      lasting,
      (each) => each.number,
      (each) => this.item(each),
      (node, each) => setText(node.children[1], remaining(each)),
    );
  }

  /** @param {FaultKind[]} kinds */
  fillKinds(kinds) {
    this.kinds = kinds;
    const groups = Object.entries(GROUPS).map(([group, label]) => {
      const members = kinds.filter((each) => each.group === group);
      const options = members.map((each) => h("option", { value: each.kind, text: capital(faultName(each.kind)) }));
      return h("optgroup", { label }, options);
    });
    this.kind.replaceChildren(...groups);
    this.showKind();
  }

  /** @param {LastingFault} fault */
  item(fault) {
    const clear = () => this.clear(fault.number);
    return h(
      "li",
      { "data-testid": "fault" },
      h(
        "span",
        { class: "fault-what", title: fault.meaning },
        h("strong", { text: capital(faultName(fault.kind)) }),
        ` ${fault.target}`,
      ),
      h("span", { class: "dim small" }),
      h("button", { "data-testid": "clear-fault", disabled: !this.mayOperate, onclick: clear, text: "Clear" }),
    );
  }

  chosen() {
    return this.kinds.find((each) => each.kind === this.kind.value);
  }

  showKind() {
    const kind = this.chosen();
    if (!kind) return;
    setText(byId("fault-meaning"), kind.meaning);
    this.target.replaceChildren(...kind.targets.map((value) => h("option", { value, text: value })));
    this.duration.disabled = kind.momentary;
  }

  async inject() {
    const kind = this.chosen();
    const body = {
      kind: kind?.kind ?? "",
      target: this.target.value,
      for_s: kind?.momentary ? 0 : Number(this.duration.value),
    };
    const answer = await act("POST", "/api/faults", body);
    if (answer) this.show(answer);
  }

  /** @param {number} number */
  async clear(number) {
    const answer = await act("DELETE", `/api/faults/${number}`);
    if (answer) this.show(answer);
  }
}

/** @param {LastingFault} fault */
function remaining({ left_s: leftS }) {
  return leftS === null ? UNTIL_CLEARED : `${Math.ceil(leftS / 60)} min left`;
}
