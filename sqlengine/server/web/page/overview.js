// What there is at a glance.
import { usePoll } from "./api.js";
import { count, rate, seconds } from "./format.js";
import { noteJobs, past } from "./history.js";
import { JobRows } from "./jobs.js";
import { Card, Chart, Empty, html, Tile, Trouble } from "./parts.js";
import { ViewRows } from "./views.js";

export function Overview() {
  const [server, problem] = usePoll("/server");
  const [jobs] = usePoll("/jobs");
  const [views] = usePoll("/views");
  if (jobs && views) noteJobs(jobs.jobs, views.views);
  const total = past("in");
  const oldest = views ? Math.max(0, ...views.views.map((v) => v.freshness_seconds)) : null;
  const active = jobs ? jobs.jobs.filter((j) => j.status === "RUNNING" || j.status === "FAILED" || j.status === "RESTARTING") : [];
  const failed = server ? server.jobs_failed + server.views_failed : 0;
  return html`<h1>Overview</h1><${Trouble} problem=${problem} />
    <div class="tiles">
      <${Tile} label="jobs" value=${server ? server.jobs : "–"} note="running" />
      <${Tile} label="views" value=${server ? server.views : "–"} note=${oldest === null ? "" : oldest < 0.05 ? "all up to date" : `up to ${seconds(oldest)} behind`} />
      <${Tile} label="rows in" value=${`${rate(total.values[total.values.length - 1])}/s`} note="of all jobs and views" />
      <${Tile} label="failed" value=${failed} tone=${failed ? "bad" : ""} note="jobs and views" />
      <${Tile} label="rejected" value=${server ? count(server.rows_rejected) : "–"} tone=${server && server.rows_rejected ? "warn" : ""} note=${html`<a href="#/rejected">rows, and why</a>`} />
      <${Tile} label="up" value=${server ? seconds(server.up_seconds) : "–"} note=${server ? server.database || "in memory" : ""} />
      ${server && server.replication ? html`<${Tile} label="replica" value=${server.replication.state} tone=${server.replication.state === "disconnected" ? "bad" : ""} note=${`of ${server.replication.leader}, ${seconds(server.replication.behind_seconds)} behind`} />` : null}
      ${server && server.replicas.length ? html`<${Tile} label="replicas" value=${server.replicas.length} note=${html`${server.replicas.map((r) => html`<div key=${r.number}>${r.client}, at epoch ${count(r.epoch)}</div>`)}`} />` : null}
    </div>
    <${Card} title="Rows in a second"><${Chart} data=${[[...total.times], [...total.values]]} names=${["rows/s"]} /><//>
    <${Card} flush title="Views" actions=${html`<a href="#/views">all</a>`}>
      ${views && views.views.length ? html`<${ViewRows} views=${views.views.slice(0, 8)} />` : html`<${Empty}>There is none.<//>`}<//>
    <${Card} flush title="Jobs" actions=${html`<a href="#/jobs">all</a>`}>
      ${active.length ? html`<${JobRows} jobs=${active.slice(0, 8)} />` : html`<${Empty}>No job runs.<//>`}<//>`;
}
