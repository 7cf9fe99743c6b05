// The memory of the rank that needs most: what lives at which instruction, against the device's limit.

const ROLES = [
  "edges, labels, lists and messages",
  "parameters",
  "optimizer state",
  "features",
  "graph",
  "activations and gradients",
  "kept between epochs",
  "results",
  "partial sums",
];
const roleClass = (role) => `m${[0, 1, 2, 3, 4, 5, 6, 7, 7][Math.max(0, ROLES.indexOf(role))]}`;

/** For each instruction, what tensors take in all. */
function livePerInstruction(memory) {
  const change = new Float64Array(memory.instructions.length + 1);
  for (const { bytes: size, lives } of memory.tensors) {
    for (const [first, last] of lives) {
      change[first] += size;
      change[last + 1] -= size;
    }
  }
  let sum = 0;
  return Array.from(change.subarray(0, memory.instructions.length), (by) => (sum += by));
}

/** Tensors as boxes of a stack: `[tensor, first, last, bytes below]`. */
function stacked(memory) {
  const order = [...memory.tensors]
    .filter((tensor) => tensor.lives.length > 0)
    .sort((a, b) => ROLES.indexOf(a.role) - ROLES.indexOf(b.role) || b.bytes - a.bytes);
  const below = new Float64Array(memory.instructions.length).fill(memory.other_bytes + memory.scratch_bytes);
  const boxes = [];
  for (const tensor of order) {
    for (const [first, last] of tensor.lives) {
      let from = first;
      for (let n = first; n <= last; n++) {
        if (n === last || below[n + 1] !== below[from]) {
          boxes.push([tensor, from, n, below[from]]);
          from = n + 1;
        }
      }
      for (let n = first; n <= last; n++) below[n] += tensor.bytes;
    }
  }
  return { boxes, tops: below };
}

function memorySection(memory) {
  if (!memory || memory.instructions.length === 0) return;
  const { boxes, tops } = stacked(memory);
  const places = memory.instructions.length;
  const state = { limit: memory.peak_bytes > memory.limit_bytes / 4, at: null };
  const used = Math.max(memory.peak_bytes, ...tops);
  const canvas = h("canvas", {
    tabindex: 0,
    role: "application",
    style: "height: 320px",
    class: "memory",
    "aria-label":
      "Memory by tensor at each instruction. The left and right arrow keys step through the instructions. Tables below have all numbers.",
  });
  const now = h("output", { "aria-live": "polite" });
  const room = { left: 66, right: 4, top: 14, bottom: 40 };
  const x = (place) => room.left + (place / places) * (canvas.clientWidth - room.left - room.right);
  const most = () => (state.limit ? Math.max(memory.limit_bytes, used) : used) * 1.06;
  const y = (size) => canvas.clientHeight - room.bottom - (size / most()) * (canvas.clientHeight - room.top - room.bottom);
  const spans = ["setup", "step", "eval"]
    .map((phase) => {
      const all = memory.instructions.map(([name], n) => (name === phase ? n : -1)).filter((n) => n >= 0);
      return all.length > 0 && [phase, all[0], all[all.length - 1] + 1];
    })
    .filter(Boolean);
  const soon = drawn(canvas, (pen, width, height) => {
    const [rule, dim, back] = ["line", "dim", "back"].map(color);
    pen.textAlign = "right";
    for (const tick of ticks(0, most(), 5, 2)) {
      pen.fillStyle = rule;
      pen.fillRect(room.left, y(tick), width - room.left - room.right, 1);
      pen.fillStyle = dim;
      pen.fillText(bytes(tick), room.left - 6, y(tick) + 4);
    }
    const box = (from, to, low, size, kind) => {
      const [x0, x1, y0, y1] = [x(from), x(to), y(low + size), y(low)];
      pen.fillStyle = color(kind);
      pen.fillRect(x0, y0, Math.max(x1 - x0, 0.6), Math.max(y1 - y0, 0.3));
      if (y1 - y0 > 7) {
        pen.fillStyle = back;
        pen.fillRect(x0, y0, x1 - x0, 0.7);
      }
    };
    const styles = Object.fromEntries(ROLES.map((role) => [role, roleClass(role)]));
    box(0, places, 0, memory.other_bytes, "m0");
    box(0, places, memory.other_bytes, memory.scratch_bytes, "m7");
    for (const [tensor, first, last, below] of boxes) box(first, last + 1, below, tensor.bytes, styles[tensor.role] ?? "m0");
    pen.textAlign = "center";
    for (const [phase, first, end] of spans) {
      pen.fillStyle = dim;
      pen.fillRect(x(first), height - room.bottom + 5, Math.max(1, x(end) - x(first) - 2), 2);
      const name = PHASE_NAMES[phase];
      if (pen.measureText(name).width < x(end) - x(first)) pen.fillText(name, (x(first) + x(end)) / 2, height - room.bottom + 22);
    }
    const line = (size, text, name) => {
      pen.strokeStyle = color(name);
      pen.setLineDash([6, 4]);
      pen.beginPath();
      pen.moveTo(room.left, y(size));
      pen.lineTo(width - room.right, y(size));
      pen.stroke();
      pen.setLineDash([]);
      pen.textAlign = "left";
      const wide = pen.measureText(text).width;
      pen.fillStyle = back;
      pen.fillRect(room.left + 6, y(size) - 16, wide + 6, 14);
      pen.fillStyle = color(name);
      pen.fillText(text, room.left + 9, y(size) - 5);
    };
    line(memory.peak_bytes, `peak ${bytes(memory.peak_bytes)}`, "text");
    if (state.limit) line(memory.limit_bytes, `device ${bytes(memory.limit_bytes)}`, "bad");
    if (state.at !== null) {
      pen.fillStyle = color("text");
      pen.fillRect(x(state.at + 0.5), room.top, 1, height - room.top - room.bottom);
    }
  });
  const named = (place) => {
    const [phase, at, name] = memory.instructions[place];
    return `${PHASE_NAMES[phase]} ${at}, ${name}`;
  };
  const go = (place) => {
    state.at = Math.max(0, Math.min(places - 1, place));
    const alive = memory.tensors
      .filter((tensor) => tensor.lives.some(([first, last]) => first <= state.at && state.at <= last))
      .slice(0, 4);
    now.textContent =
      `At ${named(state.at)}: ${bytes(tops[state.at])} (${full(tops[state.at], "bytes")}) in use. Largest: ` +
      `${alive.map((tensor) => `${tensor.name} ${bytes(tensor.bytes)}`).join(", ") || "none"}.`;
    soon();
  };
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    go((state.at ?? -1) + step);
  });
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left - room.left) / (box.width - room.left - room.right)) * places);
    if (place < 0 || place >= places) return hideTip();
    const size =
      ((canvas.clientHeight - room.bottom - (event.clientY - box.top)) / (canvas.clientHeight - room.top - room.bottom)) * most();
    const found = boxes.find(
      ([tensor, first, last, below]) => first <= place && place <= last && below <= size && size < below + tensor.bytes,
    );
    const fixed =
      size < memory.other_bytes
        ? [ROLES[0], memory.other_bytes]
        : size < memory.other_bytes + memory.scratch_bytes
          ? ["partial sums", memory.scratch_bytes]
          : null;
    const about = found
      ? [found[0].name, found[0].role, `${bytes(found[0].bytes)} (${full(found[0].bytes, "bytes")})`]
      : fixed
        ? [fixed[0], `${bytes(fixed[1])} (${full(fixed[1], "bytes")})`]
        : ["free"];
    showTip(event.clientX, event.clientY, [...about, `at ${named(place)}`, `${bytes(tops[place])} in use`]);
  });
  canvas.addEventListener("mouseleave", hideTip);
  const roles = ROLES.filter((role, n) =>
    n === 0
      ? memory.other_bytes > 0
      : role === "partial sums"
        ? memory.scratch_bytes > 0
        : memory.tensors.some((tensor) => tensor.role === role),
  );
  const share = memory.peak_bytes / memory.limit_bytes;
  const limit = h(
    "button",
    {
      type: "button",
      "aria-pressed": String(state.limit),
      onclick: (event) => {
        state.limit = !state.limit;
        event.target.setAttribute("aria-pressed", state.limit);
        soon();
      },
    },
    "Against the device's memory",
  );
  const where = memory.stage === null || memory.stage === undefined ? "" : ` It belongs to stage ${memory.stage}.`;
  section(
    "memory",
    "Memory",
    `Of the rank that needs most, at each instruction; bodies of loops are drawn once.${where} The peak is ` +
      `${bytes(memory.peak_bytes)}, ${UNITS.share.short(share)} of the device's ${bytes(memory.limit_bytes)}. It may be more than what lives at once, ` +
      "since tensors keep their place.",
    h("div", { class: "tools" }, limit),
    figure(null, legend(roles.map((role) => [roleClass(role), role])), canvas, now),
    tableBehind("Table: tensors", () =>
      table(
        "Tensors, the largest first",
        [
          ["tensor", "text"],
          ["for", "text"],
          ["size", "bytes"],
          ["from", "text"],
          ["to", "text"],
        ],
        memory.tensors.map(({ name, role, bytes: size, lives }) => [
          name,
          role,
          size,
          lives.length ? named(lives[0][0]) : NONE,
          lives.length ? named(lives[lives.length - 1][1]) : NONE,
        ]),
      ),
    ),
    tableBehind("Table: instructions", () => {
      const live = livePerInstruction(memory);
      return table(
        "What tensors take at each instruction",
        [
          ["phase", "text"],
          ["place", "text"],
          ["instruction", "text"],
          ["tensors", "bytes"],
        ],
        memory.instructions.map(([phase, at, name], n) => [PHASE_NAMES[phase], at, name, live[n]]),
      );
    }),
  );
}
