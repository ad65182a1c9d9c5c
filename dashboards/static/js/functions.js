// The functions that the rig lacks: what holds without each, and what it needs.

import { byId, h } from "./dom.js";
import { capital } from "./format.js";

/** @import { CapabilityView } from "../../types/api.d.ts" */

/**
 * Show the functions that the rig lacks; without any the panel stays hidden.
 * @param {CapabilityView[]} capabilities
 */
export function showFunctions(capabilities) {
  const lacking = capabilities.filter((each) => !each.available);
  byId("functions").hidden = !lacking.length;
  byId("function-list").replaceChildren(...lacking.map(item));
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
