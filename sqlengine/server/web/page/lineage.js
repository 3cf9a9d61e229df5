// Which tables feed which: a graph whose columns can be followed.
import { useMemo, useState } from "./vendor/hooks.mjs";
import { pathOf, usePoll } from "./api.js";
import { short } from "./format.js";
import { curve, layout } from "./layout.js";
import { Card, Empty, html, Trouble } from "./parts.js";

const WIDTH = 200, HEAD = 50, LINE = 20, MOST = 14;
const shownOf = (node) => node.columns.slice(0, MOST);
const sizeOf = (node) => ({ width: WIDTH, height: HEAD + shownOf(node).length * LINE + (node.columns.length > MOST ? LINE : 0) + 8 });
const key = (id, column) => JSON.stringify([id, column]);

// All columns and edges that a column comes from, or goes to.
function traced(edges, start) {
  const found = new Set([start]), lines = [];
  for (const back of [true, false]) {
    const waiting = [start], seen = new Set();
    while (waiting.length) {
      const at = waiting.pop();
      if (seen.has(at)) continue;
      seen.add(at);
      for (const edge of edges) {
        for (const c of edge.columns) {
          const from = key(edge.from, c.from), to = key(edge.to, c.to);
          const [near, far] = back ? [to, from] : [from, to];
          if (near === at) { found.add(far); lines.push({ from: edge.from, to: edge.to, columns: c }); waiting.push(far); }
        }
      }
    }
  }
  return { found, lines };
}

export function Lineage() {
  const [data, problem] = usePoll("/lineage", 5);
  const [chosen, choose] = useState(null);
  const drawn = useMemo(() => (data ? layout(data.nodes, data.edges, sizeOf, { x: 84, y: 22 }) : null), [data && JSON.stringify(data)]);
  if (!data) return html`<h1>Lineage</h1><${Trouble} problem=${problem} />`;
  const trace = chosen ? traced(data.edges, chosen) : null;
  const { places, width, height } = drawn;
  const yOf = (place, column) => {
    const at = place.node.columns.indexOf(column);
    return place.y + (at < 0 || at >= MOST ? HEAD / 2 : HEAD + at * LINE + LINE / 2);
  };
  return html`<h1>Lineage</h1><p class="quiet">Choose a column to see where it comes from and where it goes.</p>
    <${Trouble} problem=${problem} />
    <${Card}>${data.nodes.length ? html`<div class="graph" tabindex="0" aria-label="lineage">
      <div class="canvas" style=${{ width: `${width + 8}px`, height: `${height + 8}px` }}>
        <svg width=${width + 8} height=${height + 8} aria-hidden="true">
          ${data.edges.map((edge) => {
            const from = places.get(edge.from), to = places.get(edge.to);
            return html`<path class="edge ${trace ? "dim" : ""} ${edge.job ? "job" : ""}" d=${curve(from.x + WIDTH, from.y + HEAD / 2, to.x, to.y + HEAD / 2)}>
              <title>${edge.job ? `by ${edge.job}` : ""}</title></path>`;
          })}
          ${trace ? trace.lines.map(({ from, to, columns }) => {
            const a = places.get(from), b = places.get(to);
            return html`<path class="edge column" d=${curve(a.x + WIDTH, yOf(a, columns.from), b.x, yOf(b, columns.to))} />`;
          }) : null}
        </svg>
        ${[...places.values()].map(({ node, x, y, height: tall }) => html`
          <div class="table ${node.kind.replace(" ", "-")}" style=${{ left: `${x}px`, top: `${y}px`, width: `${WIDTH}px`, height: `${tall}px` }}>
            <a class="name" href=${node.path.length ? `#/tables/${pathOf(node.path)}` : null}><b>${short(node.id)}</b><i>${node.connector || node.kind}</i></a>
            ${shownOf(node).map((column) => html`<button class="column ${trace && trace.found.has(key(node.id, column)) ? "on" : trace ? "dim" : ""}"
              onClick=${() => choose(chosen === key(node.id, column) ? null : key(node.id, column))}>${column}</button>`)}
            ${node.columns.length > MOST ? html`<span class="more">and ${node.columns.length - MOST} more</span>` : null}
          </div>`)}
      </div></div>` : html`<${Empty}>There is no table yet.<//>`}<//>`;
}
