// The ranks: columns of nodes, and between them columns of what sits on the lines. A line that passes a rank has a bend
// there, so that nothing else takes its place.

import { devicesOn, node, probesOn } from "./net.js";
import { sizeOf } from "./sizes.js";

/** @import { SchematicGraph } from "../../../../types/live.d.ts" */
/** @import { Edge, Net, Node } from "./net.js" */

/** A stretch of an edge between two neighbouring ranks. @typedef {{left: Node, right: Node, edge: Edge}} Link */

const ROUNDS = 12;

/**
 * Return the nodes of each rank from the left, in their order from the top; each edge gets its chain of nodes.
 * @param {Net} net
 * @param {Map<Node, number>} levels
 * @param {SchematicGraph} graph
 * @returns {Node[][]}
 */
export function ranksOf(net, levels, graph) {
  for (const [each, level] of levels) each.rank = 2 * level;
  /** @type {Node[]} */
  const items = [];
  for (const edge of net.edges) items.push(...itemOf(edge, graph));
  const used = new Set([...net.nodes, ...items].map((each) => each.rank));
  const numbers = [...used].sort((one, two) => one - two);
  const bends = net.edges.flatMap((edge) => fillChain(edge, numbers, graph));
  const all = [...net.nodes, ...items, ...bends];
  const ranks = numbers.map((number) => all.filter((each) => each.rank === number));
  ranks.forEach((rank, i) => rank.forEach((each) => Object.assign(each, { rank: i })));
  return ordered(ranks, linksOf(net.edges));
}

/**
 * Return the stretches of the edges.
 * @param {Edge[]} edges
 * @returns {Link[]}
 */
export const linksOf = (edges) =>
  edges.flatMap((edge) => edge.chain.slice(1).map((right, i) => ({ left: edge.chain[i], right, edge })));

/**
 * Return the node of what sits on an edge, next to where its medium comes from; none where nothing does.
 * @param {Edge} edge
 * @param {SchematicGraph} graph
 */
function itemOf(edge, graph) {
  const devices = devicesOn(edge);
  const probes = probesOn(edge, graph);
  edge.chain = [edge.from, edge.to].sort((one, two) => one.rank - two.rank);
  if (!devices.length && !probes.length) return [];
  const leftwards = edge.from.rank > edge.to.rank;
  const rank = edge.from.rank + (leftwards ? -1 : 1);
  const item = node(`on ${edge.lines[0].name}`, "item", { devices, probes, leftwards, rank });
  sizeOf(item, graph, 2);
  edge.chain.splice(1, 0, item);
  return [item];
}

/**
 * Add a bend to the chain of an edge for each rank that it passes; return the bends.
 * @param {Edge} edge
 * @param {number[]} numbers - of the ranks
 * @param {SchematicGraph} graph
 */
function fillChain(edge, numbers, graph) {
  const [left, right] = [edge.chain[0].rank, edge.chain[edge.chain.length - 1].rank];
  const taken = edge.chain.map((each) => each.rank);
  const bends = numbers
    .filter((number) => left < number && number < right && !taken.includes(number))
    .map((rank) => node(`bend ${edge.lines[0].name} ${rank}`, "bend", { rank }));
  bends.forEach((bend) => sizeOf(bend, graph, 2));
  edge.chain = [...edge.chain, ...bends].sort((one, two) => one.rank - two.rank);
  return bends;
}

/**
 * Bring the nodes of each rank into an order with few crossings, and those of a zone together.
 * @param {Node[][]} ranks
 * @param {Link[]} links
 * @returns {Node[][]}
 */
function ordered(ranks, links) {
  let best = ranks.map((rank) => [...rank]);
  let fewest = crossings(best, links);
  let current = best;
  for (let round = 0; round < ROUNDS && fewest > 0; round++) {
    current = current.map((rank) => [...rank]);
    const way = round % 2 ? [...current.keys()].reverse() : [...current.keys()];
    for (const i of way) sortRank(current, i, links, round % 2 === 1);
    const count = crossings(current, links);
    if (count < fewest) [best, fewest] = [current, count];
  }
  return best;
}

/**
 * Sort one rank by the mean place of the neighbours at one side.
 * @param {Node[][]} ranks
 * @param {number} i
 * @param {Link[]} links
 * @param {boolean} fromRight
 */
function sortRank(ranks, i, links, fromRight) {
  const near = ranks[fromRight ? i + 1 : i - 1];
  if (!near) return;
  const place = new Map(near.map((each, at) => [each, (at + 0.5) / near.length]));
  /** @type {Map<Node, number>} */
  const goal = new Map();
  ranks[i].forEach((each, at) => {
    const found = links.flatMap((link) => {
      const [own, other] = fromRight ? [link.left, link.right] : [link.right, link.left];
      return own === each ? (place.get(other) ?? []) : [];
    });
    goal.set(each, found.length ? mean(found) : (at + 0.5) / ranks[i].length);
  });
  /** @type {Map<string, number>} */
  const zones = new Map();
  for (const zone of new Set(ranks[i].map((each) => each.zone))) {
    if (zone) zones.set(zone, mean(ranks[i].filter((each) => each.zone === zone).map((each) => goal.get(each) ?? 0)));
  }
  /** @param {Node} each */
  const key = (each) => zones.get(each.zone ?? "") ?? goal.get(each) ?? 0;
  ranks[i].sort((one, two) => key(one) - key(two) || (goal.get(one) ?? 0) - (goal.get(two) ?? 0));
}

/** @param {number[]} values */
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * Return the number of crossings of the stretches between neighbouring ranks.
 * @param {Node[][]} ranks
 * @param {Link[]} links
 */
function crossings(ranks, links) {
  const place = new Map(ranks.flatMap((rank) => rank.map((each, at) => [each, at])));
  /** @param {Node} each */
  const at = (each) => place.get(each) ?? 0;
  let count = 0;
  links.forEach((one, i) => {
    for (const two of links.slice(i + 1)) {
      if (one.left.rank !== two.left.rank) continue;
      if ((at(one.left) - at(two.left)) * (at(one.right) - at(two.right)) < 0) count += 1;
    }
  });
  return count;
}
