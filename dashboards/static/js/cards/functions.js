// The functions that the rig lacks: what holds without each, and what it needs.

import { addCard } from "../card.js";
import { h } from "../dom.js";
import { capital } from "../format.js";

/** @import { CapabilityView } from "../../../types/api.d.ts" */
/** @import { Rig } from "../../../types/live.d.ts" */

/**
 * Show the functions that the rig lacks; without any the card stays hidden.
 * @param {Pick<Rig, "capabilities">} rig
 */
export function start({ capabilities }) {
  const { card, list } = addCard("functions", "Functions", "What this rig lacks");
  const lacking = capabilities.filter((each) => !each.available);
  card.hidden = !lacking.length;
  list.replaceChildren(...lacking.map(item));
}

/** @param {CapabilityView} capability */
function item({ function: id, title, without, lacks }) {
  return h(
    "li",
    { "data-function": id },
    h("strong", { text: `No ${title}` }),
    h("span", { text: `${capital(without)}.` }),
    h("span", { class: "dim", text: `Needs ${lacks.join("; ")}.` }),
  );
}
