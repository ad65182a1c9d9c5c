// Quantities and times as text.

const PREFIXES = ["n", "µ", "m", "", "k", "M", "G", "T", "P"];
const PLAIN = 3;

/**
 * Return a value with three significant digits, an SI prefix and its unit; counts have no unit and no prefix.
 * @param {number} value
 * @param {string} unit
 */
export function quantity(value, unit) {
  if (unit === "") return String(Number(value.toPrecision(4)));
  const size = Math.abs(value);
  const step = size > 0 ? Math.floor(Math.log10(Number(size.toPrecision(3))) / 3) : 0;
  const index = Math.min(Math.max(step + PLAIN, 0), PREFIXES.length - 1);
  const scaled = value / 1000 ** (index - PLAIN);
  return `${Number(scaled.toPrecision(3))} ${PREFIXES[index]}${unit}`;
}

/**
 * Return UTC in ISO 8601 as date and time.
 * @param {string} iso
 */
export const utc = (iso) => iso.replace("T", " ").replace("Z", " UTC");

/**
 * Return a number with the noun that it counts.
 * @param {number} number
 * @param {string} one
 * @param {string} many
 */
export const counted = (number, one, many) => `${number} ${number === 1 ? one : many}`;
