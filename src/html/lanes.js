// Timelines of the page's data as arrays, and what they add up to.

const RESOURCES = ["compute", "copy", "network", "host"];
const PHASE_NAMES = { setup: "setup", step: "epoch", eval: "evaluation" };
const TRACK_NAMES = {
  compute: "computing",
  copy: "copies and packing",
  network: "messages and waiting for them",
  host: "copies from and to the host",
};

/** Decodes a timeline: a lane of each different rank, and for each rank its lane. Times are in seconds. */
function decoded(data) {
  const lanes = data.lanes.map(({ events }) => {
    const size = events.length / 5;
    const lane = {
      size,
      what: new Int32Array(size),
      begin: new Float64Array(size),
      length: new Float64Array(size),
      iteration: new Int32Array(size),
      sent: new Float64Array(size),
      tracks: {},
    };
    let at = 0;
    for (let n = 0; n < size; n++) {
      const [what, gap, takes, iteration, sent] = events.slice(5 * n, 5 * n + 5);
      at += gap;
      lane.what[n] = what;
      lane.begin[n] = at / 1e9;
      lane.length[n] = takes / 1e9;
      lane.iteration[n] = iteration;
      lane.sent[n] = sent;
      const track = (lane.tracks[data.instructions[what][4]] ??= { events: [], longest: 0 });
      track.events.push(n);
      track.longest = Math.max(track.longest, takes / 1e9);
    }
    return lane;
  });
  const rows = data.lanes
    .flatMap(({ ranks }, n) => ranks.map((rank) => ({ rank, lane: lanes[n] })))
    .sort((a, b) => a.rank - b.rank);
  rows.forEach((row) => (row.name = `rank ${row.rank}`));
  const groups = data.lanes
    .map(({ ranks }, n) => ({ rank: ranks[0], lane: lanes[n], name: rankNames(ranks) }))
    .sort((a, b) => a.rank - b.rank);
  const tracks = RESOURCES.filter((name) => lanes.some((lane) => lane.tracks[name]));
  const phases = data.phases.map(([name, from, to]) => ({ name, from: from / 1e9, to: to / 1e9 }));
  return {
    kind: data.kind,
    epoch: data.epoch,
    ranks: data.ranks,
    instructions: data.instructions,
    lanes,
    rows,
    groups,
    tracks,
    phases,
  };
}

/** `rank 3`, `ranks 0–7`, or `ranks 0, 2, …`. */
function rankNames(ranks) {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const last = ranks[ranks.length - 1];
  return last - ranks[0] === ranks.length - 1
    ? `ranks ${ranks[0]}–${last}`
    : `ranks ${ranks[0]}, ${ranks[1]}${ranks.length > 2 ? ", …" : ""}`;
}

/** The first event of a track that may be seen from a time on. */
function firstSeen(lane, track, time) {
  let [low, high] = [0, track.events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.begin[track.events[middle]] < time - track.longest) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Time and bytes by instruction and phase, mean over the ranks that are shown: `[phase, name, resource, runs, seconds, bytes]`. */
function byInstruction(line) {
  const sums = new Map();
  for (const lane of line.lanes) {
    const ranks = line.rows.filter((row) => row.lane === lane).length;
    for (let n = 0; n < lane.size; n++) {
      const [phase, , , name, resource] = line.instructions[lane.what[n]];
      const key = `${phase} ${name} ${resource}`;
      const sum = sums.get(key) ?? sums.set(key, [phase, name, resource, 0, 0, 0]).get(key);
      sum[3] += ranks;
      sum[4] += ranks * lane.length[n];
      sum[5] += ranks * lane.sent[n];
    }
  }
  const all = line.rows.length || 1;
  const order = ["setup", "step", "eval"];
  return [...sums.values()]
    .map(([phase, name, resource, runs, time, sent]) => [phase, name, resource, runs / all, time / all, sent / all])
    .sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]) || b[4] - a[4]);
}

/** A table behind a heading: what a timeline adds up to. */
function instructionTable(line) {
  return tableBehind(`Table: the ${line.kind} timeline by instruction`, () =>
    table(
      `Mean over ${counted(line.rows.length, "rank")} of the events that are shown; a communication includes waiting for others`,
      [
        ["phase", "text"],
        ["instruction", "text"],
        ["resource", "text"],
        ["runs", "number"],
        ["time", "seconds"],
        ["sent", "bytes"],
      ],
      byInstruction(line).map((row) => [PHASE_NAMES[row[0]], ...row.slice(1)]),
    ),
  );
}
