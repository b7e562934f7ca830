// Starts a small training on a pasted text or a known corpus.

import { get, post } from "./api.js";
import { at, make, number } from "./dom.js";
import { go, refresh } from "./state.js";

let started = false;

const form = () => at("train-form");
const source = () => form().elements.source.value;

function setStatus(text, wrong = false) {
  at("train-status").textContent = text;
  at("train-status").classList.toggle("wrong", wrong);
}

async function fillCorpora() {
  const place = form().elements.corpus;
  if (place.options.length) return;
  const { data } = await get("/v1/elman/corpora");
  place.replaceChildren(...data.map(({ name, description, bytes }) =>
    make("option", { value: name, title: description }, bytes ? `${name} · ${number(bytes / 1e6, 1)} MB` : name)));
}

async function begin(event) {
  event.preventDefault();
  if (source() === "text" && !form().elements.text.value.trim()) return setStatus("Paste some text first.", true);
  const fields = form().elements, button = form().querySelector("button[type=submit]");
  const given = source() === "text" ? { text: fields.text.value } : { corpus: fields.corpus.value };
  const options = { cell: fields.cell.value, hidden: Number(fields.hidden.value), layers: Number(fields.layers.value), seconds: Number(fields.seconds.value), sample_every: 50, validate_every: 50, save_every: 50 };
  const name = fields.name.value.trim();
  button.disabled = true;
  setStatus("Starting …");
  try {
    const training = await post("/v1/elman/trainings", { ...given, ...(name ? { name } : {}), options });
    setStatus("");
    at("new-training").open = false;
    await refresh();
    go("learn", training.name);
    scrollTo({ top: 0 });
  } catch (error) {
    setStatus(error.message, true);
  } finally {
    button.disabled = false;
  }
}

export function startTraining() {
  if (started) return;
  started = true;
  form().addEventListener("submit", begin);
  form().elements.text.addEventListener("paste", (event) => { // a book, line by line, would take a browser minutes
    const pasted = event.clipboardData?.getData("text/plain") ?? "", place = event.target;
    if (pasted.length < 10_000) return;
    event.preventDefault();
    place.setRangeText(pasted, place.selectionStart, place.selectionEnd, "end");
  });
  form().addEventListener("change", () => {
    at("text-field").hidden = source() !== "text";
    at("corpus-field").hidden = source() !== "corpus";
    if (source() === "corpus") fillCorpora().catch((error) => setStatus(error.message, true));
  });
}
