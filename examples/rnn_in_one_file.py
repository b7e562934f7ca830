"""A recurrent network in one file, with nothing but NumPy. The numbers of the equations are those of docs/maths.md.

python examples/rnn_in_one_file.py            learns a nursery rhyme
python examples/rnn_in_one_file.py novel.txt  learns your own text
"""

import sys
from pathlib import Path

import numpy as np

RHYME = "jack and jill went up the hill to fetch a pail of water. jack fell down and broke his crown. " * 9


def forward(p, x, h0):
    h, y_hat = [h0], []  # h[0] is the initial state, h[t+1] the state after step t
    for token in x:
        a = p["W_xh"][token] + h[-1] @ p["W_hh"] + p["b_h"]  # (1) a one-hot row times W_xh is a row of it
        h.append(np.tanh(a))  # (2)
        o = h[-1] @ p["W_hy"] + p["b_y"]  # (3)
        e = np.exp(o - o.max())
        y_hat.append(e / e.sum())  # (4)
    return np.array(h), np.array(y_hat)  # (T+1, H), (T, Y)


def loss_and_gradients(p, x, y, h0):
    h, y_hat = forward(p, x, h0)
    steps = np.arange(len(x))
    loss = -np.log(y_hat[steps, y]).sum() / len(x)  # (5)
    d_o = y_hat.copy()
    d_o[steps, y] -= 1
    d_o /= len(x)  # (6)
    d = {name: np.zeros_like(array) for name, array in p.items()}
    d_a = np.zeros_like(h0)  # no step follows the last one
    for t in reversed(steps):
        d_h = d_o[t] @ p["W_hy"].T + d_a @ p["W_hh"].T  # (7) from its own output, and from the next step
        d_a = (1 - h[t + 1] ** 2) * d_h  # (8)
        d["W_xh"][x[t]] += d_a  # (9)
        d["W_hh"] += np.outer(h[t], d_a)  # (10)
        d["b_h"] += d_a  # (11)
        d["W_hy"] += np.outer(h[t + 1], d_o[t])  # (12)
        d["b_y"] += d_o[t]  # (13)
    return loss, d, h[-1]


def update(p, d, rate, limit):
    norm = np.sqrt(sum((g**2).sum() for g in d.values()))
    for name in p:
        p[name] -= rate * d[name] * min(1, limit / norm)  # (16), (17)


def sample(p, prompt, length, rng, temperature=0.5):
    h, tokens, read = np.zeros(len(p["b_h"])), [], prompt  # after the prompt, h is a state like those of training
    for _ in range(length):
        states, y_hat = forward(p, read, h)
        likely = y_hat[-1] ** (1 / temperature)  # with a temperature below 1, rare mistakes become rarer
        tokens.append(rng.choice(len(likely), p=likely / likely.sum()))
        h, read = states[-1], tokens[-1:]
    return tokens


def main(text, hidden=64, window=25, steps=None, rate=0.6, limit=1.0, seed=0):
    letters, rng = sorted(set(text)), np.random.default_rng(seed)
    ids, V = np.array([letters.index(letter) for letter in text]), len(letters)
    shapes = {"W_xh": (V, hidden), "W_hh": (hidden, hidden), "b_h": hidden, "W_hy": (hidden, V), "b_y": V}
    p = {name: rng.standard_normal(s) * (name[0] == "W") / np.sqrt(hidden) for name, s in shapes.items()}
    x, y, at, h0, losses = ids[:-1], ids[1:], 0, np.zeros(hidden), []
    steps = steps or min(max(1500, 40 * len(ids) // window), 20_000)  # 40 passes over a text of up to 12,000 characters
    for step in range(steps + 1):
        if at >= len(x):
            at, h0 = 0, np.zeros(hidden)  # back to the beginning of the text
        loss, d, h0 = loss_and_gradients(p, x[at : at + window], y[at : at + window], h0)
        update(p, d, rate * (1 - step / (steps + 1)), limit)  # smaller and smaller steps
        at += window
        losses.append(loss)
        if step % max(1, steps // 5) == 0:
            written = "".join(letters[i] for i in sample(p, ids[-100:], 60, rng))  # what follows the end of the text
            print(f"step {step:5}  {np.mean(losses[-100:]):.3f} nats  {written!r}")
    return p, letters


if __name__ == "__main__":
    main(Path(sys.argv[1]).read_text("utf-8") if sys.argv[1:] else RHYME)
