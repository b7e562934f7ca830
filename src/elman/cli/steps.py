"""elman steps: every equation with its values, one on each screen."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from elman.cli.console import console
from elman.cli.flags import argument, flag

if TYPE_CHECKING:
    from rich.text import Text

SHOWN = {"page": 8, "screen": 5}  # at most this many units and tokens are shown
COLORS = {"forward": "blue", "loss": "magenta", "backward": "red", "gradients": "red", "update": "green"}


@dataclass(frozen=True)
class Steps:
    """Show every equation, forward, backward and of an update, with its values and the code that computes it.

    The network reads INPUT and should predict TARGET, which has as many tokens. Without --run it has three units and
    random weights, the same every time. In a terminal Enter shows the next equation, b the one before, and q quits; if
    the input or output is no terminal, all are printed at once.

    For instance:
        elman steps hell ello
        elman steps hell ello --cell lstm
        elman steps hell ello --bptt-steps 2 --clip-norm 0.5 --lr 0.1
        elman steps hell ello --run runs/pride-and-prejudice --out steps.html
    """

    input: str = argument("INPUT", "text that the network reads")
    target: str = argument("TARGET", "text that it should predict, token by token")
    trained: Path | None = flag(None, "use the network of this run, a language model", name="run")
    cell: Literal["rnn", "gru", "lstm"] = flag("rnn", "cell of the network without --run")
    bptt_steps: int | None = flag(None, "backpropagate each loss over at most this many steps (k2, with k1 = 1)")
    learning_rate: float = flag(1.0, "learning rate of the update", alias="lr")
    clip_norm: float = flag(1.0, "norm to which a longer gradient is clipped before the update; 0: no clipping")
    out: Path | None = flag(None, "write an HTML page instead of printing")
    force: bool = flag(False, "replace the file of --out, if it is a page that Elman wrote")

    def run(self) -> int:
        from elman.look.page_marker import check_replaceable
        from elman.look.steps import steps_data

        if self.out is not None:
            check_replaceable(self.out, "a page of elman steps", force=self.force)
        model = None
        if self.trained is not None:
            from elman.models import LanguageModel

            model = LanguageModel.load(self.trained)
        shown = SHOWN["page" if self.out else "screen"]
        data = steps_data(
            self.input, self.target, model=model, cell=self.cell, shown=shown, bptt_steps=self.bptt_steps,
            learning_rate=self.learning_rate, clip_norm=self.clip_norm, parameters=self.out is not None,
        )  # fmt: skip
        if self.out is not None:
            from elman.look.steps_page import StepsPage

            StepsPage(data).save(self.out)
            console.print(f"{len(data['steps'])} steps. Open it in a browser: {self.out}", markup=False)
        elif sys.stdout.isatty() and sys.stdin.isatty():
            _one_by_one(data)
        else:
            for number in range(len(data["steps"])):
                console.print(_screen(data, number))
        return 0


def _one_by_one(data: dict[str, Any]) -> None:
    number = 0
    while 0 <= number < len(data["steps"]):
        console.rich.clear()
        console.print(_screen(data, number))
        try:
            answer = input("Enter: next, b: back, q: quit > ").strip().lower()
        except EOFError:
            return
        if answer.startswith("q"):
            return
        number = max(number - 1, 0) if answer.startswith("b") else number + 1


def _screen(data: dict[str, Any], number: int) -> Text:
    """One equation with its values and its lines of code."""
    from rich.text import Text

    step = data["steps"][number]
    color = COLORS[step["phase"]]
    text = Text(f"{number + 1} of {len(data['steps'])}  ", style="dim")
    text.append(step["phase"], f"bold {color}").append(f"  {_place(data, step)}\n\n", "dim")
    symbol = step["here"].split(" ")[0]
    text.append(f"  {symbol}", f"bold {color}").append(f"{step['here'].removeprefix(symbol)}\n", "bold")
    text.append(f"  {step['says']}\n\n")
    values = [part for value in (*step["operands"], step["result"]) for part in _by_gate(value, data["axes"])]
    _add_values(text, values, data["axes"], f"bold {color}")
    text.append("\n")
    places = [f"{line['file']}:{line['line']}" for line in step["lines"]]
    for place, line in zip(places, step["lines"], strict=True):
        text.append(f"  {place:{max(map(len, places))}}  ", "dim").append(f"{line['code']}\n")
    return text


def _by_gate(value: dict[str, Any], axes: dict[str, Any]) -> list[dict[str, Any]]:
    """A value of all gates as one value per gate: side by side they are too wide for a screen."""
    if not value["axes"].endswith("G"):
        return [value]
    gates = list(dict.fromkeys(label.split()[0] for label in axes["G"]["labels"]))
    shape = [*value["shape"][:-1], value["shape"][-1] // len(gates)]
    rows = value["values"] if len(value["axes"]) > 1 else [value["values"]]
    width = len(rows[0]) // len(gates)
    found = []
    for number, gate in enumerate(gates):
        cut = [row[number * width : (number + 1) * width] for row in rows]
        found.append(
            {
                "name": f"{value['name']}, gate {gate}",
                "axes": value["axes"][:-1] + "H",
                "shape": shape,
                "values": cut if len(value["axes"]) > 1 else cut[0],
            }
        )
    return found


def _place(data: dict[str, Any], step: dict[str, Any]) -> str:
    layer = f"layer {step['layer']}, " if data["network"]["layers"] > 1 else ""
    if step["t"] is None:
        return f"{layer}all steps"
    token, target = data["tokens"][step["t"]]
    loss = "" if step["loss"] is None else f", back from the loss of t = {step['loss']}"
    return f"{layer}t = {step['t']}, reads {token!r}, target {target!r}{loss}"


def _add_values(text: Text, values: list[dict[str, Any]], axes: dict[str, Any], style: str) -> None:
    """Append each value: name, shape and rows, with column names above where they change. The last is the result."""
    width = max(len(value["name"]) for value in values)
    shapes = [f"({', '.join(map(str, value['shape']))})" if value["shape"] else "" for value in values]
    names = [_row_names(value, axes) for value in values]
    side, named = max(len(name) for some in names for name in some), ""
    for value, shape, some in zip(values, shapes, names, strict=True):
        across = value["axes"][-1:]
        rows = value["values"] if len(value["axes"]) > 1 else [value["values"] if across else [value["values"]]]
        if across and across != named:
            labels = "".join(f"{_printable(name):>8}" for name in axes[across]["labels"])
            text.append(f"  {'':{width}}  {'':{max(map(len, shapes))}} {'':{side}}{labels}\n", "dim")
        named = across
        more = " …" if across and axes[across]["size"] > len(rows[0]) else ""
        for i, (name, row) in enumerate(zip(some, rows, strict=True)):
            of_result = style if _bare(value) == _bare(values[-1]) else ""
            text.append(f"  {'' if i else value['name']:{width}}  ", of_result or "bold")
            text.append(f"{'' if i else shape:{max(map(len, shapes))}} {name:>{side}}", "dim")
            text.append("".join(f"{_number(entry):>8}" for entry in row) + more + "\n", of_result)
        if len(value["axes"]) > 1 and axes[value["axes"][0]]["size"] > len(rows):
            text.append(f"  {'':{width}}  {'':{max(map(len, shapes))}} {'…':>{side}}\n", "dim")


def _bare(value: dict[str, Any]) -> str:
    """The name without its gate."""
    return str(value["name"]).partition(", gate")[0]


def _row_names(value: dict[str, Any], axes: dict[str, Any]) -> list[str]:
    down = axes[value["axes"][0]] if len(value["axes"]) > 1 else axes["B"]
    return [_printable(name) if down["size"] > 1 else "" for name in down["labels"]]


def _printable(label: str) -> str:
    return label if label.isprintable() and label.strip() else repr(label)


def _number(value: float | None) -> str:
    if value is None:
        return "not finite"
    if value == int(value) and abs(value) < 1e4:
        return str(int(value))
    return f"{value:.3f}" if 5e-4 <= abs(value) < 1e4 else f"{value:.0e}"
