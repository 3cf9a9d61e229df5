// A text of SQL with colours and completion: a textarea over what is drawn.
import { useEffect, useRef, useState } from "./vendor/hooks.mjs";
import { html } from "./parts.js";

const WORDS = new Set(("select from where group by having order limit offset insert into values update set delete create table view materialized " +
  "drop alter add as join left right full inner outer cross on using union all except intersect distinct with case when then else end and or not null is in " +
  "exists between like primary key enforced watermark for system_time of interval over partition rows range preceding following current row tumble hop " +
  "session cumulate descriptor explain show describe use catalog database function begin commit rollback statement savepoint job stop subscribe to " +
  "snapshot if replace temporary array map cast try_cast true false asc desc first last truncate analyze execute call match_recognize lateral unnest")
  .split(" "));
const TOKEN = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$))|(`[^`]*(?:`|$)|"[^"]*(?:"|$))|(\b\d+(?:\.\d+)?\b)|([A-Za-z_][A-Za-z_0-9]*)/g;

function coloured(text) {
  const found = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > end) found.push(text.slice(end, match.index));
    const [word, comment, string, name, number, plain] = match;
    const kind = comment ? "comment" : string ? "string" : name ? "name" : number ? "number" : WORDS.has(plain.toLowerCase()) ? "word" : "";
    found.push(kind ? html`<span class="t-${kind}">${word}</span>` : word);
    end = match.index + word.length;
  }
  found.push(text.slice(end), "\n");
  return found;
}

// Where the cursor stands, in pixels from the corner of the text.
function cursorOf(area, mirror) {
  const before = area.value.slice(0, area.selectionStart);
  const line = before.split("\n").length - 1;
  const column = before.length - before.lastIndexOf("\n") - 1;
  const style = getComputedStyle(area);
  const tall = parseFloat(style.lineHeight);
  const wide = mirror.current ? mirror.current.getBoundingClientRect().width / 10 : 8;
  return { left: parseFloat(style.paddingLeft) + column * wide - area.scrollLeft, top: parseFloat(style.paddingTop) + (line + 1) * tall - area.scrollTop };
}

export function Editor({ text, setText, complete, run, area }) {
  const drawn = useRef(null);
  const mirror = useRef(null);
  const [menu, setMenu] = useState(null);
  const asked = useRef(0);
  useEffect(() => () => { asked.current = -1; }, []);

  const ask = async (forced) => {
    const place = area.current, number = ++asked.current;
    const before = place.value.slice(0, place.selectionStart);
    if (!forced && !/[A-Za-z_.]$/.test(before)) { setMenu(null); return; }
    let items = [];
    try { items = await complete(place.value, place.selectionStart); } catch { /* nothing to offer */ }
    if (number !== asked.current) return;
    const word = /[A-Za-z_0-9]*$/.exec(before)[0].toLowerCase();
    items = items.filter((item) => forced || item.text.toLowerCase() !== word).slice(0, 8);
    setMenu(items.length && document.activeElement === place ? { items, at: 0, ...cursorOf(place, mirror) } : null);
  };
  const take = (item) => {
    const place = area.current, end = place.selectionStart, start = end - item.replaces;
    const whole = place.value.slice(0, start) + item.text + place.value.slice(end);
    setText(whole);
    setMenu(null);
    asked.current += 1;
    requestAnimationFrame(() => { place.focus(); place.selectionStart = place.selectionEnd = start + item.text.length; });
  };
  const key = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); setMenu(null); run(); return; }
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); ask(true); return; }
    if (menu) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); setMenu({ ...menu, at: (menu.at + step + menu.items.length) % menu.items.length }); return; }
      if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); take(menu.items[menu.at]); return; }
      if (event.key === "Escape") { event.preventDefault(); setMenu(null); return; }
    }
  };
  const scrolled = (event) => { drawn.current.scrollTop = event.target.scrollTop; drawn.current.scrollLeft = event.target.scrollLeft; setMenu(null); };
  return html`<div class="editor">
    <pre class="drawn" ref=${drawn} aria-hidden="true">${coloured(text)}</pre>
    <span class="mirror" ref=${mirror} aria-hidden="true">MMMMMMMMMM</span>
    <textarea ref=${area} value=${text} spellcheck="false" autocapitalize="off" autocomplete="off" aria-label="SQL" rows="8"
      onInput=${(e) => { setText(e.target.value); ask(false); }} onKeyDown=${key} onScroll=${scrolled} onClick=${() => setMenu(null)}
      onBlur=${() => setTimeout(() => setMenu(null), 150)}></textarea>
    ${menu ? html`<ul class="menu" role="listbox" style=${{ left: `${Math.max(0, Math.min(menu.left, (area.current ? area.current.clientWidth : 300) - 240))}px`, top: `${menu.top}px` }}>
      ${menu.items.map((item, i) => html`<li role="option" aria-selected=${i === menu.at} class=${i === menu.at ? "on" : ""}
        onMouseDown=${(e) => { e.preventDefault(); take(item); }}><span>${item.shown}</span><i>${item.about || item.kind}</i></li>`)}</ul>` : null}
  </div>`;
}
