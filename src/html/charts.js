// Charts of a few hundred numbers, as SVG: curves and columns; and a matrix, on a canvas.

const CHART = { left: 62, right: 14, top: 12, bottom: 40 };
/** Units of a chart's width: as many as its pixels on narrow screens, so that its text stays readable. */
const chartWidth = () => (innerWidth < 640 ? Math.max(300, innerWidth - 28) : 560);

/** A scale from numbers to pixels. `log` is the base of a logarithmic one, or 0. */
function scale([low, high], [from, to], log) {
  const at = log ? (x) => Math.log(Math.max(x, 1e-300)) / Math.log(log) : (x) => x;
  const [a, b] = [at(low), at(high)];
  const of = (x) => from + ((at(x) - a) / (b - a || 1)) * (to - from);
  of.inverse = (pixel) => {
    const x = a + ((pixel - from) / (to - from || 1)) * (b - a);
    return log ? log ** x : x;
  };
  const powers = () => {
    const all = [];
    for (let n = Math.ceil(a - 1e-9); n <= b + 1e-9; n++) all.push(log ** n);
    const every = Math.ceil(all.length / 7);
    return all.filter((_, n) => n % every === 0);
  };
  of.ticks = (want, base) => (log ? powers() : ticks(low, high, want, base));
  return of;
}

/**
 * Curves over common places. `series`: `{name, kind, dashed, points: [[x, y]]}`; `x`, `y`: `{name, unit, log, low, high}`.
 * Hovering, or the arrow keys, show all values at a place.
 */
function curves(title, series, x, y, extra = {}) {
  const shown = series.filter((one) => one.points.some(([, value]) => known(value)));
  const all = shown.flatMap((one) => one.points.filter(([, value]) => known(value)));
  if (all.length === 0) return null;
  const [width, height] = [chartWidth(), 250];
  const xs = all.map((p) => p[0]),
    ys = all.map((p) => p[1]);
  const span = (values, axis) => {
    let [low, high] = [axis.low ?? Math.min(...values), axis.high ?? Math.max(...values)];
    if (low === high)
      [low, high] = axis.log ? [low / 2, high * 2] : [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
    return [low, high];
  };
  const sx = scale(span(xs, x), [CHART.left, width - CHART.right], x.log);
  const sy = scale(span(ys, y), [height - CHART.bottom, CHART.top], y.log);
  const root = s("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    tabindex: 0,
    "aria-label": `${title}. The table below has the values.`,
  });
  for (const tick of sy.ticks(5, y.unit === "bytes" ? 2 : 10)) {
    const at = sy(tick);
    root.append(
      s("line", { class: "axis", x1: CHART.left, x2: width - CHART.right, y1: at, y2: at }),
      s("text", { x: CHART.left - 7, y: at + 4, "text-anchor": "end" }, short(tick, y.unit)),
    );
  }
  const places = x.ticks ?? sx.ticks(7);
  for (const tick of places) {
    root.append(s("text", { x: sx(tick), y: height - CHART.bottom + 17, "text-anchor": "middle" }, short(tick, x.unit)));
  }
  root.append(
    s("line", { class: "axis", x1: CHART.left, x2: width - CHART.right, y1: height - CHART.bottom, y2: height - CHART.bottom }),
    s("text", { x: (CHART.left + width - CHART.right) / 2, y: height - 5, "text-anchor": "middle" }, x.name),
  );
  for (const band of extra.bands ?? []) {
    const there = band.points.filter(([, low, high]) => known(low) && known(high));
    const path = (n) => there.map((p) => `${sx(p[0]).toFixed(1)},${sy(p[n]).toFixed(1)}`);
    root.append(s("polygon", { points: [...path(1), ...path(2).reverse()].join(" "), fill: "var(--band)", opacity: 0.45 }));
  }
  for (const { kind, dashed, points, dots } of shown) {
    let path = "",
      open = false;
    for (const [px, py] of points) {
      if (known(py)) path += `${open ? "L" : "M"}${sx(px).toFixed(1)} ${sy(py).toFixed(1)}`;
      open = known(py);
    }
    root.append(s("path", { class: `curve ${kind}${dashed ? " dashed" : ""}`, d: path }));
    const few = dots ?? points.length <= 40;
    if (few && !dashed)
      for (const [px, py] of points) if (known(py)) root.append(s("circle", { class: kind, cx: sx(px), cy: sy(py), r: 3 }));
  }
  const cursor = s("line", {
    class: "axis",
    y1: CHART.top,
    y2: height - CHART.bottom,
    visibility: "hidden",
    style: "stroke: var(--dim)",
  });
  root.append(cursor);
  const stops = [...new Set(xs)].sort((a, b) => a - b);
  const at = shown.map((one) => new Map(one.points));
  let now = stops.length - 1;
  const show = (number, pageX, pageY) => {
    now = Math.max(0, Math.min(stops.length - 1, number));
    const place = stops[now],
      px = sx(place);
    cursor.setAttribute("x1", px);
    cursor.setAttribute("x2", px);
    cursor.setAttribute("visibility", "visible");
    const box = root.getBoundingClientRect();
    const lines = shown
      .map((one, n) => [one, at[n].get(place)])
      .filter(([, value]) => known(value))
      .map(([one, value]) => `${one.name}: ${short(value, y.unit)} (${full(value, y.unit)})`);
    showTip(pageX ?? box.left + (px / width) * box.width, pageY ?? box.top + box.height / 3, [
      `${x.name} ${short(place, x.unit)}`,
      ...lines,
    ]);
  };
  root.addEventListener("mousemove", (event) => {
    const box = root.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * width;
    let best = 0;
    stops.forEach((stop, n) => {
      if (Math.abs(sx(stop) - place) < Math.abs(sx(stops[best]) - place)) best = n;
    });
    show(best, event.clientX, event.clientY);
  });
  const leave = () => {
    cursor.setAttribute("visibility", "hidden");
    hideTip();
  };
  root.addEventListener("mouseleave", leave);
  root.addEventListener("blur", leave);
  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show(now + step);
  });
  const keys =
    shown.length > 1 || extra.bands
      ? legend([
          ...shown.map((one) => [`line ${one.kind}${one.dashed ? " dashed" : ""}`, one.name]),
          ...(extra.bands ?? []).map((band) => ["band", band.name]),
        ])
      : null;
  return figure(title, keys, root);
}

/** Columns of `groups`, `[name, values, kind]`, in a unit. Those of several groups stand on each other, or side by `side`. */
function columns(title, xName, names, groups, unit, { log = 0, side = false } = {}) {
  const [width, height] = [chartWidth(), 220];
  const totals = names.map((_, n) => groups.reduce((sum, [, values]) => (side ? Math.max(sum, values[n]) : sum + values[n]), 0));
  const most = Math.max(...totals, 1);
  const sy = scale([log ? 0.5 : 0, most], [height - CHART.bottom, CHART.top], log);
  const root = s("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${title}. The table below has the values.`,
  });
  for (const tick of sy.ticks(4, unit === "bytes" ? 2 : 10)) {
    root.append(
      s("line", { class: "axis", x1: CHART.left, x2: width - CHART.right, y1: sy(tick), y2: sy(tick) }),
      s(
        "text",
        { x: CHART.left - 7, y: sy(tick) + 4, "text-anchor": "end" },
        unit === "count" ? compact(tick) : short(tick, unit),
      ),
    );
  }
  const step = (width - CHART.left - CHART.right) / names.length;
  const letters = Math.max(...names.map((name) => name.length));
  const every = Math.max(1, Math.ceil((letters * 7.5 + 6) / step));
  names.forEach((name, n) => {
    let x = CHART.left + n * step,
      below = 0;
    const all = Math.max(1, step - Math.min(3, step / 5)),
      wide = side ? all / groups.length : all;
    const middle = x + all / 2;
    for (const [, values, kind] of groups) {
      const [from, to] = [sy(log && below === 0 ? 0.5 : below), sy(Math.max(below + values[n], log ? 0.5 : 0))];
      if (values[n] > 0) root.append(s("rect", { class: kind, x, width: wide, y: to, height: Math.max(0.5, from - to) }));
      if (side) x += wide;
      else below += values[n];
    }
    if (n % every === 0) root.append(s("text", { x: middle, y: height - CHART.bottom + 17, "text-anchor": "middle" }, name));
    const hit = s("rect", {
      class: "hit",
      x: CHART.left + n * step,
      width: step,
      y: CHART.top,
      height: height - CHART.bottom - CHART.top,
    });
    hit.addEventListener("mousemove", (event) =>
      showTip(event.clientX, event.clientY, [
        `${xName} ${name}`,
        ...groups.map(([what, values]) => `${what}: ${full(values[n], unit)}`),
      ]),
    );
    hit.addEventListener("mouseleave", hideTip);
    root.append(hit);
  });
  root.append(s("text", { x: (CHART.left + width - CHART.right) / 2, y: height - 5, "text-anchor": "middle" }, xName));
  const keys = groups.length > 1 ? legend(groups.map(([name, , kind]) => [kind, name])) : null;
  return figure(title, keys, root);
}

/** Mixes two colors like `#08447a`. */
function mixed(low, high, share) {
  const parts = (hex) => [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16));
  const [a, b] = [parts(low), parts(high)];
  return `rgb(${a.map((x, n) => Math.round(x + (b[n] - x) * share)).join(",")})`;
}

/** Bytes between ranks. `values[i][j]` are those from row `i` to row `j`. */
function matrix(values, name) {
  const size = values.length;
  const most = Math.max(...values.map((row) => Math.max(...row)), 1);
  const canvas = h("canvas", {
    tabindex: 0,
    role: "application",
    style: `max-width: ${Math.min(560, Math.max(220, 50 + 44 * size))}px; aspect-ratio: 1`,
    class: "matrix",
    "aria-label": "Bytes from each rank, a row, to each other one, a column. Arrow keys move over the cells.",
    "aria-describedby": "sent-now",
  });
  const now = h("output", { id: "sent-now", "aria-live": "polite" }, "Point at a cell, or use the arrow keys.");
  let place = null;
  const left = 44,
    top = 22;
  const cellSize = () => (canvas.clientWidth - left - 2) / size;
  const share = (value) => Math.sqrt(value / most);
  const soon = drawn(canvas, (pen, width) => {
    const one = (width - left - 2) / size,
      gap = one > 6 ? 1 : 0;
    const [low, high] = [color("heat-low"), color("heat-high")];
    pen.fillStyle = color("line");
    values.forEach((row, i) =>
      row.forEach((value, j) => {
        if (i === j && value === 0) return;
        pen.fillStyle = value === 0 ? color("raised") : mixed(low, high, 0.08 + 0.92 * share(value));
        pen.fillRect(left + j * one, top + i * one, Math.max(0.7, one - gap), Math.max(0.7, one - gap));
      }),
    );
    pen.fillStyle = color("dim");
    const every = Math.ceil(size / 16);
    for (let n = 0; n < size; n += every) {
      pen.textAlign = "right";
      pen.fillText(String(name(n)), left - 6, top + n * one + one / 2 + 4);
      pen.textAlign = "center";
      pen.fillText(String(name(n)), left + n * one + one / 2, top - 7);
    }
    if (place) {
      pen.strokeStyle = color("comm");
      pen.lineWidth = 2;
      pen.strokeRect(left + place[1] * one, top + place[0] * one, Math.max(3, one), Math.max(3, one));
    }
  });
  const tell = (i, j) => {
    place = [i, j];
    const value = values[i][j];
    const text =
      i === j && value === 0 ? `${name(i)}: itself` : `From ${name(i)} to ${name(j)}: ${bytes(value)} (${full(value, "bytes")})`;
    now.textContent = text;
    soon();
    return text;
  };
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    const [j, i] = [event.clientX - box.left - left, event.clientY - box.top - top].map((at) => Math.floor(at / cellSize()));
    if (i < 0 || j < 0 || i >= size || j >= size) return hideTip();
    showTip(event.clientX, event.clientY, [tell(i, j)]);
  });
  canvas.addEventListener("mouseleave", hideTip);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [i, j] = place ?? [0, -1];
    const within = (n) => Math.max(0, Math.min(size - 1, n));
    tell(within(i + step[0]), within(j + step[1]));
  });
  const steps = [0, 0.04, 0.16, 0.36, 0.64, 1];
  const bar = h("canvas", { style: "height: 12px; max-width: 240px", role: "presentation" });
  drawn(bar, (pen, width, height) => {
    for (let x = 0; x < width; x++) {
      pen.fillStyle = mixed(color("heat-low"), color("heat-high"), 0.08 + 0.92 * (x / width));
      pen.fillRect(x, 0, 1, height);
    }
  });
  const keys = h(
    "div",
    { class: "dim", style: "max-width: 240px; font-size: 12px; display: flex; justify-content: space-between" },
    h("span", {}, "0 B"),
    h("span", {}, bytes(most * steps[2])),
    h("span", {}, bytes(most)),
  );
  // The middle of the bar is a quarter of the most: shades go by the square root.
  keys.children[1].textContent = bytes(most / 4);
  return figure(null, canvas, h("div", { style: "margin: 8px 0 0 44px" }, bar, keys), now);
}
