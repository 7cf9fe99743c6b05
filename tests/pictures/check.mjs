// Looks at pages in a headless browser. `tests/pictures/run` starts it; `cases.mjs` says what pages must show.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { CASES, folder, sameTwice } from "./cases.mjs";
import { canvases, contrasts, reading } from "./inside.mjs";

const { chromium } = createRequire(resolve(folder, "package.json"))("playwright-core");
const MOST_BYTES = 4 << 20;
const profile = mkdtempSync(join(tmpdir(), "pictures-"));
const flags = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const browser = await chromium.launchPersistentContext(profile, { executablePath: process.env.CHROMIUM, args: flags });

/** Opens a page and does something with it. Fails if the page says anything on its console, or asks for anything. */
async function open(html, { scheme = "light", width = 1280 }, look) {
  const url = `file://${resolve(html)}`,
    wrong = [];
  const page = await browser.newPage();
  page.on("console", (message) => wrong.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("request", (request) => request.url() !== url && wrong.push(`request: ${request.url()}`));
  try {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height: 900 });
    await page.goto(url);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const found = await look(page);
    assert.deepEqual(wrong, []);
    return found;
  } finally {
    await page.close();
  }
}

/** A screenshot is there, and not blank: it has several colors, and much that is not the background. */
async function shot(page, path) {
  const png = await page.screenshot({ path, fullPage: true });
  assert.ok(statSync(path).size > 10_000, `${path} is small`);
  const seen = await page.evaluate(async (data) => {
    const image = await createImageBitmap(new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))]));
    const canvas = new OffscreenCanvas(image.width, image.height),
      pen = canvas.getContext("2d");
    pen.drawImage(image, 0, 0);
    const pixels = new Uint32Array(pen.getImageData(0, 0, image.width, image.height).data.buffer);
    const colors = new Map();
    for (let n = 0; n < pixels.length; n += 7) colors.set(pixels[n], (colors.get(pixels[n]) ?? 0) + 1);
    const most = Math.max(...colors.values());
    return { colors: colors.size, drawn: 1 - most / Math.ceil(pixels.length / 7) };
  }, png.toString("base64"));
  assert.ok(seen.colors > 20 && seen.drawn > 0.02, `${path} is blank: ${JSON.stringify(seen)}`);
}

/** The numbers that are seen are those of the cells: in their unit, to three digits. */
function readable(tables) {
  const sizes = {
    ns: 1e-9,
    µs: 1e-6,
    ms: 1e-3,
    s: 1,
    min: 60,
    h: 3600,
    B: 1,
    KiB: 2 ** 10,
    MiB: 2 ** 20,
    GiB: 2 ** 30,
    TiB: 2 ** 40,
    PiB: 2 ** 50,
    "×": 1,
    "%": 0.01,
    "": 1,
  };
  let checked = 0;
  for (const { caption, rows } of tables) {
    for (const { value, text, title } of rows.flat().filter((cell) => typeof cell.value === "number")) {
      if (text.startsWith("<")) continue;
      const [, number, unit] = /^(-?[\d.,e+-]+)\s*(\S*)$/u.exec(text) ?? [];
      const seen = Number(number?.replaceAll(",", "")) * sizes[unit];
      assert.ok(
        Math.abs(seen - value) <= 0.0051 * Math.abs(value) + (unit === "%" ? 5.1e-4 : unit === "×" ? 5.1e-3 : 1e-12),
        `${caption}: a cell reads ${text}, and its value is ${value}`,
      );
      const told = title ?? text;
      const full = Number(/^-?[\d.,e+-]+/.exec(told.replaceAll(",", ""))[0]);
      if (unit !== "%") assert.equal(full, value, `${caption}: the tooltip reads ${told}`);
      checked += 1;
    }
  }
  assert.ok(checked > 20, `only ${checked} numbers were checked`);
}

/** Keys, buttons and the mouse change the window of a timeline and what is drawn. */
async function zooms(page, number) {
  const canvas = page.locator("canvas.timeline").nth(number);
  const state = () =>
    canvas.evaluate(async (element) => {
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return [Number(element.dataset.from), Number(element.dataset.to), element.toDataURL()];
    });
  const before = await state();
  await canvas.focus();
  await page.keyboard.press("+");
  const near = await state();
  assert.ok(
    Math.abs((near[1] - near[0]) / (before[1] - before[0]) - 0.5) < 1e-6,
    `+ does not halve the window: ${before.slice(0, 2)}, ${near.slice(0, 2)}`,
  );
  assert.notEqual(near[2], before[2], "zooming draws the same");
  await page.keyboard.press("ArrowRight");
  const moved = await state();
  assert.ok(moved[0] > near[0], "the right arrow does not move");
  await page.keyboard.press("n");
  const said = await page.locator("figure:has(canvas.timeline)").nth(number).locator("output").textContent();
  assert.match(said, /takes .* \(.* s\)/, "stepping to an event says nothing of it");
  // Before, a window may be that of the other timeline, whose epoch may be shorter.
  await page.keyboard.press("0");
  const whole = await state();
  const box = await canvas.boundingBox();
  await canvas.scrollIntoViewIfNeeded();
  await canvas.dblclick({ position: { x: box.width / 2, y: Math.min(60, box.height - 20) } });
  const clicked = await state();
  assert.ok(clicked[1] - clicked[0] < whole[1] - whole[0], "a double click does not zoom");
  await page.locator("figure:has(canvas.timeline)").nth(number).getByRole("button", { name: "Show the epoch" }).click();
}

/** Everything that must hold of a page. */
async function examine(one, made) {
  assert.ok(statSync(one.html).size < MOST_BYTES, `${one.html} has ${statSync(one.html).size} bytes`);
  for (const scheme of ["light", "dark"]) {
    await open(one.html, { scheme }, async (page) => {
      await shot(page, `${folder}/${one.name}-${scheme}.png`);
      assert.deepEqual(await page.evaluate(contrasts), [], "contrast is low");
      for (const canvas of await page.evaluate(canvases)) assert.ok(canvas.colors >= 3, `the canvas "${canvas.name}" is blank`);
      const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(light === "rgb(255, 255, 255)", scheme === "light", `the background is ${light} in ${scheme} mode`);
    });
  }
  await open(one.html, {}, async (page) => {
    const { tables, problems } = await page.evaluate(reading);
    assert.deepEqual(problems, []);
    readable(tables);
    one.check(tables, made);
    const timelines = await page.locator("canvas.timeline").count();
    assert.equal(timelines, one.timelines ?? 1, "timelines");
    for (let n = 0; n < timelines; n++) await zooms(page, n);
    assert.equal(await page.evaluate(() => window.broken), undefined, "data of the page ran as a script");
    await page.emulateMedia({ media: "print" });
    assert.ok(!(await page.locator("nav").isVisible()), "the menu is printed");
    assert.ok((await page.pdf()).length > 10_000, "the printed page is empty");
  });
  await open(one.html, { width: 400 }, async (page) => {
    await shot(page, `${folder}/${one.name}-narrow.png`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 400, `at 400 pixels, the page is ${wide} wide`);
  });
}

/** Pages that are wrong must fail. `change` makes one from a right one. */
async function refuses(one, made, what, change, message) {
  const html = `${folder}/wrong.html`,
    right = readFileSync(one.html, "utf8"),
    text = change(right);
  assert.notEqual(text, right, `${what}: nothing was changed`);
  writeFileSync(html, text);
  await assert.rejects(
    examine({ ...one, name: "wrong", html }, made),
    message,
    `a page ${what} was accepted, or refused for another reason`,
  );
}

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !CASES.some((one) => one.name === name));
let failed = unknown.length;
unknown.forEach((name) => console.log(`${name}: there is no such page; there are ${CASES.map((one) => one.name).join(", ")}`));
const timed = async (name, work) => {
  const begin = Date.now();
  let outcome = "ok";
  try {
    outcome = (await work()) ?? "ok";
  } catch (error) {
    failed += 1;
    outcome = `FAILED\n${error.stack.replace(/^/gm, "    ")}`;
  }
  console.log(`${name.padEnd(12)} ${((Date.now() - begin) / 1000).toFixed(1).padStart(5)} s  ${outcome}`);
};
const kept = {};
for (const one of CASES.filter((one) => asked.length === 0 || asked.includes(one.name))) {
  await timed(one.name, async () => {
    kept[one.name] = one.make();
    await examine(one, kept[one.name]);
    return `ok, ${Math.ceil(statSync(one.html).size / 1024)} KiB`;
  });
}
if (asked.length === 0) {
  await timed("same twice", async () => sameTwice());
  await timed("wrong pages", async () => {
    const one = CASES.find((one) => one.name === "graph"),
      made = kept.graph;
    const within = (from, to) => (text) => text.replace(from, to);
    await refuses(
      one,
      made,
      "with another number",
      within(/"epoch_seconds":([\d.]+)/, '"epoch_seconds":9$1'),
      /deepEqual|deep-equal|strictly/,
    );
    await refuses(
      one,
      made,
      "with a picture from the network",
      within('<main id="content"', '<img src="https://example.org/a.png" alt=""><main id="content"'),
      /console|request/,
    );
    await refuses(one, made, "without its script", within(/const data = JSON/, "return; const data = JSON"), /blank|small/);
    await refuses(
      one,
      made,
      "with an error",
      within(/leftOutSection\(data\);/, "leftOutSection(nothing);"),
      /nothing is not defined/,
    );
    await refuses(one, made, "with pale text", within("--dim: #57606a", "--dim: #b0b0b0"), /contrast/);
    await refuses(one, made, "with colors that look alike", within(/--network: #\w+/, "--network: #0c7361"), /look alike/);
    await refuses(
      one,
      made,
      "that does not zoom",
      within("this.show(at - (at - this.from) * factor", "this.show(at - (at - this.from)"),
      /window|zoom/,
    );
    await refuses(one, made, "that rounds wrongly", within("x.toPrecision(3)", "x.toPrecision(1)"), /reads/);
  });
}
await browser.close();
rmSync(profile, { recursive: true, force: true });
process.exit(failed > 0 ? 1 : 0);
