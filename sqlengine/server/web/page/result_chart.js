// Rows as charts: bars for names with a number, a line for numbers over time or over numbers.
import { useMemo, useState } from "./vendor/hooks.mjs";
import { count } from "./format.js";
import { Chart, html } from "./parts.js";

const NUMBER = /^(TINYINT|SMALLINT|INT|BIGINT|DECIMAL|FLOAT|DOUBLE)/;
const TIME = /^(TIMESTAMP|DATE)/;
const MOST_BARS = 30;

const numbersOf = (columns) => columns.map((c, i) => i).filter((i) => NUMBER.test(columns[i].type));

// Which charts mean something for these columns.
export function chartsOf(columns) {
  const numbers = numbersOf(columns);
  const found = [];
  if (numbers.length && columns.some((c) => !NUMBER.test(c.type))) found.push("Bars");
  if (numbers.length && (columns.some((c) => TIME.test(c.type)) || numbers.length > 1)) found.push("Line");
  return found;
}

function Choice({ columns, of, chosen, choose }) {
  if (of.length < 2) return null;
  return html`<label class="choice">value <select value=${chosen} onChange=${(e) => choose(Number(e.target.value))}>
    ${of.map((i) => html`<option value=${i}>${columns[i].name}</option>`)}</select></label>`;
}

export function Bars({ columns, folded, version }) {
  const numbers = numbersOf(columns);
  const [at, setAt] = useState(numbers[0]);
  const value = numbers.includes(at) ? at : numbers[0];
  const names = columns.map((c, i) => i).filter((i) => !NUMBER.test(columns[i].type));
  const bars = useMemo(() => [...folded.rows.values()]
    .map(({ row }) => ({ name: names.map((i) => row[i] ?? "NULL").join(" · "), value: row[value] === null ? null : Number(row[value]) }))
    .filter((bar) => Number.isFinite(bar.value))
    .sort((a, b) => b.value - a.value), [version, value]);
  const shown = bars.slice(0, MOST_BARS);
  const top = Math.max(...shown.map((bar) => Math.abs(bar.value)), 1e-9);
  return html`<div class="bars"><${Choice} columns=${columns} of=${numbers} chosen=${value} choose=${setAt} />
    ${shown.map((bar) => html`<div class="barline" key=${bar.name}><span class="name" title=${bar.name}>${bar.name}</span>
      <span class="track"><b class=${bar.value < 0 ? "less" : ""} style=${{ width: `${(Math.abs(bar.value) / top) * 100}%` }}></b></span>
      <span class="amount">${count(bar.value)}</span></div>`)}
    ${bars.length > MOST_BARS ? html`<p class="quiet small">the ${MOST_BARS} greatest of ${count(bars.length)}</p>` : null}</div>`;
}

export function LineOf({ columns, folded, version }) {
  const numbers = numbersOf(columns);
  const time = columns.findIndex((c) => TIME.test(c.type));
  const x = time >= 0 ? time : numbers[0];
  const values = numbers.filter((i) => i !== x);
  const [at, setAt] = useState(values[0]);
  const y = values.includes(at) ? at : values[0];
  const data = useMemo(() => {
    const points = [...folded.rows.values()].map(({ row }) => [
      time >= 0 ? Date.parse(`${(row[x] || "").replace(" ", "T").replace(/Z?$/, "Z")}`) / 1000 : Number(row[x]),
      row[y] === null ? null : Number(row[y]),
    ]).filter((point) => Number.isFinite(point[0])).sort((a, b) => a[0] - b[0]);
    return [points.map((p) => p[0]), points.map((p) => p[1])];
  }, [version, x, y]);
  return html`<div class="bars"><${Choice} columns=${columns} of=${values} chosen=${y} choose=${setAt} />
    <${Chart} data=${data} names=${[columns[y].name]} time=${time >= 0} height=${300} /></div>`;
}
