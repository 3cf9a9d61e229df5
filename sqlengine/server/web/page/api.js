// What the page asks of the server, and how often.
import { useEffect, useState } from "./vendor/hooks.mjs";

const BASE = "/api/v1";

export class Problem extends Error {
  constructor(problem) {
    super(problem.detail || problem.title || "the server does not answer");
    Object.assign(this, problem);
  }
}

export async function ask(method, path, body, signal) {
  let answer;
  try {
    answer = await fetch(BASE + path, {
      method,
      signal,
      keepalive: method === "DELETE",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ status: 0, title: "Not reached", detail: "the server cannot be reached" });
  }
  let value = {};
  try { value = await answer.json(); } catch { /* no JSON: the status says it */ }
  if (!answer.ok) throw new Problem({ status: answer.status, ...value });
  return value;
}

export const get = (path, signal) => ask("GET", path, undefined, signal);
export const post = (path, body = {}) => ask("POST", path, body);
export const pathOf = (parts) => parts.map(encodeURIComponent).join("/");

// Ask again and again while somebody looks: [value, problem, ask now].
export function usePoll(path, seconds = 2) {
  const [state, set] = useState({ path: null, value: null, problem: null });
  const [again, setAgain] = useState(0);
  useEffect(() => {
    if (path === null) return undefined;
    let timer = 0;
    const stop = new AbortController();
    const look = async () => {
      if (!document.hidden) {
        try {
          const value = await get(path, stop.signal);
          set({ path, value, problem: null });
        } catch (problem) {
          if (problem.name === "AbortError") return;
          set((before) => ({ path, value: before.path === path ? before.value : null, problem }));
        }
      }
      timer = setTimeout(look, seconds * 1000);
    };
    look();
    const shown = () => { if (!document.hidden) { clearTimeout(timer); look(); } };
    document.addEventListener("visibilitychange", shown);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [path, seconds, again]);
  const here = state.path === path;
  return [here ? state.value : null, here ? state.problem : null, () => setAgain(again + 1)];
}

// Follow a stream of events. `on` has a function for each kind. Gives what ends it.
export function follow(path, on) {
  const source = new EventSource(BASE + path);
  for (const [kind, call] of Object.entries(on)) {
    if (kind !== "error") source.addEventListener(kind, (event) => call(JSON.parse(event.data)));
  }
  source.onerror = () => { if (source.readyState === EventSource.CLOSED && on.error) on.error(); };
  return () => source.close();
}
