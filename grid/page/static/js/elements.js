// Elements of the page. Text is always set as text and never parsed as markup.

/** @import { Attributes, Child } from "../../types/elements.d.ts" */

/**
 * Create an element.
 * @param {string} tag
 * @param {Attributes} attributes - `true` sets an attribute without a value, `false` sets none
 * @param {...Child} children - `null` and `false` stand for no child
 */
export function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(.../** @type {any[]} */ (children).flat(Infinity).filter((child) => child !== null && child !== false));
  return node;
}

/**
 * Return the element with this id.
 * @param {string} id
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new TypeError(`index.html has no such element: ${id}`);
  return found;
}

/** @type {WeakMap<Element, string>} The data with which a node was last drawn. */
const drawn = new WeakMap();

/**
 * Replace the children of a node when its data have changed. What the reader has opened stays open.
 * @template T
 * @param {string} id
 * @param {T} data
 * @param {(data: T) => Child} make
 */
export function show(id, data, make) {
  const node = byId(id);
  const text = JSON.stringify(data);
  if (drawn.get(node) === text) return;
  drawn.set(node, text);
  const open = new Set([...node.querySelectorAll("details[open]")].map((each) => each.id));
  node.replaceChildren(h("div", { class: "list" }, make(data)));
  for (const each of node.querySelectorAll("details")) each.open = open.has(each.id);
}

/**
 * Return a table that can be scrolled sideways; on a telephone each row is a block of lines with their heads.
 * @param {string[]} head
 * @param {Child[][]} rows
 */
export function table(head, rows) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": head.join(", ") },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))),
      h(
        "tbody",
        {},
        ...rows.map((cells) => h("tr", {}, ...cells.map((cell, at) => h("td", { "data-head": head[at] ?? "" }, cell)))),
      ),
    ),
  );
}
