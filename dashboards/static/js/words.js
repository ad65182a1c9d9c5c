// How numbers, units, times and verbs are written for people.
import { VERBS } from "./verbs.js";

const UNITS = { degC: "°C", uL: "µL", "uL/min": "µL/min", "": "" };
const DIGITS = { degC: 1, pH: 2, "%": 1, kPa: 1, g: 2, "mL/min": 2, Hz: 1, mM: 2 };

export const unit = (name) => UNITS[name] ?? name;

/** A number with a true minus, and no minus before a zero. */
export function fixed(value, digits) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const quantity = (value, name) => fixed(value, DIGITS[name] ?? 2);

/** A volume in µL as people read it: value and unit apart. */
export function volume(ul) {
  if (ul === null || ul === undefined) return ["–", ""];
  if (Math.abs(ul) < 1000) return [fixed(ul, 0), "µL"];
  const ml = ul / 1000;
  return [fixed(ml, Math.abs(ml) < 100 ? 1 : 0), "mL"];
}

export function flow(ulMin) {
  return Math.abs(ulMin) < 1000 ? `${fixed(ulMin, 0)} µL/min` : `${fixed(ulMin / 1000, 2)} mL/min`;
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${trim(seconds / 3600)} h`;
  return `${trim(seconds / 86400)} d`;
}

const trim = (value) => String(Math.round(value * 10) / 10);
let zone = "UTC";
/** Show times in this IANA time zone, the laboratory's; the rig file names it. */
export function useZone(name) {
  zone = name || "UTC";
  formats.clear();
}
const formats = new Map();
function format(name, options) {
  if (!formats.has(name)) formats.set(name, new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options }));
  return formats.get(name);
}
const HOUR = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const DAY = { day: "numeric", month: "short", year: "numeric" };

/** The time of day in the laboratory's time zone. */
export const clock = (utc) => format("clock", HOUR).format(new Date(utc));
/** The date in the laboratory's time zone. */
export const day = (utc) => format("day", DAY).format(new Date(utc));
/** Date, local time and time zone: “4 May 2026, 11:00:00 CEST”. */
export const moment = (utc) => (utc ? format("moment", { ...DAY, ...HOUR, timeZoneName: "short" }).format(new Date(utc)) : "");
/** Date without year, and local time, where there is little room: “4 May 11:00:00”. */
export const stamp = (utc) => format("stamp", { day: "numeric", month: "short", ...HOUR }).format(new Date(utc)).replace(",", "");
/** The same moment in UTC, for a tooltip. */
export const inUtc = (utc) => (utc ? `${utc.slice(0, 10)} ${utc.slice(11, 19)} UTC` : "");
export const percent = (share) => `${Math.round(share * 100)}\u00a0%`;

/** A parameter's number as one would type it, in the unit that fits: 28800 s is “8 h”. */
export function typed(value, name) {
  if (name === "uL") return value >= 1000 ? `${trimmed(value / 1000)} mL` : `${trimmed(value)} uL`;
  if (name === "uL/min") return value >= 1000 ? `${trimmed(value / 1000)} mL/min` : `${trimmed(value)} uL/min`;
  if (name === "s") {
    if (value >= 86400 && value % 86400 === 0) return `${value / 86400} d`;
    if (value >= 3600) return `${trimmed(value / 3600)} h`;
    return value >= 60 ? `${trimmed(value / 60)} min` : `${trimmed(value)} s`;
  }
  return name ? `${trimmed(value)} ${name}` : trimmed(value);
}

const trimmed = (value) => String(Number(value.toPrecision(6)));

const NAMES = {
  oxygen_pct: "oxygen", ph: "pH", grade: "media grade", ldh: "LDH", oxygen_uptake: "oxygen uptake", lactate_yield: "lactate yield",
  temperature_spread_c: "temperature steady", ph_spread: "pH steady", osmolality_spread_pct: "osmolality steady",
  stimulation_load: "stimulation load", rest_h: "rest", own_band: "own band", lactate_mm: "lactate", ammonia_mm: "ammonia",
  glucose_share: "glucose share", glucose_mm: "glucose", osmolality_change_pct: "osmolality", passes: "passes",
  ldh_ratio: "LDH", insulin_share: "insulin", turbidity: "turbidity", sterility: "sterility",
};
export const named = (name) => NAMES[name] ?? name.replaceAll("_", " ");
export const spoken = (name) => name.replaceAll("_", " ").replaceAll(".", " · ");

/** A step as a sentence: what, and of how much. */
export function step(verb, args) {
  const what = VERBS[verb] ?? verb.replaceAll("_", " ").replace(".", " · ");
  if (args.volume_ul !== undefined) return `${what} ${volume(args.volume_ul).join("\u00a0")}`;
  if (args.point !== undefined) return `${what} ${spoken(args.point).replace(/\bph\b/g, "pH").replace(/\bdo\b/g, "DO")}`;
  if (args.seconds !== undefined) return `${what} ${duration(args.seconds)}`;
  if (args.kind !== undefined) return `${what} the ${args.kind}`;
  return what;
}

export function result(found) {
  if (!found) return "";
  if (found.ul !== undefined) return volume(found.ul).join(" ");
  return `${quantity(found.value, found.unit)} ${found.unit === "pH" ? "" : unit(found.unit)}`.trim();
}
