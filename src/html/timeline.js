// A timeline of ranks on a canvas: it draws what is in view, and merges what is narrower than a pixel.

const LINE = { left: 98, top: 24, most: 540 };

class TimelineView {
  /** `onview` hears of each change of the window, in seconds from the beginning of its phase. */
  constructor(title, line, onview) {
    this.line = line;
    this.onview = onview ?? (() => {});
    this.picked = null;
    this.top = 0;
    this.phase = line.phases.find((phase) => phase.name === "step") ?? line.phases[0];
    [this.from, this.to] = [this.phase.from, this.phase.to];
    this.end = Math.max(...line.phases.map((phase) => phase.to));
    // The last time in view. It is later than the end beside a longer timeline.
    this.most = this.end;
    this.list = line.groups;
    this.roomy = Math.max(16, line.tracks.length * 13 + 5);
    this.now = h("output", { "aria-live": "polite" });
    this.canvas = h("canvas", {
      tabindex: 0,
      role: "application",
      class: "timeline",
      "aria-label": `${title}: ${counted(line.rows.length, "rank")}. Arrow keys move, plus and minus zoom, N and P step through events, 0 shows all of the epoch.`,
    });
    this.soon = drawn(this.canvas, (pen, width, height) => this.draw(pen, width, height));
    this.fit();
    this.listen();
    this.element = figure(
      title,
      this.buttons(),
      legend(line.tracks.map((name) => [name, TRACK_NAMES[name]])),
      this.canvas,
      this.now,
    );
    this.tell();
  }

  size() {
    const height = Math.min(LINE.most, LINE.top + this.high * this.list.length);
    this.canvas.style.height = `${Math.ceil(height) + 2}px`;
    this.soon();
  }

  /** Makes rows as tall as all of them fit, if they can. */
  fit() {
    this.tight = Math.max(1, Math.min(this.roomy, (LINE.most - LINE.top) / this.list.length));
    this.high = Math.max(this.tight, 4);
    this.top = 0;
    this.size();
  }

  buttons() {
    const one = (text, does, label) => h("button", { type: "button", "aria-label": label, title: label, onclick: does }, text);
    const phases = this.line.phases
      .filter((phase) => phase.to > phase.from)
      .map((phase) => one(PHASE_NAMES[phase.name], () => this.show(phase.from, phase.to), `Show the ${PHASE_NAMES[phase.name]}`));
    const many = this.line.rows.length * this.roomy > LINE.most - LINE.top;
    const rows = many
      ? [
          h("span", { class: "gap" }),
          one("taller rows", () => this.rows(1.5), "Make rows taller"),
          one("all rows", () => this.rows(0), "Fit all rows"),
        ]
      : [];
    const equal =
      this.line.groups.length < this.line.rows.length &&
      h(
        "label",
        {},
        h("input", {
          type: "checkbox",
          checked: true,
          onchange: (event) => {
            this.list = event.target.checked ? this.line.groups : this.line.rows;
            this.picked = null;
            this.fit();
          },
        }),
        " one row for ranks that do the same",
      );
    return h(
      "div",
      { class: "tools" },
      phases,
      phases.length > 1 && one("all", () => this.show(0, this.end), "Show all phases"),
      h("span", { class: "gap" }),
      one("+", () => this.zoom(0.5), "Zoom in"),
      one("−", () => this.zoom(2), "Zoom out"),
      one("◀", () => this.move(-0.25), "Earlier"),
      one("▶", () => this.move(0.25), "Later"),
      rows,
      equal,
    );
  }

  /** Makes rows taller by a factor, or as tall as all of them fit. */
  rows(factor) {
    this.high = factor === 0 ? this.tight : Math.min(this.roomy, this.high * factor);
    this.scroll(0);
    this.size();
  }

  show(from, to, quiet) {
    const least = this.end * 1e-7 || 1e-9;
    const wide = Math.min(Math.max(to - from, least), this.most);
    this.from = Math.min(Math.max(0, from), this.most - wide);
    this.to = this.from + wide;
    this.tell();
    this.soon();
    if (!quiet) this.onview(this.from - this.phase.from, this.to - this.phase.from);
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  move(share) {
    const step = (this.to - this.from) * share;
    this.show(this.from + step, this.to + step);
  }

  scroll(rows) {
    const seen = (this.canvas.clientHeight - LINE.top) / this.high;
    this.top = Math.max(0, Math.min(this.list.length - seen, this.top + rows));
    this.soon();
  }

  tell() {
    const place = (time) => seconds(time - this.phase.from);
    const view =
      `Shows ${place(this.from)} to ${place(this.to)} of the ${this.line.kind} ${PHASE_NAMES[this.phase.name]}` +
      (this.line.epoch ? ` ${this.line.epoch}` : "") +
      ".";
    this.canvas.dataset.from = this.from;
    this.canvas.dataset.to = this.to;
    this.now.textContent = this.picked ? `${view} ${this.described(this.picked).join("; ")}.` : view;
  }

  /** The sentences about an event. */
  described({ row, event }) {
    const { lane, name: who } = row;
    const [phase, stage, at, name, resource] = this.line.instructions[lane.what[event]];
    const sent = lane.sent[event],
      start = this.line.phases.find((one) => one.name === phase).from;
    return [
      `${name}, ${who}`,
      `${PHASE_NAMES[phase]} ${at}${lane.iteration[event] ? `, turn ${lane.iteration[event]}` : ""}` +
        `${stage ? `, stage ${stage}` : ""}`,
      `${TRACK_NAMES[resource]}, from ${seconds(lane.begin[event] - start)}`,
      `takes ${seconds(lane.length[event])} (${full(lane.length[event], "seconds")})`,
      sent > 0 && `sends ${bytes(sent)} (${full(sent, "bytes")})`,
    ].filter(Boolean);
  }

  x(time) {
    return LINE.left + ((time - this.from) / (this.to - this.from)) * (this.canvas.clientWidth - LINE.left - 4);
  }

  /**
   * The rectangles of a lane in view: `[x, width, track, event, share]`. What is narrower than two pixels is added up: each pixel then has
   * the share of its time in which the track is busy.
   */
  boxes(lane) {
    const found = [];
    this.line.tracks.forEach((name, number) => {
      const track = lane.tracks[name];
      if (!track) return;
      const right = this.canvas.clientWidth - 4;
      const busy = new Float32Array(Math.ceil(right) + 1);
      for (let n = firstSeen(lane, track, this.from); n < track.events.length; n++) {
        const event = track.events[n],
          begin = lane.begin[event];
        if (begin > this.to) break;
        const [x0, x1] = [Math.max(LINE.left, this.x(begin)), Math.min(right, this.x(begin + lane.length[event]))];
        if (x1 < LINE.left) continue;
        if (x1 - x0 >= 2) found.push([x0, x1 - x0, number, event, 1]);
        else
          for (let pixel = Math.floor(x0); pixel <= x1; pixel++)
            busy[pixel] += Math.max(0.02, Math.min(x1, pixel + 1) - Math.max(x0, pixel));
      }
      busy.forEach((share, pixel) => share > 0 && found.push([pixel, 1, number, -1, Math.max(0.3, Math.min(1, share))]));
    });
    return found;
  }

  /**
   * For a flat row: runs of pixels with the shares of their time that go to each track, one above the other, computing at the bottom:
   * `[x, width, [share of each track]]`. What goes on beside others may not have room.
   */
  shares(lane) {
    const right = this.canvas.clientWidth - 4;
    const all = this.line.tracks.map((name) => {
      const busy = new Float32Array(Math.ceil(right) + 1);
      const track = lane.tracks[name];
      for (let n = track ? firstSeen(lane, track, this.from) : 0; n < (track?.events.length ?? 0); n++) {
        const event = track.events[n];
        if (lane.begin[event] > this.to) break;
        const [x0, x1] = [
          Math.max(LINE.left, this.x(lane.begin[event])),
          Math.min(right, this.x(lane.begin[event] + lane.length[event])),
        ];
        for (let pixel = Math.floor(x0); pixel <= x1; pixel++)
          busy[pixel] += Math.max(0, Math.min(x1, pixel + 1) - Math.max(x0, pixel));
      }
      return busy;
    });
    const found = [];
    for (let x = LINE.left; x < right; x++) {
      const shares = all.map((busy) => Math.round(Math.min(1, busy[x]) * 16) / 16);
      const last = found[found.length - 1];
      if (last && last[2].every((share, n) => share === shares[n])) last[1] += 1;
      else found.push([x, 1, shares]);
    }
    return found;
  }

  /** Whether rows are too low for a line of each resource. */
  flat() {
    return this.high < 6 * this.line.tracks.length;
  }

  draw(pen, width, height) {
    const { tracks, instructions } = this.line,
      rows = this.list;
    const colors = Object.fromEntries(RESOURCES.map((name) => [name, color(name)]));
    const [ink, dim, rule, mark] = ["text", "dim", "line", "on-mark"].map(color);
    pen.strokeStyle = rule;
    pen.fillStyle = dim;
    pen.textAlign = "center";
    const begin = this.phase.from;
    for (const tick of ticks(this.from - begin, this.to - begin, Math.max(2, width / 130))) {
      const x = this.x(tick + begin);
      if (x < LINE.left || x > width - 4) continue;
      pen.fillRect(x, LINE.top - 4, 1, 4);
      pen.fillText(seconds(tick), Math.min(Math.max(x, LINE.left + 16), width - 26), LINE.top - 9);
    }
    pen.textAlign = "left";
    const boxes = new Map();
    const first = Math.floor(this.top),
      last = Math.min(rows.length, Math.ceil(this.top + (height - LINE.top) / this.high));
    const tall = (this.high - (this.high > 16 ? 4 : this.high > 3 ? 1 : 0)) / (this.flat() ? 1 : tracks.length);
    const named = Math.max(1, Math.ceil(13 / this.high));
    pen.save();
    pen.beginPath();
    pen.rect(0, LINE.top, width, height - LINE.top);
    pen.clip();
    for (let n = first; n < last; n++) {
      const { name: who, lane } = rows[n];
      const y = LINE.top + (n - this.top) * this.high;
      if (n % named === 0) {
        pen.fillStyle = dim;
        pen.fillText(who, 2, y + Math.min(this.high / 2 + 4, 13));
      }
      if (this.high > 16) {
        pen.fillStyle = rule;
        pen.fillRect(LINE.left, y + this.high - 2, width - LINE.left - 4, 1);
      }
      if (!boxes.has(lane)) boxes.set(lane, this.flat() ? this.shares(lane) : this.boxes(lane));
      if (this.flat()) {
        for (const [x, wide, shares] of boxes.get(lane)) {
          let room = tall;
          shares.forEach((share, track) => {
            const part = Math.min(room, share * tall);
            pen.fillStyle = colors[tracks[track]];
            if (part > 0) pen.fillRect(x, y + room - part, wide, part);
            room -= part;
          });
        }
        continue;
      }
      for (const [index, [x, wide, track, event, share]] of boxes.get(lane).entries()) {
        pen.fillStyle = colors[tracks[track]];
        pen.globalAlpha = share;
        pen.fillRect(x, y + track * tall + 1, wide > 3 ? wide - 0.6 : wide, Math.max(0.8, tall - (tall > 5 ? 1 : 0)));
        pen.globalAlpha = 1;
        const name = wide > 26 && tall >= 12 && instructions[lane.what[event]][3];
        const next = boxes.get(lane)[index + 1];
        const room = next && next[2] === track ? Math.min(wide, next[0] - x) : wide;
        if (name && pen.measureText(name).width < room - 6) {
          pen.fillStyle = mark;
          pen.fillText(name, x + 4, y + track * tall + tall / 2 + 4);
        }
      }
    }
    if (this.picked) {
      const { row, event } = this.picked,
        n = rows.indexOf(row);
      const track = this.flat() ? 0 : tracks.indexOf(instructions[row.lane.what[event]][4]);
      const [x, y] = [this.x(row.lane.begin[event]), LINE.top + (n - this.top) * this.high + track * tall];
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.strokeRect(
        Math.max(LINE.left, x) - 1,
        y,
        Math.max(3, this.x(row.lane.begin[event] + row.lane.length[event]) - Math.max(LINE.left, x) + 1),
        tall + 1,
      );
    }
    pen.restore();
  }

  /** The event under a place of the window. */
  under(clientX, clientY) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [clientX - box.left, clientY - box.top - LINE.top];
    const row = this.list[Math.floor(y / this.high + this.top)];
    if (!row || x < LINE.left || y < 0) return null;
    const { tracks } = this.line;
    const number = Math.floor(((y / this.high + this.top) % 1) * tracks.length);
    const time = this.from + ((x - LINE.left) / (box.width - LINE.left - 4)) * (this.to - this.from);
    const slack = ((this.to - this.from) / box.width) * 2;
    for (const name of this.flat() ? tracks : [tracks[number]]) {
      const track = row.lane.tracks[name];
      for (let n = track ? firstSeen(row.lane, track, time - slack) : 0; n < (track?.events.length ?? 0); n++) {
        const event = track.events[n];
        if (row.lane.begin[event] > time + slack) break;
        if (row.lane.begin[event] + row.lane.length[event] >= time - slack) return { row, event };
      }
    }
    return null;
  }

  /** Goes to another event of the picked rank, or to the first one in view. */
  step(by) {
    const row = this.picked?.row ?? this.list[Math.floor(this.top)];
    const begin = Array.from(row.lane.begin).findIndex((time) => time >= this.from);
    const event = this.picked ? Math.max(0, Math.min(row.lane.size - 1, this.picked.event + by)) : Math.max(0, begin);
    this.picked = { row, event };
    const at = row.lane.begin[event];
    if (at < this.from || at > this.to) this.show(at - (this.to - this.from) / 2, at + (this.to - this.from) / 2);
    this.tell();
    this.soon();
  }

  listen() {
    const { canvas } = this;
    const keys = {
      ArrowLeft: () => this.move(-0.2),
      ArrowRight: () => this.move(0.2),
      ArrowUp: () => this.scroll(-2),
      ArrowDown: () => this.scroll(2),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.show(this.phase.from, this.phase.to),
      n: () => this.step(1),
      p: () => this.step(-1),
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, from: this.from, to: this.to, top: this.top, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag) {
        const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
        drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
        if (!drag.moved) return;
        const shift = (dx / (canvas.clientWidth - LINE.left)) * (drag.to - drag.from);
        this.show(drag.from - shift, drag.to - shift);
        this.scroll(drag.top - dy / this.high - this.top);
        return hideTip();
      }
      const found = this.under(event.clientX, event.clientY);
      if (found) showTip(event.clientX, event.clientY, this.described(found));
      else hideTip();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) {
        this.picked = this.under(event.clientX, event.clientY);
        this.tell();
        this.soon();
      }
      drag = null;
    });
    canvas.addEventListener("pointercancel", () => (drag = null));
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.shiftKey && !event.metaKey) return;
        event.preventDefault();
        const share = (event.offsetX - LINE.left) / (canvas.clientWidth - LINE.left);
        this.zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, this.from + share * (this.to - this.from));
      },
      { passive: false },
    );
    canvas.addEventListener("dblclick", (event) => {
      const share = (event.offsetX - LINE.left) / (canvas.clientWidth - LINE.left);
      this.zoom(0.4, this.from + share * (this.to - this.from));
    });
  }
}

/** The timelines of a page: a predicted one, a measured one, or both with one window. */
function timelineSection(predicted, measured) {
  const all = [predicted, measured]
    .filter(Boolean)
    .filter((data) => data.lanes.length > 0)
    .map(decoded);
  if (all.length === 0) return;
  const views = [];
  let linked = all.length > 1;
  for (const line of all) {
    const title = line.kind === "measured" ? `Measured, epoch ${line.epoch ?? ""}`.trim() : "Predicted";
    const view = new TimelineView(title, line, (from, to) => {
      if (linked)
        views
          .filter((other) => other !== view)
          .forEach((other) => other.show(from + other.phase.from, to + other.phase.from, true));
    });
    views.push(view);
  }
  const longest = Math.max(...views.map((view) => view.phase.to - view.phase.from));
  views.forEach((view) => {
    view.most = Math.max(...views.map((other) => view.phase.from + other.most - other.phase.from));
    view.show(view.phase.from, view.phase.from + longest, true);
  });
  const link =
    linked &&
    h(
      "div",
      { class: "tools" },
      h(
        "label",
        {},
        h("input", {
          type: "checkbox",
          checked: true,
          onchange: (event) => {
            linked = event.target.checked;
          },
        }),
        " move and zoom both together, at one scale",
      ),
    );
  const about =
    "What each rank does, and when. Drag to move; zoom with the buttons, with + and −, or with Ctrl and the wheel. " +
    (linked
      ? "Measured is the epoch with the median time of those whose events were kept."
      : "The times are those of the simulator.");
  section(
    "timeline",
    "Timeline",
    about,
    link,
    views.map((view) => view.element),
    all.map(instructionTable),
  );
}
