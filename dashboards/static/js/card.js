// The frame of the cards in the folder cards.

import { byId, h } from "./dom.js";

/**
 * Put a card with a list above the protocol library; it is hidden until it has content.
 * @param {string} id
 * @param {string} title
 * @param {string} note - what the list shows
 */
export function addCard(id, title, note) {
  const list = h("ul", { class: "function-list" });
  const heading = h("summary", null, h("h2", { id: `${id}-title`, text: title }));
  const card = h(
    "section",
    { id, class: "card disclosure", "data-testid": id, "aria-labelledby": `${id}-title`, hidden: true },
    h("details", null, heading, h("p", { class: "note", text: note }), list),
  );
  byId("library").before(card);
  return { card, list };
}

/**
 * Read an answer of the API now and then while the page is visible, and show it. A failure is tried again.
 * @param {() => Promise<void>} show
 * @param {number} periodMs
 * @param {number} [firstMs] - one more time so soon after the start
 */
export function follow(show, periodMs, firstMs) {
  const refresh = () => (document.hidden ? null : show().catch(() => null));
  refresh();
  if (firstMs) setTimeout(refresh, firstMs);
  setInterval(refresh, periodMs);
}
