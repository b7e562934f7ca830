"""The arguments of the models, made by scripts/generate from the table in elman.config: do not edit."""

from __future__ import annotations

from typing import Any

from elman.config import (
    Activation,
    Attention,
    CellName,
    Dtype,
    Optimizer,
    Pooling,
    RecurrentInit,
    Schedule,
    Sequences,
    Tokens,
    named_options,
)


class LanguageModelOptions:
    @named_options
    def __init__(
        self,
        *,
        tokens: Tokens = "char",
        sequences: Sequences = "none",
        encoding: str = "utf-8",
        keep_boilerplate: bool = False,
        vocabulary_size: int = 20000,
        min_count: int = 2,
        validation_fraction: float | None = None,
        test_fraction: float = 0.0,
        hidden: int | None = None,
        layers: int | None = None,
        cell: CellName = "rnn",
        activation: Activation = "tanh",
        embedding: int = 128,
        dropout: float | None = None,
        recurrent_dropout: float | None = None,
        recurrent_init: RecurrentInit = "orthogonal",
        recurrent_init_scale: float = 1.0,
        input_init_scale: float = 0.3,
        forget_bias: float = 1.0,
        dtype: Dtype = "float32",
        epochs: float | None = None,
        steps: int | None = None,
        seconds: float | None = None,
        batch_size: int | None = None,
        window: int | None = None,
        bptt_block: int | None = None,
        bptt_steps: int | None = None,
        accumulate: int = 1,
        clip_norm: float = 1.0,
        clip_value: float = 0.0,
        patience: int | None = None,
        retries: int = 5,
        seed: int = 0,
        optimizer: Optimizer = "adam",
        learning_rate: float | None = None,
        schedule: Schedule = "cosine",
        warmup_steps: int = 100,
        final_rate_fraction: float = 0.01,
        decay_factor: float = 0.5,
        decay_every: int = 1000,
        plateau_patience: int = 3,
        beta1: float = 0.9,
        beta2: float = 0.99,
        epsilon: float = 1e-08,
        weight_decay: float = 0.0,
        validate_every: int = 250,
        save_every: int = 250,
        log_every: int = 10,
        sample_every: int | None = None,
        snapshot_every: int = 50,
        preset: str | None = None,
    ) -> None:
        """The options of `LanguageModel`.

        Parameters
        ----------
        tokens : {"auto", "char", "byte", "word", "bpe"}, default="char"
            What a token is; bpe: subwords; auto: words if the texts of the examples have two or more words on
            average, else characters (lm: always characters; translate: subwords if tokens and target_tokens are
            both auto and the sources have two or more words on average and 1,000 or more different words).
        sequences : {"none", "lines"}, default="none"
            What each text of a model of many texts is: lines of the file (words, names, melodies), each read
            from its beginning to its end; none: the file is one text.
        encoding : str, default="utf-8"
            Encoding of the file.
        keep_boilerplate : bool, default=False
            Keep the header and footer that Project Gutenberg adds to a book.
        vocabulary_size : int, default=20000
            Maximum number of different tokens, not counting special ones such as that for unknown tokens (bpe:
            2,048 unless set, or 1,000 if auto chooses it, and at least 256; byte: always 256); a language model
            of characters keeps all of them. Above 0.
        min_count : int, default=2
            Tokens with fewer occurrences are unknown, but bytes never are (bpe: pairs with fewer are not
            merged; in other tasks than lm the minimum is at least 2); a language model of characters keeps all
            of them. Above 0.
        validation_fraction : float or None, default=None
            Fraction held out for validation during training: the end of a text (before the test part), or
            examples drawn at random. At least 0 and below 1. None: depends on the data (docs/options.md).
        test_fraction : float, default=0.0
            Fraction that training never reads: the end of a text, or examples drawn at random; elman eval RUN
            evaluates this part, or the validation part if it is 0. At least 0 and below 1.
        hidden : int or None, default=None
            Number of units of each recurrent layer and direction. Above 0. None: depends on the data
            (docs/options.md).
        layers : int or None, default=None
            Number of recurrent layers. Above 0 and at most 1000. None: depends on the data (docs/options.md).
        cell : {"rnn", "gru", "lstm"}, default="rnn"
            Kind of recurrent cell.
        activation : {"tanh", "relu", "sigmoid", "identity"}, default="tanh"
            Activation function of the rnn cell. For cell rnn.
        embedding : int, default=128
            Size of token embeddings; 0: one-hot tokens. At least 0.
        dropout : float or None, default=None
            Dropout on the output of each layer except the last layer of a translator's encoder. At least 0 and
            below 1. None: depends on the data (docs/options.md).
        recurrent_dropout : float or None, default=None
            Dropout on the state that enters W_hh, with one mask for all steps. At least 0 and below 1. None:
            depends on the data (docs/options.md).
        recurrent_init : {"orthogonal", "identity", "glorot", "uniform"}, default="orthogonal"
            Initialization of W_hh.
        recurrent_init_scale : float, default=1.0
            Scale (gain) of the initial W_hh. Above 0.
        input_init_scale : float, default=0.3
            Standard deviation of the initial token vectors: the embedding, or W_xh if tokens are one-hot. Above
            0.
        forget_bias : float, default=1.0
            Initial bias of the forget gate of an lstm. For cell lstm.
        dtype : {"float32", "float64"}, default="float32"
            Floating-point type of the parameters and of all computation.
        epochs : float or None, default=None
            Passes over the training data. Above 0. None: 15, unless steps or seconds is given.
        steps : int or None, default=None
            Number of parameter updates. Above 0.
        seconds : float or None, default=None
            Approximate training time; a short measurement converts it to a number of steps; a language model
            trains for at most 30 epochs or 5,000 steps, whichever takes longer. Above 0.
        batch_size : int or None, default=None
            Number of sequences, or of parallel streams of a text, in one batch. Above 0. None: depends on the
            data (docs/options.md).
        window : int or None, default=None
            Sequence length of a batch (T), in tokens; its final state, detached, is the initial state of the
            next batch. Above 0. None: depends on the data (docs/options.md).
        bptt_block : int or None, default=None
            Truncated BPTT: steps of a block, whose losses are backpropagated together (k1; default: the smaller
            of T and k2). Above 0.
        bptt_steps : int or None, default=None
            Truncated BPTT: number of steps, counted back from the end of a block, over which the losses of the
            block are backpropagated, never past the start of the batch (k2; default: T). Above 0.
        accumulate : int, default=1
            Batches per update (gradient accumulation); the loss is the mean over all of them. Above 0.
        clip_norm : float, default=1.0
            Maximum norm of the gradient of all parameters together; 0 disables clipping. At least 0.
        clip_value : float, default=0.0
            Maximum absolute value of a gradient's entries; 0 disables clipping. At least 0.
        patience : int or None, default=None
            Stop after this many validations without improvement; 0: never. At least 0. None: depends on the
            data (docs/options.md).
        retries : int, default=5
            How many times a diverged run may return to a snapshot and lower the learning rate. At least 0.
        seed : int, default=0
            Seed of all random numbers. At least 0.
        optimizer : {"sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"}, default="adam"
            Optimizer.
        learning_rate : float or None, default=None
            Maximum learning rate, reached after the warm-up. Above 0. None: depends on the data
            (docs/options.md).
        schedule : {"constant", "step", "cosine", "plateau"}, default="cosine"
            How the learning rate falls after the warm-up.
        warmup_steps : int, default=100
            Steps over which the learning rate rises from 0. At least 0.
        final_rate_fraction : float, default=0.01
            Cosine schedule: final learning rate as a fraction of the maximum. At least 0 and at most 1.
        decay_factor : float, default=0.5
            Step and plateau schedules: factor that multiplies the learning rate. At least 0 and at most 1.
        decay_every : int, default=1000
            Step schedule: steps between two reductions of the learning rate, counted from the first step. Above
            0.
        plateau_patience : int, default=3
            Plateau schedule: validations without improvement before a reduction. Above 0.
        beta1 : float, default=0.9
            Decay of the first moment (adam, adamw); momentum coefficient (momentum). At least 0 and below 1.
        beta2 : float, default=0.99
            Decay of the second moment (adam, adamw, rmsprop). At least 0 and below 1.
        epsilon : float, default=1e-08
            Added to the denominator of the update (adam, adamw, rmsprop, adagrad). Above 0.
        weight_decay : float, default=0.0
            L2 penalty: this number times the parameters is added to the gradient; adamw: decoupled weight
            decay. At least 0.
        validate_every : int, default=250
            Steps between two validations; unless another value is set, a language model validates at least once
            in ten epochs, and the other tasks at least once per epoch. Above 0.
        save_every : int, default=250
            Steps between two checkpoints. Above 0.
        log_every : int, default=10
            Steps between two rows of metrics.jsonl. Above 0.
        sample_every : int or None, default=None
            Steps between two samples printed during training. Above 0.
        snapshot_every : int, default=50
            Steps between two snapshots to which a diverged run returns. Above 0.
        preset : {"fast", "default", "best", "textbook"}, optional
            Half a minute, five minutes or 50 minutes, or the plain network of textbooks (docs/options.md);
            other options override it.
        """
        self.tokens = tokens
        self.sequences = sequences
        self.encoding = encoding
        self.keep_boilerplate = keep_boilerplate
        self.vocabulary_size = vocabulary_size
        self.min_count = min_count
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.hidden = hidden
        self.layers = layers
        self.cell = cell
        self.activation = activation
        self.embedding = embedding
        self.dropout = dropout
        self.recurrent_dropout = recurrent_dropout
        self.recurrent_init = recurrent_init
        self.recurrent_init_scale = recurrent_init_scale
        self.input_init_scale = input_init_scale
        self.forget_bias = forget_bias
        self.dtype = dtype
        self.epochs = epochs
        self.steps = steps
        self.seconds = seconds
        self.batch_size = batch_size
        self.window = window
        self.bptt_block = bptt_block
        self.bptt_steps = bptt_steps
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.clip_value = clip_value
        self.patience = patience
        self.retries = retries
        self.seed = seed
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.warmup_steps = warmup_steps
        self.final_rate_fraction = final_rate_fraction
        self.decay_factor = decay_factor
        self.decay_every = decay_every
        self.plateau_patience = plateau_patience
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.weight_decay = weight_decay
        self.validate_every = validate_every
        self.save_every = save_every
        self.log_every = log_every
        self.sample_every = sample_every
        self.snapshot_every = snapshot_every
        self.preset = preset


class ClassifierOptions:
    @named_options
    def __init__(
        self,
        *,
        tokens: Tokens = "auto",
        lowercase: bool | None = None,
        vocabulary_size: int = 20000,
        min_count: int = 1,
        unk_dropout: float | None = None,
        standardize: bool = True,
        validation_fraction: float = 0.0,
        test_fraction: float = 0.0,
        hidden: int | None = None,
        layers: int = 1,
        cell: CellName | None = None,
        activation: Activation = "tanh",
        bidirectional: bool | None = None,
        pooling: Pooling | None = None,
        embedding: int | None = None,
        learned_state: bool = False,
        dropout: float | None = None,
        input_dropout: float | None = None,
        recurrent_dropout: float = 0.0,
        recurrent_init: RecurrentInit = "orthogonal",
        recurrent_init_scale: float = 1.0,
        input_init_scale: float = 0.1,
        forget_bias: float = 1.0,
        dtype: Dtype = "float32",
        epochs: float | None = None,
        steps: int | None = None,
        seconds: float | None = None,
        batch_size: int | None = None,
        accumulate: int = 1,
        clip_norm: float = 1.0,
        clip_value: float = 0.0,
        patience: int = 4,
        retries: int = 5,
        optimizer: Optimizer | None = None,
        learning_rate: float | None = None,
        schedule: Schedule = "cosine",
        warmup_steps: int = 50,
        final_rate_fraction: float = 0.01,
        decay_factor: float = 0.5,
        decay_every: int = 1000,
        plateau_patience: int = 3,
        beta1: float = 0.9,
        beta2: float = 0.99,
        epsilon: float = 1e-08,
        weight_decay: float | None = None,
        validate_every: int = 250,
        class_weight: dict[Any, float] | str | None = None,
        random_state: Any = None,
    ) -> None:
        """The options of `SequenceClassifier`.

        Parameters
        ----------
        tokens : {"auto", "char", "byte", "word", "bpe"}, default="auto"
            What a token is; bpe: subwords; auto: words if the texts of the examples have two or more words on
            average, else characters (lm: always characters; translate: subwords if tokens and target_tokens are
            both auto and the sources have two or more words on average and 1,000 or more different words).
        lowercase : bool or None, default=None
            Convert words to lower case; has no effect on other kinds of tokens. None: depends on the data
            (docs/options.md).
        vocabulary_size : int, default=20000
            Maximum number of different tokens, not counting special ones such as that for unknown tokens (bpe:
            2,048 unless set, or 1,000 if auto chooses it, and at least 256; byte: always 256); a language model
            of characters keeps all of them. Above 0.
        min_count : int, default=1
            Tokens with fewer occurrences are unknown, but bytes never are (bpe: pairs with fewer are not
            merged; in other tasks than lm the minimum is at least 2); a language model of characters keeps all
            of them. Above 0.
        unk_dropout : float or None, default=None
            Α: in training, a token that occurs c times is replaced by unknown with probability α / (α + c);
            bytes and subwords never are. At least 0. None: depends on the data (docs/options.md).
        standardize : bool, default=True
            Scale each input feature to mean 0 and standard deviation 1.
        validation_fraction : float, default=0.0
            Fraction held out for validation during training: the end of a text (before the test part), or
            examples drawn at random. At least 0 and below 1.
        test_fraction : float, default=0.0
            Fraction that training never reads: the end of a text, or examples drawn at random; elman eval RUN
            evaluates this part, or the validation part if it is 0. At least 0 and below 1.
        hidden : int or None, default=None
            Number of units of each recurrent layer and direction. Above 0. None: depends on the data
            (docs/options.md).
        layers : int, default=1
            Number of recurrent layers. Above 0 and at most 1000.
        cell : {"rnn", "gru", "lstm"} or None, default=None
            Kind of recurrent cell. None: depends on the data (docs/options.md).
        activation : {"tanh", "relu", "sigmoid", "identity"}, default="tanh"
            Activation function of the rnn cell. For cell rnn.
        bidirectional : bool or None, default=None
            Read in both directions. None: depends on the data (docs/options.md).
        pooling : {"last", "mean", "max"} or None, default=None
            Pooling of the states over time: the last one, their mean or maximum. None: depends on the data
            (docs/options.md).
        embedding : int or None, default=None
            Size of token embeddings; 0: one-hot tokens. At least 0. None: depends on the data
            (docs/options.md).
        learned_state : bool, default=False
            Learn the initial state instead of starting from zeros.
        dropout : float or None, default=None
            Dropout on the output of each layer except the last layer of a translator's encoder. At least 0 and
            below 1. None: depends on the data (docs/options.md).
        input_dropout : float or None, default=None
            Dropout on the inputs; a dropped one-hot token is read as unknown; the one-hot tokens of a decoder
            are never dropped. At least 0 and below 1. None: depends on the data (docs/options.md).
        recurrent_dropout : float, default=0.0
            Dropout on the state that enters W_hh, with one mask for all steps. At least 0 and below 1.
        recurrent_init : {"orthogonal", "identity", "glorot", "uniform"}, default="orthogonal"
            Initialization of W_hh.
        recurrent_init_scale : float, default=1.0
            Scale (gain) of the initial W_hh. Above 0.
        input_init_scale : float, default=0.1
            Standard deviation of the initial token vectors: the embedding, or W_xh if tokens are one-hot. Above
            0.
        forget_bias : float, default=1.0
            Initial bias of the forget gate of an lstm. For cell lstm.
        dtype : {"float32", "float64"}, default="float32"
            Floating-point type of the parameters and of all computation.
        epochs : float or None, default=None
            Passes over the training data. Above 0. None: 12, unless steps or seconds is given.
        steps : int or None, default=None
            Number of parameter updates. Above 0.
        seconds : float or None, default=None
            Approximate training time; a short measurement converts it to a number of steps; a language model
            trains for at most 30 epochs or 5,000 steps, whichever takes longer. Above 0.
        batch_size : int or None, default=None
            Number of sequences, or of parallel streams of a text, in one batch. Above 0. None: depends on the
            data (docs/options.md).
        accumulate : int, default=1
            Batches per update (gradient accumulation); the loss is the mean over all of them. Above 0.
        clip_norm : float, default=1.0
            Maximum norm of the gradient of all parameters together; 0 disables clipping. At least 0.
        clip_value : float, default=0.0
            Maximum absolute value of a gradient's entries; 0 disables clipping. At least 0.
        patience : int, default=4
            Stop after this many validations without improvement; 0: never. At least 0.
        retries : int, default=5
            How many times a diverged run may return to a snapshot and lower the learning rate. At least 0.
        optimizer : {"sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"} or None, default=None
            Optimizer. None: depends on the data (docs/options.md).
        learning_rate : float or None, default=None
            Maximum learning rate, reached after the warm-up. Above 0. None: depends on the data
            (docs/options.md).
        schedule : {"constant", "step", "cosine", "plateau"}, default="cosine"
            How the learning rate falls after the warm-up.
        warmup_steps : int, default=50
            Steps over which the learning rate rises from 0. At least 0.
        final_rate_fraction : float, default=0.01
            Cosine schedule: final learning rate as a fraction of the maximum. At least 0 and at most 1.
        decay_factor : float, default=0.5
            Step and plateau schedules: factor that multiplies the learning rate. At least 0 and at most 1.
        decay_every : int, default=1000
            Step schedule: steps between two reductions of the learning rate, counted from the first step. Above
            0.
        plateau_patience : int, default=3
            Plateau schedule: validations without improvement before a reduction. Above 0.
        beta1 : float, default=0.9
            Decay of the first moment (adam, adamw); momentum coefficient (momentum). At least 0 and below 1.
        beta2 : float, default=0.99
            Decay of the second moment (adam, adamw, rmsprop). At least 0 and below 1.
        epsilon : float, default=1e-08
            Added to the denominator of the update (adam, adamw, rmsprop, adagrad). Above 0.
        weight_decay : float or None, default=None
            L2 penalty: this number times the parameters is added to the gradient; adamw: decoupled weight
            decay. At least 0. None: depends on the data (docs/options.md).
        validate_every : int, default=250
            Steps between two validations; unless another value is set, a language model validates at least once
            in ten epochs, and the other tasks at least once per epoch. Above 0.
        class_weight : dict or "balanced", optional
            Weight of each class; "balanced" weights classes by the inverse of their frequency.
        random_state : int, RandomState instance or None, default=None
            Seed of all random numbers; None draws one.
        """
        self.tokens = tokens
        self.lowercase = lowercase
        self.vocabulary_size = vocabulary_size
        self.min_count = min_count
        self.unk_dropout = unk_dropout
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.hidden = hidden
        self.layers = layers
        self.cell = cell
        self.activation = activation
        self.bidirectional = bidirectional
        self.pooling = pooling
        self.embedding = embedding
        self.learned_state = learned_state
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.recurrent_dropout = recurrent_dropout
        self.recurrent_init = recurrent_init
        self.recurrent_init_scale = recurrent_init_scale
        self.input_init_scale = input_init_scale
        self.forget_bias = forget_bias
        self.dtype = dtype
        self.epochs = epochs
        self.steps = steps
        self.seconds = seconds
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.clip_value = clip_value
        self.patience = patience
        self.retries = retries
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.warmup_steps = warmup_steps
        self.final_rate_fraction = final_rate_fraction
        self.decay_factor = decay_factor
        self.decay_every = decay_every
        self.plateau_patience = plateau_patience
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.weight_decay = weight_decay
        self.validate_every = validate_every
        self.class_weight = class_weight
        self.random_state = random_state


class RegressorOptions:
    @named_options
    def __init__(
        self,
        *,
        tokens: Tokens = "auto",
        lowercase: bool | None = None,
        vocabulary_size: int = 20000,
        min_count: int = 1,
        unk_dropout: float | None = None,
        standardize: bool = True,
        validation_fraction: float = 0.0,
        test_fraction: float = 0.0,
        hidden: int | None = None,
        layers: int = 1,
        cell: CellName | None = None,
        activation: Activation = "tanh",
        bidirectional: bool | None = None,
        pooling: Pooling | None = None,
        embedding: int | None = None,
        learned_state: bool = False,
        dropout: float | None = None,
        input_dropout: float | None = None,
        recurrent_dropout: float = 0.0,
        recurrent_init: RecurrentInit = "orthogonal",
        recurrent_init_scale: float = 1.0,
        input_init_scale: float = 0.1,
        forget_bias: float = 1.0,
        dtype: Dtype = "float32",
        epochs: float | None = None,
        steps: int | None = None,
        seconds: float | None = None,
        batch_size: int | None = None,
        accumulate: int = 1,
        clip_norm: float = 1.0,
        clip_value: float = 0.0,
        patience: int = 4,
        retries: int = 5,
        optimizer: Optimizer | None = None,
        learning_rate: float | None = None,
        schedule: Schedule = "cosine",
        warmup_steps: int = 50,
        final_rate_fraction: float = 0.01,
        decay_factor: float = 0.5,
        decay_every: int = 1000,
        plateau_patience: int = 3,
        beta1: float = 0.9,
        beta2: float = 0.99,
        epsilon: float = 1e-08,
        weight_decay: float | None = None,
        validate_every: int = 250,
        random_state: Any = None,
    ) -> None:
        """The options of `SequenceRegressor`.

        Parameters
        ----------
        tokens : {"auto", "char", "byte", "word", "bpe"}, default="auto"
            What a token is; bpe: subwords; auto: words if the texts of the examples have two or more words on
            average, else characters (lm: always characters; translate: subwords if tokens and target_tokens are
            both auto and the sources have two or more words on average and 1,000 or more different words).
        lowercase : bool or None, default=None
            Convert words to lower case; has no effect on other kinds of tokens. None: depends on the data
            (docs/options.md).
        vocabulary_size : int, default=20000
            Maximum number of different tokens, not counting special ones such as that for unknown tokens (bpe:
            2,048 unless set, or 1,000 if auto chooses it, and at least 256; byte: always 256); a language model
            of characters keeps all of them. Above 0.
        min_count : int, default=1
            Tokens with fewer occurrences are unknown, but bytes never are (bpe: pairs with fewer are not
            merged; in other tasks than lm the minimum is at least 2); a language model of characters keeps all
            of them. Above 0.
        unk_dropout : float or None, default=None
            Α: in training, a token that occurs c times is replaced by unknown with probability α / (α + c);
            bytes and subwords never are. At least 0. None: depends on the data (docs/options.md).
        standardize : bool, default=True
            Scale each input feature to mean 0 and standard deviation 1.
        validation_fraction : float, default=0.0
            Fraction held out for validation during training: the end of a text (before the test part), or
            examples drawn at random. At least 0 and below 1.
        test_fraction : float, default=0.0
            Fraction that training never reads: the end of a text, or examples drawn at random; elman eval RUN
            evaluates this part, or the validation part if it is 0. At least 0 and below 1.
        hidden : int or None, default=None
            Number of units of each recurrent layer and direction. Above 0. None: depends on the data
            (docs/options.md).
        layers : int, default=1
            Number of recurrent layers. Above 0 and at most 1000.
        cell : {"rnn", "gru", "lstm"} or None, default=None
            Kind of recurrent cell. None: depends on the data (docs/options.md).
        activation : {"tanh", "relu", "sigmoid", "identity"}, default="tanh"
            Activation function of the rnn cell. For cell rnn.
        bidirectional : bool or None, default=None
            Read in both directions. None: depends on the data (docs/options.md).
        pooling : {"last", "mean", "max"} or None, default=None
            Pooling of the states over time: the last one, their mean or maximum. None: depends on the data
            (docs/options.md).
        embedding : int or None, default=None
            Size of token embeddings; 0: one-hot tokens. At least 0. None: depends on the data
            (docs/options.md).
        learned_state : bool, default=False
            Learn the initial state instead of starting from zeros.
        dropout : float or None, default=None
            Dropout on the output of each layer except the last layer of a translator's encoder. At least 0 and
            below 1. None: depends on the data (docs/options.md).
        input_dropout : float or None, default=None
            Dropout on the inputs; a dropped one-hot token is read as unknown; the one-hot tokens of a decoder
            are never dropped. At least 0 and below 1. None: depends on the data (docs/options.md).
        recurrent_dropout : float, default=0.0
            Dropout on the state that enters W_hh, with one mask for all steps. At least 0 and below 1.
        recurrent_init : {"orthogonal", "identity", "glorot", "uniform"}, default="orthogonal"
            Initialization of W_hh.
        recurrent_init_scale : float, default=1.0
            Scale (gain) of the initial W_hh. Above 0.
        input_init_scale : float, default=0.1
            Standard deviation of the initial token vectors: the embedding, or W_xh if tokens are one-hot. Above
            0.
        forget_bias : float, default=1.0
            Initial bias of the forget gate of an lstm. For cell lstm.
        dtype : {"float32", "float64"}, default="float32"
            Floating-point type of the parameters and of all computation.
        epochs : float or None, default=None
            Passes over the training data. Above 0. None: 15, unless steps or seconds is given.
        steps : int or None, default=None
            Number of parameter updates. Above 0.
        seconds : float or None, default=None
            Approximate training time; a short measurement converts it to a number of steps; a language model
            trains for at most 30 epochs or 5,000 steps, whichever takes longer. Above 0.
        batch_size : int or None, default=None
            Number of sequences, or of parallel streams of a text, in one batch. Above 0. None: depends on the
            data (docs/options.md).
        accumulate : int, default=1
            Batches per update (gradient accumulation); the loss is the mean over all of them. Above 0.
        clip_norm : float, default=1.0
            Maximum norm of the gradient of all parameters together; 0 disables clipping. At least 0.
        clip_value : float, default=0.0
            Maximum absolute value of a gradient's entries; 0 disables clipping. At least 0.
        patience : int, default=4
            Stop after this many validations without improvement; 0: never. At least 0.
        retries : int, default=5
            How many times a diverged run may return to a snapshot and lower the learning rate. At least 0.
        optimizer : {"sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"} or None, default=None
            Optimizer. None: depends on the data (docs/options.md).
        learning_rate : float or None, default=None
            Maximum learning rate, reached after the warm-up. Above 0. None: depends on the data
            (docs/options.md).
        schedule : {"constant", "step", "cosine", "plateau"}, default="cosine"
            How the learning rate falls after the warm-up.
        warmup_steps : int, default=50
            Steps over which the learning rate rises from 0. At least 0.
        final_rate_fraction : float, default=0.01
            Cosine schedule: final learning rate as a fraction of the maximum. At least 0 and at most 1.
        decay_factor : float, default=0.5
            Step and plateau schedules: factor that multiplies the learning rate. At least 0 and at most 1.
        decay_every : int, default=1000
            Step schedule: steps between two reductions of the learning rate, counted from the first step. Above
            0.
        plateau_patience : int, default=3
            Plateau schedule: validations without improvement before a reduction. Above 0.
        beta1 : float, default=0.9
            Decay of the first moment (adam, adamw); momentum coefficient (momentum). At least 0 and below 1.
        beta2 : float, default=0.99
            Decay of the second moment (adam, adamw, rmsprop). At least 0 and below 1.
        epsilon : float, default=1e-08
            Added to the denominator of the update (adam, adamw, rmsprop, adagrad). Above 0.
        weight_decay : float or None, default=None
            L2 penalty: this number times the parameters is added to the gradient; adamw: decoupled weight
            decay. At least 0. None: depends on the data (docs/options.md).
        validate_every : int, default=250
            Steps between two validations; unless another value is set, a language model validates at least once
            in ten epochs, and the other tasks at least once per epoch. Above 0.
        random_state : int, RandomState instance or None, default=None
            Seed of all random numbers; None draws one.
        """
        self.tokens = tokens
        self.lowercase = lowercase
        self.vocabulary_size = vocabulary_size
        self.min_count = min_count
        self.unk_dropout = unk_dropout
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.hidden = hidden
        self.layers = layers
        self.cell = cell
        self.activation = activation
        self.bidirectional = bidirectional
        self.pooling = pooling
        self.embedding = embedding
        self.learned_state = learned_state
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.recurrent_dropout = recurrent_dropout
        self.recurrent_init = recurrent_init
        self.recurrent_init_scale = recurrent_init_scale
        self.input_init_scale = input_init_scale
        self.forget_bias = forget_bias
        self.dtype = dtype
        self.epochs = epochs
        self.steps = steps
        self.seconds = seconds
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.clip_value = clip_value
        self.patience = patience
        self.retries = retries
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.warmup_steps = warmup_steps
        self.final_rate_fraction = final_rate_fraction
        self.decay_factor = decay_factor
        self.decay_every = decay_every
        self.plateau_patience = plateau_patience
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.weight_decay = weight_decay
        self.validate_every = validate_every
        self.random_state = random_state


class TaggerOptions:
    @named_options
    def __init__(
        self,
        *,
        tokens: Tokens = "auto",
        vocabulary_size: int = 20000,
        min_count: int = 1,
        unk_dropout: float = 1.0,
        standardize: bool = True,
        validation_fraction: float = 0.0,
        test_fraction: float = 0.0,
        hidden: int = 128,
        layers: int = 1,
        cell: CellName | None = None,
        activation: Activation = "tanh",
        bidirectional: bool = True,
        embedding: int = 100,
        learned_state: bool = False,
        dropout: float = 0.5,
        input_dropout: float = 0.2,
        recurrent_dropout: float = 0.2,
        recurrent_init: RecurrentInit = "orthogonal",
        recurrent_init_scale: float = 1.0,
        input_init_scale: float = 0.1,
        forget_bias: float = 1.0,
        dtype: Dtype = "float32",
        epochs: float | None = None,
        steps: int | None = None,
        seconds: float | None = None,
        batch_size: int = 32,
        accumulate: int = 1,
        clip_norm: float = 1.0,
        clip_value: float = 0.0,
        patience: int = 4,
        retries: int = 5,
        optimizer: Optimizer = "adam",
        learning_rate: float | None = None,
        schedule: Schedule = "cosine",
        warmup_steps: int = 50,
        final_rate_fraction: float = 0.01,
        decay_factor: float = 0.5,
        decay_every: int = 1000,
        plateau_patience: int = 3,
        beta1: float = 0.9,
        beta2: float = 0.99,
        epsilon: float = 1e-08,
        weight_decay: float = 0.0,
        validate_every: int = 250,
        class_weight: dict[Any, float] | str | None = None,
        random_state: Any = None,
    ) -> None:
        """The options of `SequenceTagger`.

        Parameters
        ----------
        tokens : {"auto", "char", "byte", "word", "bpe"}, default="auto"
            What a token is; bpe: subwords; auto: words if the texts of the examples have two or more words on
            average, else characters (lm: always characters; translate: subwords if tokens and target_tokens are
            both auto and the sources have two or more words on average and 1,000 or more different words).
        vocabulary_size : int, default=20000
            Maximum number of different tokens, not counting special ones such as that for unknown tokens (bpe:
            2,048 unless set, or 1,000 if auto chooses it, and at least 256; byte: always 256); a language model
            of characters keeps all of them. Above 0.
        min_count : int, default=1
            Tokens with fewer occurrences are unknown, but bytes never are (bpe: pairs with fewer are not
            merged; in other tasks than lm the minimum is at least 2); a language model of characters keeps all
            of them. Above 0.
        unk_dropout : float, default=1.0
            Α: in training, a token that occurs c times is replaced by unknown with probability α / (α + c);
            bytes and subwords never are. At least 0.
        standardize : bool, default=True
            Scale each input feature to mean 0 and standard deviation 1.
        validation_fraction : float, default=0.0
            Fraction held out for validation during training: the end of a text (before the test part), or
            examples drawn at random. At least 0 and below 1.
        test_fraction : float, default=0.0
            Fraction that training never reads: the end of a text, or examples drawn at random; elman eval RUN
            evaluates this part, or the validation part if it is 0. At least 0 and below 1.
        hidden : int, default=128
            Number of units of each recurrent layer and direction. Above 0.
        layers : int, default=1
            Number of recurrent layers. Above 0 and at most 1000.
        cell : {"rnn", "gru", "lstm"} or None, default=None
            Kind of recurrent cell. None: depends on the data (docs/options.md).
        activation : {"tanh", "relu", "sigmoid", "identity"}, default="tanh"
            Activation function of the rnn cell. For cell rnn.
        bidirectional : bool, default=True
            Read in both directions.
        embedding : int, default=100
            Size of token embeddings; 0: one-hot tokens. At least 0.
        learned_state : bool, default=False
            Learn the initial state instead of starting from zeros.
        dropout : float, default=0.5
            Dropout on the output of each layer except the last layer of a translator's encoder. At least 0 and
            below 1.
        input_dropout : float, default=0.2
            Dropout on the inputs; a dropped one-hot token is read as unknown; the one-hot tokens of a decoder
            are never dropped. At least 0 and below 1.
        recurrent_dropout : float, default=0.2
            Dropout on the state that enters W_hh, with one mask for all steps. At least 0 and below 1.
        recurrent_init : {"orthogonal", "identity", "glorot", "uniform"}, default="orthogonal"
            Initialization of W_hh.
        recurrent_init_scale : float, default=1.0
            Scale (gain) of the initial W_hh. Above 0.
        input_init_scale : float, default=0.1
            Standard deviation of the initial token vectors: the embedding, or W_xh if tokens are one-hot. Above
            0.
        forget_bias : float, default=1.0
            Initial bias of the forget gate of an lstm. For cell lstm.
        dtype : {"float32", "float64"}, default="float32"
            Floating-point type of the parameters and of all computation.
        epochs : float or None, default=None
            Passes over the training data. Above 0. None: 25, unless steps or seconds is given.
        steps : int or None, default=None
            Number of parameter updates. Above 0.
        seconds : float or None, default=None
            Approximate training time; a short measurement converts it to a number of steps; a language model
            trains for at most 30 epochs or 5,000 steps, whichever takes longer. Above 0.
        batch_size : int, default=32
            Number of sequences, or of parallel streams of a text, in one batch. Above 0.
        accumulate : int, default=1
            Batches per update (gradient accumulation); the loss is the mean over all of them. Above 0.
        clip_norm : float, default=1.0
            Maximum norm of the gradient of all parameters together; 0 disables clipping. At least 0.
        clip_value : float, default=0.0
            Maximum absolute value of a gradient's entries; 0 disables clipping. At least 0.
        patience : int, default=4
            Stop after this many validations without improvement; 0: never. At least 0.
        retries : int, default=5
            How many times a diverged run may return to a snapshot and lower the learning rate. At least 0.
        optimizer : {"sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"}, default="adam"
            Optimizer.
        learning_rate : float or None, default=None
            Maximum learning rate, reached after the warm-up. Above 0. None: depends on the data
            (docs/options.md).
        schedule : {"constant", "step", "cosine", "plateau"}, default="cosine"
            How the learning rate falls after the warm-up.
        warmup_steps : int, default=50
            Steps over which the learning rate rises from 0. At least 0.
        final_rate_fraction : float, default=0.01
            Cosine schedule: final learning rate as a fraction of the maximum. At least 0 and at most 1.
        decay_factor : float, default=0.5
            Step and plateau schedules: factor that multiplies the learning rate. At least 0 and at most 1.
        decay_every : int, default=1000
            Step schedule: steps between two reductions of the learning rate, counted from the first step. Above
            0.
        plateau_patience : int, default=3
            Plateau schedule: validations without improvement before a reduction. Above 0.
        beta1 : float, default=0.9
            Decay of the first moment (adam, adamw); momentum coefficient (momentum). At least 0 and below 1.
        beta2 : float, default=0.99
            Decay of the second moment (adam, adamw, rmsprop). At least 0 and below 1.
        epsilon : float, default=1e-08
            Added to the denominator of the update (adam, adamw, rmsprop, adagrad). Above 0.
        weight_decay : float, default=0.0
            L2 penalty: this number times the parameters is added to the gradient; adamw: decoupled weight
            decay. At least 0.
        validate_every : int, default=250
            Steps between two validations; unless another value is set, a language model validates at least once
            in ten epochs, and the other tasks at least once per epoch. Above 0.
        class_weight : dict or "balanced", optional
            Weight of each class; "balanced" weights classes by the inverse of their frequency.
        random_state : int, RandomState instance or None, default=None
            Seed of all random numbers; None draws one.
        """
        self.tokens = tokens
        self.vocabulary_size = vocabulary_size
        self.min_count = min_count
        self.unk_dropout = unk_dropout
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.hidden = hidden
        self.layers = layers
        self.cell = cell
        self.activation = activation
        self.bidirectional = bidirectional
        self.embedding = embedding
        self.learned_state = learned_state
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.recurrent_dropout = recurrent_dropout
        self.recurrent_init = recurrent_init
        self.recurrent_init_scale = recurrent_init_scale
        self.input_init_scale = input_init_scale
        self.forget_bias = forget_bias
        self.dtype = dtype
        self.epochs = epochs
        self.steps = steps
        self.seconds = seconds
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.clip_value = clip_value
        self.patience = patience
        self.retries = retries
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.warmup_steps = warmup_steps
        self.final_rate_fraction = final_rate_fraction
        self.decay_factor = decay_factor
        self.decay_every = decay_every
        self.plateau_patience = plateau_patience
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.weight_decay = weight_decay
        self.validate_every = validate_every
        self.class_weight = class_weight
        self.random_state = random_state


class GeneratorOptions:
    @named_options
    def __init__(
        self,
        *,
        target_tokens: Tokens = "auto",
        vocabulary_size: int = 20000,
        min_count: int = 1,
        standardize: bool = True,
        validation_fraction: float = 0.0,
        test_fraction: float = 0.0,
        hidden: int = 128,
        layers: int = 1,
        cell: CellName = "rnn",
        activation: Activation = "tanh",
        embedding: int = 0,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        recurrent_init: RecurrentInit = "orthogonal",
        recurrent_init_scale: float = 1.0,
        input_init_scale: float = 0.1,
        forget_bias: float = 1.0,
        dtype: Dtype = "float32",
        epochs: float | None = None,
        steps: int | None = None,
        seconds: float | None = None,
        batch_size: int = 32,
        accumulate: int = 1,
        clip_norm: float = 1.0,
        clip_value: float = 0.0,
        patience: int = 4,
        retries: int = 5,
        optimizer: Optimizer = "adam",
        learning_rate: float | None = None,
        schedule: Schedule = "cosine",
        warmup_steps: int = 50,
        final_rate_fraction: float = 0.01,
        decay_factor: float = 0.5,
        decay_every: int = 1000,
        plateau_patience: int = 3,
        beta1: float = 0.9,
        beta2: float = 0.99,
        epsilon: float = 1e-08,
        weight_decay: float = 0.0,
        validate_every: int = 250,
        random_state: Any = None,
    ) -> None:
        """The options of `SequenceGenerator`.

        Parameters
        ----------
        target_tokens : {"auto", "char", "byte", "word", "bpe"}, default="auto"
            What a token of the target is, with the same values as tokens.
        vocabulary_size : int, default=20000
            Maximum number of different tokens, not counting special ones such as that for unknown tokens (bpe:
            2,048 unless set, or 1,000 if auto chooses it, and at least 256; byte: always 256); a language model
            of characters keeps all of them. Above 0.
        min_count : int, default=1
            Tokens with fewer occurrences are unknown, but bytes never are (bpe: pairs with fewer are not
            merged; in other tasks than lm the minimum is at least 2); a language model of characters keeps all
            of them. Above 0.
        standardize : bool, default=True
            Scale each input feature to mean 0 and standard deviation 1.
        validation_fraction : float, default=0.0
            Fraction held out for validation during training: the end of a text (before the test part), or
            examples drawn at random. At least 0 and below 1.
        test_fraction : float, default=0.0
            Fraction that training never reads: the end of a text, or examples drawn at random; elman eval RUN
            evaluates this part, or the validation part if it is 0. At least 0 and below 1.
        hidden : int, default=128
            Number of units of each recurrent layer and direction. Above 0.
        layers : int, default=1
            Number of recurrent layers. Above 0 and at most 1000.
        cell : {"rnn", "gru", "lstm"}, default="rnn"
            Kind of recurrent cell.
        activation : {"tanh", "relu", "sigmoid", "identity"}, default="tanh"
            Activation function of the rnn cell. For cell rnn.
        embedding : int, default=0
            Size of token embeddings; 0: one-hot tokens. At least 0.
        dropout : float, default=0.0
            Dropout on the output of each layer except the last layer of a translator's encoder. At least 0 and
            below 1.
        input_dropout : float, default=0.0
            Dropout on the inputs; a dropped one-hot token is read as unknown; the one-hot tokens of a decoder
            are never dropped. At least 0 and below 1.
        recurrent_dropout : float, default=0.0
            Dropout on the state that enters W_hh, with one mask for all steps. At least 0 and below 1.
        recurrent_init : {"orthogonal", "identity", "glorot", "uniform"}, default="orthogonal"
            Initialization of W_hh.
        recurrent_init_scale : float, default=1.0
            Scale (gain) of the initial W_hh. Above 0.
        input_init_scale : float, default=0.1
            Standard deviation of the initial token vectors: the embedding, or W_xh if tokens are one-hot. Above
            0.
        forget_bias : float, default=1.0
            Initial bias of the forget gate of an lstm. For cell lstm.
        dtype : {"float32", "float64"}, default="float32"
            Floating-point type of the parameters and of all computation.
        epochs : float or None, default=None
            Passes over the training data. Above 0. None: 15, unless steps or seconds is given.
        steps : int or None, default=None
            Number of parameter updates. Above 0.
        seconds : float or None, default=None
            Approximate training time; a short measurement converts it to a number of steps; a language model
            trains for at most 30 epochs or 5,000 steps, whichever takes longer. Above 0.
        batch_size : int, default=32
            Number of sequences, or of parallel streams of a text, in one batch. Above 0.
        accumulate : int, default=1
            Batches per update (gradient accumulation); the loss is the mean over all of them. Above 0.
        clip_norm : float, default=1.0
            Maximum norm of the gradient of all parameters together; 0 disables clipping. At least 0.
        clip_value : float, default=0.0
            Maximum absolute value of a gradient's entries; 0 disables clipping. At least 0.
        patience : int, default=4
            Stop after this many validations without improvement; 0: never. At least 0.
        retries : int, default=5
            How many times a diverged run may return to a snapshot and lower the learning rate. At least 0.
        optimizer : {"sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"}, default="adam"
            Optimizer.
        learning_rate : float or None, default=None
            Maximum learning rate, reached after the warm-up. Above 0. None: depends on the data
            (docs/options.md).
        schedule : {"constant", "step", "cosine", "plateau"}, default="cosine"
            How the learning rate falls after the warm-up.
        warmup_steps : int, default=50
            Steps over which the learning rate rises from 0. At least 0.
        final_rate_fraction : float, default=0.01
            Cosine schedule: final learning rate as a fraction of the maximum. At least 0 and at most 1.
        decay_factor : float, default=0.5
            Step and plateau schedules: factor that multiplies the learning rate. At least 0 and at most 1.
        decay_every : int, default=1000
            Step schedule: steps between two reductions of the learning rate, counted from the first step. Above
            0.
        plateau_patience : int, default=3
            Plateau schedule: validations without improvement before a reduction. Above 0.
        beta1 : float, default=0.9
            Decay of the first moment (adam, adamw); momentum coefficient (momentum). At least 0 and below 1.
        beta2 : float, default=0.99
            Decay of the second moment (adam, adamw, rmsprop). At least 0 and below 1.
        epsilon : float, default=1e-08
            Added to the denominator of the update (adam, adamw, rmsprop, adagrad). Above 0.
        weight_decay : float, default=0.0
            L2 penalty: this number times the parameters is added to the gradient; adamw: decoupled weight
            decay. At least 0.
        validate_every : int, default=250
            Steps between two validations; unless another value is set, a language model validates at least once
            in ten epochs, and the other tasks at least once per epoch. Above 0.
        random_state : int, RandomState instance or None, default=None
            Seed of all random numbers; None draws one.
        """
        self.target_tokens = target_tokens
        self.vocabulary_size = vocabulary_size
        self.min_count = min_count
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.hidden = hidden
        self.layers = layers
        self.cell = cell
        self.activation = activation
        self.embedding = embedding
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.recurrent_dropout = recurrent_dropout
        self.recurrent_init = recurrent_init
        self.recurrent_init_scale = recurrent_init_scale
        self.input_init_scale = input_init_scale
        self.forget_bias = forget_bias
        self.dtype = dtype
        self.epochs = epochs
        self.steps = steps
        self.seconds = seconds
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.clip_value = clip_value
        self.patience = patience
        self.retries = retries
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.warmup_steps = warmup_steps
        self.final_rate_fraction = final_rate_fraction
        self.decay_factor = decay_factor
        self.decay_every = decay_every
        self.plateau_patience = plateau_patience
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.weight_decay = weight_decay
        self.validate_every = validate_every
        self.random_state = random_state


class Seq2SeqOptions:
    @named_options
    def __init__(
        self,
        *,
        tokens: Tokens = "auto",
        target_tokens: Tokens = "auto",
        vocabulary_size: int | None = None,
        min_count: int = 1,
        unk_dropout: float = 0.25,
        standardize: bool = True,
        validation_fraction: float = 0.0,
        test_fraction: float = 0.0,
        hidden: int = 256,
        layers: int = 1,
        cell: CellName = "gru",
        activation: Activation = "tanh",
        bidirectional: bool = True,
        embedding: int = 128,
        learned_state: bool = False,
        attention: Attention = "dot",
        dropout: float | None = None,
        input_dropout: float | None = None,
        recurrent_dropout: float = 0.0,
        recurrent_init: RecurrentInit = "orthogonal",
        recurrent_init_scale: float = 1.0,
        input_init_scale: float = 0.1,
        forget_bias: float = 1.0,
        dtype: Dtype = "float32",
        epochs: float | None = None,
        steps: int | None = None,
        seconds: float | None = None,
        batch_size: int = 64,
        accumulate: int = 1,
        clip_norm: float = 1.0,
        clip_value: float = 0.0,
        patience: int = 4,
        retries: int = 5,
        optimizer: Optimizer = "adam",
        learning_rate: float | None = None,
        schedule: Schedule = "cosine",
        warmup_steps: int = 50,
        final_rate_fraction: float = 0.01,
        decay_factor: float = 0.5,
        decay_every: int = 1000,
        plateau_patience: int = 3,
        beta1: float = 0.9,
        beta2: float = 0.99,
        epsilon: float = 1e-08,
        weight_decay: float = 0.0,
        validate_every: int = 250,
        random_state: Any = None,
    ) -> None:
        """The options of `Seq2Seq`.

        Parameters
        ----------
        tokens : {"auto", "char", "byte", "word", "bpe"}, default="auto"
            What a token is; bpe: subwords; auto: words if the texts of the examples have two or more words on
            average, else characters (lm: always characters; translate: subwords if tokens and target_tokens are
            both auto and the sources have two or more words on average and 1,000 or more different words).
        target_tokens : {"auto", "char", "byte", "word", "bpe"}, default="auto"
            What a token of the target is, with the same values as tokens.
        vocabulary_size : int or None, default=None
            Maximum number of different tokens, not counting special ones such as that for unknown tokens (bpe:
            2,048 unless set, or 1,000 if auto chooses it, and at least 256; byte: always 256); a language model
            of characters keeps all of them. Above 0. None: depends on the data (docs/options.md).
        min_count : int, default=1
            Tokens with fewer occurrences are unknown, but bytes never are (bpe: pairs with fewer are not
            merged; in other tasks than lm the minimum is at least 2); a language model of characters keeps all
            of them. Above 0.
        unk_dropout : float, default=0.25
            Α: in training, a token that occurs c times is replaced by unknown with probability α / (α + c);
            bytes and subwords never are. At least 0.
        standardize : bool, default=True
            Scale each input feature to mean 0 and standard deviation 1.
        validation_fraction : float, default=0.0
            Fraction held out for validation during training: the end of a text (before the test part), or
            examples drawn at random. At least 0 and below 1.
        test_fraction : float, default=0.0
            Fraction that training never reads: the end of a text, or examples drawn at random; elman eval RUN
            evaluates this part, or the validation part if it is 0. At least 0 and below 1.
        hidden : int, default=256
            Number of units of each recurrent layer and direction. Above 0.
        layers : int, default=1
            Number of recurrent layers. Above 0 and at most 1000.
        cell : {"rnn", "gru", "lstm"}, default="gru"
            Kind of recurrent cell.
        activation : {"tanh", "relu", "sigmoid", "identity"}, default="tanh"
            Activation function of the rnn cell. For cell rnn.
        bidirectional : bool, default=True
            Read in both directions.
        embedding : int, default=128
            Size of token embeddings; 0: one-hot tokens. At least 0.
        learned_state : bool, default=False
            Learn the initial state instead of starting from zeros.
        attention : {"none", "dot", "additive"}, default="dot"
            Attention of the decoder over the outputs k of the encoder, with a query q = h @ W_q of K entries
            from the decoder's state h; dot: scaled dot product, q · k / √K; additive: tanh(q + k @ W_k) @ w_a
            (Bahdanau).
        dropout : float or None, default=None
            Dropout on the output of each layer except the last layer of a translator's encoder. At least 0 and
            below 1. None: depends on the data (docs/options.md).
        input_dropout : float or None, default=None
            Dropout on the inputs; a dropped one-hot token is read as unknown; the one-hot tokens of a decoder
            are never dropped. At least 0 and below 1. None: depends on the data (docs/options.md).
        recurrent_dropout : float, default=0.0
            Dropout on the state that enters W_hh, with one mask for all steps. At least 0 and below 1.
        recurrent_init : {"orthogonal", "identity", "glorot", "uniform"}, default="orthogonal"
            Initialization of W_hh.
        recurrent_init_scale : float, default=1.0
            Scale (gain) of the initial W_hh. Above 0.
        input_init_scale : float, default=0.1
            Standard deviation of the initial token vectors: the embedding, or W_xh if tokens are one-hot. Above
            0.
        forget_bias : float, default=1.0
            Initial bias of the forget gate of an lstm. For cell lstm.
        dtype : {"float32", "float64"}, default="float32"
            Floating-point type of the parameters and of all computation.
        epochs : float or None, default=None
            Passes over the training data. Above 0. None: 10, or 20 if the sources have 1,000 or more different
            words and are read as words or subwords, unless steps or seconds is given.
        steps : int or None, default=None
            Number of parameter updates. Above 0.
        seconds : float or None, default=None
            Approximate training time; a short measurement converts it to a number of steps; a language model
            trains for at most 30 epochs or 5,000 steps, whichever takes longer. Above 0.
        batch_size : int, default=64
            Number of sequences, or of parallel streams of a text, in one batch. Above 0.
        accumulate : int, default=1
            Batches per update (gradient accumulation); the loss is the mean over all of them. Above 0.
        clip_norm : float, default=1.0
            Maximum norm of the gradient of all parameters together; 0 disables clipping. At least 0.
        clip_value : float, default=0.0
            Maximum absolute value of a gradient's entries; 0 disables clipping. At least 0.
        patience : int, default=4
            Stop after this many validations without improvement; 0: never. At least 0.
        retries : int, default=5
            How many times a diverged run may return to a snapshot and lower the learning rate. At least 0.
        optimizer : {"sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"}, default="adam"
            Optimizer.
        learning_rate : float or None, default=None
            Maximum learning rate, reached after the warm-up. Above 0. None: depends on the data
            (docs/options.md).
        schedule : {"constant", "step", "cosine", "plateau"}, default="cosine"
            How the learning rate falls after the warm-up.
        warmup_steps : int, default=50
            Steps over which the learning rate rises from 0. At least 0.
        final_rate_fraction : float, default=0.01
            Cosine schedule: final learning rate as a fraction of the maximum. At least 0 and at most 1.
        decay_factor : float, default=0.5
            Step and plateau schedules: factor that multiplies the learning rate. At least 0 and at most 1.
        decay_every : int, default=1000
            Step schedule: steps between two reductions of the learning rate, counted from the first step. Above
            0.
        plateau_patience : int, default=3
            Plateau schedule: validations without improvement before a reduction. Above 0.
        beta1 : float, default=0.9
            Decay of the first moment (adam, adamw); momentum coefficient (momentum). At least 0 and below 1.
        beta2 : float, default=0.99
            Decay of the second moment (adam, adamw, rmsprop). At least 0 and below 1.
        epsilon : float, default=1e-08
            Added to the denominator of the update (adam, adamw, rmsprop, adagrad). Above 0.
        weight_decay : float, default=0.0
            L2 penalty: this number times the parameters is added to the gradient; adamw: decoupled weight
            decay. At least 0.
        validate_every : int, default=250
            Steps between two validations; unless another value is set, a language model validates at least once
            in ten epochs, and the other tasks at least once per epoch. Above 0.
        random_state : int, RandomState instance or None, default=None
            Seed of all random numbers; None draws one.
        """
        self.tokens = tokens
        self.target_tokens = target_tokens
        self.vocabulary_size = vocabulary_size
        self.min_count = min_count
        self.unk_dropout = unk_dropout
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.hidden = hidden
        self.layers = layers
        self.cell = cell
        self.activation = activation
        self.bidirectional = bidirectional
        self.embedding = embedding
        self.learned_state = learned_state
        self.attention = attention
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.recurrent_dropout = recurrent_dropout
        self.recurrent_init = recurrent_init
        self.recurrent_init_scale = recurrent_init_scale
        self.input_init_scale = input_init_scale
        self.forget_bias = forget_bias
        self.dtype = dtype
        self.epochs = epochs
        self.steps = steps
        self.seconds = seconds
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.clip_value = clip_value
        self.patience = patience
        self.retries = retries
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.warmup_steps = warmup_steps
        self.final_rate_fraction = final_rate_fraction
        self.decay_factor = decay_factor
        self.decay_every = decay_every
        self.plateau_patience = plateau_patience
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.weight_decay = weight_decay
        self.validate_every = validate_every
        self.random_state = random_state
