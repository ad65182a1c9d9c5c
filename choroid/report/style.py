"""Style sheet of a report, for screen and A4. It uses the reader's fonts: nothing is loaded."""

CSS = """
:root { --ink:#1d2733; --faint:#5b6672; --rule:#d9dee5; --good:#2e7d4f; --watch:#a86400; --bad:#b03a2e; }
* { box-sizing: border-box; }
body { font: 14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: var(--ink); margin: 0 auto;
  max-width: 62rem; padding: 1.5rem 2rem 4rem; background: #fff; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; padding-bottom: .2rem; border-bottom: 2px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { margin: .3rem 0 .6rem; }
.faint, .basis { color: var(--faint); }
.basis { font-size: .82rem; }
table { border-collapse: collapse; width: 100%; margin: .4rem 0 .8rem; }
th { text-align: left; font-weight: 600; color: var(--faint); font-size: .82rem; }
th, td { padding: .22rem .6rem .22rem 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } td.n { white-space: nowrap; }
td.w { white-space: nowrap; }
td.t { overflow-wrap: break-word; }
table.figures td:first-child { width: 24%; } table.figures td:last-child { width: 38%; }
.mark { display: inline-block; min-width: 3.4rem; flex: none; text-align: center; border-radius: 3px; padding: 0 .35rem;
  font-size: .78rem; font-weight: 600; color: #fff; }
.mark.good { background: var(--good); } .mark.watch { background: var(--watch); } .mark.bad { background: var(--bad); }
.mark.none { color: var(--faint); background: #eef1f4; font-weight: 400; }
ul.findings { list-style: none; padding: 0; margin: .4rem 0; }
ul.findings li { padding: .25rem 0; border-bottom: 1px solid var(--rule); display: flex; gap: .7rem;
  align-items: flex-start; }
ul.findings a { color: inherit; text-decoration: none; }
td a { color: #1f5f99; text-decoration: none; }
ul.findings a:hover { text-decoration: underline; }
.grid { display: grid; grid-template-columns: repeat(4, 1fr); gap: .6rem; margin: .8rem 0; }
.tile { border: 1px solid var(--rule); border-radius: 4px; padding: .5rem .7rem; }
.tile b { display: block; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--faint); font-size: .82rem; }
nav { display: flex; flex-wrap: wrap; font-size: .88rem; margin: .6rem 0; }
  nav a { margin-right: .9rem; color: #1f5f99; text-decoration: none;
  white-space: nowrap; }
.frames { display: flex; flex-wrap: wrap; gap: 1rem; margin: .4rem 0; }
.frames figure { margin: 0; flex: 1 1 16rem; max-width: 26rem; }
.frames div { position: relative; }
.frames img { width: 100%; height: auto; display: block; border: 1px solid var(--rule); }
.frames svg { position: absolute; inset: 0; width: 100%; height: 100%; }
.frames polygon { fill: none; stroke: #35c6d4; stroke-width: 2; vector-effect: non-scaling-stroke; }
svg.chart { width: 100%; height: auto; display: block; margin: .3rem 0 .7rem; font-family: inherit; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .82rem; overflow-wrap: anywhere; }
@media screen and (max-width: 50rem) { .grid { grid-template-columns: repeat(2, 1fr); } body { padding: 1rem; }
  table { display: block; overflow-x: auto; } }
@page { size: A4; margin: 16mm 14mm 18mm; }
@media print {
  html { font-size: 8.5pt; }
  body { font-size: 9pt; max-width: none; padding: 0; }
  nav { display: none; }
  td.t { overflow-wrap: anywhere; }
  table { table-layout: auto; font-size: 8.5pt; }
  h2, h3 { break-after: avoid; }
  section.organ { break-inside: auto; }
  table, svg.chart, .tile, .frames figure, ul.findings li { break-inside: avoid; }
  table.long, table.figures { break-inside: auto; } tr { break-inside: avoid; } thead { display: table-header-group; }
  section.page { break-before: page; }
  .mark, .tile { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  a { color: inherit; text-decoration: none; }
}
"""
