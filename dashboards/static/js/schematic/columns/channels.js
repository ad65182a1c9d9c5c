// The vertical parts of the lines between two ranks: each has a track of its own.

/** @import { Link } from "./ranks.js" */
/** @import { Ports } from "./place.js" */

/** Two horizontal parts nearer than this would lie over each other. */
const NEAR = 12;
/** A step of a line smaller than this is none. */
const STRAIGHT = 0.75;

/**
 * Return whether a stretch of a line has a vertical part.
 * @param {Link} link
 * @param {Ports} ports
 */
export function isStepped(link, ports) {
  const [left, right] = ports.get(link) ?? [0, 0];
  return Math.abs(left - right) > STRAIGHT;
}

/**
 * Return the number of tracks that the stretches between two ranks need.
 * @param {Link[]} links
 * @param {Ports} ports
 */
export const tracksOf = (links, ports) => links.filter((link) => isStepped(link, ports)).length;

/**
 * Return the track of each stepped stretch between two ranks, from 0 at the left. Where the part of one that leaves to
 * the right would lie over the part of another that comes from the left, it takes a track to the right of it.
 * @param {Link[]} links
 * @param {Ports} ports
 * @returns {Map<Link, number>}
 */
export function assignTracks(links, ports) {
  /** @param {Link} link */
  const at = (link) => ports.get(link) ?? [0, 0];
  const waiting = links
    .filter((link) => isStepped(link, ports))
    .sort((one, two) => priority(at(one)) - priority(at(two)));
  /** @type {Map<Link, number>} */
  const tracks = new Map();
  while (waiting.length) {
    const free = waiting.findIndex((link) =>
      waiting.every((other) => other === link || Math.abs(at(other)[0] - at(link)[1]) >= NEAR),
    );
    const [next] = waiting.splice(Math.max(free, 0), 1);
    tracks.set(next, tracks.size);
  }
  return tracks;
}

/**
 * Return a key by which few stretches cross: of those that rise the upper ones first, of those that fall the lower.
 * @param {[number, number]} ends
 */
const priority = ([left, right]) => (right < left ? left : -left);
