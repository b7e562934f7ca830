const facts = JSON.parse(at("facts").textContent), vocabulary = new Vocabulary(facts);
let network, current; // the generator of the current text, if any

function busy(is) {
  at("text").setAttribute("aria-busy", is);
  at("stop").disabled = !is;
}

function stop() {
  current = undefined;
  busy(false);
}

function shown(tokens) {
  return tokens.slice(0, 10).map(token => JSON.stringify(token)).join(", ") + (tokens.length > 10 ? " …" : "");
}

function known(prompt) { // whether all tokens are known; shows a message otherwise
  try {
    vocabulary.encode(prompt);
    at("message").textContent = "";
    return true;
  } catch (error) {
    if (!(error instanceof Unknown)) throw error;
    at("message").textContent = `Not in the vocabulary of the model: ${shown(error.tokens)}.`;
    at("prompt").focus();
    return false;
  }
}

function piece(text, surprise) {
  const element = document.createElement("i");
  element.textContent = text;
  element.title = `probability ${Math.exp(-surprise).toPrecision(2)}, surprise ${surprise.toFixed(2)} nats`;
  element.style.setProperty("--s", Math.min(surprise / 9, 0.7).toFixed(2));
  return element;
}

async function begin() {
  const [temperature, top_p, length] = ["temperature", "top_p", "length"].map(id => at(id).valueAsNumber);
  const prompt = at("prompt").value, seed = BigInt(at("seed").value), out = at("text");
  if (!known(prompt)) return;
  const mine = current = write(network, vocabulary, { prompt, seed, temperature, top_p }), began = performance.now();
  const first = Object.assign(document.createElement("b"), { textContent: prompt });
  out.replaceChildren(...prompt ? [first] : []);
  busy(true);
  let count = 0, total = 0, waiting = 0, ended = false;
  while (count < length && !ended && mine === current) {
    const part = document.createDocumentFragment(), pause = performance.now() + 12; // milliseconds until the text is shown
    for (; count < length && performance.now() < pause; count++) {
      const { value, done } = mine.next();
      if (ended = done) break;
      const [text, surprise] = value;
      total += surprise;
      waiting += surprise; // of the bytes of an incomplete character
      if (!text) continue;
      part.append(piece(text, waiting));
      waiting = 0;
    }
    out.append(part);
    at("status").textContent = `${count} ${facts.token_name}`;
    await new Promise(requestAnimationFrame);
  }
  if (current && mine !== current) return; // another text has been started
  const seconds = ((performance.now() - began) / 1000).toFixed(1), mean = (total / count || 0).toFixed(2);
  at("status").textContent = `${count} ${facts.token_name} in ${seconds} s. Mean surprise: ${mean} nats.`;
  stop();
}

function start() {
  if (network && at("form").reportValidity()) begin();
}

at("form").addEventListener("submit", event => { event.preventDefault(); start(); });
at("stop").addEventListener("click", stop);
at("another").addEventListener("click", () => {
  at("seed").value = Math.floor(Math.random() * 1e6);
  start();
});
at("shade").addEventListener("change", event => at("text").classList.toggle("shaded", event.target.checked));
for (const id of ["temperature", "top_p"]) {
  const show = () => { document.querySelector(`[for=${id}]`).value = at(id).valueAsNumber.toFixed(2); };
  at(id).addEventListener("input", show);
  show();
}
addEventListener("keydown", event => {
  if (event.key === "Escape") stop();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start();
});
load(bytes => {
  network = new Network(facts, bytes);
  begin();
}).finally(() => { if (!network) busy(false); });
