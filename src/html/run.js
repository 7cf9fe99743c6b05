// A training run: its curves, and what was predicted beside what became of it.

const SETS = [
  ["train", "m0", 1],
  ["val", "compute", 2],
  ["test", "comm", 3],
];

function curvesSection(run) {
  const metric = run.facts.metric;
  const best = run.summary.best_epoch;
  const losses = run.losses.map(([epoch, loss]) => [epoch, loss]);
  const epoch = { name: "epoch", unit: "count" };
  const series = (of) => SETS.map(([name, kind, n]) => ({ name, kind, points: of.map((point) => [point[0], point[n]]) }));
  section(
    "curves",
    "Curves",
    best
      ? `The best epoch is ${best}, by the ${run.summary.chosen_by ? `validation ${run.summary.chosen_by}` : "validation loss"}.`
      : null,
    h(
      "div",
      { class: "pair" },
      curves("Training loss", [{ name: "loss", kind: "compute", points: losses }], epoch, { unit: "number" }),
      curves(`Scores: ${metric}`, series(run.scores), epoch, { unit: "number" }),
      curves(
        "Time of each epoch",
        [{ name: "measured", kind: "compute", points: run.losses.map((point) => [point[0], point[2]]), dots: false }],
        epoch,
        { unit: "seconds", low: 0 },
      ),
    ),
    tableBehind("Table: epochs", () =>
      table(
        "Epochs",
        [
          ["epoch", "count"],
          ["loss", "number"],
          ["time", "seconds"],
          ["learning rate", "number"],
          ["sent", "bytes"],
        ],
        run.losses,
      ),
    ),
    tableBehind("Table: scores", () =>
      table(
        `Scores (${metric})`,
        [
          ["epoch", "count"],
          ["train", "number"],
          ["val", "number"],
          ["test", "number"],
          ["time of the evaluation", "seconds"],
        ],
        run.scores,
      ),
    ),
  );
}

/** The median of numbers. */
function median(list) {
  const sorted = [...list].sort((a, b) => a - b),
    middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** `[what, predicted, measured, unit]` of a run. */
function comparison(run, candidate) {
  const { summary } = run,
    epochs = run.losses;
  const evaluations = run.scores.map((point) => point[4]).filter((time) => time > 0);
  const sent = epochs.length > 0 ? median(epochs.map((point) => point[4])) : null;
  return [
    ["time of an epoch (median)", candidate?.epoch_seconds, summary.epoch_seconds, "seconds"],
    ["time of an evaluation (median)", candidate?.eval_seconds, evaluations.length ? median(evaluations) : null, "seconds"],
    ["bytes sent in an epoch (median)", candidate?.bytes, sent, "bytes"],
    ["peak memory", candidate?.peak_memory_bytes, summary.peak_memory_bytes, "bytes"],
  ];
}

function comparedSection(run, candidate) {
  if (!candidate) return;
  const lines = comparison(run, candidate).map(([what, predicted, measured, unit]) => {
    const longest = Math.max(predicted ?? 0, measured ?? 0) || 1;
    const one = (value, kind, y) =>
      known(value) && s("rect", { class: kind, x: 0, y, height: 7, width: Math.max(0.5, (value / longest) * 400) });
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, what),
      h(
        "td",
        { class: "bars", style: "width: 40%" },
        s(
          "svg",
          { viewBox: "0 0 400 20", preserveAspectRatio: "none", style: "height: 20px", "aria-hidden": "true" },
          [one(predicted, "m0", 2), one(measured, "compute", 11)].filter(Boolean),
        ),
      ),
      cell(predicted, unit),
      cell(measured, unit),
      cell(predicted > 0 && known(measured) ? measured / predicted : null, "ratio"),
    );
  });
  const heads = [["what"], [""], ["predicted", 1], ["measured", 1], ["measured / predicted", 1]];
  const rows = (run.compared?.rows ?? []).map(({ phase, at, name, resource, runs, seconds: [a, b], bytes: [sent, really] }) => [
    PHASE_NAMES[phase],
    at,
    name,
    resource,
    runs,
    a,
    b,
    known(a) && known(b) && a > 0 ? b / a : null,
    sent,
    really,
  ]);
  const totals = (run.compared?.totals ?? []).flatMap((total) => [
    [PHASE_NAMES[total.phase], "first start to last end", ...total.seconds],
    ...RESOURCES.map((name, n) => [
      PHASE_NAMES[total.phase],
      TRACK_NAMES[name].replace(" and waiting for them", ""),
      ...total.resources[n],
    ]),
    [PHASE_NAMES[total.phase], "waiting for other ranks", ...total.waiting],
    [PHASE_NAMES[total.phase], "between instructions", ...total.between],
  ]);
  section(
    "compared",
    "Predicted and measured",
    `The prediction is for ${candidate.name}; the range of its epoch is ${seconds(candidate.range.low)} to ` +
      `${seconds(candidate.range.high)}. Only plans for a calibrated machine are forecasts.`,
    legend([
      ["m0", "predicted"],
      ["compute", "measured"],
    ]),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { style: "width: 100%" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map(([name, n]) => h("th", { scope: "col", class: n ? "n" : undefined }, name)),
          ),
        ),
        h("tbody", {}, lines),
      ),
    ),
    totals.length > 0 &&
      tableBehind("Table: time by resource", () =>
        table(
          "Mean over ranks, median over epochs, without waiting where it is not said",
          [
            ["phase", "text"],
            ["what", "text"],
            ["predicted", "seconds"],
            ["measured", "seconds"],
          ],
          totals,
        ),
      ),
    rows.length > 0 &&
      tableBehind("Table: time by instruction", () =>
        table(
          "Largest differences first; mean over ranks, without waiting",
          [
            ["phase", "text"],
            ["place", "text"],
            ["instruction", "text"],
            ["resource", "text"],
            ["runs", "count"],
            ["predicted", "seconds"],
            ["measured", "seconds"],
            ["measured / predicted", "ratio"],
            ["sent, predicted", "bytes"],
            ["sent, measured", "bytes"],
          ],
          rows,
        ),
      ),
  );
}

/** The bytes that each rank sent in the epoch of a measured timeline; `null` if it lacks ranks. */
function sentByRank(timeline) {
  if (!timeline || timeline.lanes.length === 0) return null;
  const line = decoded(timeline);
  if (line.rows.length < line.ranks) return null;
  return line.rows.map(({ lane }) =>
    lane.sent.reduce((sum, sent, n) => sum + (line.instructions[lane.what[n]][0] === "step" ? sent : 0), 0),
  );
}

function runPage(data) {
  const { run, plan, pictured } = data;
  const { summary, facts } = run;
  const candidate = plan && pictured ? plan.candidates[pictured.number] : null;
  const metric = facts.metric;
  const score = (set) => summary[`${set}_${metric}`];
  const ratio = candidate ? summary.epoch_seconds / candidate.epoch_seconds : null;
  const ended = summary.interrupted ? ", interrupted" : summary.stopped_early ? ", stopped early" : "";
  heading(
    `${data.model} on ${data.graph.name}: ${counted(summary.epochs, "epoch")} on ${counted(summary.workers, "worker")}`,
    `${candidate ? candidate.name : facts.placement}, ${counted(summary.threads, "thread")} each, seed ${summary.seed}${ended}. ${graphLine(data.graph)}.`,
    [
      [
        "Epoch, measured",
        seconds(summary.epoch_seconds),
        candidate ? `predicted ${seconds(candidate.epoch_seconds)}, ${UNITS.ratio.short(ratio)}` : "median",
        full(summary.epoch_seconds, "seconds"),
      ],
      known(score("val")) && [
        `Validation ${metric}`,
        short(score("val"), "number"),
        summary.best_epoch ? `at epoch ${summary.best_epoch}` : "last evaluation",
        full(score("val"), "number"),
      ],
      known(score("test")) && [
        `Test ${metric}`,
        short(score("test"), "number"),
        "at the same epoch",
        full(score("test"), "number"),
      ],
      ["Training loss", short(summary.train_loss, "number"), "last epoch", full(summary.train_loss, "number")],
      ["Sent", bytes(summary.bytes_sent), "in all epochs, as predicted", full(summary.bytes_sent, "bytes")],
      [
        "Peak memory",
        bytes(summary.peak_memory_bytes),
        candidate ? `predicted ${bytes(candidate.peak_memory_bytes)}` : "worst worker",
        full(summary.peak_memory_bytes, "bytes"),
      ],
    ],
  );
  curvesSection(run);
  comparedSection(run, candidate);
  timelineSection(pictured?.timeline, run.timeline);
  if (candidate) breakdownSection(candidate, pictured?.timeline);
  memorySection(pictured?.memory);
  sentSection(pictured?.sent, sentByRank(run.timeline));
  if (plan && plan.candidates.length > 1) rankingSection(plan);
  graphSection(data.graph, pictured);
  rewritesSection(data.rewrites);
  if (plan) rejectedSection(plan);
}
