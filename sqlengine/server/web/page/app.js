// The frame of the page: where one is, and what is there.
import { h, render } from "./vendor/preact.mjs";
import { useEffect, useState } from "./vendor/hooks.mjs";
import { Job, Jobs } from "./jobs.js";
import { Lineage } from "./lineage.js";
import { Log } from "./log.js";
import { Overview } from "./overview.js";
import { html } from "./parts.js";
import { AllRejected } from "./rejected.js";
import { Sql } from "./sql.js";
import { Table, Tables } from "./tables.js";
import { View, Views } from "./views.js";

const PLACES = [
  ["", "Overview", "M3 12l9-8 9 8M5 10v10h5v-6h4v6h5V10"],
  ["sql", "SQL", "M4 6l6 6-6 6M12 18h8"],
  ["jobs", "Jobs", "M4 7h16v13H4zM9 7V4h6v3"],
  ["views", "Views", "M2 12s4-7 10-7 10 7 10 7-4 7-10 7S2 12 2 12zM12 9a3 3 0 100 6 3 3 0 000-6"],
  ["lineage", "Lineage", "M5 6h4v4H5zM15 4h4v4h-4zM15 16h4v4h-4zM9 8h6M9 8c4 0 2 10 6 10"],
  ["tables", "Tables", "M4 5h16v14H4zM4 10h16M10 10v9"],
  ["log", "Log", "M5 5h14M5 10h14M5 15h9M5 20h6"],
];

const here = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);

function Place({ path }) {
  const [first, ...rest] = path;
  if (first === "sql") return html`<${Sql} />`;
  if (first === "jobs") return rest.length ? html`<${Job} name=${rest[0]} key=${rest[0]} />` : html`<${Jobs} />`;
  if (first === "views") return rest.length === 3 ? html`<${View} path=${rest} key=${rest.join("/")} />` : html`<${Views} />`;
  if (first === "tables") return rest.length === 3 ? html`<${Table} path=${rest} key=${rest.join("/")} />` : html`<${Tables} />`;
  if (first === "lineage") return html`<${Lineage} />`;
  if (first === "rejected") return html`<${AllRejected} />`;
  if (first === "log") return html`<${Log} />`;
  return html`<${Overview} />`;
}

function Theme() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const [now, setNow] = useState(dark());
  const turn = () => {
    root.dataset.theme = now ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* kept for this page alone */ }
    setNow(!now);
  };
  return html`<button class="theme" onClick=${turn} aria-label=${now ? "light colours" : "dark colours"} title=${now ? "light" : "dark"}>
    <svg viewBox="0 0 24 24"><path d=${now ? "M12 4V2M12 22v-2M4 12H2M22 12h-2M6 6L5 5M19 19l-1-1M6 18l-1 1M19 5l-1 1M12 7a5 5 0 100 10 5 5 0 000-10" : "M20 14A8 8 0 0110 4a8 8 0 1010 10z"} /></svg></button>`;
}

function App() {
  const [path, setPath] = useState(here());
  useEffect(() => {
    const moved = () => { setPath(here()); scrollTo(0, 0); };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return html`<nav><a class="brand" href="#/"><img src="/page/icon.svg" alt="" width="26" height="26" /><span>sqlengine</span></a>
    ${PLACES.map(([name, label, icon]) => html`<a href="#/${name}" class=${path[0] === name ? "on" : ""} aria-current=${path[0] === name ? "page" : null}>
      <svg viewBox="0 0 24 24" aria-hidden="true"><path d=${icon} /></svg><span>${label}</span></a>`)}
    <${Theme} /></nav>
    <main><${Place} path=${path} key=${path[0]} /></main>`;
}

const place = document.getElementById("app");
place.textContent = "";
render(h(App), place);
