// Creation and update of elements. Text is always set as text and never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** @import { Attribute, Attributes, Child } from "../../types/dom.d.ts" */

/**
 * Flatten nested lists of children and drop those that stand for no child.
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function present(children) {
  /** @type {(Node | string | number | null | undefined | false)[]} */
  const flat = /** @type {any[]} */ (children).flat(Infinity);
  return flat
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === "number" ? String(child) : child));
}

/**
 * Set one attribute of an element.
 * @param {Element} node
 * @param {string} name
 * @param {Attribute} value
 */
function setAttribute(node, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (typeof value === "function") node.addEventListener(name.slice(2), value);
  else if (name === "text") node.textContent = String(value);
  else node.setAttribute(name, value === true ? "" : String(value));
}

/**
 * Set the attributes of an element and append its children.
 * @template {Element} T
 * @param {T} node
 * @param {Attributes | null | undefined} attributes
 * @param {Child[]} children
 * @returns {T}
 */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) setAttribute(node, name, value);
  node.append(...present(children));
  return node;
}

/**
 * Create an HTML element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes | null} [attributes]
 * @param {...Child} children
 */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/**
 * Create an SVG element.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes | null} [attributes]
 * @param {...Child} children
 */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/**
 * Return the element with this id.
 * @template {Element} [T=HTMLElement]
 * @param {string} id
 * @param {new () => T} [kind] - the class of the element, unless any HTML element will do
 * @returns {T}
 */
export function byId(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof (kind ?? HTMLElement))) throw new TypeError(`index.html has no such element: ${id}`);
  return /** @type {T} */ (/** @type {unknown} */ (found));
}

/**
 * Set the text of a node only when it differs, so that screen readers do not repeat unchanged text.
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @type {WeakMap<Element, string>} The key with which a node was last drawn. */
const drawnKeys = new WeakMap();

/**
 * Replace the children of a node, but only when `key` has changed since the last call.
 * @param {Element} node
 * @param {unknown} key
 * @param {() => Child} make
 */
export function redraw(node, key, make) {
  const text = JSON.stringify(key) ?? "";
  if (drawnKeys.get(node) === text) return;
  drawnKeys.set(node, text);
  node.replaceChildren(...present([make()]));
}

/** @type {WeakMap<Element, Map<string | number, Element>>} The children of a node by the keys of their items. */
const keyedChildren = new WeakMap();

/**
 * Keep one child of `parent` for each item, in the order of `items`.
 *
 * Children are updated in place and not created again: a press that has begun, the keyboard focus and the position of a
 * screen reader survive every update. The child that holds the focus is not moved, because a browser takes the focus
 * from a node that is removed and inserted again.
 *
 * @template T
 * @template {Element} N
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string | number} key - the identity of an item
 * @param {(item: T) => N} make - creates the child for an item
 * @param {(node: N, item: T) => void} update - brings a child up to date
 */
export function keyed(parent, items, key, make, update) {
  const old = /** @type {Map<string | number, N>} */ (keyedChildren.get(parent) ?? new Map());
  /** @type {Map<string | number, N>} */
  const current = new Map();
  for (const item of items) {
    const name = key(item);
    const node = old.get(name) ?? make(item);
    old.delete(name);
    current.set(name, node);
    update(node, item);
  }
  keyedChildren.set(parent, current);
  for (const node of old.values()) node.remove();
  arrange(parent, [...current.values()]);
}

/**
 * Bring the children of `parent` into this order without moving the one that holds the keyboard focus.
 * @param {Element} parent
 * @param {Element[]} order
 */
function arrange(parent, order) {
  if (!order.length) return;
  const pivot = Math.max(
    0,
    order.findIndex((node) => node.contains(document.activeElement)),
  );
  if (order[pivot].parentNode !== parent) parent.append(order[pivot]);
  for (let i = pivot - 1; i >= 0; i -= 1) {
    if (order[i].nextSibling !== order[i + 1]) parent.insertBefore(order[i], order[i + 1]);
  }
  for (let i = pivot + 1; i < order.length; i += 1) {
    if (order[i].previousSibling !== order[i - 1]) order[i - 1].after(order[i]);
  }
}

/** Time between two frames of what moves (ms): without a graphics card, 60 frames a second keep a whole core busy. */
const FRAME_MS = 100;
/** The same with reduced motion (ms). */
const CALM_FRAME_MS = 1000;

/**
 * Draw what moves, again and again while the page is visible: ten times a second, or once a second with reduced motion.
 * @param {(now: number) => void} draw - takes the page's clock (ms)
 */
export function animate(draw) {
  /** @param {number} now */
  const frame = (now) => {
    if (!document.hidden) draw(now);
    setTimeout(() => requestAnimationFrame(frame), reducedMotion() ? CALM_FRAME_MS : FRAME_MS);
  };
  requestAnimationFrame(frame);
}

/** Return whether the user asked for reduced motion. */
export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
