// Assays: those that a run requests, with the reason, and the form in which a result is entered.

import { call, Failure, showDone } from "./api.js";
import { fillIn } from "./dialog.js";
import { byId, h, redraw } from "./dom.js";
import { capital, fixed, inUtc, moment, shownZone } from "./format.js";
import { named } from "./words.js";

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
  ldh: "12 U/L",
};

/** @type {AssayRequestModel[]} The requests as last read. */
let wanted = [];

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
  wanted = found.wanted;
  const place = byId("assay-wanted");
  place.hidden = !wanted.length;
  redraw(place, wanted, () => wanted.flatMap(request));
}

/** @param {AssayRequestModel} wanted */
function request({ analytes, vessel, since_utc, ...rest }) {
  return [
    h("strong", { text: `Assay requested: ${analytes.map(named).join(" and ")} of the ${vessel}` }),
    h("span", { text: reason(rest) }),
    h("span", { class: "dim", title: inUtc(since_utc), text: `Since ${moment(since_utc)}. Nothing waits for it.` }),
  ];
}

/** @param {Omit<AssayRequestModel, "analytes" | "vessel" | "since_utc">} wanted */
function reason({ saving_ml, demand_ml, days, text }) {
  if (saving_ml === null || demand_ml === null) return `${capital(text.slice(text.indexOf(": ") + 2))}.`;
  const amount = `about ${fixed(saving_ml, 0)} of ${fixed(demand_ml, 0)}\u00a0mL of fresh medium`;
  const saving = `Expected to save ${amount} in the next ${fixed(days, 0)} days`;
  return `${saving}: the better the loop is known, the less is exchanged for safety.`;
}

/** Ask for the result of an assay, beginning with a requested one, and enter it. */
export async function enterAssay() {
  const asked = wanted.flatMap((each) => each.analytes);
  const rest = Object.keys(ANALYTES).filter((name) => !asked.includes(name));
  let entered = "";
  const sent = await fillIn({
    title: "Enter an assay",
    text: "It counts at the time when its sample was taken. One that contradicts the estimate is kept and not used.",
    confirm: "Enter",
    choices: [...asked, ...rest].map((name) => ({
      value: name,
      text: asked.includes(name) ? `${capital(named(name))} (requested)` : capital(named(name)),
      fields: fieldsOf(name, wanted.find((each) => each.analytes.includes(name))?.vessel ?? "loop"),
    })),
    chosen: asked[0],
    send: (analyte, { sure, ...values }) => {
      entered = `${named(analyte)} ${values.value}`;
      return enter({ ...values, analyte, zone: shownZone(), sure: sure === "yes" });
    },
  });
  if (sent) showDone(`Entered: ${entered}`);
  await refresh();
}

/**
 * Enter a result. The advice of a refusal names the option of the command line; on the page that is a box.
 * @param {Record<string, string | boolean>} body
 */
async function enter(body) {
  try {
    return await call("POST", "/api/assays", body, { quiet: true });
  } catch (failure) {
    if (!(failure instanceof Failure)) throw failure;
    const action = failure.error.action.replace("enter it with --sure", "tick the box above and enter it again");
    throw new Failure(failure.status, { ...failure.error, action });
  }
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
