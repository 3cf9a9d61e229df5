// The last minutes of figures, as long as the page is open: for sparks and charts.
const MOST = 150;
const kept = new Map();

export function note(name, value, at = Date.now() / 1000) {
  let found = kept.get(name);
  if (!found) kept.set(name, (found = { times: [], values: [] }));
  if (found.times.length && at - found.times[found.times.length - 1] < 0.9) return;
  found.times.push(at);
  found.values.push(value);
  if (found.times.length > MOST) { found.times.shift(); found.values.shift(); }
}

export const past = (name) => kept.get(name) || { times: [], values: [] };

export function noteJobs(jobs, views) {
  let total = null;
  for (const each of [...(jobs || []), ...(views || [])]) {
    const name = each.view || each.job;
    note(`in ${name}`, each.rows_in_per_second);
    if (each.view) note(`age ${name}`, each.freshness_seconds);
    if (each.rows_in_per_second !== null) total = (total || 0) + each.rows_in_per_second;
  }
  if (jobs && views) note("in", total);
}
