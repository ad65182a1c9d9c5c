// Return what lies over something else in the schematic, or outside the drawing. Coordinates are those of the drawing.
() => {
  const svg = document.querySelector("#schematic");
  const view = svg.viewBox.baseVal;
  const toView = svg.getScreenCTM().inverse();
  const found = new Set();
  const rect = (node) => {
    const box = node.getBoundingClientRect();
    const from = new DOMPoint(box.left, box.top).matrixTransform(toView);
    const to = new DOMPoint(box.right, box.bottom).matrixTransform(toView);
    return { left: from.x, top: from.y, right: to.x, bottom: to.y };
  };
  const said = (node) => `${node.getAttribute("class")} “${node.textContent.trim().slice(0, 40)}”`;
  const cross = (a, b, by) =>
    a.left + by < b.right && b.left + by < a.right && a.top + by < b.bottom && b.top + by < a.bottom;
  const inside = (point, box, by) =>
    box.left + by < point.x && point.x < box.right - by && box.top + by < point.y && point.y < box.bottom - by;
  const shown = (node) => node.checkVisibility() && node.getBoundingClientRect().width > 0;
  const boxed = (selector) =>
    [...svg.querySelectorAll(selector)].filter(shown).map((node) => ({ node, box: rect(node), own: node.parentNode }));

  const texts = boxed("text").filter(({ node }) => node.textContent.trim());
  const symbols = boxed(".device .body, .manifold-bar, .chip-box, .gas-box");
  const vessels = boxed(".vessel .glass-edge, .block-box");
  const check = (ones, others, by, may) => {
    for (const a of ones) {
      for (const b of others) {
        if (a !== b && !may(a, b) && cross(a.box, b.box, by)) found.add(`${said(a.node)} lies over ${said(b.node)}`);
      }
    }
  };
  check(texts, texts, 2.5, (a, b) => a.own === b.own);
  check(texts, symbols, 3, (text, symbol) => symbol.own.contains(text.node));
  check(texts, vessels, 4, (text, vessel) => vessel.own.contains(text.node));
  check(vessels, [...vessels, ...symbols], 1, () => false);
  check(symbols, symbols, 1, () => false);
  for (const chip of svg.querySelectorAll(".chip")) {
    const frame = rect(chip.querySelector(".chip-box"));
    const label = chip.querySelectorAll(".chip-label, .chip-text");
    if ([...label].some((text) => rect(text).right > frame.right)) found.add(`${said(chip)} is wider than its frame`);
  }

  for (const path of svg.querySelectorAll(".pipe")) {
    const length = path.getTotalLength();
    const steps = Math.ceil(length / 5);
    const points = Array.from({ length: steps + 1 }, (_, i) => path.getPointAtLength((length * i) / steps));
    const name = path.parentNode.dataset.line;
    const end = points[points.length - 1];
    for (const { box } of vessels) {
      const within = points.filter((point) => inside(point, box, 6));
      // From above, a line may end a little below the upper edge of its vessel.
      const enters = inside(end, box, -1) && within.every((each) => Math.abs(each.x - end.x) < 1 && each.y <= box.top + 30);
      if (within.length && !enters) found.add(`line ${name} runs through a vessel`);
    }
    for (const { node, box } of texts) {
      if (points.some((point) => inside(point, box, 2))) found.add(`line ${name} runs through ${said(node)}`);
    }
  }

  for (const { node, box } of boxed("text, .pipe, .glass-edge, .chip-box, .zone-box, .block-box, .cell-edge")) {
    const outside = box.left < view.x - 1 || box.right > view.x + view.width + 1;
    if (outside || box.top < view.y - 1 || box.bottom > view.y + view.height + 1) {
      found.add(`${said(node)} lies outside the drawing`);
    }
  }
  return [...found];
}
