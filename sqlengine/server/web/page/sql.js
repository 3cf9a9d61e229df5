// The SQL editor, and results that stay alive.
import { useEffect, useRef, useState } from "./vendor/hooks.mjs";
import { ask, follow, post } from "./api.js";
import { Editor } from "./editor.js";
import { count, seconds } from "./format.js";
import { Result, useFolded } from "./live.js";
import { html, Trouble } from "./parts.js";

const MOST_ROWS = 100000;
const kept = { text: "SELECT *\nFROM ", live: true };
let session = null;

async function sessionOf() {
  if (session === null) session = (await post("/sessions")).session;
  return session;
}

// A session that has timed out is begun again, once.
async function within(call) {
  try {
    return await call(await sessionOf());
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    session = null;
    return call(await sessionOf());
  }
}

export function Sql() {
  const [text, setText] = useState(kept.text);
  const [live, setLive] = useState(kept.live);
  const [state, setState] = useState(null);
  const { hold, folded, version, draw, clear } = useFolded();
  const area = useRef(null);
  const running = useRef(null);
  useEffect(() => { kept.text = text; kept.live = live; }, [text, live]);

  const stop = () => {
    const now = running.current;
    running.current = null;
    if (!now) return;
    now.close();
    ask("DELETE", `/sessions/${now.session}/statements/${now.statement}`).catch(() => {});
  };
  useEffect(() => {
    addEventListener("pagehide", stop);
    return () => { removeEventListener("pagehide", stop); stop(); };
  }, []);

  // The statement at the cursor, or what is marked.
  const chosen = async () => {
    const { selectionStart: start, selectionEnd: end, value } = area.current;
    if (start !== end) return value.slice(start, end);
    try {
      const { statements } = await post("/statement-spans", { sql: value });
      const here = statements.find((s) => start <= s.end + 1) || statements[statements.length - 1];
      if (here) return value.slice(here.start, here.end);
    } catch { /* the statement itself says what is wrong */ }
    return value;
  };

  const run = async () => {
    stop();
    clear();
    const sql = await chosen();
    setState({ sql, status: "runs" });
    try {
      const [at, { statement }] = await within(async (handle) => [handle, await post(`/sessions/${handle}/statements`, { sql, live })]);
      const end = (more) => setState((before) => ({ ...before, ...more }));
      const close = follow(`/sessions/${at}/statements/${statement}/events`, {
        page: (page) => {
          hold.current.take(page.rows, page.kinds, page.next > 1);
          draw();
          end({ columns: page.columns, summary: page.summary, warnings: page.warnings, took: page.seconds, job: page.job, query: page.is_query });
          if (page.last) { stop(); end({ status: "done" }); }
          else if (folded.size > MOST_ROWS) { stop(); end({ status: "done", cut: true }); }
        },
        problem: (problem) => { stop(); end({ status: "failed", problem }); },
        error: () => { if (running.current) { stop(); end({ status: "failed", problem: { detail: "the connection was lost" } }); } },
      });
      running.current = { close, session: at, statement };
    } catch (problem) {
      setState({ sql, status: "failed", problem });
    }
  };
  const complete = async (sql, position) => (await within((handle) => post(`/sessions/${handle}/completions`, { sql, position }))).completions;
  const runs = state && state.status === "runs";
  return html`<h1>SQL</h1>
    <section class="card flush"><${Editor} text=${text} setText=${setText} complete=${complete} run=${run} area=${area} />
      <div class="toolbar">
        <button class="button primary" onClick=${run}>Run <kbd>Ctrl ⏎</kbd></button>
        ${runs ? html`<button class="button" onClick=${() => { stop(); setState({ ...state, status: "done", stopped: true }); }}>Stop</button>` : null}
        <label class="switch"><input type="checkbox" checked=${live} onChange=${(e) => setLive(e.target.checked)} /><span></span>live</label>
        <span class="quiet small grow">${live ? "queries follow tables and views" : "queries read what is there now"}</span>
        ${state ? html`<span class="small ${runs ? "alive" : "quiet"}">${runs ? html`<i class="pulse"></i>${state.columns ? "live" : "runs"}` : state.stopped ? "stopped" : state.status}${state.took ? `, ${seconds(state.took)}` : ""}</span>` : null}
      </div></section>
    ${state ? html`<${Trouble} problem=${state.problem} text=${state.sql} />
      ${(state.warnings || []).map((w) => html`<div class="notice warn">${w}</div>`)}
      ${state.summary ? html`<div class="notice">${state.summary}${state.job && !state.query ? html` <a href="#/jobs/${encodeURIComponent(state.job)}">${state.job}</a>` : null}</div>` : null}
      ${state.columns && !(state.summary && !state.query) ? html`<${Result} columns=${state.columns} folded=${folded} version=${version}
        title=${html`${count(folded.size)} rows${state.cut ? " (stopped there)" : ""} <span class="quiet">${folded.changes ? `${count(folded.changes)} changes` : ""}</span>`} />` : null}` : null}`;
}
