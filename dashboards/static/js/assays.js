// Assays: the one that a run requests, with its reason, and the form in which a result is entered.

import { call, showDone } from "./api.js";
import { fillIn } from "./dialog.js";
import { byId, h, redraw } from "./dom.js";
import { capital, fixed, inUtc, moment, shownZone } from "./format.js";

/** @import { AssayRequestModel, AssaysModel } from "../../types/api.d.ts" */
/** @import { Field } from "./dialog.js" */

const PERIOD_MS = 5000;
/** @type {Record<string, string>} Analytes that can be entered, each with an example of a result. */
const ANALYTES = {
  lactate: "8.2 mM",
  glucose: "12.4 mM",
  ammonia: "0.31 mM",
  glutamine: "0.9 mM",
  bicarbonate: "24 mM",
  osmolality: "292 mOsm/kg",
};

/** @type {AssayRequestModel | null} The request as last read. */
let wanted = null;

/**
 * Show the request now and then, and open the form.
 * @param {boolean} mayOperate - whether the user may enter a result
 */
export function startAssays(mayOperate) {
  const button = byId("enter-assay", HTMLButtonElement);
  button.hidden = !mayOperate;
  button.onclick = () => enterAssay();
  refresh();
  setInterval(() => document.hidden || refresh(), PERIOD_MS);
}

async function refresh() {
  /** @type {AssaysModel | null} */
  const found = await call("GET", "/api/assays?limit=1", undefined, { quiet: true }).catch(() => null);
  if (!found) return;
  wanted = found.wanted ?? null;
  const place = byId("assay-wanted");
  place.hidden = !wanted;
  redraw(place, wanted, () => wanted && request(wanted));
}

/** @param {AssayRequestModel} wanted */
function request({ analytes, vessel, saving_ml, demand_ml, days, since_utc }) {
  const saving = `about ${fixed(saving_ml, 0)} of ${fixed(demand_ml, 0)}\u00a0mL of fresh medium`;
  const why = `Expected to save ${saving} in the next ${fixed(days, 0)} days`;
  return [
    h("strong", { text: `Assay requested: ${analytes.join(" and ")} of the ${vessel}` }),
    h("span", { text: `${why}: the better the loop is known, the less is exchanged for safety.` }),
    h("span", { class: "dim", title: inUtc(since_utc), text: `Since ${moment(since_utc)}. Nothing waits for it.` }),
  ];
}

/** Ask for the result of an assay, beginning with a requested one, and enter it. */
export async function enterAssay() {
  const asked = wanted?.analytes ?? [];
  const rest = Object.keys(ANALYTES).filter((name) => !asked.includes(name));
  let entered = "";
  const sent = await fillIn({
    title: "Enter an assay",
    text: "It counts at the time when its sample was taken. One that contradicts the estimate is kept and not used.",
    confirm: "Enter",
    choices: [...asked, ...rest].map((name) => ({
      value: name,
      text: asked.includes(name) ? `${capital(name)} (requested)` : capital(name),
      fields: fieldsOf(name, wanted?.vessel ?? "loop"),
    })),
    chosen: asked[0],
    send: (analyte, { sure, ...values }) => {
      entered = `${analyte} ${values.value}`;
      const body = { ...values, analyte, zone: shownZone(), sure: sure === "yes" };
      return call("POST", "/api/assays", body, { quiet: true });
    },
  });
  if (sent) showDone(`Entered: ${entered}`);
  await refresh();
}

/** @type {(analyte: string, vessel: string) => Field[]} */
const fieldsOf = (analyte, vessel) => [
  {
    name: "value",
    label: "Result, with unit",
    required: true,
    maxlength: 64,
    placeholder: `for example ${ANALYTES[analyte]}`,
  },
  { name: "vessel", label: "Vessel of the sample", required: true, maxlength: 100, value: vessel },
  {
    name: "taken",
    label: `Sample taken at (${shownZone()}; today, or date and time)`,
    required: true,
    maxlength: 40,
    placeholder: "for example 10:40",
  },
  { name: "volume", label: "Volume of the sample, if it left the rig (optional)", maxlength: 64 },
  { name: "sure", label: "Use it even if it contradicts the estimate: I looked again", type: "checkbox", value: "yes" },
];
