// Figures: Plotly is loaded when the first one is drawn; all are redrawn when the theme changes.

import { reducedMotion } from "./dom.js";
import { color, isDark, theme } from "./theme.js";

const SCALE = {
  light: ["#f3f5fa", "#d3e2f8", "#8fb8ee", "#3f77d4", "#24418f", "#131f4a"],
  dark: ["#1c2230", "#22345e", "#2f5cae", "#5b97ec", "#a8d3ff", "#fff4cf"],
};
const FONT = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const touch = matchMedia("(pointer: coarse)").matches; // dragging with a finger scrolls the page
const figures = new Map(); // element: the function that returns its traces and layout
let loading = null;

function plotly() {
  loading ??= new Promise((found, failed) => {
    const script = document.createElement("script");
    script.src = "static/plotly.min.js";
    script.onload = () => found(window.Plotly);
    script.onerror = () => {
      loading = null;
      script.remove();
      failed(new Error("The figures could not be loaded."));
    };
    document.head.append(script);
  });
  return loading;
}

/** The colors of traces, from the style sheet. */
export const colors = () => Object.fromEntries(["accent", "warm", "green", "gold", "violet", "soft", "ink", "line", "card"].map((name) => [name, color(name)]));

export const scale = () => SCALE[isDark() ? "dark" : "light"].map((c, i, all) => [i / (all.length - 1), c]);

function fullLayout(layout) {
  const c = colors();
  const axis = { gridcolor: c.line, linecolor: c.line, zerolinecolor: c.line, automargin: true, ticks: "", fixedrange: touch };
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: FONT, size: 12, color: c.soft },
    margin: { l: 44, r: 10, t: 8, b: 36 },
    hovermode: "closest",
    hoverlabel: { bgcolor: c.card, bordercolor: c.line, font: { family: FONT, color: c.ink } },
    showlegend: false,
    dragmode: touch ? false : "zoom",
    ...layout,
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { color: c.ink }, ...layout.legend },
    xaxis: { ...axis, ...layout.xaxis, title: { standoff: 8, ...layout.xaxis?.title } },
    yaxis: { ...axis, ...layout.yaxis, title: { standoff: 8, ...layout.yaxis?.title } },
  };
}

/** Draws the {traces, layout} that `describe` returns, now and whenever the theme changes. */
export async function plot(place, describe) {
  figures.set(place, describe);
  const Plotly = await plotly();
  if (figures.get(place) !== describe || !place.isConnected) return; // a newer figure was requested meanwhile
  const { traces, layout } = describe(colors());
  await Plotly.react(place, traces, fullLayout(layout), { displayModeBar: false, responsive: true });
  place.classList.add("drawn");
}

/** A dotted horizontal line with a label. */
export function level(y, text = "", { log = false } = {}) {
  const c = colors();
  const height = log ? Math.log10(y) : y;
  return {
    shape: { type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { dash: "dot", color: c.soft, width: 1 } },
    label: { xref: "paper", x: 1, xanchor: "right", y: height, yanchor: "bottom", text, showarrow: false, bgcolor: c.card, borderpad: 1, yshift: 2, font: { size: 11 } },
  };
}

export const levels = (...lines) => ({ shapes: lines.map((l) => l.shape), annotations: lines.filter((l) => l.label.text).map((l) => l.label) });

theme.addEventListener("change", () => {
  for (const [place, describe] of figures) if (place.classList.contains("drawn")) plot(place, describe);
});

export const motion = () => (reducedMotion.matches ? 0 : 250);
