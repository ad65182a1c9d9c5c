// Well plates: which vessels are wells of a plate, and where each well lies.

/** @import { Vessel } from "../../../../types/live.d.ts" */

const WELL = /^(?:(.+)[-_])?([A-P])([1-9][0-9]?)$/;

/**
 * Return the plate, row and column (from 0) of a well, from its name (“plate-B3”); null for another name.
 * @param {string} name
 */
export function plateOf(name) {
  const found = WELL.exec(name);
  return found && { plate: found[1] ?? "wells", row: found[2].charCodeAt(0) - 65, column: Number(found[3]) - 1 };
}

/**
 * Return whether all of these vessels are wells of plates.
 * @param {Vessel[]} vessels
 */
export const isPlate = (vessels) => vessels.every((each) => plateOf(each.name));
