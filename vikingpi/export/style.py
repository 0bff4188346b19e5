"""How a page looks: light and dark, narrow and wide, on paper. No address stands in it."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1c2024; --soft: #5c6570; --line: #d8dde3; --panel: #f5f7f9; --accent: #1a5fb4;
  --user: #eaf2fc; --place: #fdf5df; --place-line: #b98900; --added: #dcf3e1; --added-ink: #14532d; --removed: #fbe3e4;
  --removed-ink: #7f1d1d; --failed: #b3261e; --whole: #f0c674; --sent: #3b7dd8; --mark: #8b2fc9;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15181c; --ink: #e3e6ea; --soft: #a0a9b4; --line: #353c45; --panel: #1d2228; --accent: #7fb2f5;
    --user: #1b2a3f; --place: #2e2716; --place-line: #d9a520; --added: #15301d; --added-ink: #a6e3b5;
    --removed: #3a1a1c; --removed-ink: #f5b5b7; --failed: #ff8a80; --whole: #7a5d1c; --sent: #5b9bf0; --mark: #d08cff;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink); overflow-wrap: anywhere;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
body > header, main, body > footer { max-width: 62rem; margin: 0 auto; padding: 1rem clamp(.75rem, 3vw, 2rem); }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
main { padding-top: 0; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
h3 { font-size: .9rem; margin: 0 0 .25rem; color: var(--soft); }
h4, h5, h6 { font-size: 1rem; margin: 1rem 0 .4rem; }
p { margin: .4rem 0; }
a { color: var(--accent); }
a:focus-visible, summary:focus-visible, input:focus-visible, [tabindex]:focus-visible
  { outline: 2px solid var(--accent); outline-offset: 2px; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; margin: .5rem 0; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .75rem 0;
  font-size: .92rem; }
dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; min-width: 0; }
.controls { display: flex; flex-wrap: wrap; gap: .35rem 1.25rem; font-size: .92rem; padding: .5rem 0; }
.controls label { display: inline-flex; align-items: center; gap: .4rem; cursor: pointer; }
.warning { border-left: 4px solid var(--failed); padding: .4rem .75rem; background: var(--panel); }
article { margin: .75rem 0; padding: .1rem 0; content-visibility: auto; contain-intrinsic-size: auto 6rem; }
article:target { outline: 2px solid var(--accent); outline-offset: 4px; border-radius: 4px; }
article.user { background: var(--user); border-radius: 6px; padding: .6rem .9rem; margin-top: 1.75rem; }
article.place { background: var(--place); border-left: 4px solid var(--place-line); border-radius: 4px;
  padding: .4rem .9rem; }
article.quiet { color: var(--soft); font-size: .88rem; margin: .25rem 0; }
.boundary { border-top: 2px dashed var(--place-line); color: var(--soft); font-size: .88rem; margin-top: 2rem;
  padding-top: .35rem; }
.marks { float: right; font-size: .75rem; margin-left: .75rem; display: flex; gap: .5rem; align-items: baseline; }
.foot { display: flex; flex-wrap: wrap; gap: 0 1rem; justify-content: space-between; align-items: baseline; }
.foot .marks { float: none; margin-left: auto; }
.marks a { color: var(--soft); text-decoration: none; } .marks a:hover { text-decoration: underline; }
.label { background: var(--place); border: 1px solid var(--place-line); border-radius: 999px; padding: 0 .5rem;
  font-size: .78rem; }
.quiet, .note { color: var(--soft); font-size: .82rem; }
.failed { color: var(--failed); }
.text { white-space: pre-wrap; }
.markdown > :first-child { margin-top: 0; }
.markdown ul, .markdown ol { padding-left: 1.5rem; }
blockquote { margin: .5rem 0; padding-left: .9rem; border-left: 3px solid var(--line); color: var(--soft); }
code, pre { font-family: var(--mono); font-size: .86rem; tab-size: 4; }
code { background: var(--panel); border-radius: 3px; padding: .08em .3em; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 5px; padding: .6rem .75rem;
  margin: .5rem 0; overflow: auto; max-height: 36rem; white-space: pre-wrap; line-height: 1.45; }
pre code { background: none; padding: 0; }
summary code { background: none; padding: 0; }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 4px; }
details { margin: .4rem 0; }
details > summary { cursor: pointer; border-radius: 4px; padding: .15rem .3rem; }
details.call > summary { background: var(--panel); border: 1px solid var(--line); }
details.call.failing > summary { border-color: var(--failed); }
details.thought { color: var(--soft); font-size: .92rem; }
details.branch { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .9rem; margin: .75rem 0; }
.diff span { display: block; } .diff .added { background: var(--added); color: var(--added-ink); }
.diff .removed { background: var(--removed); color: var(--removed-ink); }
.wide { overflow-x: auto; overflow-wrap: normal; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; vertical-align: top; }
thead th { background: var(--panel); } tfoot td, tfoot th { font-weight: 600; }
td.right, th.right { text-align: right; font-variant-numeric: tabular-nums; }
td.center, th.center { text-align: center; }
.tree { list-style: none; padding: 0; font-size: .92rem; } .tree li { padding: .08rem 0 .08rem .75rem;
  border-left: 3px solid transparent; display: flex; flex-wrap: wrap; gap: 0 .6rem; align-items: baseline; }
.tree li.here { border-left-color: var(--sent); }
.d1 { margin-left: .9rem; } .d2 { margin-left: 1.8rem; } .d3 { margin-left: 2.7rem; } .d4 { margin-left: 3.6rem; }
.d5, .d6, .d7, .d8, .d9, .d10, .d11, .d12 { margin-left: 4.5rem; }
.chart { width: 100%; height: auto; display: block; } .chart.slim { display: none; }
.chart text { font: 12px system-ui, sans-serif; fill: var(--soft); }
.chart .number { fill: var(--mark); font-weight: 600; }
.chart .grid { stroke: var(--line); stroke-width: 1; }
.chart .whole { fill: var(--whole); } .chart .sent { fill: var(--sent); }
.chart .advance { stroke: var(--mark); stroke-width: 1.5; }
.chart .compaction { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 2 3; }
.chart .archive { fill: var(--mark); opacity: .75; } .chart .archive.even { opacity: .45; }
.chart .archive.open { fill: none; stroke: var(--mark); }
.chart .thread { fill: none; stroke: var(--mark); stroke-width: 1; stroke-dasharray: 3 2; }
.chart .hover { fill: transparent; } .chart .hover:hover { fill: var(--ink); opacity: .12; }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.25rem; font-size: .85rem;
  color: var(--soft); }
.legend li::before { content: ""; display: inline-block; width: .9em; height: .7em; margin-right: .4em;
  background: var(--swatch); border-radius: 2px; }
.legend .l-sent { --swatch: var(--sent); } .legend .l-whole { --swatch: var(--whole); }
.legend .l-mark { --swatch: var(--mark); } .legend .l-compaction { --swatch: var(--soft); }
:root:has(#unfold:checked) details::details-content { content-visibility: visible; block-size: auto; height: auto; }
:root:has(#unfold:checked) pre { max-height: none; }
:root:has(#no-tools:checked) :is(.call, article.tool) { display: none; }
:root:has(#no-thoughts:checked) .thought { display: none; }
@media (max-width: 40rem) {
  .chart.broad { display: none; } .chart.slim { display: block; }
  dl.facts { grid-template-columns: 1fr; } dl.facts dd { margin-bottom: .35rem; }
  .marks { float: none; margin: 0 0 .2rem; justify-content: flex-end; }
  .foot .marks { margin-bottom: 0; } article.quiet .marks { float: right; }
}
@media print {
  :root { color-scheme: light; --page: #fff; --ink: #000; --soft: #444; --line: #bbb; --panel: #f4f4f4; --accent: #000;
    --user: #f0f0f0; --place: #fbf6e8; --place-line: #8a6a00; --added: #e3f4e6; --added-ink: #063; --removed: #fbe6e6;
    --removed-ink: #600; --failed: #900; --whole: #f0c674; --sent: #3b7dd8; --mark: #8b2fc9; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { font-size: 10pt; } body > header, main, body > footer { max-width: none; padding: 0; }
  .controls, body > header nav { display: none; }
  article { content-visibility: visible; } article.user { break-inside: avoid-page; }
  h2, h3, summary { break-after: avoid; }
  pre { max-height: none; overflow: visible; } .chart { break-inside: avoid; }
}
"""
