"""Draws the diagrams of docs/maths.md and docs/shapes.md as SVG that is readable in light and dark.

python docs/figures/diagrams.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
# color-blind readers can distinguish blue and orange; backward arrows are dashed as well
STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #222; text-anchor: middle; dominant-baseline: central }
.small { font-size: 12px } .left { text-anchor: start } .name { font: 14px ui-monospace, monospace }
.title { font-weight: 600 }
.paper { fill: #fff } .box { fill: #eef3fa; stroke: #1f5fa8 } .plain { fill: none; stroke: #999 }
.line { fill: none; stroke: #1f5fa8; stroke-width: 1.8 } .tip { fill: #1f5fa8 } .forward { fill: #1f5fa8 }
.back { fill: none; stroke: #c2500a; stroke-width: 1.8; stroke-dasharray: 6 3 } .backtip { fill: #c2500a }
.backward { fill: #c2500a } .thick { stroke-width: 3.4 } .loss { fill: #fdeee2; stroke: #c2500a }
@media (prefers-color-scheme: dark) {
text { fill: #e6e6e6 } .paper { fill: #14171c } .box { fill: #1b2838; stroke: #7db4f0 } .plain { stroke: #777 }
.line { stroke: #7db4f0 }
.tip, .forward { fill: #7db4f0 } .back { stroke: #f2a267 } .backtip, .backward { fill: #f2a267 }
.loss { fill: #35241a; stroke: #f2a267 } }
</style>"""
MARKERS = """<defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse"
 orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker>
<marker id="backtip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse"
 orient="auto"><path class="backtip" d="M0 0 L8 4 L0 8 z"/></marker></defs>"""


def svg(parts: list[str], width: int, height: int, title: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    body = "\n".join(parts)
    paper = '<rect class="paper" width="100%" height="100%"/>'
    return f"{head}\n<title>{title}</title>\n{STYLE}\n{MARKERS}\n{paper}\n{body}\n</svg>\n"


def text(x: float, y: float, words: str, kind: str = "") -> str:
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{words}</text>'


def box(
    x: float, y: float, words: str, width: float = 76, height: float = 38, kind: str = "box", look: str = ""
) -> str:
    """A box around the point x, y."""
    corner = f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}" rx="7"'
    return f'<rect class="{kind}" {corner}/>\n{text(x, y, words, look)}'


def node(x: float, y: float, words: str, radius: float = 13, kind: str = "box") -> str:
    return f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>\n{text(x, y, words)}'


def arrow(path: str, kind: str = "line") -> str:
    tip = "backtip" if kind.startswith("back") else "tip"
    return f'<path class="{kind}" d="{path}" marker-end="url(#{tip})"/>'


def line(path: str, kind: str = "line") -> str:
    return f'<path class="{kind}" d="{path}"/>'


def boxes() -> str:
    """Why a network needs a memory."""
    parts = [
        text(210, 22, "a function of the letter alone", "title"),
        text(640, 22, "a function of the letter and a state", "title"),
    ]
    for panel, left in ((0, 60), (1, 490)):
        for i, (read, said) in enumerate(zip("hell", "ello", strict=True)):
            x = left + 100 * i
            parts += [box(x, 128, "f", 56, 44), text(x, 208, f"'{read}'", "name"), text(x, 60, f"'{said}'", "name")]
            parts += [arrow(f"M{x} 196 V152"), arrow(f"M{x} 104 V74")]
            if panel and i:
                parts += [arrow(f"M{x - 70} 128 H{x - 30}"), text(x - 50, 114, f"h[{i}]", "name small")]
    parts += [
        text(310, 240, "f('l') would have to be both 'l' and 'o'", "small backward"),
        text(640, 240, "f('l', h[2]) = 'l', f('l', h[3]) = 'o'", "small forward"),
        line("M246 222 H374", "back"),
    ]
    return svg(parts, 850, 262, "Four boxes that each read a letter, without and with a state")


def unrolled() -> str:
    parts = [text(90, 24, "rolled up", "title"), text(500, 24, "unrolled over four steps", "title")]
    parts += [box(90, 130, "cell"), text(90, 212, "x[t]", "name"), text(90, 48, "y_hat[t]", "name")]
    parts += [arrow("M90 200 V151"), arrow("M90 111 V60")]
    parts += [arrow("M128 122 C180 96 180 164 130 138"), text(182, 130, "h", "name")]
    for t, (read, said) in enumerate(zip("hell", "ello", strict=True)):
        x = 300 + 130 * t
        parts += [box(x, 130, "cell"), arrow(f"M{x} 200 V151"), arrow(f"M{x} 111 V60")]
        parts += [text(x, 212, f"x[{t}] = '{read}'", "name"), text(x, 48, f"'{said}'", "name")]
        parts += [arrow(f"M{x - 92} 130 H{x - 39}"), text(x - 66, 116, f"h[{t}]", "name small")]
    parts += [arrow("M728 130 H781"), text(756, 116, "h[4]", "name small")]
    parts.append(text(495, 240, "one cell, the same W_xh, W_hh, b_h, W_hy, b_y at every step", "small"))
    return svg(parts, 810, 260, "A recurrent network rolled up, and unrolled over the word hell")


def cell() -> str:
    parts = [text(40, 130, "h[t]", "name"), text(130, 232, "x[t]", "name")]
    parts += [arrow("M62 130 H92"), box(130, 130, "@ W_hh", look="name"), box(130, 190, "@ W_xh", look="name")]
    parts += [arrow("M130 222 V210"), arrow("M168 130 H222"), arrow("M168 190 C210 190 236 176 236 146")]
    parts += [node(236, 130, "+"), text(236, 66, "b_h", "name"), arrow("M236 78 V116")]
    parts += [arrow("M249 130 H312"), text(280, 116, "a[t]", "name small"), box(350, 130, "tanh")]
    parts += [arrow("M388 130 H720"), text(760, 130, "h[t+1]", "name"), text(640, 116, "to the next step", "small")]
    parts += [arrow("M450 130 V90"), box(450, 70, "@ W_hy", look="name"), arrow("M488 70 H524"), node(538, 70, "+")]
    parts += [
        text(538, 20, "b_y", "name"),
        arrow("M538 30 V56"),
        arrow("M551 70 H608"),
        text(580, 56, "o[t]", "name small"),
    ]
    parts += [box(646, 70, "softmax"), arrow("M684 70 H720"), text(764, 70, "y_hat[t]", "name")]
    return svg(parts, 820, 250, "One cell: two products, a sum, tanh; a product, a sum and softmax for the output")


def backward() -> str:
    parts = [text(400, 22, "forward: blue and solid; backward: orange and dashed", "small")]
    for t, x in ((0, 200), (1, 480)):
        name = "t" if t == 0 else "t+1"
        parts += [
            box(x, 210, "tanh"),
            box(x + 110, 210, f"h[{name}+1]" if t == 0 else "h[t+2]", 70, kind="plain", look="name"),
        ]
        parts += [arrow(f"M{x + 38} 206 H{x + 74}"), arrow(f"M{x + 74} 222 H{x + 40}", "back")]
        parts += [text(x + 62, 240, "× (1 − h²)", "small backward")]
        parts += [box(x + 110, 100, f"o[{name}]", kind="box", look="name"), arrow(f"M{x + 102} 191 V121")]
        parts += [
            arrow(f"M{x + 118} 120 V189", "back"),
            text(x + 124, 156, f"d_o[{name}] @ W_hy.T", "small left backward"),
        ]
        parts += [
            box(x + 110, 50, f"L[{name}]", 56, 28, "loss"),
            line(f"M{x + 102} 80 V65"),
            arrow(f"M{x + 118} 65 V79", "back"),
        ]
        parts += [text(x, 290, f"x[{name}]", "name"), arrow(f"M{x - 8} 278 V231"), arrow(f"M{x + 8} 230 V276", "back")]
    parts += [
        arrow("M345 204 H440"),
        arrow("M440 218 H347", "back thick"),
        text(392, 262, "d_a[t+1] @ W_hh.T", "small backward"),
    ]
    parts += [
        arrow("M625 204 H720"),
        arrow("M720 218 H627", "back"),
        text(680, 262, "0, or from later steps", "small backward"),
    ]
    parts += [arrow("M90 204 H160"), arrow("M160 218 H90", "back"), text(66, 210, "h[t]", "name")]
    parts += [
        text(
            400,
            330,
            "d_h[t+1] = d_o[t] @ W_hy.T + d_a[t+1] @ W_hh.T: two arrows arrive at h[t+1], and they are added",
            "",
        )
    ]
    return svg(parts, 800, 352, "The backward pass over two steps: each state receives two gradients")


SHAPES: dict[str, tuple[str, str, str]] = {  # steps with an input, steps with a loss, what it is for
    "one to one": ("1", "1", "an ordinary network: T = 1"),
    "one to many": ("1000", "1111", "a label → a name; y is the token before"),
    "many to one": ("1111", "0001", "a review → its sentiment"),
    "many to many, aligned": ("1111", "1111", "a text → the next characters"),
    "many to many, unaligned": ("11100", "00011", "a sentence → its translation: encoder, then decoder"),
}


def shapes() -> str:
    parts = []
    for name, (left, top) in {
        "one to one": (90, 0), "one to many": (290, 0), "many to one": (620, 0),
        "many to many, aligned": (90, 250), "many to many, unaligned": (520, 250),
    }.items():  # fmt: skip
        inputs, outputs, use = SHAPES[name]
        middle = left + 30 * (len(inputs) - 1)
        parts += [text(middle, top + 22, name, "title"), text(middle, top + 232, use, "small")]
        for t, (reads, answers) in enumerate(zip(inputs, outputs, strict=True)):
            x, decoder = left + 60 * t, "unaligned" in name and t >= 3
            parts.append(box(x, top + 122, "", 34, 46, "loss" if decoder else "box"))
            if t:
                parts.append(arrow(f"M{x - 42} {top + 122} H{x - 18}"))
            parts.append(arrow(f"M{x} {top + 186} V{top + 147}"))
            parts.append(text(x, top + 200, "x" if reads == "1" else "y", "name"))
            if answers == "1":
                parts += [arrow(f"M{x - 6} {top + 98} V{top + 64}"), arrow(f"M{x + 7} {top + 64} V{top + 97}", "back")]
                parts.append(text(x, top + 50, "L", "name"))
    return svg(parts, 860, 500, "Five shapes of networks: which steps have an input and which have a loss")


def truncation() -> str:
    parts = [text(350, 22, "T = 6, k1 = 2, k2 = 4", "title")]
    parts += [text(200 + 80 * t, 52, f"step {t}", "small") for t in range(6)]
    for block, (first, last, start) in enumerate(((0, 1, 0), (2, 3, 0), (4, 5, 2))):
        y = 90 + 62 * block
        parts.append(text(30, y, f"block {block}", "small left"))
        parts += [node(200 + 80 * t, y, "L", 13, "loss") for t in (first, last)]
        right, left = 200 + 80 * last, 200 + 80 * start
        parts.append(arrow(f"M{right} {y + 26} H{left - 30}", "back"))
        note = "ends at the start of the window" if start == 0 else "ends here: h[2] is held fixed"
        parts.append(text(690, y + 13, f"goes back over steps {start}…{last}", "small left"))
        parts.append(text(690, y + 30, note, "small left"))
        if start:
            parts.append(line(f"M{left - 34} {y + 12} V{y + 40}", "line thick"))
    return svg(parts, 920, 270, "Truncation: three blocks of two steps, each of which goes back over at most four")


def gru() -> str:
    parts = [text(36, 60, "h[t]", "name"), text(36, 326, "x[t]", "name"), text(36, 304, "h[t]", "name")]
    parts += [arrow("M60 60 H526"), node(540, 60, "×"), text(300, 44, "the old state, around all products", "small")]
    parts += [arrow("M553 60 H646"), node(660, 60, "+"), arrow("M673 60 H740"), text(780, 60, "h[t+1]", "name")]
    for x, name, what in ((200, "r", "reset gate"), (540, "z", "update gate")):
        parts += [box(x, 240, f"{name} = sigmoid", 110), text(x, 276, what, "small")]
    parts += [
        box(360, 240, "q = h[t] @ W_hn + b_hn", 164, look="small"),
        text(360, 276, "recurrent product of n", "small"),
    ]
    parts += [
        node(280, 160, "×"),
        arrow("M200 220 C200 170 230 160 266 160"),
        arrow("M360 220 C360 180 330 160 294 160"),
    ]
    parts += [
        box(440, 160, "n = tanh", 96),
        arrow("M280 146 C280 118 400 110 425 139"),
        text(316, 112, "r ⊙ q", "name small"),
    ]
    parts += [text(440, 200, "+ x[t] @ W_xn + b_n", "small")]
    parts += [arrow("M540 220 V74"), text(552, 100, "z", "name small left")]
    parts += [node(660, 160, "×"), arrow("M488 160 H646"), arrow("M660 146 V74")]
    parts += [arrow("M595 240 C640 240 660 220 660 175"), text(676, 196, "1 − z", "name small left")]
    parts += [line("M60 306 H530"), line("M60 326 H550"), arrow("M190 306 V290"), arrow("M210 326 V290")]
    parts += [arrow("M360 306 V290"), arrow("M530 306 V290"), arrow("M550 326 V290")]
    parts += [
        text(
            400,
            366,
            "backward, h[t] receives z ⊙ d_h[t+1] straight along the upper line: no W_hh and no 1 − h² on the way",
            "small backward",
        )
    ]
    return svg(parts, 830, 386, "A GRU cell: reset gate, update gate, candidate, and the path around all products")


def lstm() -> str:
    parts = [text(36, 60, "c[t]", "name"), text(36, 310, "h[t]", "name"), text(36, 350, "x[t]", "name")]
    parts += [arrow("M60 60 H186"), node(200, 60, "×"), arrow("M213 60 H366"), node(380, 60, "+")]
    parts += [arrow("M393 60 H740"), text(780, 60, "c[t+1]", "name")]
    for x, name, what in (
        (200, "f = sigmoid", "forget"),
        (320, "i = sigmoid", "input"),
        (440, "g = tanh", "candidate"),
        (620, "o = sigmoid", "output"),
    ):
        parts += [box(x, 250, name, 104), text(x, 284, what, "small"), arrow(f"M{x} 330 V294")]
    parts += [line("M60 330 H620"), line("M58 312 C64 330 60 330 70 330"), line("M58 348 C64 330 60 330 70 330")]
    parts += [text(410, 348, "a = x[t] @ W_xh + h[t] @ W_hh + b_h, in four blocks: i, f, g, o", "small")]
    parts += [arrow("M200 230 V74"), text(212, 150, "f", "name small left")]
    parts += [
        node(380, 160, "×"),
        arrow("M320 230 C320 190 340 160 366 160"),
        arrow("M440 230 C440 190 420 160 394 160"),
    ]
    parts += [arrow("M380 146 V74"), text(390, 110, "i ⊙ g", "name small left")]
    parts += [
        box(560, 120, "tanh", 64, 30),
        arrow("M560 60 V104"),
        node(620, 180, "×"),
        arrow("M560 136 C560 160 580 180 606 180"),
    ]
    parts += [
        arrow("M620 230 V194"),
        arrow("M633 180 H740"),
        text(780, 180, "h[t+1]", "name"),
        text(632, 214, "o", "name small left"),
    ]
    parts += [
        text(
            400,
            380,
            "backward, c[t] receives f ⊙ d_c straight along the upper line: no W_hh and no tanh on the way",
            "small backward",
        )
    ]
    return svg(parts, 830, 400, "An LSTM cell: three gates, a candidate, and the cell state along the upper line")


DIAGRAMS: dict[str, Callable[[], str]] = {
    "boxes": boxes,
    "unrolled": unrolled,
    "cell": cell,
    "backward": backward,
    "shapes": shapes,
    "truncation": truncation,
    "gru": gru,
    "lstm": lstm,
}

if __name__ == "__main__":
    for name, draw in DIAGRAMS.items():
        (HERE / f"{name}.svg").write_text(draw(), encoding="utf-8")
