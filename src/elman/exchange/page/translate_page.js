const facts = JSON.parse(at("facts").textContent), source = new Symbols(facts.source), target = new Symbols(facts.target);
let translator;

const make = (tag, words = "", name = "") => Object.assign(document.createElement(tag), { textContent: words, className: name });

function attentionTable(read, { tokens, alphas }) { // a row for each output token, a column for each input token
  const table = make("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  const visible = token => token.trim() || "␣";
  head.append(make("td"), ...read.map(token => make("th", visible(token))));
  alphas.forEach((alpha, i) => {
    const row = body.insertRow(), written = visible(target.show(tokens[i] ?? 1));
    row.append(make("th", written));
    alpha.forEach((weight, j) => {
      const cell = row.insertCell();
      cell.title = `${written} ← ${visible(read[j])}: ${(100 * weight).toFixed(0)} %`;
      cell.style.setProperty("--s", weight.toFixed(3));
    });
  });
  const scroll = make("div", "", "scroll");
  scroll.tabIndex = 0;
  scroll.append(table);
  return scroll;
}

function answer(line, number) {
  const ids = source.encode(line), found = translator.translate(ids, at("beam").valueAsNumber), box = make("section");
  const read = ids.map((id, i) => (id ? source.show(id) : source.kind === "word" ? source.words(` ${trimmed(line)}`)[i] : "?"));
  const text = make("p", "", "answer"), list = make("ol"), attention = make("div");
  const choose = one => {
    text.replaceChildren(make("span", `${line} → `), make("b", target.decode(one.tokens)));
    if (one.alphas[0] && ids.length) attention.replaceChildren(attentionTable(read, one));
  };
  found.forEach((one, i) => {
    const label = make("label"), radio = Object.assign(make("input"), { type: "radio", name: `answer-${number}`, checked: i === 0 });
    radio.addEventListener("change", () => choose(one));
    label.append(radio, make("span", target.decode(one.tokens)), make("small", one.score.toFixed(2)));
    const item = make("li");
    item.append(label);
    list.append(item);
  });
  choose(found[0]);
  const unknown = [...new Set(read.filter((_, i) => !ids[i]))];
  box.append(text, ...unknown.length ? [make("p", `Not in the vocabulary of the model: ${unknown.map(token => JSON.stringify(token.trim())).join(", ")}.`, "unknown")] : [],
    ...found.length > 1 ? [list] : [], attention);
  return box;
}

async function start() {
  const lines = at("source").value.split("\n").filter(line => trimmed(line));
  at("answers").replaceChildren();
  at("answers").setAttribute("aria-busy", true);
  const began = performance.now();
  for (const [number, line] of lines.entries()) {
    await new Promise(requestAnimationFrame);
    at("answers").append(answer(line, number));
  }
  at("answers").setAttribute("aria-busy", false);
  at("status").textContent = lines.length ? `${((performance.now() - began) / 1000).toFixed(1)} s` : "Type a sentence first.";
}

at("form").addEventListener("submit", event => { event.preventDefault(); if (translator) start(); });
at("beam").addEventListener("input", () => { document.querySelector("[for=beam]").value = at("beam").value; });
addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && translator) start();
});
load(bytes => { translator = new Translator(facts, bytes); at("status").textContent = ""; at("answers").setAttribute("aria-busy", false); });
