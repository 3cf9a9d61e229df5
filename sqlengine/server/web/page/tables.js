// Catalogs, databases, tables and views.
import { useState } from "./vendor/hooks.mjs";
import { pathOf, usePoll } from "./api.js";
import { bytes, count, short } from "./format.js";
import { LiveRows } from "./live.js";
import { Card, Empty, html, Tabs, Trouble } from "./parts.js";

export function Tables() {
  const [found, problem] = usePoll("/catalog", 5);
  const [text, setText] = useState("");
  const fits = (object) => object.name.toLowerCase().includes(text.toLowerCase());
  return html`<h1>Tables</h1><${Trouble} problem=${problem} />
    <input class="search" type="search" placeholder="Find a table or view" aria-label="Find a table or view" value=${text} onInput=${(e) => setText(e.target.value)} />
    ${(found ? found.catalogs : []).map((catalog) => catalog.databases.map((database) => {
      const objects = database.objects.filter(fits);
      if (!objects.length && (text || database.name === "default_database" ? found.catalogs.length > 1 : true)) return null;
      return html`<${Card} flush title=${html`<span class="quiet">${catalog.name}.</span>${database.name}`}>
        ${objects.length ? html`<div class="rows">${objects.map((o) => html`<a class="row" href="#/tables/${pathOf(o.path)}">
          <span class="what"><b>${o.name}</b> <span class="tag">${o.kind}</span>${o.comment ? html`<span class="from">${o.comment}</span>` : null}</span>
          <span class="figure"><b>${o.connector || (o.in_memory ? "in memory" : "–")}</b><i>kept</i></span></a>`)}</div>`
          : html`<${Empty}>Nothing here.<//>`}<//>`;
    }))}`;
}

const Names = ({ label, names }) => (names.length ? html`<p><span class="quiet">${label}</span> ${names.map((n) => html`
  <a class="tag link" href="#/tables/${pathOf(n.split("."))}">${short(n)}</a> `)}</p>` : null);

export function Table({ path }) {
  const [object, problem] = usePoll(`/catalog/${pathOf(path)}`, 5);
  const [tab, setTab] = useState("Columns");
  if (!object) return html`<h1>${path[2]}</h1><${Trouble} problem=${problem} />`;
  const view = object.kind.startsWith("materialized");
  const tabs = object.in_memory ? ["Columns", "Definition", "Rows"] : ["Columns", "Definition"];
  return html`<div class="head"><h1>${object.name}</h1><span class="tag">${object.kind}</span>${object.connector ? html`<span class="tag">${object.connector}</span>` : null}
      ${view ? html`<span class="actions"><a class="button" href="#/views/${pathOf(path)}">Figures</a></span>` : null}</div>
    <${Trouble} problem=${problem} />
    ${object.comment ? html`<p>${object.comment}</p>` : null}
    ${object.rows === null ? null : html`<p class="quiet">${count(object.rows)} rows, ${bytes(object.bytes)}</p>`}
    <${Names} label="reads" names=${object.reads} /><${Names} label="is read by" names=${object.read_by} />
    <${Tabs} names=${tabs} chosen=${tab} choose=${setTab} />
    ${tab === "Columns" ? html`<${Card} flush><div class="scroll"><table><thead><tr><th>column</th><th>type</th><th></th><th>comment</th></tr></thead><tbody>
      ${object.columns.map((c) => html`<tr><td><b>${c.name}</b></td><td><code>${c.type}</code></td><td>${object.primary_key.includes(c.name) ? html`<span class="tag">key</span>` : null}
        ${c.kind === "stored" ? null : html`<span class="tag">${c.kind}</span>`}</td><td>${c.comment || ""}</td></tr>`)}</tbody></table></div><//>` : null}
    ${tab === "Definition" ? html`<pre class="statement">${object.definition}</pre>` : null}
    ${tab === "Rows" ? html`<${LiveRows} path=${path} />` : null}`;
}
