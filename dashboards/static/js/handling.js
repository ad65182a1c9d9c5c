// Manual work, entered by people: a new bottle, an emptied waste vessel, a level that was read, a task that was done.

import { act, call, showDone } from "./api.js";
import { ask, fillIn } from "./dialog.js";
import { capital, volume } from "./format.js";

/** @import { AlarmModel, VolumeView } from "../../types/api.d.ts" */
/** @import { Vessel } from "../../types/live.d.ts" */
/** @import { Field } from "./dialog.js" */

/** @type {Field} */
const LOT = { name: "lot", label: "Lot, from its label", required: true, maxlength: 100 };
/** @type {Field} */
const EXPIRES = { name: "expires", label: "Expires (optional)", type: "date" };
/** @type {(value: string) => Field} */
const within = (value) => ({
  name: "within",
  label: "Uncertainty (standard deviation)",
  required: true,
  maxlength: 40,
  value,
});
/** @type {(value: string) => Field} */
const reason = (value) => ({ name: "reason", label: "Reason, for the record", required: true, maxlength: 500, value });
/** @type {(label: string, value?: string) => Field} */
const amount = (label, value) => ({
  name: "volume",
  label,
  required: true,
  maxlength: 40,
  value,
  placeholder: "for example 500 mL",
});

/**
 * One kind of manual work: its text, the last part of the API's path, fixed values of the request, and its fields.
 * @typedef {{text: string, path: string, fixed?: Record<string, boolean>, fields: Field[]}} Action
 */

/** @type {Record<string, Action>} */
const ACTIONS = {
  bottle: {
    text: "Put in a new bottle",
    path: "load",
    fixed: { replaces: true },
    fields: [LOT, amount("Volume in the new bottle"), EXPIRES],
  },
  topped: {
    text: "Topped up",
    path: "load",
    fixed: { replaces: false },
    fields: [LOT, amount("Volume added"), EXPIRES],
  },
  emptied: {
    text: "Emptied",
    path: "change",
    fields: [amount("Volume left", "0 mL"), within("1 mL"), reason("emptied")],
  },
  read: {
    text: "Read the level",
    path: "level",
    fields: [amount("Volume read"), within("0.5 mL")],
  },
  changed: {
    text: "Added or removed medium by hand",
    path: "change",
    fields: [amount("Volume now"), within("0.5 mL"), reason("")],
  },
};
/** @type {Record<string, string[]>} The actions for a kind of vessel. */
const POSSIBLE = { source: ["bottle", "topped", "read", "changed"], waste: ["emptied", "read", "changed"] };
const POSSIBLE_ELSEWHERE = ["read", "changed"];
/** @type {Record<string, string>} The action that an alarm asks for. */
const BY_ALARM = {
  stock_low: "bottle",
  medium_expired: "bottle",
  waste_full: "emptied",
  level_due: "read",
  task_due: "task",
  task_overdue: "task",
  assay_wanted: "assay",
};

/** The action of an alarm that asks for a manual task, which concerns no single vessel. */
export const TASK = "task";
/** The action of an alarm that asks for an assay. */
export const ASSAY = "assay";

/**
 * Return the action that an alarm asks for; undefined when no work on a vessel answers it.
 * @param {Pick<AlarmModel, "kind">} alarm
 * @returns {string | undefined}
 */
export const actionFor = (alarm) => BY_ALARM[alarm.kind];

/**
 * Ask whether a manual task was done, and confirm it.
 * @param {string} name - the name of the task
 */
export async function confirmTask(name) {
  const note = await ask({
    title: capital(name.replaceAll("_", " ")),
    text: "Do the work first, then confirm it here. Its time begins again.",
    confirm: "Done",
  });
  if (note === null) return;
  if (await act("POST", `/api/tasks/${encodeURIComponent(name)}/done`, { reason: note })) {
    showDone(`Confirmed: ${name}`);
  }
}

/**
 * Ask what was done to a vessel, and enter it into the ledger.
 * @param {Vessel} vessel
 * @param {VolumeView | undefined} recorded - its content according to the ledger
 * @param {string} [chosen] - the action to begin with
 */
export async function enterWork({ name, kind, contains }, recorded, chosen) {
  const purpose = contains ? `Contains ${contains.replaceAll("_", " ")}. ` : "";
  const content = recorded ? ` The ledger records ${volume(recorded.ul).join(" ")}.` : "";
  const sent = await fillIn({
    title: capital(name),
    text: `${purpose}Do the work first, then enter it here.${content}`,
    confirm: "Enter",
    choices: (POSSIBLE[kind] ?? POSSIBLE_ELSEWHERE).map((value) => ({ value, ...ACTIONS[value] })),
    chosen,
    send: (choice, values) => {
      const { path, fixed } = ACTIONS[choice];
      return call("POST", `/api/vessels/${encodeURIComponent(name)}/${path}`, { ...values, ...fixed }, { quiet: true });
    },
  });
  if (sent) showDone(`Entered for ${name}`);
}
