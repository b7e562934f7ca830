// The curves of a run, from the rows of its metrics.

import { levels, level, plot } from "./plot.js";
import { at } from "./dom.js";

const SMALL = { margin: { l: 40, r: 8, t: 6, b: 24 } };

const line = (rows, name, color, more = {}) => ({
  x: rows.map((row) => row.step), y: rows.map((row) => row[name]), type: "scatter", mode: "lines",
  line: { color: color, width: 2, ...more.line }, hovertemplate: "step %{x}: %{y:.4~g}<extra></extra>", ...more.trace,
});

/** The moving average of a curve, over fewer rows near its ends. */
function smooth(rows, name) {
  const most = Math.round(rows.length / 60);
  return rows.map((row, i) => {
    const width = Math.min(most, i, rows.length - 1 - i);
    const near = rows.slice(i - width, i + width + 1).map((other) => other[name]).filter((v) => v != null);
    return { step: row.step, [name]: near.length ? near.reduce((a, b) => a + b) / near.length : null };
  });
}

export function drawCurves(rows, run, marked) {
  const clip = run.config?.clip_norm;
  const held = rows.filter((row) => row.validation_loss != null);
  plot(at("loss-figure"), (c) => ({
    traces: [
      line(rows, "loss", c.accent, { line: { width: 1 }, trace: { opacity: 0.3, name: "training", hoverinfo: "skip", hovertemplate: null } }),
      line(smooth(rows, "loss"), "loss", c.accent, { line: { width: 2.5 }, trace: { name: "training, smoothed" } }),
      line(held, "validation_loss", c.warm, { line: { width: 2.5 }, trace: { name: "validation", mode: "lines+markers", marker: { size: 6 } } }),
    ],
    layout: {
      showlegend: true, xaxis: { title: { text: "step" }, rangemode: "tozero" },
      ...(marked == null ? {} : {
        shapes: [{ type: "line", yref: "paper", x0: marked, x1: marked, y0: 0, y1: 1, line: { color: c.soft, width: 1, dash: "dot" } }],
        annotations: [{ x: marked, yref: "paper", y: 1, yanchor: "top", xanchor: marked > rows.at(-1).step / 2 ? "right" : "left", text: "the sample shown below", showarrow: false, font: { size: 11 } }],
      }),
    },
  }));
  const scored = rows.filter((row) => row.validation_accuracy != null);
  at("accuracy-card").hidden = !scored.length;
  at("curves").classList.toggle("scored", scored.length > 0);
  if (scored.length) {
    plot(at("accuracy-figure"), (c) => ({
      traces: [line(scored, "validation_accuracy", c.warm, { line: { width: 2.5 }, trace: { mode: "lines+markers", marker: { size: 6 }, hovertemplate: "step %{x}: %{y:.1%}<extra></extra>" } })],
      layout: { margin: { l: 48, r: 8, t: 6, b: 36 }, xaxis: { title: { text: "step" }, rangemode: "tozero" }, yaxis: { tickformat: ".0%", range: [0, 1.02] } },
    }));
  }
  plot(at("gradient-figure"), (c) => ({
    traces: [line(rows, "gradient_norm", c.violet, { line: { width: 1.5 } })],
    layout: { ...SMALL, yaxis: { type: "log", dtick: 1 }, ...(clip ? levels(level(clip, `clipped above ${clip}`, { log: true })) : {}) },
  }));
  plot(at("rate-figure"), (c) => ({ traces: [line(rows, "learning_rate", c.gold)], layout: { ...SMALL, yaxis: { rangemode: "tozero", tickformat: ".2~g" } } }));
  plot(at("speed-figure"), (c) => ({ traces: [line(rows, "tokens_per_second", c.green, { line: { width: 1.5 } })], layout: { ...SMALL, yaxis: { rangemode: "tozero", tickformat: ".2~s" } } }));
}
