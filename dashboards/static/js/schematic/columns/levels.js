// The column of each node, from the direction of flow: what feeds stands to the left of what it feeds.

/** @import { Net, Node } from "./net.js" */

/** The kinds from left to right: lines against this order are drawn back to the left. */
const ORDER = ["source", "process", "loop", "chamber", "waste"];
/** The maximum number of chambers in one column. */
const MAX_STACKED = 3;

/**
 * Return the level of each node, from 0 at the left.
 * @param {Net} net
 * @returns {Map<Node, number>}
 */
export function levelsOf(net) {
  const forward = acyclic(net);
  const least = new Map(net.nodes.map((each) => [each, 0]));
  let levels = longest(net.nodes, forward, least);
  if (spread(net.nodes, forward, levels, least)) levels = longest(net.nodes, forward, least);
  pullSources(net.nodes, forward, levels);
  placeLoose(net, levels);
  return levels;
}

/**
 * Return the preferred order of the nodes: that of their kind; a junction stands between what it connects.
 * @param {Net} net
 * @returns {Map<Node, number>}
 */
function preferences(net) {
  const known = net.nodes.filter((each) => each.vessels.length);
  const orders = new Map(known.map((each) => [each, ORDER.indexOf(each.vessels[0].kind)]));
  const junctions = net.nodes.filter((each) => !each.vessels.length);
  for (let round = 0; round <= junctions.length; round++) {
    for (const each of junctions) {
      const into = net.edges.filter((edge) => edge.to === each).flatMap((edge) => orders.get(edge.from) ?? []);
      const out = net.edges.filter((edge) => edge.from === each).flatMap((edge) => orders.get(edge.to) ?? []);
      const sides = [into, out].filter((side) => side.length).map(mean);
      if (sides.length) orders.set(each, mean(sides));
    }
  }
  return orders;
}

/** @param {number[]} values */
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * Return pairs of nodes, left and right, for all edges without a cycle. An edge against the order of the kinds is
 * turned around, and of others those that close a cycle.
 * @param {Net} net
 * @returns {[Node, Node][]}
 */
function acyclic(net) {
  const orders = preferences(net);
  /** @param {Node} each */
  const order = (each) => orders.get(each) ?? ORDER.length;
  const pairs = net.edges.map(({ from, to }) => (order(from) > order(to) ? [to, from] : [from, to]));
  /** @type {Map<Node, "open" | "done">} */
  const seen = new Map();
  /** @type {[Node, Node][]} */
  const found = [];
  /** @param {Node} from */
  const visit = (from) => {
    seen.set(from, "open");
    for (const [, to] of pairs.filter(([left]) => left === from)) {
      found.push(seen.get(to) === "open" ? [to, from] : [from, to]);
      if (!seen.has(to)) visit(to);
    }
    seen.set(from, "done");
  };
  for (const begin of [...net.nodes].sort((one, two) => order(one) - order(two))) if (!seen.has(begin)) visit(begin);
  return found;
}

/**
 * Return the length of the longest path to each node.
 * @param {Node[]} nodes
 * @param {[Node, Node][]} pairs
 * @param {Map<Node, number>} least - the minimum level of each node
 * @returns {Map<Node, number>}
 */
function longest(nodes, pairs, least) {
  const levels = new Map(least);
  for (let round = 0; round < nodes.length; round++) {
    let changed = false;
    for (const [left, right] of pairs) {
      const needed = (levels.get(left) ?? 0) + 1;
      if ((levels.get(right) ?? 0) < needed) {
        levels.set(right, needed);
        changed = true;
      }
    }
    if (!changed) break;
  }
  return levels;
}

/**
 * Move chambers out of a column with too many into the next one, as minimum levels; return whether any was moved.
 * @param {Node[]} nodes
 * @param {[Node, Node][]} pairs
 * @param {Map<Node, number>} levels
 * @param {Map<Node, number>} least
 */
function spread(nodes, pairs, levels, least) {
  const linked = new Set(pairs.flat());
  const chambers = nodes.filter((each) => each.vessels[0]?.kind === "chamber" && linked.has(each));
  let moved = false;
  for (const level of new Set(chambers.map((each) => levels.get(each) ?? 0))) {
    const here = chambers.filter((each) => levels.get(each) === level);
    if (here.length <= MAX_STACKED) continue;
    const columns = Math.ceil(here.length / MAX_STACKED);
    const tall = Math.ceil(here.length / columns);
    here.forEach((each, i) => least.set(each, level + Math.floor(i / tall)));
    moved = true;
  }
  return moved;
}

/**
 * Move what nothing feeds next to what it feeds.
 * @param {Node[]} nodes
 * @param {[Node, Node][]} pairs
 * @param {Map<Node, number>} levels
 */
function pullSources(nodes, pairs, levels) {
  for (const each of nodes) {
    const after = pairs.filter(([left]) => left === each).map(([, right]) => levels.get(right) ?? 0);
    if (after.length && !pairs.some(([, right]) => right === each)) levels.set(each, Math.min(...after) - 1);
  }
}

/**
 * Place the nodes without lines: each into the column with the most space; without any lines, into rows.
 * @param {Net} net
 * @param {Map<Node, number>} levels
 */
function placeLoose(net, levels) {
  const linked = new Set(net.edges.flatMap((edge) => [edge.from, edge.to]));
  const loose = net.nodes.filter((each) => !linked.has(each));
  const most = Math.max(0, ...[...linked].map((each) => levels.get(each) ?? 0));
  const columns = linked.size ? Math.max(most + 1, 3) : Math.ceil(Math.sqrt(loose.length * 1.4));
  const heights = Array.from({ length: columns }, (_, level) =>
    [...linked].filter((each) => levels.get(each) === level).reduce((sum, each) => sum + each.h, 0),
  );
  for (const each of loose) {
    const level = heights.indexOf(Math.min(...heights));
    levels.set(each, level);
    heights[level] += each.h;
  }
}
