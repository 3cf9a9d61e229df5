// Rows that could not be used, and why.
import { usePoll } from "./api.js";
import { count } from "./format.js";
import { Card, Empty, html, Trouble } from "./parts.js";

export function Rejected({ job }) {
  const [found, problem] = usePoll(`/rejected${job ? `?job=${encodeURIComponent(job)}` : ""}`, 4);
  return html`<${Trouble} problem=${problem} />
    <${Card} flush title="Why rows were rejected">
      ${!found || !found.counts.length ? html`<${Empty}>${found ? "No row was rejected." : "…"}<//>` : html`
      <div class="scroll"><table><thead><tr><th>job</th><th>operator</th><th>reason</th><th class="n">rows</th></tr></thead><tbody>
        ${found.counts.map((c) => html`<tr><td>${c.job}</td><td><code>${c.operator}</code></td><td><span class="tag warn">${c.reason}</span></td><td class="n">${count(c.rows)}</td></tr>`)}
      </tbody></table></div>`}
    <//>
    ${found && found.rows.length ? html`<${Card} flush title="Some of them, the newest first"><div class="scroll"><table>
      <thead><tr>${job ? null : html`<th>job</th>`}<th>reason</th><th>event time</th><th>watermark</th><th>row</th><th>error</th></tr></thead><tbody>
      ${found.rows.map((r) => html`<tr>${job ? null : html`<td>${r.job}</td>`}<td>${r.reason}</td><td>${r.event_time || "–"}</td><td>${r.watermark || "–"}</td><td><code>${r.row}</code></td><td>${r.error || ""}</td></tr>`)}
      </tbody></table></div><//>` : null}`;
}

export const AllRejected = () => html`<h1>Rejected rows</h1><${Rejected} />`;
