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

/**
 * Return the charts of a rig.
 * @param {Rig} rig
 * @returns {ChartDefinition[]}
 */
export function chartsOf(rig) {
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
    return { point, label: at ?? "", goal };
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
function heartChart(rig) {
  const { pump, flow_ul_min: flowUlMin } = rig.heart;
  if (!pump) return [];
  const series = [{ pump, label: "heart", goal: { setpoint: flowUlMin / 1000 } }];
  return [{ title: "Heart flow", unit: "mL/min", series }];
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
