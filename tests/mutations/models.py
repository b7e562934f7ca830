"""Mistakes that somebody could make in sampling and judging, one a line, for scripts/mutate: see tests/mutations."""

FOLDER = "elman/models"

TESTS = {
    "sampling.py": ["tests/models/test_models_sampling.py", "tests/models/test_models_beam.py"],
    "memorization.py": ["tests/models/test_models_memorization.py"],
    "evaluation.py": ["tests/models/test_models_evaluation.py"],
    "language_model.py": [
        "tests/models/test_models_language_model.py",
        "tests/models/test_models_evaluation.py",
        "tests/models/test_models_memorization.py",
    ],
}

MUTANTS = [
    # the distribution
    (
        "sampling.py",
        "y_hat = softmax((o - o.max()) / how.temperature)",
        "y_hat = softmax((o - o.max()) * how.temperature)",
        "temperature upside down",
    ),
    ("sampling.py", 'with np.errstate(over="ignore"):', "if True:", "a warning at a tiny temperature"),
    ("sampling.py", "o[banned] = -np.inf\n    if how", "pass\n    if how", "nothing is banned"),
    ("sampling.py", "o = o.astype(np.float64)", "o = np.asarray(o)", "the caller's logits are changed"),
    ("sampling.py", 'np.argsort(-o, kind="stable")', 'np.argsort(o, kind="stable")', "the least likely are kept"),
    ("sampling.py", "min(how.top_k, len(order))", "min(how.top_k + 1, len(order))", "one too many"),
    ("sampling.py", "how.top_p * (1 - 1e-12))) + 1)", "how.top_p * (1 - 1e-12))))", "the one that crosses is lost"),
    ("sampling.py", "how.top_p * (1 - 1e-12)", "how.top_p * (1 + 1e-12)", "a tie takes one more"),
    ("sampling.py", "np.asarray(y_hat / y_hat.sum())", "np.asarray(y_hat)", "not normalized"),
    (
        "sampling.py",
        'u * cumulative[-1], side="right"',
        'u * cumulative[-1], side="left"',
        "u = 0 picks the impossible",
    ),
    (
        "sampling.py",
        "return min(token, int(np.flatnonzero(y_hat)[-1]))",
        "return min(token, len(y_hat) - 1)",
        "u = 1 picks the impossible",
    ),
    (
        "sampling.py",
        "cumulative = np.cumsum(y_hat)",
        "cumulative = np.cumsum(np.full(len(y_hat), 1 / len(y_hat)))",
        "all are equally likely",
    ),
    # checks
    ("sampling.py", "self.temperature >= 0)", "self.temperature >= -9)", "negative temperature"),
    ("sampling.py", "math.isfinite(self.temperature) and ", "", "temperature not a number"),
    ("sampling.py", 'if stop == "":', 'if stop == "-":', "an empty stop text"),
    # writing
    ("sampling.py", '[0] if vocabulary.kind == "word"', '[0] if vocabulary.kind == "text"', "<unk> is written"),
    ("sampling.py", "tokens, state = decoder.write(", "tokens, _ = decoder.write(", "the state is forgotten"),
    (
        "sampling.py",
        "return o[-1, 0], DecoderState(after)",
        "return o[0, 0], DecoderState(after)",
        "the first logits of a prompt",
    ),
    ("sampling.py", "return drawn, drawn", "return drawn, []", "the drawn token is not shown"),
    (
        "sampling.py",
        "return [int(newline[0])], []",
        "return [int(newline[0])], [int(newline[0])]",
        "the new line is shown",
    ),
    (
        "sampling.py",
        "return [int(i) for i in ids], []",
        "return [int(i) for i in ids], ids.tolist()",
        "the prompt twice",
    ),
    (
        "sampling.py",
        "np.setdiff1d(np.arange(len(self.vocabulary)), self.banned)",
        "np.arange(len(self.vocabulary))",
        "<unk> is drawn",
    ),
    ("sampling.py", "length)))", "length + 1)))", "one too many"),
    (
        "sampling.py",
        "chain(drawn, self.tokens(ids, how, rng))",
        "self.tokens(ids, how, rng)",
        "the drawn token is lost",
    ),
    ("sampling.py", 'return prompt + "".join(self.stream', 'return "".join(self.stream', "the prompt is not there"),
    # stop text
    (
        "sampling.py",
        "yield held[: held.index(stop)]\n            return",
        "yield held[: held.index(stop) + len(stop)]\n            return",
        "the stop text is shown",
    ),
    (
        "sampling.py",
        "yield held[: held.index(stop)]\n            return",
        "yield held[: held.index(stop)]\n            held = ''\n            continue",
        "it goes on after it",
    ),
    (
        "sampling.py",
        "range(len(stop) - 1, 0, -1)",
        "range(1, len(stop))",
        "the shortest beginning is held, not the longest",
    ),
    ("sampling.py", "range(len(stop) - 1, 0, -1)", "range(0)", "nothing is held back"),
    ("sampling.py", "    yield held\n", "", "what was held is lost"),
    # beam
    ("sampling.py", "check_request(length, stop, seed)\n        ids, drawn", "ids, drawn", "not checked"),
    ("sampling.py", "drawn[:length], self", "drawn, self", "length 0 writes one"),
    ("sampling.py", "limit=length - len(drawn)", "limit=length", "one too many"),
    ("sampling.py", "logits[:, decoder.banned] = -np.inf", "pass", "<unk> is found"),
    (
        "sampling.py",
        "totals = np.array([beam.score for beam in self.beams])[:, np.newaxis] + log_y_hat",
        "totals = log_y_hat.copy()",
        "only the last step counts",
    ),
    (
        "sampling.py",
        "_largest(totals.reshape(-1), self.width)",
        "_largest(-totals.reshape(-1), self.width)",
        "the worst are kept",
    ),
    ("sampling.py", "_largest(totals.reshape(-1), self.width)", "_largest(totals.reshape(-1), 1)", "always greedy"),
    ("sampling.py", "text[: text.index(stop)]", "text", "the stop text is shown"),
    ("sampling.py", "elif best >= self.beams[0].score:", "elif self.ended:", "it ends too soon"),
    ("sampling.py", "state.take(np.array(rows))", "state.take(np.arange(len(rows)))", "states of other parents"),
    (
        "sampling.py",
        "self.ended.append(Hypothesis(self._normalized(score, length), tokens))\n        return self.ended[-1].score",
        "return score",
        "what ended is forgotten",
    ),
    ("sampling.py", "default_rng([seed, 0])", "default_rng(0)", "the seed does nothing"),
    # copies
    ("memorization.py", "WINDOW = 12", "WINDOW = 11", "windows of 11"),
    ("memorization.py", "before and before == text", "before == text", "the start of the text is passed over"),
    (
        "memorization.py",
        "end <= len(sample) and text.startswith(sample[start:end], at)",
        "text.startswith(sample[start:end], at)",
        "compares in no good time",
    ),
    ("memorization.py", "before = 4 * overlap + 4", "before = 0", "stretches are cut at chunks"),
    ("memorization.py", "before = 4 * overlap + 4", "before = overlap", "characters of several bytes"),
    (
        "memorization.py",
        "a[i + size] == b[j + size]:\n        size += 1",
        "a[i + size] == b[j + size]:\n        break",
        "never longer than a window",
    ),
    (
        "memorization.py",
        "for window in found for starts in places[window].values()",
        "for window in found for starts in [1] * 0",
        "no share",
    ),
    ("memorization.py", "copied / windows", "len(found) / windows", "windows that come twice count once"),
    (
        "memorization.py",
        '_hashes("".join(places), step=WINDOW)',
        '_hashes("".join(places), step=WINDOW + 1)',
        "other windows are sought",
    ),
    # evaluation
    (
        "evaluation.py",
        "state = network.stack.zero_state(1, p.buffer.dtype)\n        for start in range(0, len(sequence) - 1, CHUNK)",
        "state = network.stack.zero_state(1, p.buffer.dtype) + 0.5\n"
        "        for start in range(0, len(sequence) - 1, CHUNK)",
        "not from a zero state",
    ),
    ("evaluation.py", "o, state = network.read", "o, _ = network.read", "chunks begin from zero"),
    (
        "evaluation.py",
        "start + CHUNK + 1], state)\n            yield",
        "start + CHUNK], state)\n            yield",
        "a token is lost",
    ),
    (
        "evaluation.py",
        "return total / (len(ids) - 1)",
        "return total / len(ids)",
        "the mean over one too many",
    ),
    ("evaluation.py", "if len(ids) < 2:", "if len(ids) < 1:", "one token divides by zero"),
    ("evaluation.py", "bits = nats / math.log(2)", "bits = nats * math.log(2)", "bits upside down"),
    ("evaluation.py", "math.exp(nats) if", "2**nats if", "perplexity of bits"),
    ("evaluation.py", "tokens / max(characters, 1)", "max(characters, 1) / tokens", "characters a token"),
    ("evaluation.py", "nats < 700", "nats < 7e9", "overflow"),
    # language model
    ("language_model.py", "return -self.evaluate", "return self.evaluate", "lower is better"),
    ("language_model.py", "if name not in self._defaults():", "if False:", "any parameter"),
    ("language_model.py", "np.argsort(-y_hat", "np.argsort(y_hat", "the least likely first"),
    ("language_model.py", "np.add.reduceat(losses", "np.maximum.reduceat(losses", "not the sum of the bytes"),
    ("language_model.py", "np.repeat(losses / lengths", "np.repeat(losses", "not shared by the letters"),
    (
        "language_model.py",
        "prompt=prompt, temperature=0, stop=stop, unknown",
        "prompt=prompt, temperature=1, stop=stop, unknown",
        "complete draws",
    ),
    (
        "language_model.py",
        "runs.split_corpus(corpus, config).train",
        "corpus.ids",
        "validation text counts as copied",
    ),
    (
        "language_model.py",
        "self.corpus_, self.run_ = corpus, None",
        "self.corpus_ = corpus",
        "the old run after a new fit",
    ),
    ("language_model.py", 'self.run_.config.get("data")', "None", "the text is forgotten"),
    ("language_model.py", "model.run_ = run", "pass", "the run is not known"),
    (
        "language_model.py",
        "        return self.text_sampler.write(\n            prompt, length=length, how=how, seed=seed, index=index,",
        "        return self.text_sampler.write(\n            prompt, length=length, how=how, seed=seed,",
        "the index does nothing",
    ),
    (
        "language_model.py",
        "Sampling(temperature, top_k, top_p)\n        return self.text_sampler.write(",
        "Sampling(temperature, top_k)\n        return self.text_sampler.write(",
        "top_p does nothing",
    ),
]
