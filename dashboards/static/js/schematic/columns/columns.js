// The layout of any rig in columns by the direction of flow: sources at the left, then process vessels, loops,
// junctions and chambers, and waste behind what empties into it. Uses nothing of the page.

import { zoneFrames } from "../zones.js";
import { assignTracks } from "./channels.js";
import { drawn } from "./drawn.js";
import { levelsOf } from "./levels.js";
import { netOf } from "./net.js";
import { placeAcross, placeUpright, portsOf, trackAt, ZONE } from "./place.js";
import { linksOf, ranksOf } from "./ranks.js";
import { CHIP, shortened } from "./sizes.js";

/** @import { Probe, SchematicGraph } from "../../../../types/live.d.ts" */
/** @import { Plan } from "../plan.js" */
/** @import { Node } from "./net.js" */

const MARGIN = 30;
const LEGEND = { w: 240, h: 92 };
const FOOT = 104;
const MIN_WIDTH = 620;

/**
 * Lay out a rig in columns.
 * @param {SchematicGraph} graph
 * @returns {Plan}
 */
export function layOutColumns(graph) {
  const net = netOf(graph);
  const ranks = ranksOf(net, levelsOf(net), graph);
  const links = linksOf(net.edges);
  placeUpright(ranks, links);
  const loose = looseProbes(graph, ranks.flat());
  const legend = graph.probes.some((probe) => probe.quantity === "pH");
  const all = ranks.flat();
  const head = Math.max(legend ? LEGEND.h : 0, loose.length ? looseAt(0).y + CHIP.h + MARGIN : 0, MARGIN);
  const framed = all.some((each) => each.zone) ? ZONE.head : 0;
  const top = Math.min(...all.map((each) => each.y));
  for (const each of all) each.y += head + framed - top;
  const ports = portsOf(links);
  const right = placeAcross(ranks, links, ports, 0)[ranks.length - 1];
  const strip = loose.length * (CHIP.w + CHIP.gap) + (legend ? LEGEND.w : 0);
  const width = Math.max(MIN_WIDTH, strip + MARGIN, right);
  const channels = placeAcross(ranks, links, ports, MARGIN + (width - right) / 2);
  const tracks = ranks.map((_, i) => assignTracks(linksFrom(links, i), ports));
  const stretches = new Map(net.edges.map((edge) => [edge, links.filter((link) => link.edge === edge)]));
  const plan = drawn(graph, net, (edge, i) => {
    const link = (stretches.get(edge) ?? [])[i];
    const track = tracks[link.left.rank].get(link);
    const x = track === undefined ? null : trackAt(channels[link.left.rank], track);
    return { ends: ports.get(link) ?? [0, 0], x };
  });
  loose.forEach((probe, i) => plan.chips.push({ ...probe, ...looseAt(i), caption: captionOf(probe) }));
  plan.zones = zoneFrames(plan, graph);
  plan.legend = legend;
  plan.width = Math.max(width + MARGIN, ...plan.zones.map((each) => each.x + each.w)) + MARGIN;
  plan.height = Math.max(...[...all, ...plan.zones].map((each) => each.y + each.h)) + FOOT;
  plan.top = Math.min(0, ...plan.zones.map((frame) => frame.y - 6));
  plan.captionWidth = plan.width - 2 * MARGIN;
  return plan;
}

/**
 * Return the stretches that begin in a rank.
 * @param {import("./ranks.js").Link[]} links
 * @param {number} rank
 */
const linksFrom = (links, rank) => links.filter((link) => link.left.rank === rank);

/**
 * Return the place of a reading that stands by itself, along the upper edge.
 * @param {number} i
 */
const looseAt = (i) => ({ x: MARGIN + i * (CHIP.w + CHIP.gap), y: MARGIN + 14 });

/** @param {Probe} probe */
const captionOf = ({ at, point }) => shortened(at ?? point.split(".")[0], CHIP.w, 7.6);

/**
 * Return the probes that stand at nothing that is drawn, such as those of a zone. Those in a block stand with the
 * details of their chambers, and selectors show their position themselves.
 * @param {SchematicGraph} graph
 * @param {Node[]} nodes
 * @returns {Probe[]}
 */
function looseProbes(graph, nodes) {
  const shown = new Set(nodes.flatMap((each) => each.probes));
  const positions = graph.selectors.map((each) => each.position);
  const places = new Set([...graph.vessels, ...graph.lines].map((each) => each.name));
  const loose = graph.probes.filter((probe) => !shown.has(probe) && !places.has(probe.at ?? ""));
  return loose.filter((probe) => !positions.includes(probe.point));
}
