// The address of what is shown, after the #: it can be shared, and Back returns to what was shown before. It only
// chooses what is shown; nothing in it acts.

/** @type {Map<string, (value: string | null) => void>} */
const views = new Map();

const parameters = () => new URLSearchParams(location.hash.slice(1));

/**
 * Let a view follow one parameter of the address: `show` is called with its value, if it has one, and at each change.
 * @param {string} name
 * @param {(value: string | null) => void} show - null: the address does not name it
 */
export function follow(name, show) {
  views.set(name, show);
  const value = parameters().get(name);
  if (value !== null) show(value);
}

/**
 * Write what a view shows now into the address.
 * @param {string} name
 * @param {string | null} value - null: leave it out
 */
export function remember(name, value) {
  const all = parameters();
  const before = all.get(name);
  if (before === value) return;
  if (value === null) all.delete(name);
  else all.set(name, value);
  // One step back leaves the view, however much was looked at in it.
  if (before === null) history.pushState(null, "", address(all));
  else history.replaceState(null, "", address(all));
}

/**
 * Take a parameter out of the address for ever, and return its value.
 * @param {string} name
 */
export function take(name) {
  const all = parameters();
  const value = all.get(name);
  if (value !== null) {
    all.delete(name);
    history.replaceState(null, "", address(all));
  }
  return value;
}

/** @param {URLSearchParams} all */
const address = (all) => location.pathname + (String(all) && `#${all}`);

window.addEventListener("popstate", () => {
  const all = parameters();
  for (const [name, show] of views) show(all.get(name));
});
