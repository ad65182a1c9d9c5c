// The charts of a rig: one for each quantity, with one series for each place where it is measured.

/** @import { Goal } from "../../../types/api.d.ts" */
/** @import { Rig } from "../../../types/live.d.ts" */

/**
 * What to show as one line: the readings of a point, or the flow of a pump.
 * @typedef {object} SeriesDefinition
 * @property {string} [point]
 * @property {string} [pump]
 * @property {string} label
 * @property {Partial<Goal>} goal - set-point and limits
 */

/** @typedef {{title: string, unit: string, series: SeriesDefinition[]}} ChartDefinition */

/** @type {[quantity: string, title: string][]} */
const BEFORE_FIRING = [
  ["temperature", "Temperature"],
  ["oxygen", "Dissolved oxygen"],
  ["pH", "pH"],
];
/** @type {[quantity: string, title: string][]} */
const AFTER_FIRING = [
  ["pressure", "Pressure"],
  ["mass", "Mass on the balance"],
];

/** A chart with more series could not be read. */
const MAX_SERIES = 3;

/**
 * Return the charts of a rig. Of too many places a chart shows one: that of the chosen chamber, or the first.
 * @param {Rig} rig
 * @param {string | null} chosen
 * @returns {ChartDefinition[]}
 */
export const chartsOf = (rig, chosen) => allCharts(rig).map((chart) => limited(chart, rig, chosen));

/**
 * @param {ChartDefinition} chart
 * @param {Rig} rig
 * @param {string | null} chosen
 * @returns {ChartDefinition}
 */
function limited({ title, unit, series }, rig, chosen) {
  if (series.length <= MAX_SERIES) return { title, unit, series };
  const feeders = rig.hearts.filter((heart) => (chosen ?? "") in heart.chambers).map(({ name }) => name);
  const shown = series.find(({ label }) => label === chosen || feeders.includes(label)) ?? series[0];
  return { title: `${title}, ${shown.label}`, unit, series: [shown] };
}

/**
 * @param {Rig} rig
 * @returns {ChartDefinition[]}
 */
function allCharts(rig) {
  const measured = (/** @type {[string, string]} */ [quantity, title]) => measuredChart(rig, quantity, title);
  return [
    ...BEFORE_FIRING.flatMap(measured),
    ...firingChart(rig),
    ...AFTER_FIRING.flatMap(measured),
    ...heartChart(rig),
    ...gasChart(rig),
  ];
}

/**
 * @param {Rig} rig
 * @param {string} quantity
 * @param {string} title
 * @returns {ChartDefinition[]}
 */
function measuredChart(rig, quantity, title) {
  const probes = rig.schematic.probes.filter((probe) => probe.quantity === quantity);
  if (!probes.length) return [];
  const series = probes.map(({ point, at }) => {
    const goal = rig.goals.find((each) => each.point === point) ?? {};
    const here = probes.filter((each) => each.at === at).length;
    return { point, label: here > 1 || !at ? point.split(".")[0] : at, goal };
  });
  return [{ title, unit: probes[0].unit, series }];
}

/**
 * @param {Rig} rig
 * @returns {ChartDefinition[]}
 */
function firingChart(rig) {
  if (!rig.electrodes) return [];
  return [{ title: "Firing rate", unit: "Hz", series: [{ point: "nerves.firing_rate", label: "array", goal: {} }] }];
}

/**
 * @param {Rig} rig
 * @returns {ChartDefinition[]}
 */
function heartChart({ hearts }) {
  const series = hearts.flatMap(({ name, pump, flow_ul_min: flowUlMin }) =>
    pump ? [{ pump, label: name, goal: { setpoint: flowUlMin / 1000 } }] : [],
  );
  return series.length ? [{ title: "Heart flow", unit: "mL/min", series }] : [];
}

/**
 * @param {Rig} rig
 * @returns {ChartDefinition[]}
 */
function gasChart(rig) {
  const { gas } = rig.schematic;
  if (!gas) return [];
  /** @type {[string | null, string][]} */
  const points = [
    [gas.co2, "CO₂"],
    [gas.o2, "O₂"],
  ];
  const series = points.flatMap(([point, label]) => (point ? [{ point, label, goal: {} }] : []));
  return [{ title: "Gas", unit: "mL/min", series }];
}
