// The plan of a job: its operators as a graph, with rows, state and time on each.
import { useState } from "./vendor/hooks.mjs";
import { bytes, count, moment, rate, seconds, share, short } from "./format.js";
import { curve, layout } from "./layout.js";
import { Bar, html } from "./parts.js";

const WIDTH = 208, HEIGHT = 112;

export function Plan({ operators }) {
  const [chosen, choose] = useState(null);
  const nodes = operators.map((o) => ({ id: o.number, operator: o }));
  const edges = operators.flatMap((o) => o.inputs.map((from) => ({ from, to: o.number })));
  const { places, width, height } = layout(nodes, edges, () => ({ width: WIDTH, height: HEIGHT }));
  const found = operators.find((o) => o.number === chosen);
  const hottest = Math.max(...operators.map((o) => o.busy_share || 0), 0);
  return html`<div class="graph" tabindex="0" aria-label="plan">
    <div class="canvas" style=${{ width: `${width + 8}px`, height: `${height + 8}px` }}>
      <svg width=${width + 8} height=${height + 8} aria-hidden="true">${edges.map((edge) => {
        const from = places.get(edge.from), to = places.get(edge.to);
        if (!from || !to) return null;
        const speed = from.node.operator.rows_out_per_second || 0;
        return html`<path class="edge ${speed > 0 ? "moves" : ""}" style=${{ strokeWidth: `${1.5 + Math.log10(1 + speed)}px` }}
          d=${curve(from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2)} />`;
      })}</svg>
      ${[...places.values()].map(({ node: { operator: o }, x, y }) => html`
        <button class="node ${o.number === chosen ? "on" : ""} ${o.busy_share !== null && o.busy_share === hottest && hottest > 0.3 ? "hot" : ""}"
          style=${{ left: `${x}px`, top: `${y}px`, width: `${WIDTH}px`, height: `${HEIGHT}px` }}
          onClick=${() => choose(o.number === chosen ? null : o.number)} data-kind=${o.kind}>
          <span class="kind">${o.kind}${o.tasks > 1 ? html`<em>×${o.tasks}</em>` : null}</span>
          <span class="about">${o.table ? short(o.table) : o.about}</span>
          <span class="figures"><span>${rate(o.rows_in_per_second)}/s in</span>${o.kind === "Sink" ? null : html`<span>${rate(o.rows_out_per_second)}/s out</span>`}</span>
          <span class="figures quiet"><span>${o.state_rows ? `${count(o.state_rows)} rows of state` : o.rows_rejected ? `${count(o.rows_rejected)} rejected` : " "}</span><span>${share(o.busy_share)}</span></span>
          <${Bar} share=${o.busy_share} tone=${o.busy_share > 0.8 ? "warn" : ""} />
        </button>`)}
    </div>
  </div>
  ${found ? html`<${Details} o=${found} />` : html`<p class="quiet small">Choose an operator for its details. The bar is the share of the time in which it is busy; the rest it waits.</p>`}`;
}

const Details = ({ o }) => html`<div class="details">
  <h3>${o.operator}</h3>
  ${o.about ? html`<pre>${o.about}</pre>` : null}
  <dl>
    <div><dt>rows in</dt><dd>${count(o.rows_in)}</dd></div>
    <div><dt>rows out</dt><dd>${count(o.rows_out)}</dd></div>
    <div><dt>rejected</dt><dd>${count(o.rows_rejected)}</dd></div>
    <div><dt>state</dt><dd>${count(o.state_rows)} rows, ${bytes(o.state_bytes)}</dd></div>
    <div><dt>time</dt><dd>${seconds(o.busy_seconds)}</dd></div>
    <div><dt>busy, waiting</dt><dd>${share(o.busy_share)}, ${share(o.waiting_share)}</dd></div>
    <div><dt>watermark</dt><dd>${moment(o.watermark)}${o.idle ? " (idle)" : ""}</dd></div>
    <div><dt>tasks</dt><dd>${o.tasks}</dd></div>
  </dl></div>`;
