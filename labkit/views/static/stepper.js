// Steps through a schedule. All words, places and colours come from the kernel; nothing of them is read as HTML.
const SVG = "http://www.w3.org/2000/svg";
const SPEEDS = [0.25, 0.5, 1, 2, 4];
const STEP_MS = 1400; // of one step at speed 1
const LEAST = 0.5; // of its size, to which a picture shrinks where there is less room: below that its words can't be read
const LEAST_PX = 620; // and a large one to so much: it is scrolled then
const PROBLEMS = 4; // that stand open
const FLIGHT = 0.6; // part of it in which chunks travel
let made = 0;

function put(parent, tag, attributes = {}, text) {
  const child = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) child.setAttribute(name, value);
  if (text !== undefined) child.textContent = text;
  parent.appendChild(child);
  return child;
}

function draw(parent, tag, attributes = {}, text) {
  const child = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) child.setAttribute(name, value);
  if (text !== undefined) child.textContent = text;
  parent.appendChild(child);
  return child;
}

const key = (rank, slot) => `${rank}.${slot}`;
const on = (curve, t) => [0, 1].map((i) => (1 - t) ** 2 * curve[i] + 2 * (1 - t) * t * curve[i + 2] + t * t * curve[i + 4]);

function members(mask) {
  const bits = Number.parseInt(mask, 16);
  return Array.from({ length: 32 }, (_, rank) => rank).filter((rank) => (bits >>> rank) & 1);
}

// What every cell holds at a position: 0 is the start, k what step k has done.
function holdings(data, position) {
  const held = new Map();
  const take = (changes) => changes.forEach(([rank, slot, mask]) => held.set(key(rank, slot), mask));
  take(data.start.changes);
  data.frames.slice(0, position).forEach((frame) => take(frame.changes));
  return held;
}

function makeCell(parent, data, rank, slot) {
  const [x, y] = data.corners[rank][slot];
  const [width, height] = data.cell;
  const chunk = data.slots[rank][slot];
  const group = draw(parent, "g", { class: "lks-cell", "data-cell": `${rank}.${chunk}` });
  const about = draw(group, "title");
  const rect = draw(group, "rect", { x: x + 2, y: y + 2, width: width - 4, height: height - 4, rx: 3 });
  const name = draw(group, "text", { x: x + width / 2, y: y + 13, class: "lks-chunk" }, data.chunks[chunk]);
  const number = draw(group, "text", { x: x + width / 2, y: y + height - 12, class: "lks-count" });
  const marks = draw(group, "path", { class: "lks-marks" });
  const part = (width - 10) / data.ranks;
  return (mask, fresh, read) => {
    const ranks = mask ? members(mask) : [];
    const place = data.reduces ? ranks.length - 1 : ranks[0];
    const [fill, ink] = ranks.length ? data.palette[place] : ["none", "currentColor"];
    rect.style.fill = fill;
    for (const words of [name, number]) words.style.fill = ink;
    number.textContent = !ranks.length ? "" : data.reduces ? ranks.length : `r${ranks[0]}`;
    marks.style.stroke = ink;
    const show = ranks.length && data.reduces;
    marks.setAttribute("d", show ? ranks.map((r) => `M${x + 5 + r * part},${y + height - 7}h${part}`).join("") : "M0,0");
    about.textContent = `chunk ${chunk}: ${ranks.length ? `the part of rank${ranks.length > 1 ? "s" : ""} ${ranks.join(", ")}` : "nothing yet"}`;
    group.setAttribute("class", `lks-cell${ranks.length ? "" : " lks-empty"}${fresh ? " lks-fresh" : ""}${read ? " lks-read" : ""}`);
  };
}

function makeBox(parent, data, rank) {
  const [x, y, width, height] = data.boxes[rank];
  draw(parent, "rect", { x, y, width, height, rx: 5, class: "lks-box" });
  if (!data.detail) {
    draw(parent, "text", { x: x + width / 2, y: y + 14, class: "lks-rank" }, rank);
    return () => {};
  }
  const [named, ...below] = data.words[rank].map(([x, y]) => ({ x, y }));
  draw(parent, "text", { ...named, class: "lks-rank" }, `rank ${rank}`);
  const lines = below.map((at) => draw(parent, "text", { ...at, class: "lks-counter" }));
  lines[0].setAttribute("data-bytes", rank);
  lines[1].setAttribute("data-messages", rank);
  return (words) => words.forEach((text, i) => (lines[i].textContent = text));
}

function makeHeads(svg, id) {
  const defs = draw(svg, "defs");
  for (const kind of ["add", "copy"]) {
    const marker = draw(defs, "marker", {
      id: `${id}-${kind}`, markerWidth: 8, markerHeight: 8, refX: 7, refY: 4, orient: "auto", markerUnits: "userSpaceOnUse",
    });
    draw(marker, "path", { d: "M0,0L8,4L0,8z", class: `lks-head-${kind}` });
  }
}

function plate(parent, x, y, label, kind) {
  const group = draw(parent, "g", { class: `lks-plate lks-${kind}`, transform: `translate(${x} ${y})` });
  const width = 8 + 7 * label.length;
  draw(group, "rect", { x: -width / 2, y: -8, width, height: 16, rx: 8 });
  draw(group, "text", { x: 0, y: 4 }, label);
  return group;
}

// Words that change, in a place as high as the longest of them needs: the picture below does not jump.
function steady(parent, name, texts) {
  const place = put(parent, "div", { class: `lks-steady ${name}` });
  const now = put(place, "p", { class: `${name}-now` });
  const longest = texts.reduce((one, other) => (other.length > one.length ? other : one), "");
  put(place, "p", { class: "lks-longest", "aria-hidden": "true" }, longest);
  return now;
}

// The first few stand open, the rest can be opened: one mistake is often wrong on every rank.
function makeProblems(parent, problems) {
  if (!problems.length) return;
  const block = put(parent, "div", { class: "lks-problem" });
  for (const problem of problems.slice(0, PROBLEMS)) put(block, "p", {}, `✗ ${problem}`);
  const left = problems.slice(PROBLEMS);
  if (!left.length) return;
  const more = put(block, "details");
  put(more, "summary", {}, `and ${left.length} more`);
  for (const problem of left) put(more, "p", {}, problem);
}

function makeLegend(parent, data) {
  const row = put(parent, "div", { class: "lks-legend" });
  if (data.detail) {
    const item = put(row, "span", { class: "lks-item" });
    for (const [place, words] of data.swatches) {
      const [fill, ink] = data.palette[place];
      put(item, "span", { class: "lks-swatch", style: `background:${fill};color:${ink}` }, words);
    }
    put(item, "span", {}, data.legend);
  }
  for (const [kind, words] of data.arrow_legend) {
    const item = put(row, "span", { class: "lks-item" });
    put(item, "span", { class: `lks-dash lks-dash-${kind}` });
    put(item, "span", {}, words);
  }
  if (data.detail) put(row, "span", { class: "lks-item" }, data.edges);
}

// The picture; `show(position, flying)` draws it, with `flying` before its chunks have arrived.
function makePicture(parent, data) {
  const id = `lks-${++made}`;
  const [width, height] = data.size;
  const svg = draw(parent, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", preserveAspectRatio: "xMinYMid", style: `max-width:${width}px;min-width:${Math.min(LEAST * width, LEAST_PX)}px` });
  makeHeads(svg, id);
  const below = draw(svg, "g");
  const counters = data.boxes.map((_, rank) => makeBox(below, data, rank));
  const cells = data.corners.map((corners, rank) => corners.map((_, slot) => makeCell(below, data, rank, slot)));
  const above = draw(svg, "g");
  let flyers = [];
  const show = (position, flying) => {
    const frame = position ? data.frames[position - 1] : data.start;
    const held = holdings(data, flying ? position - 1 : position);
    const fresh = new Set((flying || !position ? [] : frame.changes).map(([rank, slot]) => key(rank, slot)));
    const read = new Set((frame.reads ?? []).map(([rank, slot]) => key(rank, slot)));
    cells.forEach((row, rank) =>
      row.forEach((set, slot) => set(held.get(key(rank, slot)), fresh.has(key(rank, slot)), read.has(key(rank, slot)))),
    );
    counters.forEach((set, rank) => data.detail && set(frame.counters[rank]));
    above.replaceChildren();
    flyers = [];
    for (const [src, dst, , kind] of frame.arrows ?? []) {
      const [x0, y0, x1, y1, x2, y2] = data.links[`${src}>${dst}`];
      draw(above, "path", {
        d: `M${x0},${y0}Q${x1},${y1} ${x2},${y2}`, class: `lks-arrow lks-line-${kind}${data.detail ? "" : " lks-thin"}`,
        "marker-end": `url(#${id}-${kind})`, "data-arrow": `${src}>${dst}`,
      });
    }
    for (const [src, dst, label, kind, x, y] of (frame.labelled && frame.arrows) || [])
      flyers.push([plate(above, x, y, label, kind), data.links[`${src}>${dst}`]]);
    svg.setAttribute("aria-label", frame.text);
  };
  const fly = (t) => flyers.forEach(([group, curve]) => group.setAttribute("transform", `translate(${on(curve, t).join(" ")})`));
  return { show, fly };
}

function render({ model, el }) {
  const data = model.get("picture");
  const last = data.frames.length;
  const still = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches;
  const root = put(el, "div", { class: "lks", tabindex: "0", role: "group", "aria-label": data.title });
  const head = put(root, "div", { class: "lks-head" });
  put(head, "div", { class: "lks-title" }, data.title);
  const hint = put(head, "div", { class: "lks-hint" });
  put(hint, "span", { class: "lks-away" }, "click here, then ← → Home End Space");
  put(hint, "span", { class: "lks-here" }, "keys: ← → Home End Space");
  const bar = put(root, "div", { class: "lks-bar" });
  const button = (name, sign, label) => put(bar, "button", { type: "button", "data-do": name, title: label, "aria-label": label }, sign);
  const first = button("first", "|◂", "to the start (Home)");
  const back = button("back", "◂", "one step back (left arrow)");
  const play = button("play", "▶", "play (space)");
  const step = button("step", "▸", "one step on (right arrow)");
  const scrub = put(bar, "input", { type: "range", min: 0, max: last, step: 1, "aria-label": "step" });
  const where = put(bar, "span", { class: "lks-where" });
  const speed = put(bar, "select", { "aria-label": "speed", title: "speed" });
  for (const value of SPEEDS) put(speed, "option", { value }, `${value}×`);
  const all = [data.start, ...data.frames];
  const words = steady(root, "lks-said", all.map((frame) => frame.text));
  words.setAttribute("aria-live", "polite");
  const sum = steady(root, "lks-summary", all.map((frame) => frame.summary));
  const body = put(root, "div", { class: "lks-body" });
  const picture = makePicture(put(body, "div", { class: "lks-picture", style: `flex-basis:${data.size[0]}px` }), data);
  makeLegend(body, data);
  makeProblems(root, data.problems);

  let position = Math.min(Math.max(model.get("step"), 0), last);
  let playing = false;
  let due = 0; // the frame that is asked for
  let began = 0;
  const length = () => STEP_MS / model.get("speed");
  const say = () => {
    const frame = position ? data.frames[position - 1] : data.start;
    root.dataset.step = position;
    root.dataset.playing = playing;
    where.textContent = position ? `step ${position - 1} (${position} of ${last})${frame.phase ? ` · ${frame.phase}` : ""}` : `start of ${last} steps`;
    words.textContent = frame.text;
    sum.textContent = frame.summary;
    scrub.value = position;
    // not `disabled`: that would take the focus away, and with it the keyboard
    for (const one of [back, first]) one.setAttribute("aria-disabled", position === 0);
    step.setAttribute("aria-disabled", position === last);
    play.textContent = playing ? "❚❚" : "▶";
    play.setAttribute("aria-label", playing ? "pause (space)" : "play (space)");
    play.title = play.getAttribute("aria-label");
  };
  const stop = () => {
    cancelAnimationFrame(due);
    due = 0;
  };
  const tick = (now) => {
    const t = (now - began) / length();
    if (t < FLIGHT && !still) {
      picture.fly(t / FLIGHT);
    } else if (root.dataset.flying === "true") {
      root.dataset.flying = "false";
      picture.show(position, false);
    }
    if (t >= (playing ? 1 : FLIGHT)) {
      if (!playing) return stop();
      if (position === last) return go(last, { playing: false });
      return go(position + 1, { fly: true, playing: true });
    }
    due = requestAnimationFrame(tick);
  };
  const go = (to, { fly = false, playing: runs = false, tell = true } = {}) => {
    stop();
    position = Math.min(Math.max(to, 0), last);
    playing = runs;
    const flying = fly && !still && position > 0;
    root.dataset.flying = flying;
    picture.show(position, flying);
    say();
    if (tell && model.get("step") !== position) {
      model.set("step", position);
      model.save_changes();
    }
    if (!flying && !playing) return;
    began = performance.now();
    if (flying) picture.fly(0);
    due = requestAnimationFrame(tick);
  };
  const act = {
    first: () => go(0),
    last: () => go(last),
    back: () => go(position - 1),
    step: () => position < last && go(position + 1, { fly: true }),
    play: () => (playing ? go(position) : go(position === last ? 0 : position + 1, { fly: true, playing: true })),
  };
  const KEYS = { " ": "play", ArrowRight: "step", ArrowLeft: "back", Home: "first", End: "last" };
  bar.addEventListener("click", (event) => act[event.target.dataset?.do]?.());
  root.addEventListener("click", () => {
    // a picture takes no focus by itself, and some browsers give a pressed button none
    if (!root.contains(root.getRootNode().activeElement)) root.focus({ preventScroll: true });
  });
  scrub.addEventListener("input", () => go(Number(scrub.value)));
  speed.addEventListener("change", () => {
    model.set("speed", Number(speed.value));
    model.save_changes();
  });
  root.addEventListener("keydown", (event) => {
    const name = KEYS[event.key];
    if (!name || event.ctrlKey || event.metaKey || event.altKey || event.target === speed) return;
    event.preventDefault(); // a button would press itself on space, the slider move on arrows
    event.stopPropagation(); // and the notebook would walk through its cells
    act[name]();
  });
  root.addEventListener("keyup", (event) => event.key === " " && event.target !== speed && event.preventDefault());
  const heard = () => model.get("step") !== position && go(model.get("step"), { tell: false });
  const paced = () => (speed.value = String(model.get("speed")));
  model.on("change:step", heard);
  model.on("change:speed", paced);
  paced();
  go(position, { tell: false });
  return () => {
    stop();
    model.off("change:step", heard);
    model.off("change:speed", paced);
  };
}

export default { render };
