// Formats numbers and times for people. The functions are pure, except that some use the current time or the time zone.

/** A number of seconds in one or two units: 45s, 3m 20s, 2h 5m, 4d 3h. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "\u2013";
  const all = Math.max(0, Math.round(seconds));
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const first = units.findIndex(([size]) => all >= size);
  if (first < 0) return "0s";
  const [size, name] = units[first];
  const rest = units[first + 1] ? Math.floor((all % size) / units[first + 1][0]) : 0;
  return `${Math.floor(all / size)}${name}` + (rest && all < size * 10 ? ` ${rest}${units[first + 1][1]}` : "");
}

/** The duration from `time` (seconds since 1970) until now. */
export const ago = (time, now = Date.now() / 1000) => (time === null || time === undefined ? "\u2013" : duration(now - time));

/** A time of today in the format 14:03:07. A time of another day also has its date. */
export function clock(time) {
  const date = new Date(time * 1000);
  const text = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return date.toDateString() === new Date().toDateString() ? text : `${date.toLocaleDateString()} ${text}`;
}

/** A number of bytes in the format 512 MiB. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let power = 0;
  for (; value >= 1024 && power < units.length - 1; power++) value /= 1024;
  return `${value >= 100 || power === 0 ? value.toFixed(0) : Number(value.toPrecision(3))} ${units[power]}`;
}

/** A number of any size with at most four significant digits. */
export function number(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return Number(value.toPrecision(3)).toExponential();
  return String(Number(value.toPrecision(4)));
}

/** Whether the unit of a resource is bytes. */
export const inBytes = (resource) => resource === "memory" || resource.endsWith("memory") || resource.endsWith("storage");

/** An amount of a resource as text: cores, bytes, or a number. CPU is always in cores, so that amounts can be compared: 0.022 and 1.57. */
export function amount(resource, value) {
  if (resource === "cpu") return number(Number(value < 1 ? value.toFixed(3) : value.toPrecision(3)));
  return inBytes(resource) ? bytes(value) : number(value);
}

const SUFFIXES = { m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, "": 1 };

/** A quantity of Kubernetes (1800m, 4Gi) in the format of `amount`. Any other text is returned unchanged. */
export function quantity(resource, text) {
  const [, digits, suffix] = /^([0-9.]+(?:[eE][-+]?[0-9]+)?)([kKMGTPm]?i?)$/.exec(text) ?? [];
  const value = Number(digits) * SUFFIXES[suffix];
  return Number.isFinite(value) ? amount(resource, value) : text;
}

/** Return the share of each part in whole percent, by name. The sum of the shares is 100: each share is rounded down, and then
 *  1 is added to the shares with the largest remainders. The share with the name `cut` is only rounded down, as in `tfoperator describe`. */
export function percents(parts, cut) {
  const total = Object.values(parts).reduce((sum, one) => sum + one, 0);
  const exact = Object.entries(parts).map(([name, part]) => [name, total ? (100 * part) / total : 0]);
  const found = Object.fromEntries(exact.map(([name, share]) => [name, Math.floor(share)]));
  const open = exact.filter(([name]) => name !== cut).sort(([, a], [, b]) => b % 1 - a % 1);
  let missing = total ? 100 - Object.values(found).reduce((sum, one) => sum + one, 0) : 0;
  for (const [name, share] of open) if (missing > 0 && share > 0) { found[name] += 1; missing -= 1; }
  return found;
}

/** The message of a job without "TFJob NAME" and "is running" at its beginning, because the page shows name and state beside the message. */
export function told(message, job) {
  for (const name of [`${job.namespace}/${job.name}`, job.name]) {
    const start = `TFJob ${name} `;
    if (message.startsWith(start)) {
      const rest = message.slice(start.length).replace(/^is running\. ?/, "");
      return rest.charAt(0).toUpperCase() + rest.slice(1);
    }
  }
  return message;
}

/** The word with its first letter as a capital letter. */
export const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);

/** A whole number in the format 12,345. */
export const count = (value) => value.toLocaleString("en-US");

const OK = new Set(["Succeeded", "Completed", "Cached"]);
const BAD = new Set(["Failed", "Stalled", "Diverged", "TimedOut", "Interrupted", "Died"]);
const RUN = new Set(["Running"]);
const IDLE = new Set(["Cancelled", "Not run", "Waiting", "Suspended", "Gone", "Stopped", "Terminating", "No pod", "Elsewhere"]);

/** The CSS class for the colour of a state: ok (green), bad (red), run (blue), wait (yellow) or "" (grey). */
export function tone(state) {
  if (OK.has(state)) return "ok";
  if (BAD.has(state)) return "bad";
  if (RUN.has(state)) return "run";
  if (IDLE.has(state)) return "";
  return /^(Err|Crash|ImagePull|Invalid|CreateContainer)|Error$/.test(state) ? "bad" : "wait";
}

/** Values from `status.progress`: percent, remaining seconds (`left`), step and total steps. A value that is missing there is null. */
export function progressOf(progress) {
  if (!progress) return { percent: null, left: null, step: null };
  const percent = numberIn(progress, "percentage");
  const step = numberIn(progress, "step"), total = numberIn(progress, "totalSteps");
  return { percent: percent === null ? null : Math.min(100, Math.max(0, percent)), left: numberIn(progress, "estimatedRemainingSeconds"), step, total };
}

function numberIn(object, name) {
  const value = Number(object[name]);
  return object[name] !== undefined && object[name] !== null && Number.isFinite(value) ? value : null;
}
