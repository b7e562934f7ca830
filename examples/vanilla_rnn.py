"""A vanilla recurrent network as it is usually taught: vectors are columns, weights are U, W, V, biases b, c.

python examples/vanilla_rnn.py            learns to complete "hell" to "hello", then a nursery rhyme
python examples/vanilla_rnn.py novel.txt  learns your own text instead of the rhyme

Elsewhere in Elman U is W_xh, W is W_hh and V is W_hy (transposed, since states are rows there), b is b_h, c is b_y, z
is a, and s is h. docs/maths.md has both forms in section 18, and in section 16 the mistakes that this code often has.
"""

import sys
from pathlib import Path

import numpy as np

RHYME = "twinkle, twinkle, little star, how i wonder what you are. up above the world so high like a diamond in the sky"


class VanillaRNN:
    def __init__(self, tokens, hidden, bptt_truncate=None, seed=0):
        rng = np.random.default_rng(seed)
        self.U = rng.uniform(-1, 1, (hidden, tokens)) * 0.3  # (H, X) input to hidden; here X = Y, the number of tokens
        self.W = rng.uniform(-1, 1, (hidden, hidden)) / np.sqrt(hidden)  # (H, H) hidden to hidden
        self.V = rng.uniform(-1, 1, (tokens, hidden)) / np.sqrt(hidden)  # (Y, H) hidden to output
        self.b, self.c = np.zeros(hidden), np.zeros(tokens)  # (H,), (Y,)
        self.bptt_truncate = bptt_truncate  # each loss goes back at most so many steps beyond its own; None: all

    def forward_propagation(self, x, s0=None):
        """The probabilities y_hat[t] and the states s[t] of all steps; the id x[t] stands for a one-hot vector x_t."""
        T = len(x)
        s = np.zeros((T + 1, len(self.b)))  # (T+1, H): s[t] is the state after step t; the last row,
        s[-1] = 0 if s0 is None else s0  # which Python also calls s[-1], is the state before step 0
        y_hat = np.zeros((T, len(self.c)))  # (T, Y)
        for t in range(T):
            z = self.U[:, x[t]] + self.W @ s[t - 1] + self.b  # z_t = U x_t + W s_{t-1} + b; U x_t is a column of U
            s[t] = np.tanh(z)  # s_t = tanh(z_t)
            o = self.V @ s[t] + self.c  # o_t = V s_t + c
            e = np.exp(o - o.max())  # without - o.max() large logits overflow; the probabilities are the same
            y_hat[t] = e / e.sum()  # ŷ_t = softmax(o_t)
        return y_hat, s

    def bptt(self, x, y, s0=None):
        """The loss, its gradients with respect to U, W, b, V, c, and the state after the last step."""
        T = len(y)
        y_hat, s = self.forward_propagation(x, s0)
        loss = -np.log(y_hat[np.arange(T), y]).sum()  # L = Σ_t L_t,  L_t = -y_t · log ŷ_t
        dLdU, dLdW, dLdV = np.zeros_like(self.U), np.zeros_like(self.W), np.zeros_like(self.V)
        dLdb, dLdc = np.zeros_like(self.b), np.zeros_like(self.c)
        delta_o = y_hat.copy()  # the probabilities themselves stay as they are
        delta_o[np.arange(T), y] -= 1  # ∂L_t/∂o_t = ŷ_t - y_t
        for t in range(T):  # the loss of step t
            dLdV += np.outer(delta_o[t], s[t])  # ∂L/∂V = Σ_t (ŷ_t - y_t) ⊗ s_t
            dLdc += delta_o[t]  # ∂L/∂c = Σ_t (ŷ_t - y_t)
            delta = self.V.T @ delta_o[t] * (1 - s[t] ** 2)  # ∂L_t/∂z_t = Vᵀ (ŷ_t - y_t) ⊙ (1 - s_t²)
            first = 0 if self.bptt_truncate is None else max(0, t - self.bptt_truncate)
            for k in range(t, first - 1, -1):  # back in time to `first`; delta is ∂L_t/∂z_k
                dLdW += np.outer(delta, s[k - 1])  # ∂L/∂W = Σ_t Σ_k ∂L_t/∂z_k ⊗ s_{k-1}
                dLdU[:, x[k]] += delta  # ∂L/∂U = Σ_t Σ_k ∂L_t/∂z_k ⊗ x_k: the column of U that was read
                dLdb += delta  # ∂L/∂b = Σ_t Σ_k ∂L_t/∂z_k
                delta = self.W.T @ delta * (1 - s[k - 1] ** 2)  # ∂L_t/∂z_{k-1} = Wᵀ ∂L_t/∂z_k ⊙ (1 - s_{k-1}²)
        return loss, (dLdU, dLdW, dLdb, dLdV, dLdc), s[T - 1]

    def sgd_step(self, x, y, learning_rate, s0=None, limit=5.0):
        """One update; where the norm of all gradients together is above the limit, they are scaled down to it."""
        loss, gradients, s_last = self.bptt(x, y, s0)
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
        for parameter, gradient in zip((self.U, self.W, self.b, self.V, self.c), gradients, strict=True):
            parameter -= learning_rate * limit / max(norm, limit) * gradient  # U ← U - η ∂L/∂U, and so on
        return loss, s_last

    def train_with_sgd(self, x, y, learning_rate=0.05, epochs=100, window=25):
        """Read x in windows; each begins with the last state of the one before, each epoch with a state of zeros."""
        for epoch in range(epochs):
            loss, s = 0.0, None
            for start in range(0, len(x), window):
                here = slice(start, start + window)
                window_loss, s = self.sgd_step(x[here], y[here], learning_rate, s)
                loss += window_loss
            if epoch == 0 or (epoch + 1) % max(1, epochs // 5) == 0:
                print(f"  epoch {epoch + 1:4}: {loss / len(x):.4f} nats per character")
        return loss / len(x)

    def complete(self, x, length, rng=None):
        """Read the ids x, then choose and read further ones: the likeliest, or with rng by their probabilities."""
        ids, s0, read = list(x), None, x
        while len(ids) < length:
            y_hat, s = self.forward_propagation(read, s0)
            ids.append(y_hat[-1].argmax() if rng is None else rng.choice(len(self.c), p=y_hat[-1]))
            s0, read = s[len(read) - 1], ids[-1:]
        return ids


def learn(text, prompt, rng=None, seed=0, bptt_truncate=None, **options):
    """Train on a text, each character the target of the one before, and let the network complete the prompt."""
    letters = sorted(set(text))
    ids = np.array([letters.index(letter) for letter in text])
    rnn = VanillaRNN(len(letters), hidden=50, bptt_truncate=bptt_truncate, seed=seed)
    loss = rnn.train_with_sgd(ids[:-1], ids[1:], **options)
    written = "".join(letters[i] for i in rnn.complete(ids[: len(prompt)], min(len(text), 200), rng))
    print(f"{prompt!r} → {written!r}\n")
    return loss, written


if __name__ == "__main__":
    learn("hello", "hell")
    if sys.argv[1:]:
        text = Path(sys.argv[1]).read_text("utf-8")
        learn(text, text[:25], np.random.default_rng(0), bptt_truncate=10, epochs=1 + 60_000 // len(text))
    else:
        learn(RHYME, "twinkle", bptt_truncate=10, epochs=150)
