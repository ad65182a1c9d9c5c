// What people did to a vessel with their hands, told to the books: another bottle, an emptied waste, a level that was read.

import { call, toast } from "./api.js";
import { fillIn } from "./dialog.js";
import { capital, volume } from "./words.js";

const LOT = { name: "lot", label: "Lot, from its label", required: true, maxlength: 100 };
const EXPIRES = { name: "expires", label: "Expires (optional)", type: "date" };
const within = (value) => ({ name: "within", label: "How exactly (standard deviation)", required: true, maxlength: 40, value });
const reason = (value) => ({ name: "reason", label: "Reason, for the record", required: true, maxlength: 500, value });
const amount = (label, value) => ({ name: "volume", label, required: true, maxlength: 40, value, placeholder: "say 500 mL" });

const DEEDS = {
  bottle: { text: "I put in another bottle", verb: "load", also: { replaces: true }, fields: [LOT, amount("How much is in it"), EXPIRES] },
  topped: { text: "I filled it up", verb: "load", also: { replaces: false }, fields: [LOT, amount("How much came on top"), EXPIRES] },
  emptied: { text: "I emptied it", verb: "change", fields: [amount("What is left in it", "0 mL"), within("1 mL"), reason("emptied")] },
  read: { text: "I read its level", verb: "level", fields: [amount("What it holds"), within("0.5 mL")] },
  changed: { text: "I put something in or took something out", verb: "change", fields: [amount("What it holds now"), within("0.5 mL"), reason("")] },
};
const POSSIBLE = { source: ["bottle", "topped", "read", "changed"], waste: ["emptied", "read", "changed"] };
const ANSWERS = { stock_low: "bottle", medium_expired: "bottle", waste_full: "emptied", level_due: "read" };

/** The deed that answers an alarm; undefined for one that no vessel's handling answers. */
export const answerTo = (alarm) => ANSWERS[alarm.kind];

/** Ask what was done to a vessel (as in the schematic), and tell the books. `held` is what they have; `chosen` a deed to begin with. */
export async function handle({ name, kind, contains }, held, chosen) {
  const books = held ? ` By the books it holds ${volume(held.ul).join(" ")}.` : "";
  const entered = await fillIn({
    title: capital(name),
    text: `${contains ? `It is there for ${contains.replaceAll("_", " ")}. ` : ""}First do it, then enter it here.${books}`,
    confirm: "Enter it",
    choices: (POSSIBLE[kind] ?? ["read", "changed"]).map((deed) => ({ value: deed, ...DEEDS[deed] })),
    chosen,
    send: (deed, values) => call("POST", `/api/vessels/${encodeURIComponent(name)}/${DEEDS[deed].verb}`, { ...values, ...DEEDS[deed].also }, { quiet: true }),
  });
  if (entered) toast({ done: `Entered for ${name}` });
}
