// Making elements: h() for HTML, s() for SVG. Text is always set as text, never parsed.

const SVG = "http://www.w3.org/2000/svg";

/** What is there, out of lists of lists in which a condition may have left null or false. */
const shown = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...shown(children));
  return node;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

/** Set a node's text only when it changes: the page is quiet, and so is a screen reader. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replace a node's children only when `key` has changed since the last time. */
export function redraw(node, key, make) {
  const text = JSON.stringify(key);
  if (node.drawnKey === text) return;
  node.drawnKey = text;
  node.replaceChildren(...shown([make()]));
}

/**
 * Keep one child of `parent` for each item, in the order of `items`: children are updated in place and never made anew, so
 * that a press that has begun, keyboard focus and a screen reader's place survive every message.
 *
 * `key(item)` names an item, `make(item)` returns its node, `update(node, item)` brings the node up to date. The child that
 * holds keyboard focus is not moved: a browser takes the focus from a node that is taken out and put in again.
 */
export function keyed(parent, items, key, make, update) {
  const rows = parent.keyedRows ?? new Map();
  const order = [];
  parent.keyedRows = new Map();
  for (const item of items) {
    const name = key(item);
    const node = rows.get(name) ?? make(item);
    rows.delete(name);
    parent.keyedRows.set(name, node);
    update(node, item);
    order.push(node);
  }
  for (const node of rows.values()) node.remove();
  if (!order.length) return;
  const pivot = Math.max(0, order.findIndex((node) => node.contains(document.activeElement)));
  if (order[pivot].parentNode !== parent) parent.append(order[pivot]);
  for (let i = pivot - 1; i >= 0; i -= 1) if (order[i].nextSibling !== order[i + 1]) parent.insertBefore(order[i], order[i + 1]);
  for (let i = pivot + 1; i < order.length; i += 1) if (order[i].previousSibling !== order[i - 1]) order[i - 1].after(order[i]);
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
