// Materialized views: the list, and one with its plan and its rows as they change.
import { useState } from "./vendor/hooks.mjs";
import { pathOf, usePoll } from "./api.js";
import { bytes, count, rate, seconds, short } from "./format.js";
import { noteJobs, past } from "./history.js";
import { Figures } from "./jobs.js";
import { LiveRows } from "./live.js";
import { LogOf } from "./log.js";
import { Card, Empty, html, Spark, Status, Tabs, Tile, Trouble } from "./parts.js";
import { Plan } from "./plan.js";
import { Rejected } from "./rejected.js";

export const Age = ({ of }) => html`<span class="age ${of < 1 ? "fresh" : of < 10 ? "" : "old"}">${of < 0.05 ? "now" : `${seconds(of)} old`}</span>`;

export const ViewRows = ({ views }) => html`<div class="rows">${views.map((view) => html`
  <a class="row" href="#/views/${pathOf(view.path)}" key=${view.view}>
    <span class="what"><b>${short(view.view)}</b> <${Status} of=${view.status} /> <${Age} of=${view.freshness_seconds} />
      ${view.backlog_rows ? html`<span class="tag">${count(view.backlog_rows)} wait for a reader</span>` : null}
      ${view.rows_rejected ? html`<span class="tag warn">${count(view.rows_rejected)} rejected</span>` : null}
      <span class="from">${view.reads.length ? `from ${view.reads.map(short).join(", ")}` : "from connectors"}</span>
      ${view.error ? html`<span class="error">${view.error.code} ${view.error.detail}</span>` : null}</span>
    <${Spark} values=${past(`in ${view.view}`).values.slice(-40)} />
    <span class="figure"><b>${rate(view.rows_in_per_second)}</b><i>rows/s in</i></span>
    <span class="figure"><b>${count(view.rows)}</b><i>rows</i></span>
    <span class="figure wide"><b>${seconds(view.latency_seconds)}</b><i>an epoch</i></span>
    <span class="figure wide"><b>${bytes(view.bytes)}</b><i>memory</i></span>
  </a>`)}</div>`;

export function Views() {
  const [found, problem] = usePoll("/views");
  if (found) noteJobs(null, found.views);
  return html`<h1>Views</h1><${Trouble} problem=${problem} />
    <${Card} flush title="Materialized views">
      ${!found ? html`<${Empty}>…<//>` : found.views.length ? html`<${ViewRows} views=${found.views} />`
        : html`<${Empty}>There is none. CREATE MATERIALIZED VIEW makes one.<//>`}
    <//>`;
}

export function View({ path }) {
  const [view, problem] = usePoll(`/views/${pathOf(path)}`);
  const [tab, setTab] = useState("Rows");
  if (view) noteJobs(null, [view]);
  if (!view) return html`<h1>${path[2]}</h1><${Trouble} problem=${problem} />`;
  return html`<div class="head"><h1>${path[2]}</h1><${Status} of=${view.status} /><${Age} of=${view.freshness_seconds} />
      <span class="actions"><a class="button" href="#/tables/${pathOf(path)}">Definition</a></span></div>
    <${Trouble} problem=${problem || view.error} />
    <${Figures} of=${view} more=${html`<${Tile} label="rows" value=${count(view.rows)} note=${bytes(view.bytes)} />
      <${Tile} label="an epoch takes" value=${seconds(view.latency_seconds)} note=${`${count(view.epochs)} epochs`} />`} />
    <${Tabs} names=${["Rows", "Plan", "Rejected", "Log"]} chosen=${tab} choose=${setTab} />
    ${tab === "Rows" ? html`<${LiveRows} path=${path} />` : null}
    ${tab === "Plan" ? html`<${Card}><${Plan} operators=${view.operators} /><//>` : null}
    ${tab === "Rejected" ? html`<${Rejected} job=${view.job} />` : null}
    ${tab === "Log" ? html`<${LogOf} job=${view.job} />` : null}`;
}
