// The pages that are looked at: how each is made, and what its tables must say.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const gnnc = process.env.GNNC;
export const folder = "target/pictures";

/** Runs gnnc and returns its report. */
function report(args, code = 0) {
  const run = spawnSync(gnnc, [...args, "--format", "json"], { encoding: "utf8", maxBuffer: 1 << 28 });
  assert.equal(run.status, code, `gnnc ${args.join(" ")}: ${run.stderr}${run.stdout.slice(0, 500)}`);
  return JSON.parse(run.stdout);
}

/** The numbers of some columns of a table, row by row. */
function numbers(table, names) {
  const places = names.map((name) => table.heads.indexOf(name));
  assert.ok(
    places.every((place) => place >= 0),
    `the table "${table.caption}" lacks one of ${names}; it has ${table.heads}`,
  );
  return table.rows.map((row) => places.map((place) => row[place]?.value));
}
const find = (tables, begin) => {
  const found = tables.filter((table) => table.caption.startsWith(begin));
  assert.equal(found.length, 1, `found ${found.length} tables "${begin}": ${tables.map((table) => table.caption).join(" | ")}`);
  return found[0];
};
const sum = (list) => list.reduce((all, value) => all + value, 0);
const near = (a, b, least, what) => assert.ok(Math.abs(a - b) <= least, `${what}: ${a} and ${b} differ by more than ${least}`);

/** The candidates of a plan, as its report has them. */
function candidates(plan) {
  return plan.candidates.map((c) => [
    c.epoch_seconds,
    c.compute_seconds,
    c.exposed_communication_seconds,
    c.bubble_seconds,
    c.eval_seconds,
    c.bytes,
    c.peak_memory_bytes,
  ]);
}
const RANKING = ["epoch", "computing", "communication", "waiting", "evaluation", "sent", "memory"];

/** What all tables about a plan and its chosen candidate must say. */
function planned(tables, { plan, trace, rewrites, page }) {
  const best = plan.candidates[plan.chosen ?? 0];
  assert.deepEqual(numbers(find(tables, "#ranking"), RANKING), candidates(plan));
  assert.deepEqual(
    numbers(find(tables, "#breakdown"), ["time", "runs"]),
    best.breakdown.map((one) => [one.seconds, one.count]),
  );
  if (plan.rejected.length > 0) assert.equal(find(tables, "Rejected").rows.length, plan.rejected.length);
  const rules = rewrites.report.regions.flatMap((region) => region.rules.map((rule) => [rule.applications, rule.saved_seconds]));
  if (rules.length > 0) assert.deepEqual(numbers(find(tables, "The rules"), ["steps", "saves"]), rules);
  const { before, after } = rewrites.report;
  assert.deepEqual(
    numbers(find(tables, "#rewrites"), ["time", "operations", "bytes"]),
    [before, after].map((work) => [work.seconds, work.flops, work.bytes]),
  );
  const degrees = page.graph.degree_histogram.slice(0, page.graph.degree_histogram.findLastIndex((n) => n > 0) + 1);
  if (degrees.length > 0) assert.deepEqual(numbers(find(tables, "Vertices by in-degree"), ["vertices"]).flat(), degrees);
  assert.equal(find(tables, "The graph").rows[1].at(-1).value, plan.workload.edges);
  const ranks = best.parameters.ranks;
  if (ranks > 1) {
    const sent = find(tables, "Bytes of each rank");
    near(sum(numbers(sent, ["sends"]).flat()), best.bytes, ranks * ranks, "bytes that ranks send");
    near(sum(numbers(sent, ["receives"]).flat()), best.bytes, ranks * ranks, "bytes that ranks receive");
    near(
      sum(numbers(find(tables, "Bytes of an epoch, the largest first"), ["sent"]).flat()),
      best.bytes,
      ranks * ranks,
      "bytes of pairs",
    );
  }
  const tensors = find(tables, "Tensors");
  const live = numbers(find(tables, "What tensors take"), ["tensors"]).flat();
  const { memory } = page.pictured;
  const most = Math.max(...live) + memory.scratch_bytes + memory.other_bytes;
  assert.equal(memory.tensor_bytes + memory.other_bytes, best.peak_memory_bytes);
  assert.ok(
    most <= best.peak_memory_bytes && most > 0.9 * best.peak_memory_bytes,
    `${most} bytes live at once, and the peak is ${best.peak_memory_bytes}`,
  );
  assert.ok(tensors.rows.every((row) => row[2].value <= best.peak_memory_bytes || row[1].text === "on the host"));
  if (trace) timeline(tables, trace);
}

/** The table of a predicted timeline has the times and bytes of the trace, which shows as many ranks. */
function timeline(tables, trace) {
  const events = trace.traceEvents.filter((event) => event.ph === "X");
  const ranks = new Set(events.map((event) => event.pid)).size;
  const names = { setup: "setup", step: "epoch", eval: "evaluation" };
  const sums = new Map();
  for (const { cat, name, dur, args } of events) {
    const key = `${names[cat]} ${name} ${args.resource}`;
    const all = sums.get(key) ?? sums.set(key, [0, 0, 0]).get(key);
    all[0] += 1 / ranks;
    all[1] += dur / 1e6 / ranks;
    all[2] += args.bytes_sent / ranks;
  }
  const table = find(tables, "Mean over");
  assert.equal(table.rows.length, sums.size);
  for (const row of table.rows) {
    const [runs, time, sent] = sums.get(
      row
        .slice(0, 3)
        .map((one) => one.text)
        .join(" "),
    );
    near(row[3].value, runs, 1e-6, "runs");
    near(row[4].value, time, runs * 1e-9 + time * 1e-6, "time");
    near(row[5].value, sent, 1e-6 * sent + 1e-6, "bytes");
  }
}

/** A case of `gnnc plan`. `traced` says that the page shows the ranks that `--trace` writes. */
function plan(name, model, args, { traced = false, workload = [], code = 0 } = {}) {
  const html = `${folder}/${name}.html`,
    trace = `${folder}/${name}.trace.json`;
  return {
    name,
    html,
    make: () => {
      const found = { plan: report(["plan", model, ...args, "--html", html, ...(traced ? ["--trace", trace] : [])], code) };
      found.rewrites = report(["explain", model]);
      found.page = pageData(html);
      const stats = workload.length > 0 ? report(["graph", "stats", ...workload]) : null;
      if (stats) assert.deepEqual(found.page.graph.degree_histogram, stats.degree_histogram);
      if (traced) found.trace = JSON.parse(readFileSync(trace, "utf8"));
      return found;
    },
    check: planned,
  };
}

/** The data of a page. */
export function pageData(html) {
  const text = readFileSync(html, "utf8");
  return JSON.parse(text.split('application/json">')[1].split("</script>")[0]);
}

/** A cluster whose name would end the element with the data, and run. */
function hostileCluster() {
  const file = `${folder}/hostile.toml`;
  const text = readFileSync("examples/clusters/described.toml", "utf8");
  assert.match(text, /^name = /m);
  writeFileSync(
    file,
    text.replace(/^name = .*$/m, `name = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 1">'`),
  );
  return file;
}

const cora = "examples/gcn_cora.gir",
  squirrel = "examples/gcnii_32_squirrel.gir";

export const CASES = [
  plan("graph", cora, ["--gpus", "8", "--pin", "ranks=8"], { traced: true, workload: ["examples/data/cora.npz"] }),
  plan("pipeline", squirrel, ["--gpus", "8", "--allow", "stale", "--pin", "placement=hybrid,stages=4,chunks=16"], {
    traced: true,
  }),
  plan(
    "batches",
    "examples/sage_photo.gir",
    ["--gpus", "4", "--allow", "sample", "--pin", "placement=minibatch,ranks=4", "--batch", "200", "--fanouts", "10,5"],
    { traced: true },
  ),
  plan("gpus64", "examples/gcnii_128_reddit.gir", ["--gpus", "64"]),
  plan("gpus512", "examples/gcn_reddit.gir", ["--gpus", "512", "--pin", "ranks=512"]),
  plan("rejected", "examples/rgcn_types_aifb.gir", [
    "--gpus",
    "64",
    "--allow",
    "decouple,stale,sample",
    "--batch",
    "64",
    "--fanouts",
    "10,10",
  ]),
  plan("host", "examples/gat_papers100m.gir", ["--gpus", "16"]),
  plan("target", cora, [
    "--gpus",
    "2",
    "--objective",
    "time-to-accuracy",
    "--allow",
    "sample",
    "--batch",
    "35",
    "--fanouts",
    "5,5",
  ]),
  plan("nothing", "examples/gat_papers100m.gir", ["--gpus", "8"], { code: 3 }),
  {
    name: "hostile",
    html: `${folder}/hostile.html`,
    make: () => {
      const cluster = hostileCluster();
      const found = {
        plan: report(["plan", cora, "--cluster", cluster, "--html", `${folder}/hostile.html`]),
        rewrites: report(["explain", cora]),
      };
      assert.ok(found.plan.cluster.name.includes("</script>"));
      found.page = pageData(`${folder}/hostile.html`);
      return found;
    },
    check: planned,
  },
  {
    name: "run",
    html: `${folder}/run.html`,
    make: () => {
      const html = `${folder}/run.html`,
        curve = `${folder}/run.csv`;
      const summary = report(["train", cora, "--workers", "4", "--epochs", "30", "--curve", curve, "--html", html]);
      const lines = readFileSync(curve, "utf8").trim().split("\n").slice(1);
      return { summary, curve: lines.map((line) => line.split(",").map(Number)), data: pageData(html) };
    },
    check: (tables, { summary, curve, data }) => {
      assert.deepEqual(
        numbers(find(tables, "Epochs"), ["epoch", "loss"]),
        curve.map((row) => row.slice(0, 2)),
      );
      assert.deepEqual(
        numbers(find(tables, "Scores"), ["epoch", "train", "val", "test"]),
        curve.map((row) => [row[0], ...row.slice(2)]),
      );
      assert.equal(sum(numbers(find(tables, "Epochs"), ["sent"]).flat()), summary.bytes_sent);
      const [epoch, , sent, memory] = numbers(find(tables, "#compared"), ["predicted", "measured"]);
      assert.equal(epoch[1], summary.epoch_seconds);
      assert.deepEqual([sent[0], sent[1]], [summary.bytes_sent / 30, summary.bytes_sent / 30]);
      assert.equal(memory[1], summary.peak_memory_bytes);
      const each = find(tables, "Bytes of each rank");
      assert.equal(sum(numbers(each, ["sent, measured"]).flat()), summary.bytes_sent / 30);
      // Each rank sends what is predicted for it.
      for (const [predicted, measured] of numbers(each, ["sends", "sent, measured"]))
        near(predicted, measured, 4, "bytes of a rank");
      assert.equal(data.run.timeline.kind, "measured");
      assert.equal(data.pictured.timeline.kind, "predicted");
    },
    timelines: 2,
  },
  {
    name: "sweep",
    html: `${folder}/sweep.html`,
    make: () => {
      const args = ["sweep", "examples/gcn_reddit.gir", "--cluster", "nodes=8 gpus=8 gpu=h100 price=3", "--gpus", "1..64"];
      return report([...args, "--html", `${folder}/sweep.html`]);
    },
    check: (tables, sweep) => {
      const names = [
        "devices",
        "epoch",
        "computing",
        "communication",
        "waiting",
        "evaluation",
        "speed-up",
        "memory",
        "sent",
        "cost of an epoch",
        "cost of a run",
      ];
      const rows = sweep.points.map(({ devices, choice: c, speed_up: faster, cost_per_epoch: epoch, cost_per_run: run }) => [
        devices,
        c.epoch_seconds,
        c.compute_seconds,
        c.exposed_communication_seconds,
        c.bubble_seconds,
        c.eval_seconds,
        faster,
        c.peak_memory_bytes,
        c.bytes,
        epoch,
        run,
      ]);
      assert.deepEqual(numbers(find(tables, "The best plan"), names), rows);
    },
    timelines: 0,
  },
];

/** Says whether gnnc writes the same page twice. */
export function sameTwice() {
  const pages = ["first", "second"].map((name) => {
    const html = `${folder}/${name}.html`;
    execFileSync(gnnc, ["plan", cora, "--gpus", "8", "--html", html]);
    return readFileSync(html, "utf8");
  });
  assert.equal(pages[0], pages[1], "two pages of the same plan differ");
}
