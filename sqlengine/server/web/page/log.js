// What was logged lately.
import { useState } from "./vendor/hooks.mjs";
import { usePoll } from "./api.js";
import { clock } from "./format.js";
import { Card, Empty, html, Tabs, Trouble } from "./parts.js";

const LEVELS = ["INFO", "WARNING", "ERROR"];

export function LogOf({ job }) {
  const [level, setLevel] = useState("INFO");
  const [found, problem] = usePoll(`/logs?level=${level}${job ? `&job=${encodeURIComponent(job)}` : ""}`, 3);
  const records = found ? [...found.records].reverse() : [];
  return html`<${Trouble} problem=${problem} /><${Card} flush title="The log, the newest first (UTC)" actions=${html`<${Tabs} names=${LEVELS} chosen=${level} choose=${setLevel} />`}>
    ${records.length ? html`<ol class="log">${records.map((r) => html`<li key=${r.number} class=${r.level.toLowerCase()}>
      <time>${clock(r.at)}</time><span class="from">${r.logger.replace("sqlengine.", "")}</span><span>${r.message}</span></li>`)}</ol>`
      : html`<${Empty}>${found ? "Nothing was logged." : "…"}<//>`}
  <//>`;
}

export const Log = () => html`<h1>Log</h1><${LogOf} />`;
