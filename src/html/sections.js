// The heading of a page, and the sections that need few lines: where time goes, bytes, the graph, rewrites, what is missing.

/** The heading: what the page is of, and its most important numbers. */
function heading(title, about, numbers) {
  document.title = `gnnc: ${title}`;
  $("header").append(hatch(), h("h1", {}, title), h("p", { class: "sub" }, about), tiles(numbers));
}

function graphLine(graph) {
  const parts = [
    counted(graph.vertices, "vertex", "vertices"),
    counted(graph.edges, "edge"),
    counted(graph.features, "feature"),
    counted(graph.classes, "class", "classes"),
  ];
  return `${graph.name}: ${parts.join(", ")} (${graph.origin})`;
}

function clusterLine(cluster) {
  const devices = cluster.nodes * cluster.devices_per_node;
  const inside = cluster.inside ? `, ${cluster.inside.name} inside` : "";
  const between = cluster.nodes > 1 && cluster.between ? `, ${cluster.between.name} between nodes` : "";
  return `${cluster.name}: ${devices} × ${cluster.device.name} on ${counted(cluster.nodes, "node")}${inside}${between}`;
}

/** A tile of a candidate's peak memory. */
function memoryTile(candidate, cluster) {
  const [peak, limit] = [candidate.peak_memory_bytes, cluster.device.memory];
  return ["Peak memory", bytes(peak), `${UNITS.share.short(peak / limit)} of ${bytes(limit)}`, full(peak, "bytes")];
}

/** Where the time of an epoch of a candidate goes, by instruction. */
function breakdownSection(candidate, timeline) {
  const list = candidate.breakdown;
  if (list.length === 0) return;
  const longest = list[0].seconds || 1;
  const kinds = new Map((timeline?.instructions ?? []).map(([, , , name, resource]) => [name, resource]));
  const used = RESOURCES.filter((kind) => list.some((one) => (kinds.get(one.name) ?? "compute") === kind));
  const total = list.reduce((sum, one) => sum + one.seconds, 0);
  const line = (one) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, one.name),
      h(
        "td",
        { class: "bars", style: "width: 55%" },
        s(
          "svg",
          { viewBox: "0 0 400 14", preserveAspectRatio: "none", style: "height: 14px", "aria-hidden": "true" },
          s("rect", {
            class: kinds.get(one.name) ?? "compute",
            x: 0,
            y: 2,
            height: 10,
            width: Math.max(1, (one.seconds / longest) * 400),
          }),
        ),
      ),
      cell(one.seconds, "seconds"),
      cell(one.seconds / (total || 1), "share"),
      cell(one.count, "count"),
    );
  section(
    "breakdown",
    "Time by instruction",
    `The instructions of an epoch of ${candidate.name}, mean over ranks. Some run beside each other, so they may ` +
      "add up to more than the epoch.",
    legend(used.map((kind) => [kind, TRACK_NAMES[kind]])),
    h(
      "div",
      { class: "scroll", style: "max-height: none" },
      h(
        "table",
        { style: "width: 100%" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            [["instruction"], [""], ["time", 1], ["of all", 1], ["runs", 1]].map(([name, n]) =>
              h("th", { scope: "col", class: n ? "n" : undefined }, name),
            ),
          ),
        ),
        h("tbody", {}, list.map(line)),
      ),
    ),
  );
}

function rowName(sent, row) {
  const first = row * sent.ranks_per_row,
    last = Math.min(sent.ranks, first + sent.ranks_per_row) - 1;
  return first === last ? `${first}` : `${first}–${last}`;
}

/** Bytes between ranks. `measured` has the bytes that each rank sent in an epoch, if it was measured. */
function sentSection(sent, measured) {
  if (!sent) return;
  const size = sent.bytes.length;
  const out = sent.bytes.map((row) => row.reduce((sum, value) => sum + value, 0));
  const into = sent.bytes.map((_, j) => sent.bytes.reduce((sum, row) => sum + row[j], 0));
  const pairs = sent.bytes
    .flatMap((row, i) => row.map((value, j) => [rowName(sent, i), rowName(sent, j), value]))
    .filter((pair) => pair[2] > 0)
    .sort((a, b) => b[2] - a[2]);
  const name = (n) => rowName(sent, n);
  const basis = sent.by_pair
    ? "Each pair follows from the parts of the graph."
    : "Of some messages it is not known between whom they go; these are spread evenly, by the rows that ranks read, or by what crosses between nodes.";
  const grouping = sent.ranks_per_row > 1 ? ` A row has ${sent.ranks_per_row} ranks.` : "";
  const totals =
    measured && sent.ranks_per_row === 1
      ? table(
          "Bytes of each rank in an epoch",
          [
            ["rank", "text"],
            ["sends", "bytes"],
            ["sent, measured", "bytes"],
            ["receives", "bytes"],
          ],
          out.map((value, n) => [name(n), value, measured[n], into[n]]),
        )
      : table(
          "Bytes of each rank in an epoch",
          [
            ["rank", "text"],
            ["sends", "bytes"],
            ["receives", "bytes"],
          ],
          out.map((value, n) => [name(n), value, into[n]]),
        );
  section(
    "sent",
    "Bytes between ranks",
    `What each rank, a row, sends to each other one, a column, in an epoch: ${bytes(sent.total_bytes)} in all. ` +
      basis +
      grouping,
    h(
      "div",
      { class: "pair" },
      matrix(sent.bytes, name),
      size <= 64
        ? columns(
            "Bytes that each rank sends and receives",
            "rank",
            out.map((_, n) => name(n)),
            [
              ["sends", out, "compute"],
              ["receives", into, "comm"],
            ],
            "bytes",
            { side: true },
          )
        : null,
    ),
    tableBehind("Table: bytes of each rank", () => totals),
    tableBehind("Table: bytes between ranks", () =>
      table(
        "Bytes of an epoch, the largest first",
        [
          ["from rank", "text"],
          ["to rank", "text"],
          ["sent", "bytes"],
        ],
        pairs,
      ),
    ),
  );
}

function graphSection(graph, pictured) {
  const found = [];
  const degrees = graph.degree_histogram ?? [];
  const range = (n) => (n === 0 ? "0" : n === 1 ? "1" : `${compact(2 ** (n - 1))}–${compact(2 ** n - 1)}`);
  const last = degrees.reduce((most, value, n) => (value > 0 ? n : most), -1);
  if (last >= 0) {
    const shown = degrees.slice(0, last + 1);
    const names = shown.map((_, n) => (n < 2 ? String(n) : `≥${compact(2 ** (n - 1))}`));
    found.push([
      columns("Vertices by in-degree (logarithmic)", "in-degree", names, [["vertices", shown, "compute"]], "count", { log: 10 }),
      tableBehind("Table: degrees", () =>
        table(
          "Vertices by in-degree",
          [
            ["in-degree", "text"],
            ["vertices", "count"],
          ],
          shown.map((value, n) => [range(n), value]),
        ),
      ),
    ]);
  }
  const parts = pictured?.parts ?? [];
  if (parts.length > 1) {
    const names = parts.map((_, n) => String(n));
    found.push([
      columns(
        "Vertices of each part",
        "part",
        names,
        [
          ["own", parts.map((part) => part.own), "compute"],
          ["read of others", parts.map((part) => part.halo), "comm"],
        ],
        "count",
      ),
      columns("Edges into each part", "part", names, [["edges", parts.map((part) => part.edges), "m3"]], "count"),
      tableBehind("Table: parts", () =>
        table(
          "Parts of the graph",
          [
            ["part", "text"],
            ["own vertices", "count"],
            ["vertices of others", "count"],
            ["edges", "count"],
            ["training vertices", "count"],
          ],
          parts.map((part, n) => [String(n), part.own, part.halo, part.edges, part.train]),
        ),
      ),
    ]);
  }
  const split = graph.split ?? [];
  const facts = [
    ["vertices", graph.vertices],
    ["edges", graph.edges],
    ["features", graph.features],
    ["stored feature values", graph.feature_nonzeros],
    ["classes", graph.classes],
    ["training vertices", split[0]],
    ["validation vertices", split[1]],
    ["test vertices", split[2]],
    ["largest in-degree", graph.max_degree],
  ];
  section(
    "graph",
    "Graph",
    graphLine(graph) + ".",
    h(
      "div",
      { class: "pair" },
      found.map((charts) => h("div", {}, charts)),
    ),
    tableBehind("Table: the graph", () =>
      table(
        "The graph",
        [
          ["fact", "text"],
          ["number", "count"],
        ],
        facts.filter(([, value]) => known(value)),
      ),
    ),
  );
}

function rewritesSection(rewrites) {
  if (!rewrites) return;
  const { before, after, regions } = rewrites;
  const rules = regions.flatMap((region) =>
    region.rules.map((rule) => [
      region.scope || "the whole model",
      rule.rule,
      rule.equation ?? "",
      rule.applications,
      rule.saved_seconds,
      region.repeats,
      region.instances,
    ]),
  );
  const longest = Math.max(before.seconds, after.seconds) || 1;
  const line = (name, work) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h(
        "td",
        { style: "width: 45%" },
        s(
          "svg",
          { viewBox: "0 0 400 14", preserveAspectRatio: "none", style: "height: 14px", "aria-hidden": "true" },
          s("rect", {
            class: name === "rewritten" ? "eval" : "bubble",
            x: 0.5,
            y: 2,
            height: 10,
            width: Math.max(1, (work.seconds / longest) * 398),
          }),
        ),
      ),
      cell(work.seconds, "seconds"),
      cell(work.flops, "number"),
      cell(work.bytes, "bytes"),
    );
  section(
    "rewrites",
    "Rewrites",
    "What an epoch costs as the model is written, and as it was rewritten into an equal form, on the rewriter's reference " +
      `machine: ${(before.seconds / Math.max(after.seconds, 1e-300)).toFixed(2)} times less work. What a rule saves is how much slower the best form without it is.`,
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
            [["form"], [""], ["time", 1], ["operations", 1], ["bytes", 1]].map(([name, n]) =>
              h("th", { scope: "col", class: n ? "n" : undefined }, name),
            ),
          ),
        ),
        h("tbody", {}, line("as written", before), line("rewritten", after)),
      ),
    ),
    rules.length > 0
      ? table(
          "The rules that were used",
          [
            ["where", "text"],
            ["rule", "text"],
            ["equation", "text"],
            ["steps", "count"],
            ["saves", "seconds"],
            ["runs an epoch", "count"],
            ["equal regions", "count"],
          ],
          rules,
        )
      : h("p", {}, "No rule was used: the model is cheapest as written."),
  );
}

function leftOutSection(data) {
  const all = [...(data.left_out ?? []), ...(data.pictured?.left_out ?? [])];
  if (all.length === 0) return;
  section(
    "left-out",
    "Not on this page",
    "The command's --format json has all numbers of candidates.",
    h(
      "ul",
      { class: "plain" },
      all.map((what) => h("li", {}, what)),
    ),
  );
}
