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

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
