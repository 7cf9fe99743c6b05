// What runs inside of pages: each function is sent to the browser alone.

/** Opens all tables and reads them. `problems` are charts without text beside them. */
export async function reading() {
  const turn = () => new Promise((done) => setTimeout(done, 0));
  document.querySelectorAll("details").forEach((details) => (details.open = true));
  await turn();
  await turn();
  document.querySelectorAll("button").forEach((button) => /^Show (all|\d)/.test(button.textContent) && !button.hidden && button.click());
  await turn();
  const named = (table) => table.caption?.textContent ?? `#${table.closest("section").id}`;
  const cell = (one) => {
    const numeric = one.dataset.unit && one.dataset.unit !== "text";
    const value = numeric && one.dataset.value !== "" ? Number(one.dataset.value) : one.dataset.value;
    return { text: one.textContent, title: one.title || undefined, value: one.dataset.unit ? value : undefined };
  };
  const tables = [...document.querySelectorAll("main table")].map((table) => ({
    caption: named(table),
    heads: [...table.tHead.rows[0].cells].map((one) => one.textContent),
    rows: [...table.tBodies[0].rows].filter((row) => row.className !== "more").map((row) => [...row.cells].map(cell)),
  }));
  const problems = [];
  for (const chart of document.querySelectorAll("main svg, main canvas")) {
    const hidden = chart.getAttribute("aria-hidden") === "true" || chart.getAttribute("role") === "presentation";
    if (!hidden && !chart.getAttribute("aria-label")) problems.push(`a chart of ${chart.closest("section")?.id} has no label`);
    if (chart.getAttribute("role") === "application" && chart.tabIndex !== 0) problems.push(`a chart of ${chart.closest("section")?.id} cannot be reached by keys`);
  }
  for (const section of document.querySelectorAll("main section")) {
    if (section.querySelector("figure") && !section.querySelector("table")) problems.push(`the charts of ${section.id} have no table`);
  }
  document.querySelectorAll("details").forEach((details) => (details.open = false));
  return { tables, problems };
}

/** How many colors each canvas has. */
export function canvases() {
  return [...document.querySelectorAll("main canvas")].map((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return { name: canvas.getAttribute("aria-label") ?? "legend", colors: new Set(new Uint32Array(data.buffer)).size };
  });
}

/** Texts with less contrast than 4.5 to what is behind them, and colors of charts with less than 3 to the page. */
export function contrasts() {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    return pen.getImageData(0, 0, 1, 1).data;
  };
  const light = ([r, g, b]) => [r, g, b].map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
    .reduce((sum, x, n) => sum + x * [0.2126, 0.7152, 0.0722][n], 0);
  const ratio = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return rgba("white");
  };
  const low = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!text || ["SCRIPT", "STYLE"].includes(element.tagName) || element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    const found = ratio(rgba(element instanceof SVGElement ? style.fill : style.color), behind(element));
    if (found < 4.5) low.add(`"${element.textContent.slice(0, 30)}" has ${found.toFixed(2)}`);
  }
  const style = getComputedStyle(document.documentElement);
  const named = (name) => rgba(style.getPropertyValue(`--${name}`).trim());
  const marks = ["compute", "comm", "bubble", "eval", "host", "copy", "network", "m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"];
  for (const name of marks) {
    const found = ratio(named(name), named("back"));
    if (found < 3) low.add(`the color ${name} has ${found.toFixed(2)}`);
  }
  for (const name of ["compute", "copy", "network", "host"]) {
    const found = ratio(named("on-mark"), named(name));
    if (found < 4.5) low.add(`names on ${name} have ${found.toFixed(2)}`);
  }
  return [...low];
}
