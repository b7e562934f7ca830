"""The networks of elman.models in PyTorch's own layers: nn.Embedding, nn.RNN, nn.GRU, nn.LSTM, nn.Linear, packed
sequences, autograd.

A twin can start from Elman's parameters, to see that both learn alike, or from PyTorch's own, to see which learns
better. What it has learned can be returned as Elman's parameters, so that the same code evaluates both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elman.models.fitted import FittedModel
from elman.models.tasks import ExampleTask
from elman.network import Batch, EncoderDecoder, HeadNetwork, Parameters, Stack
from elman.training.events import Stepped
from elman.training.schedule import rate_factor
from elman.training.task import generator
from elman.training.trainer import Trainer


class Link(NamedTuple):
    """One of Elman's parameters and the tensors that it is the sum of."""

    name: str
    tensors: list[nn.Parameter]
    transposed: bool
    own: Any = slice(None)  # the part of each tensor that is added


class Cells(nn.Module):
    """A stack: tokens or numbers go in, the states of all steps and the last ones come out.

    `fed` is the number of further inputs at each step: h_tilde, in a decoder with input feeding.
    """

    def __init__(self, stack: Stack, inputs_dropped: float, layers_dropped: float, fed: int = 0) -> None:
        super().__init__()
        if stack.learned_state:
            raise ValueError("PyTorch's layers learn no initial state")
        self.stack = stack
        self.embedding = nn.Embedding(stack.inputs, stack.embedding) if stack.embedding else None
        self.drop = nn.Dropout(inputs_dropped)
        self.fed, one_hot = fed, stack.tokens and not stack.embedding and not fed
        gates = stack.hidden * stack.cell.gates
        self.width = stack.embedding or (gates * len(stack.directions) if one_hot else stack.inputs)
        self.rnn = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[stack.cell.name](
            self.width + fed, stack.hidden, stack.layers,
            bidirectional=len(stack.directions) > 1, dropout=layers_dropped if stack.layers > 1 else 0.0,
            **({"nonlinearity": str(stack.cell.activation)} if stack.cell.name == "rnn" else {}),
        )  # fmt: skip
        self.rows = self._rows() if one_hot else None

    def _rows(self) -> nn.ModuleList:
        """W_xh of one-hot tokens as tables, one for each direction: nn.RNN takes no token ids, and a product with all
        words of a language takes minutes. nn.RNN multiplies the rows by the identity, which is not trained."""
        bound, width = self.stack.hidden**-0.5, self.stack.hidden * self.stack.cell.gates
        tables = nn.ModuleList()
        for side, reverse in enumerate(self.stack.directions):
            W = getattr(self.rnn, f"weight_ih_l0{'_reverse' if reverse else ''}")
            with torch.no_grad():
                W.zero_()
                W[:, side * width : (side + 1) * width] = torch.eye(width)
            W.requires_grad_(False)
            tables.append(nn.Embedding(self.stack.inputs, width))
            nn.init.uniform_(tables[-1].weight, -bound, bound)  # as nn.RNN starts
        return tables

    def forward(self, x: Tensor, lengths: Tensor, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """States (T, B, D·H), and the last ones of all parts (L·D, P, B, H); `start` is like these."""
        packed, last = self._run(pack_padded_sequence(self.read(x), lengths, enforce_sorted=False), start)
        return pad_packed_sequence(packed, total_length=len(x))[0], last

    def read(self, x: Tensor) -> Tensor:
        """What the first layer gets for tokens (T, B) or numbers (T, B, X)."""
        if self.embedding is not None:
            return self.drop(self.embedding(x))
        if self.rows is not None:
            return torch.cat([table(x) for table in self.rows], dim=2)
        return self.drop(x if x.ndim == 3 else F.one_hot(x, self.stack.inputs).to(self.rnn.weight_ih_l0.dtype))

    def step(self, x: Tensor, fed: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The state (B, H) of the last layer after one step, and all states, from a step x (B, width) of `read`."""
        outputs, state = self._run(torch.cat([x, fed], dim=1)[None], state)
        return outputs[0], state

    def _run(self, x: Any, start: Tensor | None) -> tuple[Any, Tensor]:
        parts: Any = None if start is None else tuple(part.contiguous() for part in start.unbind(dim=1))
        given = parts[0] if parts is not None and len(parts) == 1 else parts  # an LSTM takes (h, c)
        outputs, last = self.rnn(x, given)
        return outputs, torch.stack(last if isinstance(last, tuple) else (last,), dim=1)

    def links(self) -> Iterator[Link]:
        if self.embedding is not None:
            yield Link(f"{self.stack.prefix}embedding.W", [self.embedding.weight], False)
        D = len(self.stack.directions)
        for number, name in enumerate(self.stack.names):
            layer, side = divmod(number, D)
            end = f"_l{layer}{'_reverse' if self.stack.directions[side] else ''}"
            if self.rows is not None and layer == 0:
                yield Link(f"{name}.W_xh", [self.rows[side].weight], False)
            else:
                W, fed = getattr(self.rnn, f"weight_ih{end}"), self.fed if layer == 0 else 0
                yield Link(f"{name}.W_xh", [W], True, (slice(None), slice(W.shape[1] - fed)))
                if fed:
                    yield Link("attention.W_fh", [W], True, (slice(None), slice(self.width, None)))
            yield Link(f"{name}.W_hh", [getattr(self.rnn, f"weight_hh{end}")], True)
            biases = [getattr(self.rnn, f"bias_ih{end}"), getattr(self.rnn, f"bias_hh{end}")]
            if self.stack.cell.name != "gru":
                yield Link(f"{name}.b_h", biases, False)
                continue
            # Elman has one bias for r and z, and two for n; `give` adds PyTorch's second one of r and z
            yield Link(f"{name}.b_h", biases[:1], False)
            yield Link(f"{name}.b_hn", biases[1:], False, slice(2 * self.stack.hidden, None))


class Attention(nn.Module):
    """Scores, softmax over each row's own source steps, and the combined vector (Luong et al. 2015)."""

    def __init__(self, network: EncoderDecoder) -> None:
        super().__init__()
        (H, K), (joined, _) = network.shapes["attention.W_q"], network.shapes["attention.W_c"]
        self.query, self.combine = nn.Linear(H, K, bias=False), nn.Linear(joined, H, bias=False)
        self.key = self.score = None
        if "attention.w_a" in network.shapes:
            self.key, self.score = nn.Linear(joined - H, K, bias=False), nn.Linear(K, 1, bias=False)

    def forward(self, h: Tensor, values: Tensor, keys: Tensor, own: Tensor) -> Tensor:
        """(B, H), from the state (B, H), values (T, B, M), keys (T, B, K), and which steps are a row's own (T, B)."""
        q = self.query(h)
        if self.score is None:
            score = torch.einsum("bk,tbk->tb", q, keys) / keys.shape[2] ** 0.5
        else:
            score = self.score(torch.tanh(q + keys))[..., 0]
        alpha = score.masked_fill(~own, -torch.inf).softmax(dim=0)
        context = torch.einsum("tb,tbm->bm", alpha, values)
        return torch.tanh(self.combine(torch.cat([h, context], dim=1)))

    def links(self) -> Iterator[Link]:
        yield Link("attention.W_q", [self.query.weight], True)
        yield Link("attention.W_c", [self.combine.weight], True)
        if self.key is not None and self.score is not None:
            yield Link("attention.W_k", [self.key.weight], True)
            yield Link("attention.w_a", [self.score.weight], False, 0)


class Twin(nn.Module):
    """A network of elman.models with PyTorch's layers."""

    def __init__(self, fitted: FittedModel) -> None:
        super().__init__()
        self.fitted, self.network, c = fitted, fitted.network, fitted.config
        assert isinstance(self.network, HeadNetwork | EncoderDecoder)
        dropped = c.input_dropout, c.dropout
        reads = self.network.stack if isinstance(self.network, HeadNetwork) else self.network.encoder
        self.encoder = Cells(reads, *dropped) if reads else None
        self.bridge = self.decoder = self.attention = None
        if isinstance(self.network, EncoderDecoder):
            if self.network.attention is not None:
                self.attention = Attention(self.network)
            self.decoder = Cells(self.network.decoder, *dropped, self.network.decoder.hidden if self.attention else 0)
            if self.network.bridged:
                self.bridge = nn.Linear(*self.network.shapes["bridge.W_ch"])
        self.drop = nn.Dropout(c.dropout)
        self.head = nn.Linear(*self.network.shapes["head.W_hy"])
        self.to(getattr(torch, c.dtype))

    # -- parameters from Elman and back -------------------------------------------------------------------------------

    def links(self) -> Iterator[Link]:
        for part in (self.encoder, self.decoder, self.attention):
            if part is not None:
                yield from part.links()
        if self.bridge is not None:
            yield Link("bridge.W_ch", [self.bridge.weight], True)
            yield Link("bridge.b_h", [self.bridge.bias], False)
        yield Link("head.W_hy", [self.head.weight], True)
        yield Link("head.b_y", [self.head.bias], False)

    @torch.no_grad()
    def take(self, p: Parameters) -> Twin:
        """Start from these. nn.RNN has two biases where one is enough: the second stays 0 and is not learned."""
        for name, (tensor, *rest), transposed, own in self.links():
            if tensor.ndim == 1 and own != slice(None):
                # the other entries are the second bias of r and z: it stays 0
                tensor.zero_()
                tensor.register_hook(lambda d, own=own: _only(d, own))
            tensor[own].copy_(torch.from_numpy(p[name].T if transposed else p[name]))
            for other in rest:
                other.zero_()
                other.requires_grad_(False)
        return self

    @torch.no_grad()
    def give(self) -> Parameters:
        """What it has learned, as Elman's parameters."""
        p = self.fitted.parameters.zeros()
        for name, tensors, transposed, own in self.links():
            value = sum(tensor.numpy()[own] for tensor in tensors)
            p[name][...] = value.T if transposed else value
            if name.endswith(".b_hn"):  # the rest of the tensor is PyTorch's second bias of r and z
                p[name[:-1]][: own.start] += tensors[0].numpy()[: own.start]
        return p

    # -- the loss -----------------------------------------------------------------------------------------------------

    def loss(self, batch: Batch) -> Tensor:
        """The mean loss of the batch."""
        x, y = torch.from_numpy(batch.x), torch.from_numpy(batch.y)
        x_lengths = None if batch.x_lengths is None else torch.from_numpy(batch.x_lengths)
        if isinstance(self.network, HeadNetwork):
            return self._head_loss(x, x_lengths, y)
        return self._decoder_loss(x, x_lengths, y, batch)

    def _head_loss(self, x: Tensor, lengths: Tensor | None, y: Tensor) -> Tensor:
        assert self.encoder is not None
        assert isinstance(self.network, HeadNetwork)
        outputs, h_n = self.encoder(x, lengths)
        inside = (torch.arange(len(x))[:, None] < lengths)[..., None]  # (T, B, 1)
        if self.network.pooling == "none":
            o = self.head(self.drop(outputs))
            return F.cross_entropy(o[inside[..., 0]], y[inside[..., 0]])
        if self.network.pooling == "last":
            vector = torch.cat(list(h_n[-len(self.network.stack.directions) :, 0]), dim=1)
        elif self.network.pooling == "mean":
            vector = (outputs * inside).sum(dim=0) / lengths[:, None]
        else:
            vector = outputs.masked_fill(~inside, -torch.inf).max(dim=0).values
        o = self.head(self.drop(vector))
        return F.mse_loss(o, y) if self.network.loss_name == "squared" else F.cross_entropy(o, y)

    def _decoder_loss(self, x: Tensor, x_lengths: Tensor | None, y: Tensor, batch: Batch) -> Tensor:
        assert isinstance(self.network, EncoderDecoder)
        if self.encoder is None:
            c = F.one_hot(x, self.network.conditions).to(self.head.weight.dtype) if x.ndim == 1 else x
        else:
            values, c = self.encoder(x, x_lengths)  # (T, B, D·H), (L·D, P, B, H)
        if self.bridge is not None:
            flat = c if c.ndim == 2 else torch.cat(list(c.flatten(0, 1)), dim=1)
            parts = torch.stack(self.bridge(flat).split(self.network.decoder.hidden, dim=1))  # (L·P, B, H)
            c = parts.unflatten(0, (self.network.decoder.layers, -1))
        edge = torch.full((1, y.shape[1]), self.network.edge)
        lengths = torch.from_numpy(batch.y_lengths) + 1
        given, wanted = torch.cat([edge, y]), torch.cat([y, edge])
        wanted[lengths - 1, torch.arange(y.shape[1])] = self.network.edge
        inside = torch.arange(len(given))[:, None] < lengths
        if self.attention is None:
            outputs = self.drop(self.decoder(given, lengths, c)[0])
        else:
            own = torch.arange(len(x))[:, None] < x_lengths
            outputs = self._attend(given, c, values, own)
        return F.cross_entropy(self.head(outputs[inside]), wanted[inside])

    def _attend(self, given: Tensor, state: Tensor, values: Tensor, own: Tensor) -> Tensor:
        """What enters the output layer, (S, B, H): the h_tilde of each step, which also enters the next step."""
        keys = values if self.attention.key is None else self.attention.key(values)
        fed, outputs = torch.zeros_like(state[0, 0]), []
        for x in self.decoder.read(given):
            h, state = self.decoder.step(x, fed, state)
            fed = self.drop(self.attention(h, values, keys, own))
            outputs.append(fed)
        return torch.stack(outputs)


def _only(d: Tensor, own: slice) -> Tensor:
    kept = torch.zeros_like(d)
    kept[own] = d[own]
    return kept


def train(twin: Twin, task: ExampleTask, steps: int, *, usual: bool = False) -> list[float]:
    """The losses of all steps, on the batches that Elman takes.

    usual: Adam with PyTorch's defaults, at its constant learning rate; else learning rate, schedule, betas and epsilon
    are Elman's.
    """
    c = task.config
    if c.optimizer != "adam" or c.accumulate != 1 or c.weight_decay or c.clip_value:
        raise ValueError(
            "the twin learns with Adam: expected optimizer adam, accumulate 1, weight_decay 0 and clip_value 0, got"
            f" {c.optimizer}, {c.accumulate}, {c.weight_decay} and {c.clip_value}"
        )
    learned = [tensor for tensor in twin.parameters() if tensor.requires_grad]
    own: dict[str, Any] = {} if usual else {"betas": (c.beta1, c.beta2), "eps": c.epsilon}
    adam, losses = torch.optim.Adam(learned, **own), []
    twin.train()
    for step in range(steps):
        batch = task.batch_of(step)
        batch = batch._replace(x=task._drop_tokens(batch, generator(c.seed, "unknown", step)))
        adam.zero_grad()
        loss = twin.loss(batch)
        loss.backward()
        norm = torch.sqrt(sum((tensor.grad**2).sum() for tensor in learned))
        if norm > c.clip_norm > 0:
            for tensor in learned:
                tensor.grad *= c.clip_norm / norm
        if not usual:
            adam.param_groups[0]["lr"] = c.learning_rate * rate_factor(c, step, steps)
        adam.step()
        losses.append(loss.item())
    twin.eval()
    return losses


def seeded(fitted: FittedModel, seed: int) -> Twin:
    """A twin that starts where PyTorch's layers start."""
    torch.manual_seed(seed)
    return Twin(fitted)


def prepared(model: Any, X: Any, y: Any) -> tuple[FittedModel, ExampleTask]:
    """An estimator's network before its first step, and its training task."""
    setup = model.make_setup(X, y)
    fitted = setup.new_model()
    return fitted, setup.new_task(fitted)


def losses_of(task: ExampleTask, steps: int) -> list[float]:
    """Elman's own losses, step by step."""
    heard: list[float] = []
    every = dataclasses.replace(task.config, log_every=1)  # a logged loss is the mean since the last one

    def listen(event: object) -> None:
        if isinstance(event, Stepped):
            heard.append(event.loss)

    Trainer(task, every, steps=steps, listeners=[listen]).train()
    return heard


def both_curves(fitted: FittedModel, task: ExampleTask, steps: int) -> tuple[list[float], list[float], Twin]:
    """The losses of Elman and of its twin from the same parameters on the same batches, and the trained twin."""
    twin = Twin(fitted).take(fitted.parameters)
    return losses_of(task, steps), train(twin, task, steps), twin
