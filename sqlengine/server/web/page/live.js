// Rows that change: folded from changes, shown as a table or as a chart.
import { useEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
import { follow, pathOf } from "./api.js";
import { count } from "./format.js";
import { Bars, chartsOf, LineOf } from "./result_chart.js";
import { Card, Empty, html, Tabs, Trouble } from "./parts.js";

const SHOWN = 500;
const NUMBER = /^(TINYINT|SMALLINT|INT|BIGINT|DECIMAL|FLOAT|DOUBLE)/;
export const isNumber = (type) => NUMBER.test(type);

// The contents that changes add up to: each row as often as it is there. An update stays in the place of what it replaces.
export class Folded {
  constructor() { this.rows = new Map(); this.size = 0; this.changes = 0; this.places = 0; this.left = []; }

  take(rows, kinds, fresh) {
    const now = performance.now();
    rows.forEach((row, i) => {
      const kind = kinds ? kinds[i] : "+I";
      const key = JSON.stringify(row);
      const known = this.rows.get(key);
      if (kind === "+I" || kind === "+U") {
        const before = kind === "+U" ? this.left.shift() : undefined;
        if (known) known.times += 1;
        else this.rows.set(key, { row, times: 1, at: fresh ? now : 0, key, place: before ? before.place : this.places++, was: before && before.row });
        this.size += 1;
      } else if (known) {
        known.times -= 1;
        if (!known.times) this.rows.delete(key);
        if (kind === "-U") this.left.push(known);
        this.size -= 1;
      }
    });
    this.left = [];
    if (fresh) this.changes += rows.length;
  }
}

function compare(type, position, down) {
  const numeric = isNumber(type);
  return (a, b) => {
    const x = a.row[position], y = b.row[position];
    if (x === y) return 0;
    if (x === null) return 1;
    if (y === null) return -1;
    const order = numeric ? Number(x) - Number(y) : x < y ? -1 : 1;
    return down ? -order : order;
  };
}

export function Rows({ columns, folded, version }) {
  const [sort, setSort] = useState(null);
  const shown = useMemo(() => {
    const all = [...folded.rows.values()];
    all.sort(sort && columns[sort.at] ? compare(columns[sort.at].type, sort.at, sort.down) : (a, b) => a.place - b.place);
    return all.slice(0, SHOWN);
  }, [version, sort, columns]);
  const now = performance.now();
  const turn = (at) => setSort(sort && sort.at === at ? (sort.down ? null : { at, down: true }) : { at, down: false });
  return html`<div class="scroll tall"><table class="result">
    <thead><tr>${columns.map((c, i) => html`<th class=${isNumber(c.type) ? "n" : ""} aria-sort=${sort && sort.at === i ? (sort.down ? "descending" : "ascending") : "none"}>
      <button onClick=${() => turn(i)} title=${c.type}>${c.name}<i>${sort && sort.at === i ? (sort.down ? "↓" : "↑") : ""}</i></button></th>`)}</tr></thead>
    <tbody>${shown.flatMap((entry) => Array.from({ length: Math.min(entry.times, 20) }, (_, copy) => html`
      <tr key=${`${entry.place} ${copy}`}>${entry.row.map((cell, i) => html`
        <td key=${`${i} ${entry.key}`} class="${isNumber(columns[i].type) ? "n" : ""} ${entry.at && now - entry.at < 1500 && !(entry.was && entry.was[i] === cell) ? "new" : ""}">${cell === null ? html`<span class="null">NULL</span>` : cell}</td>`)}</tr>`))}</tbody>
  </table></div>
  ${folded.rows.size > SHOWN ? html`<p class="quiet small pad">${count(SHOWN)} of ${count(folded.size)} rows are shown.</p>` : null}`;
}

export function Result({ columns, folded, version, title, actions }) {
  const charts = chartsOf(columns);
  const [as, setAs] = useState("Table");
  const names = ["Table", ...charts];
  const chosen = names.includes(as) ? as : "Table";
  return html`<${Card} flush title=${title} actions=${html`${actions}${charts.length ? html`<${Tabs} names=${names} chosen=${chosen} choose=${setAs} />` : null}`}>
    ${chosen === "Table" ? html`<${Rows} columns=${columns} folded=${folded} version=${version} />` : null}
    ${chosen === "Bars" ? html`<${Bars} columns=${columns} folded=${folded} version=${version} />` : null}
    ${chosen === "Line" ? html`<${LineOf} columns=${columns} folded=${folded} version=${version} />` : null}
  <//>`;
}

// Draw at most some times a second, however much comes.
export function useFolded() {
  const folded = useRef(new Folded());
  const [version, setVersion] = useState(0);
  const waits = useRef(0);
  const draw = () => {
    if (!waits.current) waits.current = setTimeout(() => { waits.current = 0; setVersion((v) => v + 1); }, 120);
  };
  useEffect(() => () => clearTimeout(waits.current), []);
  const clear = () => { folded.current = new Folded(); draw(); };
  return { folded: folded.current, version, draw, clear, hold: folded };
}

export function LiveRows({ path }) {
  const { hold, folded, version, draw, clear } = useFolded();
  const [columns, setColumns] = useState(null);
  const [problem, setProblem] = useState(null);
  const [round, setRound] = useState(0);
  useEffect(() => {
    let complete = false;
    setProblem(null);
    return follow(`/changes/${pathOf(path)}?most=20000`, {
      columns: (v) => { if (!complete) { clear(); setColumns(v.columns); } },
      rows: (v) => { hold.current.take(v.rows, v.kinds, false); draw(); },
      complete: () => { complete = true; draw(); },
      changes: (v) => { hold.current.take(v.rows, v.kinds, true); draw(); },
      problem: (v) => setProblem(v),
      error: () => setProblem({ detail: "The rows cannot be followed: there may be more than 20,000. Query them instead." }),
    });
  }, [path.join("/"), round]);
  return html`<${Trouble} problem=${problem} />
    ${problem ? html`<button class="button" onClick=${() => setRound(round + 1)}>Try again</button>` : null}
    ${columns ? html`<${Result} columns=${columns} folded=${folded} version=${version}
      title=${html`${count(folded.size)} rows <span class="quiet">${count(folded.changes)} changes since you look</span>`} />`
      : problem ? null : html`<${Empty}>…<//>`}`;
}
