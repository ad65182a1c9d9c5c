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
 * Start every card. The failure of one is shown on the console and stops no other.
 * @param {Rig} rig
 */
export function startCards(rig) {
  for (const start of Object.values(CARDS)) {
    try {
      start(rig);
    } catch (error) {
      reportError(error);
    }
  }
}
