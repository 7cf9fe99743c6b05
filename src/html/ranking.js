// The candidates of a plan, with bars that say where the time of each goes.

const FIRST_CANDIDATES = 25;
/** Bars longer than so many times the best candidate's are cut off. */
const LONGEST = 5;

const PARTS = [
  ["compute", "computing", (c) => c.compute_seconds],
  ["comm", "exposed communication", (c) => c.exposed_communication_seconds],
  ["bubble", "waiting for other ranks", (c) => c.bubble_seconds],
  ["eval", "one evaluation", (c) => c.eval_seconds],
];

/** A hatch for gray, which prints and does not depend on colors. */
function hatch() {
  return s(
    "svg",
    { width: 0, height: 0, "aria-hidden": "true", style: "position: absolute" },
    s(
      "defs",
      {},
      s(
        "pattern",
        { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        s("rect", { width: 2, height: 5, style: "fill: var(--bubble)" }),
      ),
    ),
  );
}

function bar(candidate, longest, evaluated) {
  const width = 400,
    room = width - 12;
  const root = s("svg", {
    viewBox: `0 0 ${width} 20`,
    preserveAspectRatio: "none",
    style: "height: 20px",
    role: "img",
    "aria-label": PARTS.map(([, name, of]) => `${name} ${seconds(of(candidate))}`).join(", "),
  });
  let at = 0,
    cut = false;
  for (const [kind, , of] of PARTS) {
    if (kind === "eval" && !evaluated) continue;
    const wide = (of(candidate) / longest) * room;
    if (kind === "eval") at += wide > 0 ? 3 : 0;
    const seen = Math.min(wide, room - at);
    cut ||= wide > room - at + 0.01;
    if (seen > 0.15) root.append(s("rect", { class: kind, x: at, y: 3, width: seen, height: 11 }));
    at += Math.max(0, seen);
  }
  const [low, high] = ["low", "high"].map((end) => Math.min(room, (candidate.range[end] / longest) * room));
  root.append(
    s("path", {
      d: `M${low} 17.5H${high}M${low} 15.5V19.5M${high} 15.5V19.5`,
      stroke: "var(--text)",
      fill: "none",
      "vector-effect": "non-scaling-stroke",
    }),
  );
  cut ||= candidate.range.high > longest * 1.0001;
  if (cut) root.append(s("path", { d: `M${room + 2} 4l7 4.5l-7 4.5z`, fill: "var(--text)" }));
  root.addEventListener("mousemove", (event) =>
    showTip(event.clientX, event.clientY, [
      candidate.name,
      ...PARTS.map(([, name, of]) => `${name}: ${seconds(of(candidate))} (${full(of(candidate), "seconds")})`),
      `range of the epoch: ${seconds(candidate.range.low)} to ${seconds(candidate.range.high)}`,
    ]),
  );
  root.addEventListener("mouseleave", hideTip);
  return root;
}

function fitting(candidate) {
  if (candidate.fits) return h("span", { class: "yes" }, candidate.host ? "host" : "fits");
  return h("span", { class: "no" }, "no");
}

function allowing(candidate) {
  if (candidate.allowed) return h("span", { class: "yes" }, "allowed");
  return h(
    "span",
    { class: "no" },
    "needs ",
    h("span", { style: "white-space: nowrap" }, `--allow ${candidate.needs.join(",")}`),
  );
}

/** What is known of the time to a target. */
function toTarget({ to_target: known }) {
  if (!known) return null;
  const { low, high } = known.seconds ?? {};
  const until =
    known.seconds &&
    (high === undefined ? `; to the target more than ${seconds(low)}` : `; to the target ${seconds(low)} to ${seconds(high)}`);
  return `${counted(known.steps_per_epoch, "step")} an epoch, each ${seconds(known.step_seconds)}${until ?? ""}.`;
}

/** What is behind a row: the reason, the time by instruction, the bytes by kind. */
function behind(candidate) {
  const volume = candidate.volume ?? {};
  const kinds = ["halo", "redistribute", "all_reduce", "fetch"].filter((kind) => volume[kind] > 0);
  const host = candidate.host;
  return h(
    "div",
    {},
    h("p", {}, candidate.reason),
    candidate.to_target ? h("p", {}, toTarget(candidate)) : null,
    candidate.lacking_bytes ? h("p", {}, `Lacks ${bytes(candidate.lacking_bytes)} on the rank that needs most.`) : null,
    host
      ? h(
          "p",
          {},
          `Rests on hosts: ${bytes(host.memory)} on the node that holds most; an epoch copies ${bytes(host.fetched)} ` +
            `from hosts and ${bytes(host.stored)} to them.`,
        )
      : null,
    h(
      "div",
      { class: "pair" },
      table(
        "Time of an epoch by instruction, mean over ranks",
        [
          ["instruction", "text"],
          ["runs", "count"],
          ["time", "seconds"],
        ],
        candidate.breakdown.map((one) => [one.name, one.count, one.seconds]),
      ),
      kinds.length > 0
        ? table(
            "Bytes of an epoch by kind, all ranks",
            [
              ["kind", "text"],
              ["sent", "bytes"],
            ],
            kinds.map((kind) => [kind.replace("_", "-"), volume[kind]]),
          )
        : null,
    ),
  );
}

function rankingSection(plan) {
  // The simulator counts what ranks wait for copies of their hosts among what they wait for messages.
  const hosts = plan.candidates.some((candidate) => candidate.host);
  const all = plan.candidates.map((candidate, number) => ({ candidate, number }));
  if (all.length === 0) return;
  const body = h("tbody");
  const state = { word: "", only: false, evaluated: false, most: FIRST_CANDIDATES, open: new Set() };
  const best = all[plan.chosen ?? 0].candidate;
  const status = h("span", { class: "dim", role: "status" });
  const more = h("button", {
    type: "button",
    onclick: () => {
      state.most = Infinity;
      draw();
    },
  });
  const row = ({ candidate, number }, longest) => {
    const chosen = number === plan.chosen,
      open = state.open.has(number);
    const toggle = h(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-expanded": String(open),
        "aria-label": `Details of candidate ${number + 1}`,
        onclick: () => {
          state.open[open ? "delete" : "add"](number);
          draw();
          body.querySelector(`[data-number="${number}"] button`).focus();
        },
      },
      open ? "less" : "more",
    );
    const line = h(
      "tr",
      { class: chosen ? "chosen" : undefined, "data-number": number },
      h("td", { class: "n" }, String(number + 1)),
      h("th", { scope: "row", class: "who" }, candidate.name, chosen ? " (chosen)" : "", " ", toggle),
      cell(candidate.epoch_seconds, "seconds"),
      h("td", { class: "bars" }, bar(candidate, longest, state.evaluated)),
      cell(candidate.compute_seconds, "seconds"),
      cell(candidate.exposed_communication_seconds, "seconds"),
      cell(candidate.bubble_seconds, "seconds"),
      cell(candidate.eval_seconds, "seconds"),
      cell(candidate.bytes, "bytes"),
      cell(candidate.peak_memory_bytes, "bytes"),
      h("td", {}, fitting(candidate)),
      h("td", {}, allowing(candidate)),
    );
    return open ? [line, h("tr", { class: "more" }, h("td", {}), h("td", { colspan: 11 }, behind(candidate)))] : [line];
  };
  const draw = () => {
    const found = all.filter(
      ({ candidate }) => candidate.name.includes(state.word) && (!state.only || (candidate.fits && candidate.allowed)),
    );
    const shown = found.slice(0, state.most);
    const total = (c) => Math.max(c.range.high, c.epoch_seconds + (state.evaluated ? c.eval_seconds : 0));
    const longest = Math.min(Math.max(...shown.map(({ candidate }) => total(candidate)), 0), LONGEST * total(best));
    body.replaceChildren(...shown.flatMap((one) => row(one, longest || 1)));
    status.textContent = `${grouped(shown.length)} of ${counted(all.length, "candidate")}`;
    more.hidden = shown.length === found.length;
    more.textContent = `Show ${grouped(found.length - shown.length)} more`;
  };
  const check = (text, name) =>
    h(
      "label",
      {},
      h("input", {
        type: "checkbox",
        onchange: (event) => {
          state[name] = event.target.checked;
          draw();
        },
      }),
      ` ${text}`,
    );
  const heads = [
    ["#", 1],
    ["candidate"],
    ["epoch", 1],
    ["where its time goes"],
    ["computing", 1],
    ["communication", 1],
    ["waiting", 1],
    ["evaluation", 1],
    ["sent", 1],
    ["memory", 1],
    ["fits"],
    ["allowed"],
  ];
  section(
    "ranking",
    "Candidates",
    "Each way to place the model, best first. A bar is an epoch: computing, communication that nothing hides, and " +
      `waiting for other ranks. The line below a bar is the range of what it may be. What is longer than ${LONGEST} times that of the chosen one ends in an arrow.`,
    legend(PARTS.map(([kind, name]) => [kind, hosts && kind === "comm" ? `${name} and copies from and to hosts` : name])),
    h(
      "div",
      { class: "tools" },
      h(
        "label",
        {},
        "Filter ",
        h("input", {
          type: "search",
          oninput: (event) => {
            state.word = event.target.value.trim();
            draw();
          },
        }),
      ),
      check("only what fits and is allowed", "only"),
      check("with an evaluation", "evaluated"),
      status,
    ),
    h(
      "div",
      { class: "scroll", style: "max-height: none", tabindex: 0, role: "group", "aria-label": "Candidates" },
      h(
        "table",
        { class: "ranking" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map(([name, n]) => h("th", { scope: "col", class: n ? "n" : undefined }, name)),
          ),
        ),
        body,
      ),
    ),
    more,
  );
  draw();
}

function rejectedSection(plan) {
  if (plan.rejected.length === 0) return;
  section(
    "rejected",
    "Not possible",
    "Placements without a program for this model and cluster, and why.",
    table(
      "Rejected candidates",
      [
        ["placement", "text"],
        ["ranks", "count"],
        ["reason", "text"],
      ],
      plan.rejected.map((one) => [one.placement, one.parameters.ranks, one.reason]),
    ),
  );
}
