// The page of a hub: it asks for the state every two seconds and shows it.

import { boards } from "./boards.js";
import { byId, show } from "./elements.js";
import { counted, utc } from "./format.js";
import { log } from "./log.js";
import { members } from "./members.js";
import { tissues } from "./tissues.js";
import { work } from "./work.js";

/** @import { HubModel } from "../../types/api.d.ts" */

const EVERY_MS = 2000;
const WITHIN_MS = 10000;

/**
 * Show what went wrong; nothing for an empty text.
 * @param {string} text
 */
function trouble(text) {
  const node = byId("trouble");
  node.textContent = text;
  node.hidden = text === "";
}

/**
 * Show the state of a hub.
 * @param {HubModel} state
 */
function draw(state) {
  document.title = `${state.hub} · Choroid grid`;
  byId("hub").textContent = state.hub;
  const all = counted(state.members_count, "member or laboratory", "members and laboratories");
  byId("summary").textContent = `${all}, ${state.connected_count} connected · ${utc(state.utc)}`;
  show("tissues", state.tissues, tissues);
  show("work", state.work, work);
  show("members", { members: state.members, all: state.members_count }, members);
  show("boards", state.boards, boards);
  show("log", state.log, log);
}

/** Ask for the state, show it, and ask again later. */
async function follow() {
  try {
    const answer = await fetch("/api/state", { signal: AbortSignal.timeout(WITHIN_MS) });
    const body = await answer.json();
    if (answer.ok) draw(body);
    trouble(answer.ok ? "" : body.error);
  } catch {
    trouble("The page's process does not answer. What is shown may be old. Next: start `choroid grid page serve`.");
  }
  setTimeout(follow, EVERY_MS);
}

void follow();
