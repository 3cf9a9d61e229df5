// Small things that every part of the page shows.
import { h } from "./vendor/preact.mjs";
import { useEffect, useRef, useState } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";

export const html = htm.bind(h);

const GOOD = { RUNNING: "good", FINISHED: "calm", RESTING: "calm", FAILED: "bad", RESTARTING: "warn" };

export const Status = ({ of }) => html`<span class="status ${GOOD[of] || "quiet"}"><i></i>${of.toLowerCase()}</span>`;

export const Tile = ({ label, value, note, tone }) => html`
  <div class="tile ${tone || ""}"><div class="label">${label}</div><div class="value">${value}</div>
  ${note ? html`<div class="note">${note}</div>` : null}</div>`;

export const Card = ({ title, actions, children, flush }) => html`
  <section class="card ${flush ? "flush" : ""}">
    ${title ? html`<header><h2>${title}</h2><div class="actions">${actions}</div></header>` : null}
    ${children}
  </section>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

export function Trouble({ problem, text }) {
  if (!problem) return null;
  const place = problem.position;
  return html`<div class="trouble" role="alert">
    <strong>${problem.code ? `${problem.code} ` : ""}</strong>${problem.detail || problem.message}
    ${place && text ? html`<pre>${pointed(text, place)}</pre>` : null}
    ${problem.hint ? html`<div class="hint">${problem.hint}</div>` : null}
  </div>`;
}

function pointed(text, place) {
  const line = text.split("\n")[place.line - 1] || "";
  const width = Math.max(1, Math.min(place.end - place.start, line.length - place.column + 1));
  return `${line}\n${" ".repeat(place.column - 1)}${"^".repeat(width)}`;
}

export const Bar = ({ share, tone }) => html`
  <span class="bar ${tone || ""}"><b style=${{ width: `${Math.min(100, Math.round((share || 0) * 100))}%` }}></b></span>`;

// A line without axes.
export function Spark({ values, width = 96, height = 24 }) {
  const known = values.filter((v) => v !== null);
  if (known.length < 2) return html`<svg class="spark" width=${width} height=${height}></svg>`;
  const top = Math.max(...known, 1e-9);
  const step = width / (values.length - 1);
  const line = values.map((v, i) => `${i ? "L" : "M"}${(i * step).toFixed(1)} ${(height - 2 - ((v || 0) / top) * (height - 4)).toFixed(1)}`).join("");
  return html`<svg class="spark" width=${width} height=${height} viewBox="0 0 ${width} ${height}" aria-hidden="true">
    <path class="area" d="${line}L${width} ${height}L0 ${height}Z" /><path class="line" d=${line} /></svg>`;
}

export function Tabs({ names, chosen, choose }) {
  return html`<div class="tabs" role="tablist">${names.map((name) => html`
    <button role="tab" aria-selected=${name === chosen} class=${name === chosen ? "on" : ""} onClick=${() => choose(name)}>${name}</button>`)}</div>`;
}

// A question before something that cannot be taken back.
export function Confirm({ label, question, action, tone }) {
  const [asks, setAsks] = useState(false);
  const [busy, setBusy] = useState(false);
  const go = async () => { setBusy(true); try { await action(); } finally { setBusy(false); setAsks(false); } };
  if (!asks) return html`<button class="button ${tone || ""}" onClick=${() => setAsks(true)}>${label}</button>`;
  return html`<span class="confirm">${question}
    <button class="button primary" disabled=${busy} onClick=${go}>${busy ? "…" : "yes"}</button>
    <button class="button" disabled=${busy} onClick=${() => setAsks(false)}>no</button></span>`;
}

// The same, where something has to be said: `field` is the attributes of an input, `action` gets its value.
export function Ask({ label, question, field, action, tone }) {
  const [value, setValue] = useState(null);
  const [busy, setBusy] = useState(false);
  const go = async (event) => { event.preventDefault(); setBusy(true); try { await action(value); } finally { setBusy(false); setValue(null); } };
  if (value === null) return html`<button class="button ${tone || ""}" onClick=${() => setValue(field.value || "")}>${label}</button>`;
  return html`<form class="confirm" onSubmit=${go}><label>${question}
    <input required type="text" ...${field} value=${value} onInput=${(e) => setValue(e.target.value)} /></label>
    <button class="button primary" disabled=${busy || !value}>${busy ? "…" : "yes"}</button>
    <button class="button" type="button" disabled=${busy} onClick=${() => setValue(null)}>no</button></form>`;
}

// A chart with axes, drawn by uPlot. `data`: [times in seconds, values, ...]; `names`: of the values.
export function Chart({ data, names, height = 180, time = true, unit = "" }) {
  const place = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const ink = colour("--faint"), grid = { stroke: colour("--line"), width: 1 };
    const colours = [colour("--accent"), colour("--second"), colour("--third"), colour("--fourth")];
    const options = {
      width: place.current.clientWidth || 300, height, padding: [8, 8, 0, 0], legend: { show: names.length > 1 },
      scales: { x: { time }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 1e-9) * 1.15] } }, cursor: { drag: { x: false, y: false } },
      axes: [
        { stroke: ink, grid: { show: false }, ticks: { show: false }, font: "11px system-ui", space: 90, size: 30,
          values: time ? (_, values) => values.map((v) => new Date(v * 1000).toISOString().slice(11, 19)) : undefined },
        { stroke: ink, grid, ticks: { show: false }, size: 52, font: "11px system-ui",
          values: (_, values) => values.map((v) => (Math.abs(v) >= 10000 ? `${v / 1000}k` : `${v}`) + unit) },
      ],
      series: [{}, ...names.map((label, i) => ({
        label, stroke: colours[i % 4], width: 2, points: { show: false },
        fill: names.length === 1 ? colour("--wash") : undefined,
      }))],
    };
    plot.current = new window.uPlot(options, data, place.current);
    const drawn = place.current;
    const watch = new ResizeObserver(() => plot.current && plot.current.setSize({ width: drawn.clientWidth || 300, height }));
    watch.observe(drawn);
    return () => { watch.disconnect(); plot.current.destroy(); plot.current = null; };
  }, [names.join("\n"), height, time, document.documentElement.dataset.theme]);
  useEffect(() => { if (plot.current) plot.current.setData(data); }, [data]);
  return html`<div class="chart" ref=${place}></div>`;
}
