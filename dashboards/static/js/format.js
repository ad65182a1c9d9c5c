// Numbers, units and times as text for people.

/** @type {Record<string, string>} */
const UNITS = { degC: "°C", uL: "µL", "uL/min": "µL/min", "uS/cm": "µS/cm", position: "", 1: "", "": "" };
/** @type {Record<string, number>} Decimal places by unit. */
const DIGITS = {
  degC: 1,
  pH: 2,
  "%": 1,
  kPa: 1,
  g: 2,
  "mL/min": 2,
  "uL/min": 0,
  "uS/cm": 0,
  Hz: 1,
  mM: 2,
  mV: 0,
  ppm: 0,
  position: 0,
};

/**
 * Return the printed form of a unit.
 * @param {string} name
 */
export const unit = (name) => UNITS[name] ?? name;

/**
 * Return a number with a typographic minus sign, and without a sign when it rounds to zero.
 * @param {number | null | undefined} value
 * @param {number} digits - decimal places
 */
export function fixed(value, digits) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/**
 * Return the text with a capital; a symbol such as pH or pCO2 stays as it is.
 * @param {string} text
 */
export const capital = (text) => (/^[a-z][A-Z]/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1));

/**
 * Return a value with the decimal places that its unit needs, without the unit.
 * @param {number | null | undefined} value
 * @param {string} name - the unit
 */
export const quantity = (value, name) => fixed(value, DIGITS[name] ?? 2);

/**
 * Units that are printed as another one from a value on.
 * @type {Record<string, [from: number, unit: string, one: number, digits: number]>}
 */
const LARGER = { "uL/min": [1000, "mL/min", 1000, 2], "uS/cm": [1000, "mS/cm", 1000, 1], ppm: [1000, "%", 10000, 2] };

/**
 * Return a value with few digits, and the printed form of its unit.
 * @param {number | null} value
 * @param {string} name - the unit
 * @returns {[value: string, unit: string]}
 */
export function scaled(value, name) {
  const larger = LARGER[name];
  if (!larger || value === null || Math.abs(value) < larger[0]) return [quantity(value, name), unit(name)];
  return [fixed(value / larger[2], larger[3]), larger[1]];
}

/**
 * Return a volume as a number and a unit.
 * @param {number | null | undefined} ul
 * @returns {[value: string, unit: string]}
 */
export function volume(ul) {
  if (ul === null || ul === undefined) return ["–", ""];
  if (Math.abs(ul) < 1000) return [fixed(ul, 0), "µL"];
  const ml = ul / 1000;
  return [fixed(ml, Math.abs(ml) < 100 ? 1 : 0), "mL"];
}

/**
 * Return a flow with its unit.
 * @param {number} ulMin - µL/min
 */
export function flow(ulMin) {
  return Math.abs(ulMin) < 1000 ? `${fixed(ulMin, 0)} µL/min` : `${fixed(ulMin / 1000, 2)} mL/min`;
}

/**
 * Return a duration in the unit that fits.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${tenths(seconds / 3600)} h`;
  return `${tenths(seconds / 86400)} d`;
}

/** @param {number} value */
const tenths = (value) => String(Math.round(value * 10) / 10);

/**
 * Return a fraction (0 to 1) as a whole percentage.
 * @param {number} share
 */
export const percent = (share) => `${Math.round(share * 100)}\u00a0%`;

/** @param {number} value */
const shortest = (value) => String(Number(value.toPrecision(6)));

/**
 * Return a parameter as a user would enter it, in the unit that fits: 28800 s gives “8 h”.
 * @param {number} value
 * @param {string} name - the unit; empty for a count
 */
export function typed(value, name) {
  if (name === "uL" || name === "uL/min") {
    return value >= 1000 ? `${shortest(value / 1000)} ${name.replace("u", "m")}` : `${shortest(value)} ${unit(name)}`;
  }
  if (name === "s") return typedDuration(value);
  return name ? `${shortest(value)} ${unit(name)}` : shortest(value);
}

/** @param {number} seconds */
function typedDuration(seconds) {
  if (seconds >= 86400 && seconds % 86400 === 0) return `${seconds / 86400} d`;
  if (seconds >= 3600) return `${shortest(seconds / 3600)} h`;
  return seconds >= 60 ? `${shortest(seconds / 60)} min` : `${shortest(seconds)} s`;
}

let zone = "UTC";
/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();
/** @type {Intl.DateTimeFormatOptions} */
const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
/** @type {Intl.DateTimeFormatOptions} */
const DATE = { day: "numeric", month: "short", year: "numeric" };

/**
 * Show times in this IANA time zone: that of the laboratory, which the rig file names.
 * @param {string} name
 */
export function useZone(name) {
  zone = name || "UTC";
  formats.clear();
}

/** Return the name of the time zone in which times are shown. */
export const shownZone = () => zone;

/**
 * Return the short name of that zone at a time: “CEST”.
 * @param {string} utc
 */
export const zoneName = (utc) => local("zone", { timeZoneName: "short" }, utc).replace(/^.*, /, "");

/**
 * Return a point in time in the laboratory's time zone.
 * @param {string} name - identifies the options
 * @param {Intl.DateTimeFormatOptions} options
 * @param {string} utc - ISO 8601
 */
function local(name, options, utc) {
  let found = formats.get(name);
  if (!found) {
    found = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options });
    formats.set(name, found);
  }
  return found.format(new Date(utc));
}

/**
 * Return the local time: “11:00:00”.
 * @param {string} utc
 */
export const clock = (utc) => local("clock", TIME, utc);

/**
 * Return the local date: “4 May 2026”.
 * @param {string} utc
 */
export const day = (utc) => local("day", DATE, utc);

/**
 * Return local date, time and time zone: “4 May 2026, 11:00:00 CEST”.
 * @param {string | null | undefined} utc
 */
export const moment = (utc) => (utc ? local("moment", { ...DATE, ...TIME, timeZoneName: "short" }, utc) : "");

/**
 * Return local date and time without the year, where space is short: “4 May 11:00:00”.
 * @param {string} utc
 */
export const stamp = (utc) => local("stamp", { day: "numeric", month: "short", ...TIME }, utc).replace(",", "");

/**
 * Return the point in time in UTC, for a tooltip.
 * @param {string | null | undefined} utc
 */
export const inUtc = (utc) => (utc ? `${utc.slice(0, 10)} ${utc.slice(11, 19)} UTC` : "");
