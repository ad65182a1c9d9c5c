// Positions and paths in the drawing.

/** @import { Box, PlacedDevice, PlacedLine, Point } from "./plan.js" */

const CORNER = 12;
const HEAD_BACK = 11;

/**
 * Return the horizontal middle of a box.
 * @param {Box} box
 */
export const middle = (box) => box.x + box.w / 2;

/**
 * Return the angle (degrees) at which a line passes one of its devices.
 * @param {PlacedLine} line
 * @param {PlacedDevice} device
 */
export function angleAt(line, device) {
  const { points } = line;
  /** @type {(a: number, b: number, value: number) => boolean} */
  const between = (a, b, value) => Math.min(a, b) - 1 <= value && value <= Math.max(a, b) + 1;
  for (let i = 1; i < points.length; i++) {
    const [[ax, ay], [bx, by]] = [points[i - 1], points[i]];
    if (between(ax, bx, device.x) && between(ay, by, device.y)) return (Math.atan2(by - ay, bx - ax) * 180) / Math.PI;
  }
  return 0;
}

/**
 * Return the transform that sets an arrow head at the end of a line.
 * @param {Point[]} points
 */
export function headTransform(points) {
  const [ax, ay] = points[points.length - 2];
  const [bx, by] = points[points.length - 1];
  const angle = Math.atan2(by - ay, bx - ax);
  const x = bx - Math.cos(angle) * HEAD_BACK;
  const y = by - Math.sin(angle) * HEAD_BACK;
  return `translate(${x.toFixed(1)} ${y.toFixed(1)}) rotate(${((angle * 180) / Math.PI).toFixed(0)})`;
}

/**
 * Return the path of a line with rounded corners.
 * @param {Point[]} points
 */
export function roundedPath(points) {
  let text = `M${points[0].join(" ")}`;
  for (let i = 1; i < points.length - 1; i++) {
    const corner = points[i];
    const begin = towards(corner, points[i - 1]).join(" ");
    const end = towards(corner, points[i + 1]).join(" ");
    text += ` L${begin} Q${corner.join(" ")} ${end}`;
  }
  return `${text} L${points[points.length - 1].join(" ")}`;
}

/**
 * Return the point at which a rounded corner begins or ends.
 * @param {Point} corner
 * @param {Point} next
 * @returns {Point}
 */
function towards(corner, next) {
  const length = Math.hypot(next[0] - corner[0], next[1] - corner[1]);
  const cut = Math.min(CORNER, length / 2);
  return [corner[0] + ((next[0] - corner[0]) * cut) / length, corner[1] + ((next[1] - corner[1]) * cut) / length];
}
