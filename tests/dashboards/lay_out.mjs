// Lay out the graphs that standard input holds as JSON, and write the plans to standard output: the page's own layout.

import { layOut } from "../../dashboards/static/js/schematic/layout.js";

let text = "";
for await (const part of process.stdin) text += part;
process.stdout.write(JSON.stringify(JSON.parse(text).map((graph) => layOut(graph))));
