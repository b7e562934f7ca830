"""One training step of a classifier, a tagger and two translators: the problems, their cost, and PyTorch's step.

A step is: forward over sequences of several lengths, softmax cross-entropy, backward, clip by global norm, Adam.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from contenders import Step, torch_training


class Task(NamedTuple):
    name: str
    B: int
    T: int  # length of the longest source, and of the longest target of a translator
    X: int  # number of different input tokens
    E: int  # width of their embedding; 0: one-hot
    H: int
    Y: int  # number of classes, of tags, or of different output tokens
    bidirectional: bool = False
    attention: bool = False  # dot, with input feeding

    @property
    def translates(self) -> bool:
        return self.name.startswith("translator")


class TaskHyper(NamedTuple):
    rate: float = 2e-3
    limit: float = 1.0  # of the gradient's norm
    betas: tuple[float, float] = (0.9, 0.99)


TASKS = [
    Task("classifier", 64, 20, 60, 0, 192, 18),
    Task("tagger", 32, 25, 5000, 100, 128, 17, bidirectional=True),
    Task("translator", 64, 12, 5000, 256, 256, 5000),
    Task("translator with attention", 64, 12, 5000, 256, 256, 5000, attention=True),
]


class TaskProblem:
    """Weights by their names in Elman's checkpoints, and one batch: ids (T, B), lengths (B,); y is (B,) or (T, B)."""

    edge = 0  # the token that starts and ends a target

    def __init__(self, task: Task) -> None:
        self.task = task
        rng = np.random.default_rng(0)
        B, T, X, E, H, Y = task[1:7]

        def weights(*shape: int, deviation: float) -> Any:
            return rng.normal(0, deviation, shape).astype(np.float32)

        self.weights: dict[str, Any] = {}
        for prefix, inputs in [("encoder.", X), ("decoder.", Y)] if task.translates else [("", X)]:
            if E:
                self.weights[f"{prefix}embedding.W"] = weights(inputs, E, deviation=0.5)
            for side in self.sides:
                cell = f"{prefix}layers.0{side}"
                self.weights[f"{cell}.W_xh"] = weights(E or inputs, H, deviation=E**-0.5 if E else 0.3)
                self.weights[f"{cell}.W_hh"] = weights(H, H, deviation=0.8 * H**-0.5)
                self.weights[f"{cell}.b_h"] = weights(H, deviation=0.1)
        if task.attention:
            for name, rows in (("W_q", H), ("W_c", 2 * H), ("W_fh", H)):
                self.weights[f"attention.{name}"] = weights(rows, H, deviation=rows**-0.5)
        self.weights["head.W_hy"] = weights(H * len(self.sides), Y, deviation=H**-0.5)
        self.weights["head.b_y"] = weights(Y, deviation=0.1)

        self.x, self.x_lengths = self._sequences(rng, X)
        self.y, self.y_lengths = rng.integers(Y, size=B), None
        if task.name == "tagger":
            self.y, self.y_lengths = rng.integers(Y, size=(T, B)), self.x_lengths
        elif task.translates:
            self.y, self.y_lengths = self._sequences(rng, Y)

    @property
    def sides(self) -> list[str]:
        return ["", ".reverse"] if self.task.bidirectional else [""]

    def _sequences(self, rng: np.random.Generator, tokens: int) -> tuple[Any, Any]:
        """Ids from 1 on, 0 past the end; lengths from half of T to T."""
        B, T = self.task.B, self.task.T
        lengths = rng.integers(T // 2, T + 1, size=B)
        lengths[rng.integers(B)] = T
        return rng.integers(1, tokens, size=(T, B)) * (np.arange(T)[:, np.newaxis] < lengths), lengths

    @property
    def flops(self) -> int:
        """Floating-point operations of the products of one step, without padding: forward, and two as large backward
        for each."""
        _, B, T, _, E, H, Y, *_ = self.task
        read, sides = int(self.x_lengths.sum()), len(self.sides)
        cells = 6 * (H * H + E * H) * sides
        if self.task.translates:
            written = int((self.y_lengths + 1).sum())
            attention = 6 * (4 * H * H + 2 * T * H) if self.task.attention else 0  # W_q, W_c, W_fh, scores and context
            return read * cells + written * (cells + attention + 6 * H * Y)
        return read * cells + (read if self.task.name == "tagger" else B) * 6 * H * sides * Y


def torch_task_step(problem: TaskProblem, hyper: TaskHyper) -> Step:
    """With packed sequences nothing is computed for padding, except in the decoder with attention."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    task, weights = problem.task, {name: torch.from_numpy(array) for name, array in problem.weights.items()}
    modules = nn.ModuleList()

    def cells(prefix: str, inputs: int) -> Any:
        rnn = nn.RNN(task.E or inputs, task.H, bidirectional=task.bidirectional)
        table = nn.Embedding(inputs, task.E).requires_grad_(True) if task.E else None
        with torch.no_grad():
            if table is not None:
                table.weight.copy_(weights[f"{prefix}embedding.W"])
                modules.append(table)
            for side in problem.sides:
                cell, end = f"{prefix}layers.0{side}", "l0" + side.replace(".", "_")
                getattr(rnn, f"weight_ih_{end}").copy_(weights[f"{cell}.W_xh"].T)
                getattr(rnn, f"weight_hh_{end}").copy_(weights[f"{cell}.W_hh"].T)
                getattr(rnn, f"bias_ih_{end}").copy_(weights[f"{cell}.b_h"])
                getattr(rnn, f"bias_hh_{end}").zero_().requires_grad_(False)  # two biases would learn twice as fast
        modules.append(rnn)

        def run(ids: Any, lengths: Any, h: Any = None) -> tuple[Any, Any]:
            inputs_ = table(ids) if table is not None else F.one_hot(ids, inputs).float()
            packed, h = rnn(pack_padded_sequence(inputs_, lengths, enforce_sorted=False), h)
            return packed.data, h

        return run

    def valid(ids: Any, lengths: Any) -> Any:
        """The ids without padding, in the order of the data of a packed sequence."""
        return pack_padded_sequence(ids, lengths, enforce_sorted=False).data

    head = nn.Linear(task.H * len(problem.sides), task.Y)
    with torch.no_grad():
        head.weight.copy_(weights["head.W_hy"].T)
        head.bias.copy_(weights["head.b_y"])
    x, lengths, y = map(torch.from_numpy, (problem.x, problem.x_lengths, problem.y))
    if task.translates:
        encode = cells("encoder.", task.X)
        y_lengths, edge = torch.from_numpy(problem.y_lengths) + 1, torch.full((1, task.B), problem.edge)
    if task.attention:
        decoder, embedding = _torch_decoder(task, weights), nn.Embedding(task.Y, task.E)
        with torch.no_grad():
            embedding.weight.copy_(weights["decoder.embedding.W"])
        modules.extend([decoder, embedding])
        given, steps = torch.cat([edge, y]), torch.arange(task.T + 1)[:, None] < y_lengths  # (S, B)
        (table, rnn), read = modules[:2], torch.arange(task.T)[:, None] < lengths  # of the encoder; (T, B)
        wanted = torch.cat([y, edge])[steps]

        def forward(_: None) -> tuple[Any, None]:
            packed, h = rnn(pack_padded_sequence(table(x), lengths, enforce_sorted=False))
            values, _lengths = pad_packed_sequence(packed)
            return F.cross_entropy(head(decoder(embedding(given), h[0], values, read)[steps]), wanted), None
    elif task.translates:
        decode = cells("decoder.", task.Y)

        def forward(_: None) -> tuple[Any, None]:
            h = encode(x, lengths)[1]
            out, _h = decode(torch.cat([edge, y]), y_lengths, h)  # y is 0, the edge, past its end
            return F.cross_entropy(head(out), valid(torch.cat([y, edge]), y_lengths)), None
    else:
        read = cells("", task.X)

        def forward(_: None) -> tuple[Any, None]:
            out, h = read(x, lengths)
            if task.name == "tagger":
                return F.cross_entropy(head(out), valid(y, lengths)), None
            return F.cross_entropy(head(h[0]), y), None

    modules.append(head)
    params = [p for p in modules.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(params, lr=hyper.rate, betas=hyper.betas, fused=True)
    return torch_training(optimizer, params, forward, None, hyper.limit)


def _torch_decoder(task: Task, weights: dict[str, Any]) -> Any:
    """A vanilla cell with dot attention and input feeding. Only the product of its inputs is computed for all steps at
    once, before the loop."""
    import torch
    from torch import nn

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("decoder.layers.0.W_xh", "decoder.layers.0.W_hh", "decoder.layers.0.b_h", "attention.W_q",
                         "attention.W_c", "attention.W_fh"):  # fmt: skip
                self.register_parameter(name.rpartition(".")[2], nn.Parameter(weights[name].clone()))

        def forward(self, x: Any, h: Any, values: Any, read: Any) -> Any:
            a, h_tilde, found = x @ self.W_xh + self.b_h, torch.zeros_like(h), []
            keys = values.permute(1, 2, 0)  # (B, H, T)
            rows, past = values.transpose(0, 1), ~read.T.unsqueeze(1)  # (B, T, H), (B, 1, T)
            for a_x in a:
                h = torch.tanh(a_x + h_tilde @ self.W_fh + h @ self.W_hh)
                score = torch.bmm((h @ self.W_q).unsqueeze(1), keys) / task.H**0.5  # (B, 1, T)
                context = torch.bmm(score.masked_fill(past, -torch.inf).softmax(dim=2), rows)[:, 0]  # (B, H)
                h_tilde = torch.tanh(torch.cat([h, context], dim=1) @ self.W_c)
                found.append(h_tilde)
            return torch.stack(found)

    return Decoder()
