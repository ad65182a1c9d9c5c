// Leases, agents and budgets: who may stimulate now, and how much is used. Operators end leases, admins revoke.

import { act, showDone } from "../api.js";
import { ask } from "../dialog.js";
import { byId, h, redraw } from "../dom.js";
import { fixed } from "../format.js";

/** @import { ArrayAgentModel, BudgetModel, LeaseModel, LeasesModel } from "../../../types/api.d.ts" */

const NAMED = 8;

export class LeaseList {
  /**
   * @param {string} role - of the user of this page
   * @param {() => void} changed - called after a lease was ended or an agent revoked
   */
  constructor(role, changed) {
    this.mayEnd = role !== "viewer";
    this.mayRevoke = role === "admin";
    this.changed = changed;
  }

  /** @param {LeasesModel} found */
  show(found) {
    const { leases, agents, budgets, answers } = found;
    const key = [answers, agents, leases.map(({ requester, electrodes, held }) => [requester, electrodes, held])];
    redraw(byId("array-leases"), key, () => this.rows(found));
    redraw(byId("array-budgets"), budgets, () => budgets.map(budgetRow));
  }

  /** @param {LeasesModel} found */
  rows({ answers, leases, agents }) {
    if (!answers) return h("li", { class: "dim", text: "The electrode engine does not answer." });
    const holders = new Set(leases.map((lease) => lease.requester));
    const idle = agents.filter((agent) => !agent.revoked && !holders.has(agent.name));
    const none = leases.length ? [] : [h("li", { class: "dim", text: "No lease is held." })];
    const held = leases.map((lease) => this.lease(lease, agents));
    return [...none, ...held, ...idle.map((agent) => this.agent(agent))];
  }

  /**
   * @param {LeaseModel} lease
   * @param {ArrayAgentModel[]} agents
   */
  lease(lease, agents) {
    const named = lease.electrodes.slice(0, NAMED).join(", ") + (lease.electrodes.length > NAMED ? ", …" : "");
    const what = `${lease.electrodes.length === 1 ? "electrode" : "electrodes"} ${named}`;
    const known = agents.find((agent) => agent.name === lease.requester && !agent.revoked);
    return h(
      "li",
      { "data-testid": "array-lease", "data-requester": lease.requester },
      h("strong", { text: lease.requester }),
      h("span", { text: `${what}${lease.held ? "" : ", without heartbeat"}` }),
      this.mayEnd && this.button("End leases", lease.requester, () => this.end(lease.requester)),
      known && this.revokeButton(known),
    );
  }

  /** @param {ArrayAgentModel} agent */
  agent(agent) {
    return h(
      "li",
      { "data-testid": "array-agent", "data-requester": agent.name },
      h("strong", { text: agent.name }),
      h("span", { class: "dim", text: `${agent.role}, no lease` }),
      this.revokeButton(agent),
    );
  }

  /** @param {ArrayAgentModel} agent */
  revokeButton(agent) {
    return this.mayRevoke && this.button("Revoke", agent.name, () => this.revoke(agent.name));
  }

  /**
   * @param {string} text
   * @param {string} requester
   * @param {() => void} onclick
   */
  button(text, requester, onclick) {
    return h("button", {
      type: "button",
      class: "quiet-danger",
      text,
      "aria-label": `${text} of ${requester}`,
      onclick,
    });
  }

  /** @param {string} requester */
  async end(requester) {
    const reason = await ask({
      title: `End the leases of ${requester}?`,
      text: "Its waiting pulses are cancelled now. It may acquire new leases while its token is valid.",
      confirm: "End leases",
      danger: true,
      reason: "required",
    });
    if (reason === null) return;
    const answer = await act("POST", "/api/nerves/leases/end", { requester, reason });
    if (answer) showDone(`The leases of ${requester} are ended`);
    this.changed();
  }

  /** @param {string} name */
  async revoke(name) {
    const reason = await ask({
      title: `Revoke the token of ${name}?`,
      text: "Its leases and waiting pulses end now, and it can never connect again under this name.",
      confirm: "Revoke",
      danger: true,
      reason: "required",
    });
    if (reason === null) return;
    const answer = await act("POST", `/api/agents/${encodeURIComponent(name)}/revoke`, { reason });
    if (answer) showDone(`The token of ${name} is revoked`);
    this.changed();
  }
}

/** @param {BudgetModel} budget */
function budgetRow(budget) {
  const share = Math.min(budget.used / budget.limit, 1);
  const digits = budget.limit < 100 ? 1 : 0;
  const numbers = `${fixed(budget.used, digits)} of ${fixed(budget.limit, digits)} ${budget.unit}`.trim();
  const whose = budget.requester || "organoid";
  return h(
    "li",
    { "data-testid": "array-budget" },
    h("span", { text: `${whose}: ${budget.name}` }),
    h("meter", { value: share, min: 0, max: 1, high: 0.8, "aria-label": `${whose}, ${budget.name}: ${numbers}` }),
    h("span", { class: "dim", text: numbers }),
  );
}
