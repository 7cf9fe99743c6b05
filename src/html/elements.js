// Elements, tables, sections and tooltips. Text from data only ever becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** A color of the style, for canvases. */
function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** A cell with a number, which has its full value in its tooltip. */
function cell(value, unit, tag = "td") {
  const numeric = unit !== "text";
  const text = short(value, unit);
  const tip = numeric && known(value) && full(value, unit) !== text ? full(value, unit) : undefined;
  return h(
    tag,
    { class: numeric ? "n" : undefined, "data-value": known(value) ? value : "", "data-unit": unit, title: tip },
    text,
  );
}

const FIRST_ROWS = 100;

/** A table: `columns` are `[name, unit]`; `rows` hold plain values. Long ones show their first rows until asked. */
function table(caption, columns, rows) {
  const body = h("tbody");
  const line = (row) =>
    h(
      "tr",
      {},
      columns.map(([, unit], n) => cell(row[n], unit, n === 0 ? "th" : "td")),
    );
  const add = (from, to) => body.append(...rows.slice(from, to).map(line));
  add(0, FIRST_ROWS);
  body.querySelectorAll("th").forEach((head) => head.setAttribute("scope", "row"));
  const heads = columns.map(([name, unit]) => h("th", { scope: "col", class: unit === "text" ? undefined : "n" }, name));
  const more =
    rows.length > FIRST_ROWS &&
    h(
      "button",
      {
        type: "button",
        onclick: (event) => {
          add(FIRST_ROWS, rows.length);
          event.target.remove();
        },
      },
      `Show all ${grouped(rows.length)} rows`,
    );
  const made = h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body);
  return h("div", {}, h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption }, made), more);
}

/** A table behind a heading that opens it; it is made when it is opened first. */
function tableBehind(title, make) {
  const details = h("details", { class: "data" }, h("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(make());
  });
  return details;
}

/** A section of the page, which the menu lists. */
function section(id, title, about, ...children) {
  const found = children.flat().filter(Boolean);
  if (found.length === 0) return null;
  const made = h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title),
    about && h("p", { class: "about" }, about),
    found,
  );
  $("content").append(made);
  $("nav").append(h("a", { href: `#${id}` }, title));
  return made;
}

/** A figure with a heading. */
function figure(title, ...children) {
  return h("figure", {}, title && h("figcaption", {}, title), children);
}

/** Names beside the colors of a chart. `entries` are `[class, name]`. */
function legend(entries) {
  return h(
    "ul",
    { class: "legend" },
    entries.map(([kind, name]) => h("li", {}, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), name)),
  );
}

/** Large numbers at the top: `[name, text, detail, full]`. */
function tiles(list) {
  return h(
    "dl",
    { class: "tiles" },
    list
      .filter(Boolean)
      .map(([name, text, detail, tip]) =>
        h("div", {}, h("dt", {}, name), h("dd", { title: tip }, text), detail && h("dd", { class: "detail" }, detail)),
      ),
  );
}

/** Shows a tooltip at a place of the window. `lines` are texts; the first is its heading. */
function showTip(x, y, lines) {
  const tip = $("tip");
  tip.replaceChildren(...lines.filter(Boolean).map((line, n) => h("div", { class: n === 0 ? "first" : undefined }, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(x + 14, innerWidth - box.width - 8);
  const top = y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}
function hideTip() {
  $("tip").hidden = true;
}

/** Makes `draw` run when the size, the colors or the resolution of a canvas change, and once in the end of this turn. */
const redraws = new Set();
function drawn(canvas, draw) {
  const again = () => {
    if (canvas.clientWidth === 0) return;
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = `12px ${color("font")}`;
    draw(pen, width, height);
  };
  let due = false;
  const soon = () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      again();
    });
  };
  new ResizeObserver(soon).observe(canvas);
  redraws.add(again);
  return soon;
}
const redraw = () => redraws.forEach((again) => again());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia("print").addEventListener("change", redraw);
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
addEventListener("scroll", hideTip, { passive: true });
