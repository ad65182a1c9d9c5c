// The colour of medium. Where a pH probe stands it is that of phenol red at the measured pH: yellow when acid, red at 7.4,
// magenta when alkaline. Elsewhere it follows from what the rig file says the vessel contains.

const PHENOL_RED = [[6.4, [246, 205, 92]], [6.9, [244, 160, 84]], [7.2, [235, 110, 92]], [7.4, [228, 92, 116]], [7.7, [214, 80, 146]], [8.2, [190, 70, 168]]];
const OTHERS = ["rgb(236 206 130)", "rgb(126 184 228)", "rgb(160 200 150)", "rgb(190 160 220)"];
const WASTE = "rgb(186 160 112)";

export function phenolRed(ph) {
  const stops = PHENOL_RED;
  if (ph <= stops[0][0]) return css(stops[0][1]);
  for (let i = 1; i < stops.length; i++) {
    if (ph > stops[i][0]) continue;
    const share = (ph - stops[i - 1][0]) / (stops[i][0] - stops[i - 1][0]);
    return css(stops[i][1].map((value, k) => stops[i - 1][1][k] + (value - stops[i - 1][1][k]) * share));
  }
  return css(stops.at(-1)[1]);
}

const css = (rgb) => `rgb(${rgb.map(Math.round).join(" ")})`;

export function mediumColor(box, rig, state) {
  if (box.kind === "waste") return WASTE;
  const probe = rig.schematic.probes.find((each) => each.at === box.name && each.quantity === "pH");
  const reading = probe && state.readings[probe.point];
  if (reading && reading.value !== null && reading.quality === "good") return phenolRed(Math.round(reading.value * 50) / 50);
  const loop = rig.schematic.vessels.find((each) => each.kind === "loop");
  if (box.contains === loop?.contains) {
    return box.kind === "chamber" && loop.name !== box.name ? mediumColor(loop, rig, state) : phenolRed(7.4);
  }
  const kinds = [...new Set(rig.schematic.vessels.map((each) => each.contains).filter((name) => name && name !== loop?.contains))];
  return OTHERS[Math.max(0, kinds.indexOf(box.contains)) % OTHERS.length];
}
