// Numbers, sizes and times as people read them.
const UNITS = ["", "k", "M", "G", "T"];

export function count(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) < 10000) return Math.round(value).toLocaleString("en");
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < UNITS.length - 1) { value /= 1000; unit += 1; }
  return value.toFixed(value < 100 ? 1 : 0) + UNITS[unit];
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 10) return value.toFixed(1);
  return count(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  while (value >= 1024 && unit < 4) { value /= 1024; unit += 1; }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const sign = value < 0 ? "−" : "";
  value = Math.abs(value);
  if (value === 0) return "0 s";
  if (value < 0.001) return `${sign}${Math.round(value * 1e6)} µs`;
  if (value < 1) return `${sign}${Math.round(value * 1000)} ms`;
  if (value < 100) return `${sign}${value.toFixed(1)} s`;
  if (value < 5400) return `${sign}${Math.round(value / 60)} min`;
  if (value < 172800) return `${sign}${Math.round(value / 3600)} h`;
  return `${sign}${Math.round(value / 86400)} d`;
}

export const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 100)} %`);

export function moment(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  return new Date(milliseconds).toISOString().replace("T", " ").replace(/\.\d+Z$/, "");
}

export const clock = (milliseconds) => new Date(milliseconds).toISOString().slice(11, 23);

// The last part of a full name, which is what people say.
export const short = (name) => name.split(".").pop();

export const oneLine = (text) => text.replace(/\s+/g, " ").trim();
