// The drawn things: vessels of glass, pumps, valves, filters, chips. Each returns its node and what can be set on it.

import { s } from "../dom.js";
import { volume } from "../words.js";

let made = 0;

const OUTLINES = {
  source: ({ x, y, w, h }) => {
    const neck = w * 0.17, middle = x + w / 2;
    return `M${middle - neck} ${y} H${middle + neck} V${y + 12} C${middle + neck} ${y + 26} ${x + w} ${y + 24} ${x + w} ${y + 44} V${y + h - 12} Q${x + w} ${y + h} ${x + w - 12} ${y + h}`
      + ` H${x + 12} Q${x} ${y + h} ${x} ${y + h - 12} V${y + 44} C${x} ${y + 24} ${middle - neck} ${y + 26} ${middle - neck} ${y + 12} z`;
  },
  process: ({ x, y, w, h }) => `M${x} ${y + 4} q0 -4 4 -4 H${x + w - 4} q4 0 4 4 V${y + h - 20} q0 20 -20 20 H${x + 20} q-20 0 -20 -20 z`,
  loop: ({ x, y, w, h }) => `M${x + 22} ${y} H${x + w - 22} q22 0 22 22 V${y + h - 22} q0 22 -22 22 H${x + 22} q-22 0 -22 -22 V${y + 22} q0 -22 22 -22 z`,
  chamber: ({ x, y, w, h }) => `M${x} ${y + 16} q0 -16 16 -16 H${x + w - 16} q16 0 16 16 V${y + h - 16} q0 16 -16 16 H${x + 16} q-16 0 -16 -16 z`,
  waste: ({ x, y, w, h }) => `M${x + 12} ${y + 12} H${x + w - 46} q4 0 4 -4 v-4 q0 -4 4 -4 h18 q4 0 4 4 v4 q0 4 4 4 q12 0 12 12 V${y + h - 12} q0 12 -12 12 H${x + 12} q-12 0 -12 -12 V${y + 24} q0 -12 12 -12 z`,
};

/** A vessel whose level moves: `level(share)`, `color(css)`, `text(name, ul)`. */
export function vessel(box) {
  const id = `vessel-${made++}`;
  const outline = (OUTLINES[box.kind] ?? OUTLINES.loop)(box);
  const liquid = s("g", { class: "liquid" },
    s("rect", { class: "liquid-body", x: box.x - 2, y: box.y, width: box.w + 4, height: box.h + 40 }),
    s("rect", { class: "liquid-top", x: box.x - 2, y: box.y, width: box.w + 4, height: 3.5 }));
  const inside = s("g", { class: "inside" });
  const [labelX, labelY, anchor] = labelPlace(box);
  const name = s("text", { class: "vessel-name", x: labelX, y: labelY, "text-anchor": anchor });
  const node = s("g", { class: `vessel vessel-${box.kind}`, "data-vessel": box.name },
    s("clipPath", { id }, s("path", { d: outline })),
    s("path", { class: "glass", d: outline }),
    s("g", { "clip-path": `url(#${id})` }, liquid, inside,
      s("path", { class: "gloss", d: `M${box.x + box.w * 0.1} ${box.y + box.h * 0.1} v${box.h * 0.8} h${box.w * 0.07} v${-box.h * 0.8} z` })),
    s("path", { class: "glass-edge", d: outline }),
    ...marks(box), name);
  const title = s("title");
  node.append(title);
  return {
    node, inside,
    level(share) { liquid.style.transform = `translateY(${((1 - Math.min(Math.max(share, 0), 1)) * box.h).toFixed(2)}px)`; },
    color(css) { if (this.now !== css) { node.style.setProperty("--liquid", css); this.now = css; } },
    text(ul, sd) {
      const [value, unit] = volume(ul);
      const label = `${value} ${unit}`;
      if (this.label === label) return;
      this.label = label;
      name.replaceChildren(...(box.kind === "source" || box.kind === "waste"
        ? [s("tspan", { x: labelX, text: box.name }), s("tspan", { class: "vessel-volume", x: labelX, dy: 20, text: label })]
        : [s("tspan", { text: box.name }), s("tspan", { class: "vessel-volume", dx: 8, text: label })]));
      title.textContent = `${box.name}: ${label} ± ${volume(sd).join(" ")} of ${volume(box.capacity_ul).join(" ")}`;
    },
  };
}

function labelPlace(box) {
  if (box.kind === "source") return [box.x + box.w / 2, box.y - 30, "middle"];
  if (box.kind === "waste") return [box.x + box.w + 14, box.y + box.h / 2 - 2, "start"];
  return [box.x + box.w / 2, box.y + box.h + 25, "middle"];
}

function marks(box) {
  const at = (ul) => box.y + (1 - ul / box.capacity_ul) * box.h;
  const found = [];
  if (box.ceiling_ul && box.ceiling_ul < box.capacity_ul) found.push(["ceiling", at(box.ceiling_ul)]);
  if (box.floor_ul > 0 && box.kind !== "source") found.push(["floor", at(box.floor_ul)]);
  return found.map(([kind, y]) => s("path", { class: `mark ${kind}`, d: `M${box.x + box.w} ${y} h-14` }, s("title", { text: kind })));
}

/** What stands on a device that does not answer: a question mark, and `why` for whoever points at it. */
export function doubt(x, y) {
  const why = s("title");
  return { node: s("g", { class: "doubt" }, s("text", { x, y, "text-anchor": "middle", text: "?" }), why), why };
}

/** A pump: a circle with a triangle that points where it pumps; the rotor turns while it does. */
export function pump({ x, y, angle }) {
  const rotor = s("g", { class: "rotor" }, s("circle", { class: "rotor-track", r: 20.5 }), ...[0, 120, 240].map((turn) => s("circle", { class: "roller", r: 3.2, cx: 20.5 * Math.cos((turn * Math.PI) / 180), cy: 20.5 * Math.sin((turn * Math.PI) / 180) })));
  const triangle = s("path", { class: "pump-arrow", d: "M-8 -11 L12 0 L-8 11 z" });
  const unsure = doubt(0, 7);
  const node = s("g", { class: "device pump", transform: `translate(${x} ${y})` }, s("circle", { class: "body", r: 20.5 }), triangle, rotor, unsure.node);
  let turned = 0;
  return {
    node, why: unsure.why,
    direction(sign) { triangle.setAttribute("transform", `rotate(${sign < 0 ? angle + 180 : angle})`); },
    turn(degrees) { turned = (turned + degrees) % 360; rotor.setAttribute("transform", `rotate(${turned.toFixed(1)})`); },
  };
}

/** A valve: the two triangles of a flow sheet, filled when it is open, with its magnet on top. */
export function valve({ x, y }) {
  const unsure = doubt(0, 7);
  return { why: unsure.why, node: s("g", { class: "device valve", transform: `translate(${x} ${y})` },
    s("rect", { class: "body", x: -23, y: -14, width: 46, height: 28, rx: 3, opacity: 0 }),
    s("path", { class: "stem", d: "M0 0 V-20" }), s("rect", { class: "magnet", x: -9, y: -32, width: 18, height: 13, rx: 3 }),
    s("path", { class: "bow", d: "M-21 -13 L0 0 L-21 13 z M21 -13 L0 0 L21 13 z" }), unsure.node) };
}

/** A filter: a box with the membrane across. */
export function filter({ x, y }, words) {
  return { node: s("g", { class: "device filter", transform: `translate(${x} ${y})` },
    s("rect", { class: "body", x: -17, y: -21, width: 34, height: 42, rx: 5 }),
    s("path", { class: "membrane", d: "M0 -21 V21" }), s("path", { class: "pleat", d: "M-9 -14 V14 M9 -14 V14" }),
    s("title", { text: words })) };
}

/** A reading at its place: what, value, unit, and how far it can be trusted. */
export function chip({ x, y, stem }, label, what) {
  const value = s("tspan", { class: "chip-value" }), unit = s("tspan", { class: "chip-unit", dx: 4 });
  const state = s("text", { class: "chip-state", x: x + 95, y: y + 4, "text-anchor": "end" });
  const title = s("title", { text: what });
  const node = s("g", { class: "chip", "data-point": what },
    stem ? s("path", { class: "stem", d: `M${stem[0]} ${y + 46} V${stem[1]}` }) : null, stem ? s("circle", { class: "tap", cx: stem[0], cy: stem[1], r: 4.5 }) : null,
    s("rect", { class: "chip-box", x, y, width: 104, height: 46, rx: 10 }), s("circle", { class: "chip-dot", cx: x + 12, cy: y + 13.5, r: 3.5 }),
    s("text", { class: "chip-label", x: x + 21, y: y + 18, text: label }), state,
    s("text", { class: "chip-text", x: x + 10, y: y + 39 }, value, unit), title);
  return { node, value, unit, state, title };
}
