// Asks the user for the key.

import { at } from "./dom.js";

/** The key, or null if the user gives none. */
export function askForKey(wasWrong) {
  const dialog = at("key-dialog"), field = at("key");
  if (wasWrong) at("key-status").textContent = "That key is wrong. It is the value of ELMAN_API_KEY with which the service was started.";
  field.value = "";
  field.setAttribute("aria-invalid", wasWrong);
  dialog.returnValue = "";
  dialog.showModal();
  field.focus();
  return new Promise((found) => {
    dialog.addEventListener("close", () => found(dialog.returnValue === "given" ? field.value.trim() || null : null), { once: true });
  });
}

export function startKey() {
  at("key-dialog").querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    at("key-dialog").close("given");
  });
  at("no-key").addEventListener("click", () => at("key-dialog").close(""));
}
