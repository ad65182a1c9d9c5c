// Tissue: who holds it, who waits for it.

import { h, table } from "./elements.js";
import { quantity, utc } from "./format.js";

/** @import { TissueLeaseModel, OfferedTissueModel } from "../../types/api.d.ts" */
/** @import { Child } from "../../types/elements.d.ts" */

/**
 * Return the tissue that laboratories offer.
 * @param {OfferedTissueModel[]} offered
 * @returns {Child}
 */
export function tissues(offered) {
  if (!offered.length) return h("p", { class: "empty" }, "No laboratory offers tissue yet.");
  return offered.map(tissue);
}

/**
 * Return one tissue with its leases.
 * @param {OfferedTissueModel} offer
 */
function tissue(offer) {
  const usable = offer.connected && offer.stimulation;
  return h(
    "article",
    { class: "item" },
    h(
      "h3",
      {},
      `${offer.organoid} `,
      h("span", { class: "dim" }, `at ${offer.lab}`),
      offer.simulated && h("span", { class: "tag" }, "simulated"),
      h("span", { class: `tag ${usable ? "good" : "fair"}` }, standing(offer)),
    ),
    h("p", { class: "dim" }, `${offer.electrodes} electrodes, ${quantity(offer.sample_rate_hz, "Hz")}`),
    offer.reason !== "" && h("p", { class: "note" }, offer.reason),
    offer.holders.length ? holders(offer.holders) : h("p", { class: "empty" }, "No one holds a lease."),
    offer.queue.length > 0 && queue(offer.queue),
  );
}

/** @param {OfferedTissueModel} offer */
function standing(offer) {
  if (!offer.connected) return "not connected";
  return offer.stimulation ? "may be stimulated" : "no stimulation";
}

/** @param {TissueLeaseModel[]} leases */
function holders(leases) {
  return table(
    ["holder", "mode", "electrodes", "purpose", "delivered", "until", "fence"],
    leases.map((lease) => [
      h("strong", {}, lease.member),
      lease.state === "offered" ? `${lease.mode} (offered)` : lease.mode,
      lease.electrodes,
      h("span", { class: "text" }, lease.purpose),
      `${quantity(lease.charge_nc * 1e-9, "C")}, ${lease.pulses} pulses`,
      utc(lease.until_utc),
      lease.fence,
    ]),
  );
}

/** @param {TissueLeaseModel[]} leases */
function queue(leases) {
  return table(
    ["queue", "member", "mode", "electrodes", "purpose"],
    leases.map((lease) => [
      lease.position,
      lease.member,
      lease.mode,
      lease.electrodes,
      h("span", { class: "text" }, lease.purpose),
    ]),
  );
}
