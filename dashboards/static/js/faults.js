// Faults made by hand, for trying what the controller does about them: only the demo has them.

import { call, act } from "./api.js";
import { byId, h, keyed, say } from "./dom.js";
import { capital, spoken } from "./words.js";

const EVERY_MS = 2000;
const LENGTHS = [[60, "1 min"], [300, "5 min"], [900, "15 min"], [3600, "1 h"], [0, "until mended"]];
const GROUPS = { link: "Links", device: "Devices and readings", fluid: "Liquids" };

export class Faults {
  constructor(mayOperate) {
    this.mayOperate = mayOperate;
    this.kinds = [];
    byId("faults").hidden = false;
    byId("fault-for").replaceChildren(...LENGTHS.map(([seconds, text]) => h("option", { value: seconds, text })));
    byId("fault-for").value = "300";
    byId("fault-kind").onchange = () => this.choose();
    byId("fault-form").onsubmit = (event) => { event.preventDefault(); this.make(); };
    byId("make-fault").disabled = !mayOperate;
    this.follow();
  }

  async follow() {
    for (;;) {
      const answer = await call("GET", "/api/faults", undefined, { quiet: true }).catch(() => null);
      if (answer) this.show(answer);
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  }

  show({ kinds, lasting }) {
    if (!this.kinds.length) {
      this.kinds = kinds;
      const groups = Object.entries(GROUPS).map(([group, label]) => h("optgroup", { label },
        kinds.filter((each) => each.group === group).map((each) => h("option", { value: each.kind, text: capital(spoken(each.kind)) }))));
      byId("fault-kind").replaceChildren(...groups);
      this.choose();
    }
    const banner = byId("fault-banner");
    banner.hidden = !lasting.length;
    say(byId("fault-banner-what"), lasting.map((each) => `${spoken(each.kind)} of ${each.target}`).join(" · "));
    keyed(byId("fault-list"), lasting, (each) => each.number, (each) => h("li", { "data-testid": "fault" },
      h("span", { class: "fault-what", title: each.meaning }, h("strong", { text: capital(spoken(each.kind)) }), ` ${each.target}`),
      h("span", { class: "dim small" }),
      h("button", { "data-testid": "mend", disabled: !this.mayOperate, onclick: () => this.mend(each.number), text: "Mend" })),
    (node, each) => say(node.children[1], each.left_s === null ? "until mended" : `${Math.ceil(each.left_s / 60)} min left`));
  }

  choose() {
    const kind = this.kinds.find((each) => each.kind === byId("fault-kind").value);
    if (!kind) return;
    say(byId("fault-meaning"), kind.meaning);
    byId("fault-target").replaceChildren(...kind.targets.map((value) => h("option", { value, text: value })));
    byId("fault-for").disabled = kind.momentary;
  }

  async make() {
    const kind = this.kinds.find((each) => each.kind === byId("fault-kind").value);
    const for_s = kind?.momentary ? 0 : Number(byId("fault-for").value);
    const answer = await act("POST", "/api/faults", { kind: kind?.kind ?? "", target: byId("fault-target").value, for_s });
    if (answer) this.show(answer);
  }

  async mend(number) {
    const answer = await act("DELETE", `/api/faults/${number}`);
    if (answer) this.show(answer);
  }
}
