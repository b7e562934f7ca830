"use strict";
// The theme follows the system until the button is used. Figures change their template with it.
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const templates = read("templates");
const touch = matchMedia("(pointer: coarse)").matches; // on a touch screen, dragging scrolls the page
let chosen = null;

function draw(place) {
  const { data, layout } = read(place.dataset.from);
  if (touch) layout.dragmode = false;
  if (root.classList.contains("print")) layout.width = place.clientWidth;
  layout.template = templates[root.dataset.theme];
  if (layout.meta?.diverging) layout.coloraxis.colorscale = layout.template.layout.colorscale.diverging;
  Plotly.react(place, data, layout, { displayModeBar: false, responsive: true });
  place.classList.add("drawn");
}

function applyTheme() {
  root.dataset.theme = chosen || (system.matches ? "dark" : "light");
  const button = document.querySelector("button.theme");
  if (button) button.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
  document.querySelectorAll(".figure.drawn").forEach(draw);
}

system.addEventListener("change", applyTheme);
document.querySelector("button.theme")?.addEventListener("click", () => {
  chosen = root.dataset.theme === "dark" ? "light" : "dark";
  applyTheme();
});
applyTheme();

// A figure is drawn when it is almost visible, and before the page is printed.
const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && !target.classList.contains("drawn")) draw(target);
  }
}, { rootMargin: "800px" });
document.querySelectorAll(".figure").forEach((place) => near.observe(place));
// On paper every figure is as wide as the page, and light.
addEventListener("beforeprint", () => {
  root.classList.add("print");
  root.dataset.theme = "light";
  document.querySelectorAll(".figure").forEach(draw);
});
addEventListener("afterprint", () => {
  root.classList.remove("print");
  applyTheme();
  document.querySelectorAll(".figure").forEach((place) => Plotly.Plots.resize(place));
});

// A text in which a chosen token shows how far back the gradient of its loss reaches.
for (const card of document.querySelectorAll(".reach")) {
  const { reach, losses } = read(card.dataset.from); // reach[t][k]: ‖∂L[t]/∂s[k]‖, scaled to at most 1000 for each t
  const tokens = [...card.querySelectorAll(".text span")];
  const slider = card.querySelector("input");
  const output = card.querySelector("output");

  const show = (i) => {
    const row = reach[i - 1]; // of the loss whose target is token i
    tokens.forEach((token, j) => {
      const strength = j < i ? Math.sqrt(row[j + 1] / 1000) : 0; // s[j+1] is the state after token j
      token.style.backgroundColor = strength > 0.02 ? `rgba(var(--glow), ${(0.85 * strength).toFixed(3)})` : "";
      token.classList.toggle("now", j === i);
    });
    const own = row[i];
    let lag = 0;
    while (lag <= i && row[i - lag] >= 0.01 * own) lag += 1;
    const far = lag > i ? `all ${i} steps back to the start` : `${lag - 1} step${lag === 2 ? "" : "s"} back`;
    const loss = losses[i - 1] === null ? "∞" : losses[i - 1].toFixed(2);
    const reached = row.some((norm) => norm > 0) ? `At least 1 % of its gradient reaches ${far}.` : "It has no gradient.";
    output.textContent = `The loss of “${tokens[i].dataset.token}” is ${loss} nats. ${reached}`;
    slider.value = i;
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  for (const kind of ["mouseover", "click"]) {
    card.querySelector(".text").addEventListener(kind, (event) => {
      const i = tokens.indexOf(event.target);
      if (i > 0) show(i);
    });
  }
  show(Number(slider.value));
}
