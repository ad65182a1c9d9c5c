// Place the electrodes whose positions standard input holds as JSON, and write rows and columns to standard output.

import { neighbour, placesOf } from "../../dashboards/static/js/array/places.js";

let text = "";
for await (const part of process.stdin) text += part;
const { x, y, from, step } = JSON.parse(text);
const places = placesOf(x.length, x, y);
process.stdout.write(JSON.stringify({ places: places.map(({ row, column }) => [row, column]), to: neighbour(places, from, step) }));
