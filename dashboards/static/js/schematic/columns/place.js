// The places of the nodes in their ranks: heights so that lines run straight where they can; the ranks side by side.

import { tracksOf } from "./channels.js";
import { PORT } from "./sizes.js";

/** @import { Node } from "./net.js" */
/** @import { Link } from "./ranks.js" */

/**
 * The y at which each stretch of a line leaves its left node and enters its right one.
 * @typedef {Map<Link, [number, number]>} Ports
 */

const ROUNDS = 24;
const GAP = 22;
const BEND_GAP = 4;
/** The space for the frame of a zone: above what stands in it, and below it and at its sides. */
export const ZONE = { head: 50, side: 14 };
const CHANNEL = 18;
const TRACK = 16;
const PORT_MARGIN = 14;
/** How much a node keeps its lines straight: bends most, vessels least. */
const WEIGHT = { bend: 8, item: 6, junction: 3, vessel: 1, block: 1 };

/**
 * Give the nodes their heights.
 * @param {Node[][]} ranks
 * @param {Link[]} links
 */
export function placeUpright(ranks, links) {
  for (const rank of ranks) settle(rank, new Map());
  for (let round = 0; round < ROUNDS; round++) {
    const ports = portsOf(links);
    const way = round % 2 ? [...ranks].reverse() : ranks;
    for (const rank of way) settle(rank, goals(rank, links, ports));
  }
  for (let round = 0; round < 3; round++) {
    straighten(ranks, links);
    for (const each of ranks.flat()) nudge(ranks, each, links);
  }
}

/**
 * Give the ranks their places from left to right, with space for the lines between them; return where each channel
 * behind a rank begins: behind the last one, where the drawing ends.
 * @param {Node[][]} ranks
 * @param {Link[]} links
 * @param {Ports} ports
 * @param {number} left
 * @returns {number[]}
 */
export function placeAcross(ranks, links, ports, left) {
  let x = left;
  /** @type {number[]} */
  const channels = [];
  ranks.forEach((rank, i) => {
    const side = rank.some((each) => each.zone) ? ZONE.side : 0;
    const width = Math.max(...rank.map((each) => each.w));
    x += side;
    for (const each of rank) each.x = x + (width - each.w) / 2;
    x += width + side;
    channels.push(x);
    const here = links.filter((link) => link.left.rank === i);
    if (i < ranks.length - 1) x += 2 * CHANNEL + Math.max(0, tracksOf(here, ports) - 1) * TRACK;
  });
  return channels;
}

/**
 * Return the x of a track in the channel that begins at `begin`.
 * @param {number} begin
 * @param {number} track
 */
export const trackAt = (begin, track) => begin + CHANNEL + track * TRACK;

/**
 * Return the space that must be between two nodes of a rank.
 * @param {Node} above
 * @param {Node} below
 */
function gapOf(above, below) {
  if (above.zone === below.zone) return above.kind === "bend" || below.kind === "bend" ? BEND_GAP : GAP;
  return GAP + (below.zone ? ZONE.head : 0) + (above.zone ? ZONE.side : 0);
}

/**
 * Place the nodes of a rank as near as possible to their goals, in their order and without overlap.
 * @param {Node[]} rank
 * @param {Map<Node, number>} goal - the y of the upper edge; without one, the present y
 */
function settle(rank, goal) {
  let taken = 0;
  const offsets = rank.map((each, i) => {
    if (i) taken += rank[i - 1].h + gapOf(rank[i - 1], each);
    return taken;
  });
  const places = monotone(
    rank.map((each, i) => (goal.get(each) ?? each.y) - offsets[i]),
    rank.map((each) => WEIGHT[each.kind]),
  );
  rank.forEach((each, i) => Object.assign(each, { y: places[i] + offsets[i] }));
}

/**
 * Return the non-decreasing values nearest to others (weighted least squares, by pooling adjacent violators).
 * @param {number[]} values
 * @param {number[]} weights
 * @returns {number[]}
 */
export function monotone(values, weights) {
  /** @type {{value: number, weight: number, count: number}[]} */
  const pools = [];
  values.forEach((value, i) => {
    pools.push({ value, weight: weights[i], count: 1 });
    while (pools.length > 1 && pools[pools.length - 2].value > pools[pools.length - 1].value) {
      const [one, two] = pools.splice(-2);
      const weight = one.weight + two.weight;
      const joint = (one.value * one.weight + two.value * two.weight) / weight;
      pools.push({ value: joint, weight, count: one.count + two.count });
    }
  });
  return pools.flatMap(({ value, count }) => Array(count).fill(value));
}

/**
 * Return where the nodes of a rank should stand so that their lines are straight.
 * @param {Node[]} rank
 * @param {Link[]} links
 * @param {Ports} ports
 * @returns {Map<Node, number>}
 */
function goals(rank, links, ports) {
  /** @type {Map<Node, number>} */
  const found = new Map();
  for (const each of rank) {
    /** @type {[y: number, weight: number][]} */
    const pulls = [];
    for (const link of links) {
      const [left, right] = ports.get(link) ?? [0, 0];
      if (link.right === each) pulls.push([each.y + left - right, WEIGHT[link.left.kind]]);
      if (link.left === each) pulls.push([each.y + right - left, WEIGHT[link.right.kind]]);
    }
    const total = pulls.reduce((sum, [, weight]) => sum + weight, 0);
    if (total) found.set(each, pulls.reduce((sum, [y, weight]) => sum + y * weight, 0) / total);
  }
  return found;
}

/**
 * Return where the lines leave and enter: along the side of a node in the order of what they lead to, each as near as
 * possible to the height of its other end.
 * @param {Link[]} links
 * @returns {Ports}
 */
export function portsOf(links) {
  /** @type {Ports} */
  const ports = new Map(links.map((link) => [link, [middle(link.left), middle(link.right)]]));
  for (let round = 0; round < 2; round++) {
    for (const side of /** @type {const} */ ([0, 1])) {
      for (const each of new Set(links.map((link) => (side ? link.right : link.left)))) {
        const here = links.filter((link) => (side ? link.right : link.left) === each);
        spreadPorts(each, here, side, ports);
      }
    }
  }
  return ports;
}

/** @param {Node} each */
export const middle = (each) => each.y + each.core.dy + each.core.h / 2;

/**
 * Spread the lines at one side of a node.
 * @param {Node} each
 * @param {Link[]} here
 * @param {0 | 1} side - 0: the lines begin here, at its right; 1: they end here, at its left
 * @param {Ports} ports
 */
function spreadPorts(each, here, side, ports) {
  if (!each.core.h) return;
  /** @param {Link} link */
  const other = (link) => (ports.get(link) ?? [0, 0])[1 - side];
  const sorted = [...here].sort((one, two) => other(one) - other(two));
  const top = each.y + each.core.dy + PORT_MARGIN;
  const bottom = each.y + each.core.dy + each.core.h - PORT_MARGIN;
  const step = sorted.length > 1 ? Math.min(PORT, (bottom - top) / (sorted.length - 1)) : 0;
  const goal = sorted.map((link, i) => Math.min(Math.max(other(link), top), bottom) - i * step);
  const most = Math.max(top, bottom - (sorted.length - 1) * step);
  const places = monotone(
    goal,
    goal.map(() => 1),
  ).map((y) => Math.min(Math.max(y, top), most));
  sorted.forEach((link, i) => {
    const y = places[i] + i * step;
    const [left, right] = ports.get(link) ?? [0, 0];
    ports.set(link, side ? [left, y] : [y, right]);
  });
}

/**
 * Move what sits on lines, and their bends, to the height of their neighbours where that is free.
 * @param {Node[][]} ranks
 * @param {Link[]} links
 */
function straighten(ranks, links) {
  for (const link of links) {
    const [left, right] = portsOf(links.filter((each) => near(each, link))).get(link) ?? [0, 0];
    if (left === right) continue;
    if (isOnLine(link.right) && shift(ranks, link.right, left - right)) continue;
    if (isOnLine(link.left)) shift(ranks, link.left, right - left);
  }
}

/**
 * @param {Link} one
 * @param {Link} two
 */
const near = (one, two) => one.left === two.left || one.right === two.right;

/** @param {Node} each */
const isOnLine = (each) => each.kind === "item" || each.kind === "bend";

/**
 * Move a node by the step of one of its lines where fewer of them then have a step.
 * @param {Node[][]} ranks
 * @param {Node} each
 * @param {Link[]} links
 */
function nudge(ranks, each, links) {
  const own = links.filter((link) => link.left === each || link.right === each);
  const ends = new Set(own.flatMap((link) => [link.left, link.right]));
  const around = links.filter((link) => ends.has(link.left) || ends.has(link.right));
  const steps = () => {
    const ports = portsOf(around);
    return own.map((link) => ports.get(link) ?? [0, 0]).map(([left, right]) => right - left);
  };
  /** @param {number[]} found */
  const count = (found) => found.filter((step) => Math.abs(step) >= 1).length;
  for (const step of steps()) {
    const before = count(steps());
    for (const by of [step, -step]) {
      if (Math.abs(step) < 1 || !shift(ranks, each, by)) continue;
      if (count(steps()) < before) break;
      each.y -= by;
    }
  }
}

/**
 * Move a node up or down where it overlaps no other; return whether it was moved.
 * @param {Node[][]} ranks
 * @param {Node} each
 * @param {number} by
 */
function shift(ranks, each, by) {
  const rank = ranks[each.rank];
  const i = rank.indexOf(each);
  const above = rank[i - 1];
  const below = rank[i + 1];
  const y = each.y + by;
  if (above && y < above.y + above.h + gapOf(above, each)) return false;
  if (below && y + each.h > below.y - gapOf(each, below)) return false;
  each.y = y;
  return true;
}
