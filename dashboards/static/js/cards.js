// Generated from the folder cards by `make types`; do not edit.

import { start as functions } from "./cards/functions.js";
import { start as probes } from "./cards/probes.js";

/** @import { Rig } from "../../types/live.d.ts" */

/** @type {Record<string, (rig: Rig) => void>} */
const CARDS = {
  functions,
  probes,
};

/**
 * Start every card.
 * @param {Rig} rig
 */
export function startCards(rig) {
  for (const start of Object.values(CARDS)) start(rig);
}
