// Rank cards that move. All words come from the kernel; nothing of them is read as HTML.
function put(parent, tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
}

function card(parent) {
  const box = put(parent, "article", "lk-card");
  const lead = put(box, "p", "lk-lead");
  const rank = put(lead, "span", "lk-rank");
  const state = put(lead, "span", "lk-state");
  const detail = put(box, "p", "lk-detail");
  const facts = put(box, "dl", "");
  let known = "";
  return (data) => {
    box.className = `lk-card lk-${data.accent}`;
    rank.textContent = data.rank;
    state.textContent = `${data.symbol} ${data.state}`;
    detail.textContent = data.detail || "\u00a0";
    const now = JSON.stringify(data.facts);
    if (now === known) return;
    known = now;
    facts.replaceChildren();
    for (const [name, value] of data.facts) {
      put(facts, "dt", "", name);
      put(facts, "dd", "", value);
    }
  };
}

function render({ model, el }) {
  const root = put(el, "div", "labkit");
  const head = put(root, "div", "lk-head");
  const row = put(root, "div", "lk-cards lk-live");
  const note = put(root, "p", "lk-detail");
  let cards = [];
  const draw = () => {
    const data = model.get("cards");
    if (cards.length !== data.length) {
      row.replaceChildren();
      cards = data.map(() => card(row));
    }
    data.forEach((one, i) => cards[i](one));
    head.textContent = `${model.get("head")} · live`;
    note.textContent = model.get("note");
  };
  model.on("change", draw);
  draw();
  const view = Math.random().toString(36).slice(2);
  model.send({ view, shown: true });
  return () => {
    model.off("change", draw);
    try {
      model.send({ view, shown: false });
    } catch {
      // the kernel is gone, and with it what was to be told
    }
  };
}

export default { render };
