// Numbers with units: short to read, and full for tooltips and tables.

const NONE = "–";

/** Three significant digits, never in powers of ten. */
function digits(x) {
  const a = Math.abs(x);
  if (a === 0) return "0";
  if (a >= 999.5) return grouped(Math.round(x));
  return a < 1e-3 ? x.toExponential(2) : x.toPrecision(3);
}

/** A whole number with commas. */
function grouped(x) {
  const [whole, rest] = String(x).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return rest === undefined ? text : `${text}.${rest}`;
}

/** A number in the largest of some units that leaves at least 1. */
function scaled(x, units) {
  let [name, size] = units[0];
  for (const [other, least] of units) if (Math.abs(x) >= least * 0.9995) [name, size] = [other, least];
  return `${digits(x / size)} ${name}`;
}

const TIMES = [
  ["ns", 1e-9],
  ["µs", 1e-6],
  ["ms", 1e-3],
  ["s", 1],
  ["min", 60],
  ["h", 3600],
];
const SIZES = [
  ["B", 1],
  ["KiB", 2 ** 10],
  ["MiB", 2 ** 20],
  ["GiB", 2 ** 30],
  ["TiB", 2 ** 40],
  ["PiB", 2 ** 50],
];
const COUNTS = [
  ["", 1],
  ["k", 1e3],
  ["M", 1e6],
  ["G", 1e9],
  ["T", 1e12],
  ["P", 1e15],
];

/** Each unit: how a number reads, and how all of it reads. */
const UNITS = {
  text: { short: (x) => String(x), full: (x) => String(x) },
  seconds: { short: (x) => (x === 0 ? "0 s" : Math.abs(x) < 1e-10 ? "< 0.1 ns" : scaled(x, TIMES)), full: (x) => `${x} s` },
  bytes: { short: (x) => (x < 1024 ? `${digits(x)} B` : scaled(x, SIZES)), full: (x) => `${grouped(x)} B` },
  count: { short: (x) => grouped(x), full: (x) => grouped(x) },
  number: { short: (x) => digits(x), full: (x) => String(x) },
  ratio: { short: (x) => `${x.toFixed(2)}\u00a0×`, full: (x) => `${x} times` },
  share: { short: (x) => (x > 0 && x < 0.0005 ? "< 0.1 %" : `${(100 * x).toFixed(1)} %`), full: (x) => `${100 * x} %` },
  money: { short: (x) => (x > 0 ? x.toFixed(Math.max(2, 2 - Math.floor(Math.log10(x)))) : "0"), full: (x) => String(x) },
};

const known = (x) => x !== null && x !== undefined && !(typeof x === "number" && !Number.isFinite(x));
const short = (x, unit) => (known(x) ? UNITS[unit].short(x) : NONE);
const full = (x, unit) => (known(x) ? UNITS[unit].full(x) : "not known");
const seconds = (x) => short(x, "seconds");
const bytes = (x) => short(x, "bytes");
const count = (x) => short(x, "count");

/** `1 rank`, `2 ranks`. */
function counted(n, word, many) {
  return `${grouped(n)} ${n === 1 ? word : (many ?? `${word}s`)}`;
}

/** A number in few letters, for axes. */
function compact(x) {
  let [name, size] = COUNTS[0];
  for (const [other, least] of COUNTS) if (Math.abs(x) >= least) [name, size] = [other, least];
  return `${Number((x / size).toPrecision(3))}${name && ` ${name}`}`;
}

/** Round values from `low` to `high`, about `want` of them. */
function ticks(low, high, want, base = 10) {
  const span = high - low;
  if (!(span > 0)) return [low];
  let step = base ** Math.floor(Math.log(span / want) / Math.log(base));
  const factors = base === 2 ? [1, 2] : [1, 2, 5, 10];
  step *= factors.find((f) => step * f * want >= span) ?? factors[factors.length - 1];
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-12) + step * 1e-9; n++) found.push(n * step);
  return found;
}
