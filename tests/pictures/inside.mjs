// What runs inside of pages: each function is sent to the browser alone.

/** Opens all tables and reads them. `problems` are charts without text beside them. */
export async function reading() {
  const turn = () => new Promise((done) => setTimeout(done, 0));
  document.querySelectorAll("details").forEach((details) => (details.open = true));
  await turn();
  await turn();
  document
    .querySelectorAll("button")
    .forEach((button) => /^Show (all|\d)/.test(button.textContent) && !button.hidden && button.click());
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
    if (chart.getAttribute("role") === "application" && chart.tabIndex !== 0)
      problems.push(`a chart of ${chart.closest("section")?.id} cannot be reached by keys`);
  }
  for (const section of document.querySelectorAll("main section")) {
    if (section.querySelector("figure") && !section.querySelector("table"))
      problems.push(`the charts of ${section.id} have no table`);
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

/** Texts with less contrast than 4.5 to what is behind them, and colors of charts with less than 3 to the page, or that look alike. */
export function contrasts() {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = color;
    pen.fillRect(0, 0, 1, 1);
    return pen.getImageData(0, 0, 1, 1).data;
  };
  const light = ([r, g, b]) =>
    [r, g, b]
      .map((x) => x / 255)
      .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
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
  // What is drawn side by side can be told apart by people who lack one kind of cones (Machado, Oliveira and Fernandes, 2009): by a
  // distance in CIELAB.
  const visions = {
    all: [1, 0, 0, 0, 1, 0, 0, 0, 1],
    protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
    deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
    tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
  };
  const seen = (color, vision) => {
    const linear = [...color]
      .slice(0, 3)
      .map((x) => x / 255)
      .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    const row = (numbers, n) => linear.reduce((sum, x, k) => sum + numbers[3 * n + k] * x, 0);
    const [r, g, b] = [0, 1, 2].map((n) => Math.min(1, Math.max(0, row(visions[vision], n))));
    const [x, y, z] = [
      (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
      0.2126 * r + 0.7152 * g + 0.0722 * b,
      (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
    ].map((t) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116));
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
  };
  for (const group of [
    ["compute", "comm", "eval", "bubble"],
    ["compute", "copy", "network", "host"],
    marks.filter((name) => /^m\d/.test(name)),
  ]) {
    group.forEach((a, n) =>
      group.slice(n + 1).forEach((b) =>
        Object.keys(visions).forEach((vision) => {
          const apart = Math.hypot(...[0, 1, 2].map((k) => seen(named(a), vision)[k] - seen(named(b), vision)[k]));
          if (apart < 15) low.add(`the colors ${a} and ${b} look alike with ${vision}: ${apart.toFixed(1)}`);
        }),
      ),
    );
  }
  return [...low];
}
