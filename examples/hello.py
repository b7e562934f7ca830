"""A whole RNN on a page: it learns to complete "hell" to "hello", with the equations of elman.maths only.

python examples/hello.py
"""

import numpy as np

from elman import maths

text = "hello"
letters = sorted(set(text))
ids = np.array([letters.index(c) for c in text])
x, y = ids[:-1, np.newaxis], ids[1:, np.newaxis]  # (T, B) = (4, 1): "hell" and "ello"

rng = np.random.default_rng(0)
V, H = len(letters), 8
p = {
    "W_xh": maths.normal(rng, (V, H), gain=0.3),
    "W_hh": maths.orthogonal(rng, (H, H)),
    "b_h": np.zeros(H),
    "W_hy": maths.glorot(rng, (H, V)),
    "b_y": np.zeros(V),
}


def loss_and_gradients() -> tuple[float, dict[str, np.ndarray]]:
    h = maths.rnn_forward(x, None, p["W_xh"], p["W_hh"], p["b_h"])
    o = maths.output_forward(h[1:], p["W_hy"], p["b_y"])
    loss, d_o = maths.cross_entropy(o, y, normalizer=y.size)
    output = maths.output_backward(d_o, h[1:], p["W_hy"])
    cell = maths.rnn_backward(output.d_h, x, h, p["W_xh"], p["W_hh"])
    return loss, {name: (output._asdict() | cell._asdict())[f"d_{name}"] for name in p}


def complete(prompt: str, length: int) -> str:
    """Read the prompt, then append the likeliest letter and read it, until the text has this length."""
    written, h = prompt, np.zeros((1, H))
    for i in range(length - 1):
        token = np.array([[letters.index(written[i])]])
        h = maths.rnn_forward(token, h, p["W_xh"], p["W_hh"], p["b_h"])[-1]
        o = maths.output_forward(h, p["W_hy"], p["b_y"])
        if i == len(written) - 1:
            written += letters[int(o.argmax())]
    return written


print('Learning "hello", one letter after the other, by hand-written backpropagation through time.\n')
print("step   nats per letter   hell →")
for step in range(1001):
    loss, gradients = loss_and_gradients()
    if step in (0, 1, 3, 10, 30, 100, 300, 1000):
        bar = "█" * round(30 * loss / np.log(V))
        print(f"{step:4}   {loss:7.4f}           {complete('hell', 5)}   {bar}")
    for name in p:
        p[name] -= 0.3 * gradients[name]

print("\nEvery gradient, compared with central differences:\n")
_, gradients = loss_and_gradients()
print(maths.gradcheck(lambda: loss_and_gradients()[0], p, gradients).expect())
written = complete("hell", 5)
print(f'\n"hell" → "{written}", "h" → "{complete("h", 5)}"')
if written != "hello":
    raise SystemExit("It has not learned the word.")
