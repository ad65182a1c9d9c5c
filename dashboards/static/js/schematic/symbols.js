// The symbols of devices and readings. Each function returns the node and what can be set on it.

import { s } from "../dom.js";
import { allConditions, CHARACTER } from "./zones.js";

/** @import { Chip, Manifold, PlacedDevice, PlacedSelector } from "./plan.js" */
/** @import { ZoneFrame } from "./zones.js" */

const ROTOR = 20.5;

/**
 * Return a question mark for a device that does not respond; `why` is its tooltip.
 * @param {number} x
 * @param {number} y
 */
export function doubt(x, y) {
  const why = s("title");
  const mark = s("text", { x, y, "text-anchor": "middle", text: "?" });
  return { node: s("g", { class: "doubt" }, mark, why), why };
}

/**
 * A pump: a circle with a triangle in the direction of flow, and a rotor that turns while it pumps.
 * @param {PlacedDevice} device
 * @param {number} angle - the direction of the line (degrees)
 */
export function pump({ x, y }, angle) {
  const rollers = [0, 120, 240].map((degrees) => {
    const radians = (degrees * Math.PI) / 180;
    return s("circle", { class: "roller", r: 3.2, cx: ROTOR * Math.cos(radians), cy: ROTOR * Math.sin(radians) });
  });
  const rotor = s("g", { class: "rotor" }, s("circle", { class: "rotor-track", r: ROTOR }), rollers);
  const triangle = s("path", { class: "pump-arrow", d: "M-8 -11 L12 0 L-8 11 z" });
  const unsure = doubt(0, 7);
  const body = s("circle", { class: "body", r: ROTOR });
  const place = { class: "device pump", transform: `translate(${x} ${y})` };
  let turned = 0;
  return {
    node: s("g", place, body, triangle, rotor, unsure.node),
    why: unsure.why,
    /** @param {number} sign - negative for reverse */
    setDirection(sign) {
      triangle.setAttribute("transform", `rotate(${sign < 0 ? angle + 180 : angle})`);
    },
    /** @param {number} degrees */
    turn(degrees) {
      turned = (turned + degrees) % 360;
      rotor.setAttribute("transform", `rotate(${turned.toFixed(1)})`);
    },
  };
}

/**
 * A valve: the two triangles of a flow diagram, filled while it is open, with its magnet on top.
 * @param {PlacedDevice} device
 */
export function valve({ x, y }) {
  const unsure = doubt(0, 7);
  const node = s(
    "g",
    { class: "device valve", transform: `translate(${x} ${y})` },
    s("rect", { class: "body", x: -23, y: -14, width: 46, height: 28, rx: 3, opacity: 0 }),
    s("path", { class: "stem", d: "M0 0 V-20" }),
    s("rect", { class: "magnet", x: -9, y: -32, width: 18, height: 13, rx: 3 }),
    s("path", { class: "bow", d: "M-21 -13 L0 0 L-21 13 z M21 -13 L0 0 L21 13 z" }),
    unsure.node,
  );
  return { node, why: unsure.why };
}

/**
 * A filter: a box with a membrane.
 * @param {PlacedDevice} device
 * @param {string} title
 */
export function filter({ x, y }, title) {
  const node = s(
    "g",
    { class: "device filter", transform: `translate(${x} ${y})` },
    s("rect", { class: "body", x: -17, y: -21, width: 34, height: 42, rx: 5 }),
    s("path", { class: "membrane", d: "M0 -21 V21" }),
    s("path", { class: "pleat", d: "M-9 -14 V14 M9 -14 V14" }),
    s("title", { text: title }),
  );
  return { node };
}

/**
 * A reading at its place: quantity, value, unit and quality.
 * @param {Chip} place
 * @param {string} label
 */
export function chip({ x, y, stem, point, caption }, label) {
  const value = s("tspan", { class: "chip-value" });
  const unit = s("tspan", { class: "chip-unit", dx: 4 });
  const quality = s("text", { class: "chip-state", x: x + 95, y: y + 4, "text-anchor": "end" });
  const title = s("title", { text: point });
  const tap = stem && [
    s("path", { class: "stem", d: `M${stem[0]} ${y + 46} V${stem[1]}` }),
    s("circle", { class: "tap", cx: stem[0], cy: stem[1], r: 4.5 }),
  ];
  const node = s(
    "g",
    { class: "chip", "data-point": point },
    tap,
    s("rect", { class: "chip-box", x, y, width: 104, height: 46, rx: 10 }),
    s("circle", { class: "chip-dot", cx: x + 12, cy: y + 13.5, r: 3.5 }),
    s("text", { class: "chip-label", x: x + 21, y: y + 18, text: label }),
    quality,
    s("text", { class: "chip-text", x: x + 10, y: y + 39 }, value, unit),
    caption && s("text", { class: "chip-caption", x: x + 2, y: y - 7, text: caption }),
    title,
  );
  return { node, value, unit, quality, title };
}

/**
 * The frame of a zone with its label; a line that may be longer than the frame is wide is fitted.
 * @param {ZoneFrame} frame
 */
export function zoneFrame({ zone, x, y, w, h, label, labelX, labelWidth }) {
  const lines = label.map((text, i) => {
    const fit = text.length * CHARACTER > labelWidth && { textLength: labelWidth, lengthAdjust: "spacingAndGlyphs" };
    return s("text", { class: "zone-label", x: labelX, y: y + 20 + i * 18, ...fit, text });
  });
  const box = s("rect", { class: "zone-box", x, y, width: w, height: h, rx: 18 });
  return s("g", { class: "zone", "data-zone": zone.name }, box, lines, s("title", { text: allConditions(zone) }));
}

/**
 * A dialyser: a capsule with hollow fibres along the line.
 * @param {PlacedDevice} device
 * @param {string} title
 */
export function dialyser({ x, y }, title) {
  const node = s(
    "g",
    { class: "device dialyser", transform: `translate(${x} ${y})` },
    s("rect", { class: "body", x: -24, y: -15, width: 48, height: 30, rx: 9 }),
    s("path", { class: "fibre", d: "M-17 -7 H17 M-17 0 H17 M-17 7 H17" }),
    s("title", { text: title }),
  );
  return { node };
}

/**
 * A selector valve: a rotor whose pointer shows the side of its common line and the port that is connected.
 * @param {PlacedSelector} place
 */
export function selectorValve({ x, y, w, h, text, selector }) {
  const middle = { x: x + w / 2, "text-anchor": "middle" };
  const state = s("text", { class: "selector-state", ...middle, y: y + h + 38 });
  const title = s("title", { text: `selector ${selector.name} (${selector.valve})` });
  const pointer = s("path", { class: "selector-pointer", d: `M${-w / 2 + 8} 0 H${w / 2 - 8}` });
  const rotor = s(
    "g",
    { transform: `translate(${x + w / 2} ${y + h / 2})` },
    pointer,
    s("circle", { class: "selector-hub", r: 5 }),
  );
  const node = s(
    "g",
    { class: "selector", "data-selector": selector.name },
    s("rect", { class: "selector-body", x, y, width: w, height: h, rx: w / 2 }),
    rotor,
    s("text", { class: "organ", ...middle, y: y + h + 19, text }),
    state,
    title,
  );
  return { node, state, pointer, title };
}

/**
 * A manifold: a bar from which lines branch, with its name below.
 * @param {Manifold} place
 */
export function manifold({ x, y, w, h, name, text }) {
  return s(
    "g",
    { class: "manifold" },
    s("rect", { class: "manifold-bar", x, y, width: w, height: h, rx: w / 2 }),
    s("text", { class: "organ", x: x + w / 2, y: y + h + 18, "text-anchor": "middle", text }),
    s("title", { text: name }),
  );
}
