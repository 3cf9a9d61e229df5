// Jobs: the list, and one with its plan, checkpoints, rejected rows and log.
import { useState } from "./vendor/hooks.mjs";
import { ask, post, usePoll } from "./api.js";
import { bytes, count, moment, oneLine, rate, seconds, share } from "./format.js";
import { noteJobs, past } from "./history.js";
import { LogOf } from "./log.js";
import { Ask, Card, Chart, Confirm, Empty, html, Spark, Status, Tabs, Tile, Trouble } from "./parts.js";
import { Plan } from "./plan.js";
import { Rejected } from "./rejected.js";

export const JobRows = ({ jobs }) => html`<div class="rows">${jobs.map((job) => html`
  <a class="row" href="#/jobs/${encodeURIComponent(job.job)}" key=${job.job}>
    <span class="what"><b>${job.job}</b> <${Status} of=${job.status} />
      ${job.kind === "query" ? html`<span class="tag">query</span>` : null}
      ${job.rows_rejected ? html`<span class="tag warn">${count(job.rows_rejected)} rejected</span>` : null}
      <code>${oneLine(job.statement)}</code>
      ${job.error ? html`<span class="error">${job.error.code} ${job.error.detail}</span>` : null}</span>
    <${Spark} values=${past(`in ${job.job}`).values.slice(-40)} />
    <span class="figure"><b>${rate(job.rows_in_per_second)}</b><i>rows/s in</i></span>
    <span class="figure"><b>${rate(job.rows_out_per_second)}</b><i>rows/s out</i></span>
    <span class="figure wide"><b>${share(job.busy_share)}</b><i>busy</i></span>
    <span class="figure wide"><b>${job.watermark_lag_seconds === null ? "–" : seconds(job.watermark_lag_seconds)}</b><i>lag</i></span>
  </a>`)}</div>`;

export function Jobs() {
  const [found, problem, again] = usePoll("/jobs");
  if (found) noteJobs(found.jobs, null);
  const [text, setText] = useState(null);
  return html`<h1>Jobs</h1><${Trouble} problem=${problem} />
    <${Card} flush title="Statements in the background" actions=${html`<button class="button" onClick=${() => setText(text === null ? "" : null)}>Submit a file…</button>`}>
      ${text === null ? null : html`<${Submit} text=${text} set=${setText} done=${() => { setText(null); again(); }} />`}
      ${!found ? html`<${Empty}>…<//>` : found.jobs.length ? html`<${JobRows} jobs=${found.jobs} />`
        : html`<${Empty}>No job runs. An INSERT over input without an end is one.<//>`}
    <//>`;
}

function Submit({ text, set, done }) {
  const [problem, setProblem] = useState(null);
  const [savepoint, setSavepoint] = useState("");
  const [busy, setBusy] = useState(false);
  const read = async (event) => { const [file] = event.target.files; if (file) set(await file.text()); };
  const send = async () => {
    setBusy(true);
    try { await post("/jobs", savepoint ? { sql: text, savepoint } : { sql: text }); done(); } catch (error) { setProblem(error); } finally { setBusy(false); }
  };
  return html`<div class="form">
    <label class="file">A file of SQL <input type="file" accept=".sql,.txt" onChange=${read} /></label>
    <textarea rows="6" spellcheck="false" placeholder="CREATE TABLE …; INSERT INTO … SELECT …" value=${text} onInput=${(e) => set(e.target.value)}></textarea>
    <label>from savepoint <input type="text" placeholder="(begin anew)" value=${savepoint} onInput=${(e) => setSavepoint(e.target.value)} /></label>
    <${Trouble} problem=${problem} text=${text} />
    <div><button class="button primary" disabled=${busy || !text.trim()} onClick=${send}>${busy ? "…" : "Run it"}</button></div>
  </div>`;
}

export function Job({ name }) {
  const path = `/jobs/${encodeURIComponent(name)}`;
  const [job, problem, again] = usePoll(path);
  const [tab, setTab] = useState("Plan");
  const [told, setTold] = useState(null);
  if (job) noteJobs([job], null);
  const past_ = past(`in ${name}`);
  const act = (what, body, say) => async () => {
    try { const answer = await ask("POST", `${path}/${what}`, body); setTold({ good: say(answer) }); again(); } catch (error) { setTold({ problem: error }); }
  };
  // Begun again it is another job, which is shown.
  const begin = (what, bodyOf) => async (value) => {
    try { location.hash = `#/jobs/${encodeURIComponent((await ask("POST", `${path}/${what}`, bodyOf(value))).job)}`; } catch (error) { setTold({ problem: error }); again(); }
  };
  const restore = begin("restore", (savepoint) => ({ savepoint }));
  if (!job) return html`<h1>${name}</h1><${Trouble} problem=${problem} />`;
  const runs = job.status === "RUNNING" || job.status === "RESTARTING" || job.status === "CREATED";
  return html`<div class="head"><h1>${name}</h1><${Status} of=${job.status} />
      <span class="actions">${runs ? html`
        <${Ask} label="Rescale" question="How many tasks?" field=${{ type: "number", min: 1, max: 1024, value: "2" }} action=${begin("rescale", (tasks) => ({ tasks: Number(tasks) }))} />
        <${Confirm} label="Savepoint" question="Write a savepoint?" action=${act("savepoints", {}, (a) => `saved in ${a.savepoint}`)} />
        <${Confirm} label="Stop with savepoint" question="Save and stop?" action=${act("stop", { savepoint: true }, (a) => `stopped; its state is in ${a.savepoint}`)} />
        <${Confirm} label="Stop" tone="danger" question="Stop it?" action=${act("stop", {}, () => "stopped")} />` : null}
        <${Ask} label="Restore" question=${runs ? "Stop it, and begin from which savepoint?" : "Begin from which savepoint?"} field=${{ placeholder: "its path" }} action=${restore} /></span>
    </div>
    <${Trouble} problem=${problem || (told && told.problem)} />
    ${told && told.good ? html`<div class="notice">${told.good}</div>` : null}
    ${job.error ? html`<div class="trouble"><strong>${job.error.code} </strong>${job.error.detail}</div>` : null}
    <pre class="statement">${job.statement}</pre>
    <${Figures} of=${job} />
    <${Tabs} names=${["Plan", "Rate", "Checkpoints", "Rejected", "Log"]} chosen=${tab} choose=${setTab} />
    ${tab === "Plan" ? html`<${Card}><${Plan} operators=${job.operators} /><//>` : null}
    ${tab === "Rate" ? html`<${Card} title="Rows in a second"><${Chart} data=${[past_.times, past_.values]} names=${["rows/s"]} /><//>` : null}
    ${tab === "Checkpoints" ? html`<${Checkpoints} path=${path} restore=${restore} />` : null}
    ${tab === "Rejected" ? html`<${Rejected} job=${name} />` : null}
    ${tab === "Log" ? html`<${LogOf} job=${name} />` : null}`;
}

export const Figures = ({ of, more }) => html`<div class="tiles">
  ${more}
  <${Tile} label="rows in" value=${`${rate(of.rows_in_per_second)}/s`} note=${`${count(of.rows_in)} so far`} />
  <${Tile} label="rows out" value=${`${rate(of.rows_out_per_second)}/s`} note=${`${count(of.rows_out)} so far`} />
  <${Tile} label="busy" value=${share(of.busy_share)} note=${of.busy_share === null ? "" : `waits ${share(1 - of.busy_share)}`} />
  <${Tile} label="watermark" value=${of.watermark_lag_seconds === null ? "–" : `−${seconds(of.watermark_lag_seconds)}`} note=${of.watermark === null ? "no event time" : moment(of.watermark)} />
  <${Tile} label="state" value=${bytes(of.state_bytes)} note=${`${count(of.state_rows)} rows`} />
  <${Tile} label="rejected" value=${count(of.rows_rejected)} tone=${of.rows_rejected ? "warn" : ""} note=${`${of.restarts} restarts`} />
</div>`;

function Checkpoints({ path, restore }) {
  const [found, problem] = usePoll(`${path}/checkpoints`, 5);
  return html`<${Card} flush title="Checkpoints and savepoints"><${Trouble} problem=${problem} />
    ${found && !found.checkpoints.length ? html`<${Empty}>There are none: SET 'execution.checkpointing.dir' says where they go.<//>` : null}
    ${found && found.checkpoints.length ? html`<div class="scroll"><table><thead><tr><th>id</th><th>kind</th><th>status</th><th>at (UTC)</th><th>took</th><th class="n">written</th><th class="n">in all</th><th>path</th><th></th></tr></thead>
      <tbody>${found.checkpoints.map((c) => html`<tr key=${c.path}><td>${c.id}</td><td>${c.kind}</td><td>${c.status}</td><td>${moment(c.at)}</td>
        <td>${seconds(c.milliseconds / 1000)}</td><td class="n">${bytes(c.bytes)}</td><td class="n">${bytes(c.total_bytes)}</td><td><code>${c.path}</code></td>
        <td>${c.status === "COMPLETED" ? html`<${Confirm} label="Restore" question="Begin from here?" action=${() => restore(c.path)} />` : null}</td></tr>`)}</tbody></table></div>` : null}
  <//>`;
}
