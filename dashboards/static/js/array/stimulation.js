// The stimulation ledger: the latest records, by agent and electrode.

import { call } from "../api.js";
import { byId, h, redraw } from "../dom.js";
import { clock, fixed } from "../format.js";

/** @import { StimulationModel, StimulationsModel } from "../../../types/api.d.ts" */

const PAGE = 25;

export class StimulationList {
  constructor() {
    /** Older records that were asked for. @type {StimulationModel[]} */
    this.older = [];
    byId("array-filter").onsubmit = (event) => {
      event.preventDefault();
      this.reload();
    };
    byId("array-older").onclick = () => this.more();
    /** @type {StimulationModel[]} */
    this.latest = [];
    /** Whether records exist before the oldest one shown. */
    this.hasMore = false;
  }

  /** The filter as a query. */
  query() {
    const query = new URLSearchParams({ limit: String(PAGE) });
    const requester = byId("array-by-agent", HTMLInputElement).value.trim();
    const electrode = byId("array-by-electrode", HTMLInputElement).value.trim();
    if (requester) query.set("requester", requester);
    if (electrode) query.set("electrode", electrode);
    return query;
  }

  /** Begin again with the newest records. */
  async reload() {
    this.older = [];
    this.latest = [];
    await this.refresh();
  }

  /** Renew the newest records, and keep the older ones that were asked for. */
  async refresh() {
    const found = await this.fetch(this.query());
    if (!found) return;
    const first = found.records.at(-1)?.decision ?? 0;
    const between = this.latest.filter((record) => record.decision < first);
    if (this.older.length) this.older = merged(between, this.older);
    else this.hasMore = found.more;
    this.latest = found.records;
    this.show();
  }

  async more() {
    const last = this.older.at(-1) ?? this.latest.at(-1);
    if (!last) return;
    const query = this.query();
    query.set("before", String(last.decision));
    const found = await this.fetch(query);
    if (!found) return;
    this.older = [...this.older, ...found.records];
    this.hasMore = found.more;
    this.show();
  }

  /**
   * @param {URLSearchParams} query
   * @returns {Promise<StimulationsModel | null>}
   */
  fetch(query) {
    return call("GET", `/api/nerves/stimulation?${query}`, undefined, { quiet: true }).catch(() => null);
  }

  show() {
    const records = [...this.latest, ...this.older];
    redraw(byId("array-records"), records, () =>
      records.length ? records.map(row) : h("li", { class: "dim", text: "Nothing was asked for." }),
    );
    byId("array-older").hidden = !this.hasMore || !records.length;
  }
}

/**
 * Return two parts of the list without duplicates.
 * @param {StimulationModel[]} newer
 * @param {StimulationModel[]} older
 */
function merged(newer, older) {
  const first = older[0].decision;
  return [...newer.filter((record) => record.decision > first), ...older];
}

/** @param {StimulationModel} record */
function row(record) {
  const at = new Date(new Date(record.session_utc).getTime() + 1000 * record.at_s).toISOString();
  const pulses = Object.entries(record.pulses).map(([state, count]) => `${count} ${state}`);
  const outcome = record.accepted ? pulses.join(", ") || "accepted" : `refused: ${record.limiting}`;
  const where = `electrode${record.electrodes.length === 1 ? "" : "s"} ${record.electrodes.join(", ")}`;
  return h(
    "li",
    {
      class: record.accepted ? "" : "refused",
      "data-testid": "array-record",
      title: record.reasons.join("; ") || record.purpose,
    },
    h("time", { datetime: at, text: clock(at) }),
    h("strong", { text: record.requester }),
    h("span", { text: `${where}, ${fixed(record.charge_nc, 2)} nC` }),
    h("span", { class: "outcome", text: outcome }),
  );
}
