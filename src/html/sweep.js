// A sweep: time, memory, bytes and cost against the number of devices.

function sweepPage(data) {
  const { sweep, names, cluster } = data;
  const points = sweep.points.map((point, n) => ({ ...point, name: names[n] }));
  const fitting = points.filter((point) => point.choice);
  const at = (devices) => points.find((point) => point.devices === devices);
  const tile = (title, devices, detail) => {
    const point = devices !== null && at(devices);
    return (
      point && [
        title,
        counted(devices, "device"),
        detail(point),
        `${devices} devices: ${full(point.choice.epoch_seconds, "seconds")}`,
      ]
    );
  };
  heading(
    `${data.model} on ${data.graph.name}: how many devices`,
    `Best plan for each number of ${cluster.device.name} (${cluster.name}), by ${sweep.objective}. ` +
      `${graphLine(data.graph)}.`,
    [
      tile("Fewest that fit", sweep.fewest, (point) => `${seconds(point.choice.epoch_seconds)} an epoch`),
      tile("Worthwhile", sweep.worthwhile, (point) => `${seconds(point.choice.epoch_seconds)}; most with half the efficiency`),
      tile(
        "Fastest",
        sweep.fastest,
        (point) => `${seconds(point.choice.epoch_seconds)}; ${UNITS.ratio.short(point.speed_up)} as fast as ${sweep.base}`,
      ),
      sweep.fewest === null && ["Fits on", "none of these", "the table says why"],
    ],
  );
  const x = { name: "devices", unit: "count", log: 2, ticks: thinned(points.map((point) => point.devices)) };
  const line = (name, kind, of, dashed) => ({ name, kind, dashed, points: fitting.map((point) => [point.devices, of(point)]) });
  const base = at(sweep.base);
  const ideal = base && ((point) => (base.choice.epoch_seconds * base.devices) / point.devices);
  const limit = cluster.device.memory;
  const near = fitting.some((point) => point.choice.peak_memory_bytes > limit / 4);
  const priced = fitting.some((point) => known(point.cost_per_epoch));
  section(
    "sweep",
    "Against the number of devices",
    "The axes of time and speed-up are logarithmic. The band is the range of what an epoch may be; the dashed line would be " +
      "twice as fast on twice the devices.",
    h(
      "div",
      { class: "pair" },
      curves(
        "Time of an epoch",
        [
          line("best plan", "compute", (point) => point.choice.epoch_seconds),
          ideal && line("in proportion", "bubble", ideal, true),
        ].filter(Boolean),
        x,
        {
          unit: "seconds",
          log: 10,
          ...decades([
            ...fitting.flatMap((point) => [point.choice.range.low, point.choice.range.high]),
            ...(ideal ? fitting.map(ideal) : []),
          ]),
        },
        {
          bands: [
            { name: "range", points: fitting.map((point) => [point.devices, point.choice.range.low, point.choice.range.high]) },
          ],
        },
      ),
      curves(
        "Where the time goes",
        [
          line("computing", "compute", (point) => point.choice.compute_seconds),
          line("exposed communication", "comm", (point) => point.choice.exposed_communication_seconds),
          line("waiting for other ranks", "bubble", (point) => point.choice.bubble_seconds),
          line("one evaluation", "eval", (point) => point.choice.eval_seconds),
        ],
        x,
        { unit: "seconds", low: 0 },
      ),
      curves(
        "Speed-up",
        [
          line("best plan", "compute", (point) => point.speed_up),
          base && line("in proportion", "bubble", (point) => point.devices / base.devices, true),
        ].filter(Boolean),
        x,
        { unit: "number", log: 2 },
      ),
      curves(
        `Peak memory of a device (of ${bytes(limit)})`,
        [
          line("peak", "m3", (point) => point.choice.peak_memory_bytes),
          near && line("memory of the device", "bubble", () => limit, true),
        ].filter(Boolean),
        x,
        { unit: "bytes", low: 0 },
      ),
      curves("Bytes sent in an epoch", [line("sent", "comm", (point) => point.choice.bytes)], x, { unit: "bytes", low: 0 }),
      priced && curves("Cost of an epoch", [line("cost", "host", (point) => point.cost_per_epoch)], x, { unit: "money", low: 0 }),
      priced &&
        curves(`Cost of a run of ${counted(data.epochs, "epoch")}`, [line("cost", "host", (point) => point.cost_per_run)], x, {
          unit: "money",
          low: 0,
        }),
    ),
    priced ? null : h("p", { class: "dim" }, "There are no costs, since the cluster has no price_per_hour."),
    table(
      "The best plan for each number of devices",
      [
        ["devices", "count"],
        ["best", "text"],
        ["epoch", "seconds"],
        ["range from", "seconds"],
        ["range to", "seconds"],
        ["computing", "seconds"],
        ["communication", "seconds"],
        ["waiting", "seconds"],
        ["evaluation", "seconds"],
        ["speed-up", "number"],
        ["memory", "bytes"],
        ["sent", "bytes"],
        ...(priced
          ? [
              ["cost of an epoch", "money"],
              ["cost of a run", "money"],
            ]
          : []),
        ["why not", "text"],
      ],
      points.map(({ devices, name, choice, speed_up: faster, cost_per_epoch: epoch, cost_per_run: run, reason }) => [
        devices,
        name ?? "nothing fits",
        choice?.epoch_seconds,
        choice?.range.low,
        choice?.range.high,
        choice?.compute_seconds,
        choice?.exposed_communication_seconds,
        choice?.bubble_seconds,
        choice?.eval_seconds,
        faster,
        choice?.peak_memory_bytes,
        choice?.bytes,
        ...(priced ? [epoch, run] : []),
        choice ? "" : reason,
      ]),
    ),
  );
  graphSection(data.graph, null);
}

/** At most eight of some numbers, with the first and the last. */
function thinned(list) {
  const every = Math.ceil(list.length / 8);
  return list.filter((_, n) => (list.length - 1 - n) % every === 0);
}

/** Powers of ten around positive numbers. */
function decades(list) {
  const found = list.filter((x) => x > 0);
  if (found.length === 0) return {};
  return { low: 10 ** Math.floor(Math.log10(Math.min(...found))), high: 10 ** Math.ceil(Math.log10(Math.max(...found))) };
}
