// Names of variables, steps and results as text for people.

import { duration, quantity, unit, volume } from "./format.js";
import { VERBS } from "./verbs.js";

/** @import { StepArguments, StepResult } from "../../types/live.d.ts" */

/** @type {Record<string, string>} */
const NAMES = {
  oxygen_pct: "oxygen",
  ph: "pH",
  grade: "medium grade",
  ldh: "LDH",
  oxygen_uptake: "oxygen uptake",
  lactate_yield: "lactate yield",
  temperature_spread_c: "temperature stability",
  ph_spread: "pH stability",
  osmolality_spread_pct: "osmolality stability",
  stimulation_load: "stimulation load",
  rest_h: "rest",
  own_band: "own band",
  lactate_mm: "lactate",
  ammonia_mm: "ammonia",
  glucose_share: "glucose share",
  glucose_mm: "glucose",
  osmolality_change_pct: "osmolality",
  passes: "passes",
  ldh_ratio: "LDH",
  insulin_share: "insulin",
  turbidity: "turbidity",
  sterility: "sterility",
};

/**
 * Return the printed name of a variable.
 * @param {string} name
 */
export const named = (name) => NAMES[name] ?? name.replaceAll("_", " ");

/**
 * Return an identifier as words: “t_chamber.temperature” gives “t chamber · temperature”, “ph_loop” gives “pH loop”.
 * @param {string} name
 */
export const spoken = (name) =>
  name
    .replace(/(^|[_.])do_/g, "$1DO_")
    .replaceAll("_", " ")
    .replaceAll(".", " · ")
    .replace(/\bph\b/g, "pH");

/** @type {Record<string, string>} */
const FAULT_NAMES = {
  doubled_byte: "bytes doubled",
  echo: "bytes echoed",
  eeprom: "worn EEPROM",
  empty: "bottle empty",
  garble: "bytes garbled",
  half_open: "connection half open",
  ignores: "commands ignored",
  lost_byte: "bytes lost",
  other_address: "wrong bus address",
  reversed: "motor reversed",
  silent: "no answer",
  stuck: "reading stuck",
};

/**
 * Return the printed name of a kind of fault.
 * @param {string} kind
 */
export const faultName = (kind) => FAULT_NAMES[kind] ?? spoken(kind);

/**
 * Return the detail of an alarm without the source at its beginning, which the page shows before it.
 * @param {string} source
 * @param {string} detail
 */
export const detailOf = (source, detail) =>
  detail.startsWith(`${source}: `) ? detail.slice(source.length + 2) : detail;

const VERB_TEXTS = /** @type {Record<string, string>} */ (VERBS);

/**
 * Return a step as a sentence with its amount.
 * @param {string} verb
 * @param {StepArguments} args
 */
export function step(verb, args) {
  const what = VERB_TEXTS[verb] ?? verb.replaceAll("_", " ").replace(".", " · ");
  const at = args.selector ?? args.to ?? args.from ?? args.chamber;
  if (args.volume_ul !== undefined) {
    return [what, at, volume(args.volume_ul).join("\u00a0")].filter(Boolean).join(" ");
  }
  if (at !== undefined) return `${what} ${at}`;
  if (args.point !== undefined) {
    return `${what} ${spoken(args.point)}`;
  }
  if (args.seconds !== undefined) return `${what} ${duration(args.seconds)}`;
  if (args.kind !== undefined) return `${what} the ${args.kind}`;
  return what;
}

/**
 * Return the result of a step with its unit; empty when there is none.
 * @param {StepResult | null} found
 */
export function result(found) {
  if (!found) return "";
  if (found.answer !== undefined) return found.answer;
  if (found.ul !== undefined) return volume(found.ul).join(" ");
  const name = found.unit ?? "";
  return `${quantity(found.value, name)} ${name === "pH" ? "" : unit(name)}`.trim();
}
