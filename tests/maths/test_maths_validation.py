"""The public edge: whatever comes in, a result or an ElmanError that names argument, expectation and what came."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maths_oracle import make

from elman import errors, maths
from elman.errors import ArgumentError, DtypeError, NotFiniteError, RangeError, ShapeError, UnknownNameError

T, B, X, H, Y = 4, 3, 2, 5, 6


def calls(ids=False):
    """Arguments that fit, of every public function."""
    n = make(0, T, B, X, H, ids=ids)
    h = maths.rnn_forward(n.x, n.h0, *n.weights)
    rng = np.random.default_rng(0)
    W_hy, W = rng.standard_normal((H, Y)), rng.standard_normal((Y, X))
    o, y = rng.standard_normal((T, B, Y)), rng.integers(Y, size=(T, B))
    backward = {"d_h_direct": n.d_h_direct, "x": n.x, "h": h, "W_xh": n.W_xh, "W_hh": n.W_hh}
    return {
        maths.rnn_forward: {"x": n.x, "h0": n.h0, "W_xh": n.W_xh, "W_hh": n.W_hh, "b_h": n.b_h},
        maths.rnn_backward: backward,
        maths.truncated_backward: {**backward, "k1": 1, "k2": 2},
        maths.rtrl: backward,
        maths.output_forward: {"h": h[1:], "W_hy": W_hy, "b_y": np.zeros(Y)},
        maths.output_backward: {"d_o": o, "h": h[1:], "W_hy": W_hy},
        maths.embedding_forward: {"ids": y, "W": W},
        maths.embedding_backward: {"d_x": rng.standard_normal((T, B, X)), "ids": y, "W": W},
        maths.softmax: {"o": o},
        maths.softmax_backward: {"d_y_hat": o, "y_hat": maths.softmax(o)},
        maths.cross_entropy: {"o": o, "y": y},
        maths.mean_squared_error: {"o": o, "y": o + 1},
    }


FUNCTIONS = {function.__name__: function for function in calls()}
ARRAYS = [(f.__name__, name) for f, a in calls().items() for name, v in a.items() if isinstance(v, np.ndarray)]
ALONE = [("softmax", "o"), ("embedding_forward", "W"), ("embedding_forward", "ids"), ("cross_entropy", "o")]
FITTING = [case for case in ARRAYS if case not in ALONE]  # those that have another argument to fit to
CELL = ("rnn_forward", "rnn_backward", "truncated_backward", "rtrl")


def refused(error, function, *, tokens=False, **changes):
    """The message of the error that this call must raise."""
    function = FUNCTIONS[function]
    with pytest.raises(error) as caught:
        function(**{**calls(tokens)[function], **changes})
    assert isinstance(caught.value, errors.ElmanError)
    return str(caught.value)


def complaint(function, *args, **kwargs):
    """The message of an ElmanError, or where there is none, one that would do; any other error is not caught."""
    try:
        with np.errstate(all="ignore"):
            function(*args, **kwargs)
    except errors.ElmanError as error:
        return str(error)
    return "out: expected nothing better"


def says(message, argument, *parts):
    assert message.startswith(f"{argument}: expected "), message
    assert ", got " in message, message
    for part in parts:
        assert str(part) in message, message


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_that_fit_are_accepted_as_lists_too(name):
    for ids in (False, True):
        arguments = calls(ids)[FUNCTIONS[name]]
        expected = FUNCTIONS[name](**arguments)
        lists = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in arguments.items()}
        for ours, theirs in zip(FUNCTIONS[name](**lists), expected, strict=True):
            assert theirs is None or np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_edge_keeps_name_signature_and_place(name):
    inside = inspect.unwrap(FUNCTIONS[name])
    assert inspect.signature(FUNCTIONS[name]) == inspect.signature(inside)
    assert FUNCTIONS[name].__doc__ == inside.__doc__
    assert inside.__module__.startswith("elman.maths.")


def test_all_names_what_the_room_offers():
    assert len(set(maths.__all__)) == len(maths.__all__)
    assert all(hasattr(maths, name) for name in maths.__all__)
    assert {function.__name__ for function in calls()} < set(maths.__all__)


# ---- shapes


@pytest.mark.parametrize(("function", "argument"), [(f, a) for f, a in ARRAYS if f in CELL])
def test_an_axis_too_many_is_named(function, argument):
    value = calls()[FUNCTIONS[function]][argument]
    says(refused(ShapeError, function, **{argument: value[..., np.newaxis]}), argument, (*value.shape, 1))


@pytest.mark.parametrize(("function", "argument"), FITTING)
def test_an_entry_too_many_is_named_with_where_the_size_came_from(function, argument):
    value = calls()[FUNCTIONS[function]][argument]
    assert " from " in refused(ShapeError, function, **{argument: np.concatenate([value, value[..., -1:]], axis=-1)})


@pytest.mark.parametrize(("function", "argument", "shape", "parts"), [
    ("rnn_forward", "W_hh", (H, H + 1), ["(H, H)", f"H = {H}", (H, H + 1)]),
    ("rnn_forward", "W_hh", (H + 1, H + 1), [f"H = {H} from W_xh", (H + 1, H + 1)]),
    ("rnn_forward", "x", (T, B, X + 1), [f"X = {X} from W_xh", (T, B, X + 1)]),
    ("rnn_forward", "x", (T,), ["(T, B, X) or (T, B) of integer ids", (T,)]),
    ("rnn_forward", "h0", (B + 1, H), [f"B = {B} from x", (B + 1, H)]),
    ("rnn_forward", "h_mask", (B, H - 1), [f"H = {H} from W_xh", (B, H - 1)]),
    ("rnn_forward", "b_h", (1, H), ["(H)", (1, H)]),
    ("rnn_forward", "x", (0, B, X), ["T at least 1", (0, B, X)]),
    ("rnn_backward", "h", (T, B, H), ["(T+1, B, H)", f"T = {T} from d_h_direct", (T, B, H)]),
    ("truncated_backward", "x", (T + 1, B, X), [f"T = {T} from d_h_direct", (T + 1, B, X)]),
    ("output_backward", "h", (T, B + 1, H), [f"({T}, {B}) from d_o", (T, B + 1, H)]),
    ("softmax", "o", (), ["(…, Y)", ()]),
    ("cross_entropy", "weights", (T,), [f"({T}, {B}) from o", (T,)]),
    ("mean_squared_error", "y", (T, B), [f"({T}, {B}) from o", (T, B)]),
    ("embedding_backward", "d_x", (T, B, X + 1), [f"X = {X} from W", (T, B, X + 1)]),
])  # fmt: skip
def test_a_shape_that_does_not_fit(function, argument, shape, parts):
    says(refused(ShapeError, function, **{argument: np.zeros(shape)}), argument, *parts)


def test_targets_of_other_rows_than_the_logits():
    says(refused(ShapeError, "cross_entropy", y=np.zeros((T, B + 1), int)), "y", f"({T}, {B}) from o", (T, B + 1))


@pytest.mark.parametrize("function", ["rnn_backward", "truncated_backward"])
def test_out_that_does_not_fit_names_its_part(function):
    n = make(0, T, B, X, H)
    out = maths.RNNGradients.zeros(n.x, n.W_xh)
    for field, wrong in (("d_W_hh", np.zeros((H, X))), ("d_x", np.zeros((T, B, H))), ("d_h0", np.zeros((H, B)))):
        says(refused(ShapeError, function, out=out._replace(**{field: wrong})), f"out.{field}", wrong.shape)
    says(refused(DtypeError, function, out=out._replace(d_b_h=np.zeros(H, np.float32))), "out.d_b_h", "float64")


@pytest.mark.parametrize("function", ["rnn_forward", "output_forward", "embedding_forward", "softmax", "cross_entropy"])
def test_out_of_another_shape_or_dtype(function):
    says(refused(ShapeError, function, out=np.zeros((1, 1, 1))), "out", (1, 1, 1))
    made = FUNCTIONS[function](**calls()[FUNCTIONS[function]])
    shape = (made[1] if isinstance(made, tuple) else made).shape
    says(refused(DtypeError, function, out=np.zeros(shape, np.float32)), "out", "float32")


@pytest.mark.parametrize("function", ["rnn_forward", "output_forward", "embedding_forward", "softmax", "cross_entropy"])
def test_out_that_cannot_be_written_to(function):
    made = FUNCTIONS[function](**calls()[FUNCTIONS[function]])
    read_only = made[1] if isinstance(made, tuple) else made
    assert refused(ArgumentError, function, out=read_only.tolist()).startswith("out")  # a copy would be lost
    read_only.flags.writeable = False
    says(refused(ArgumentError, function, out=read_only), "out", "read-only")


@pytest.mark.parametrize("function", ["rnn_backward", "truncated_backward", "output_backward"])
def test_out_that_holds_no_gradients(function):
    right = calls()[FUNCTIONS[function]]
    other = maths.OutputGradients if function != "output_backward" else maths.RNNGradients
    made = FUNCTIONS[function](**right)
    wrong = other(*[np.zeros((H, H))] * len(other._fields))
    for out in (tuple(made), wrong, np.zeros((H, H)), np.zeros(()), made._replace(**{made._fields[0]: None}), {}, 3):
        assert refused(ArgumentError, function, out=out).startswith("out")


@pytest.mark.parametrize("function", ["rnn_backward", "truncated_backward"])
def test_out_with_a_place_for_d_x_is_refused_or_left_alone_where_x_holds_ids(function):
    out = maths.RNNGradients.zeros(np.zeros((T, B, X)), np.zeros((X, H)))
    arguments = calls(ids=True)[FUNCTIONS[function]]
    assert complaint(FUNCTIONS[function], **arguments, out=out).startswith("out")
    assert not out.d_x.any()


# ---- dtypes


@pytest.mark.parametrize(("function", "argument"), ARRAYS)
def test_text_objects_and_complex_numbers_are_no_numbers(function, argument):
    value = calls()[FUNCTIONS[function]][argument]
    for wrong in (value.astype(str), value.astype(object), value.astype(complex), value.astype(bool)):
        says(refused(DtypeError, function, **{argument: wrong}), argument, wrong.dtype)
    for wrong in ("text", None, {}, object(), [[1.0], [1.0, 2.0]]):
        if argument == "h0" and wrong is None:
            continue
        says(refused(DtypeError, function, **{argument: wrong}), argument, type(wrong).__name__)


@pytest.mark.parametrize(("function", "argument"), FITTING)
def test_two_precisions_in_one_call_are_refused(function, argument):
    value = calls()[FUNCTIONS[function]][argument]
    if value.dtype.kind == "f":
        assert "float32" in refused(DtypeError, function, **{argument: value.astype(np.float32)})


def test_floats_are_no_ids_and_integers_no_floats():
    says(refused(DtypeError, "rnn_forward", x=np.zeros((T, B))), "x", "(T, B) of integer ids", "float64")
    says(refused(DtypeError, "rnn_forward", x=np.zeros((T, B, X), int)), "x", "floating-point", "int64")
    says(refused(DtypeError, "rnn_forward", lengths=np.full(B, 2.0)), "lengths", "(B) of integers,", "float64")
    says(refused(DtypeError, "embedding_forward", ids=np.zeros((T, B))), "ids", "integer ids", "float64")
    says(refused(DtypeError, "cross_entropy", y=np.zeros((T, B))), "y", "(…, Y) or (…) of integer ids", "float64")
    says(refused(DtypeError, "cross_entropy", y=np.zeros((T, B, Y), int)), "y", "floating-point", "int64")
    says(refused(DtypeError, "rnn_forward", W_hh=np.eye(H, dtype=int)), "W_hh", "floating-point", "int64")


# ---- ranges


@pytest.mark.parametrize("wrong", [-1, X, 10**6])
@pytest.mark.parametrize("function", CELL)
def test_token_ids_out_of_range(function, wrong):
    x = np.zeros((T, B), int)
    x[2, 1] = wrong
    says(refused(RangeError, function, tokens=True, x=x), "x", f"from 0 to {X - 1}", f"{wrong} at (2, 1)")


@pytest.mark.parametrize("wrong", [-1, Y])
def test_ids_of_targets_and_embeddings_out_of_range(wrong):
    ids = np.zeros((T, B), int)
    ids[1, 2] = wrong
    for function, argument in (("cross_entropy", "y"), ("embedding_forward", "ids"), ("embedding_backward", "ids")):
        says(refused(RangeError, function, **{argument: ids}), argument, f"from 0 to {Y - 1}", f"{wrong} at (1, 2)")


@pytest.mark.parametrize("wrong", [-1, T + 1])
@pytest.mark.parametrize("function", CELL)
def test_lengths_longer_than_the_window(function, wrong):
    says(refused(RangeError, function, lengths=[1, wrong, 0]), "lengths", f"from 0 to {T}", f"{wrong} at (1,)")


@pytest.mark.parametrize(("k1", "k2", "name"), [
    (0, 2, "k1"), (-1, 2, "k1"), (1.5, 2, "k1"), (True, 2, "k1"), ("1", 2, "k1"), (None, 2, "k1"),
    (3, 2, "k2"), (1, 0, "k2"), (1, 2.0, "k2"), (1, None, "k2"),
])  # fmt: skip
def test_k1_and_k2_out_of_range(k1, k2, name):
    least = "1 or more" if name == "k1" else f"at least k1, which is {k1}"
    message = refused(RangeError, "truncated_backward", k1=k1, k2=k2)
    says(message, name, f"a whole number, {least}", repr({"k1": k1, "k2": k2}[name]))


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, "many", [1, 2], {}])
def test_a_normalizer_that_cannot_divide(wrong):
    for function in ("cross_entropy", "mean_squared_error"):
        says(refused(ArgumentError, function, normalizer=wrong), "normalizer", "above 0")


def test_targets_that_are_no_distributions():
    y = np.full((T, B, Y), 1 / Y)
    assert maths.cross_entropy(np.zeros((T, B, Y)), y)[0] == pytest.approx(T * B * math.log(Y))
    for wrong, got in ((2 * y, "other sums"), (y - 1, "negative numbers"), (np.zeros_like(y), "other sums")):
        says(refused(RangeError, "cross_entropy", y=wrong), "y", "add up to 1", got)


# ---- NaN, names, arguments


@pytest.mark.parametrize(("function", "argument"), ARRAYS)
def test_nan_in_an_input_is_refused_and_in_a_weight_passes(function, argument):
    arguments = calls()[FUNCTIONS[function]]
    value = arguments[argument].copy()
    if value.dtype.kind != "f":
        return
    where = tuple(size - 1 for size in value.shape)
    value[where] = np.nan
    if argument.startswith(("W", "b_")):
        with np.errstate(invalid="ignore"):
            FUNCTIONS[function](**{**arguments, argument: value})
    else:
        says(refused(NotFiniteError, function, **{argument: value}), argument, "NaN", where)


@pytest.mark.parametrize("function", CELL)
def test_an_unknown_activation(function):
    message = refused(UnknownNameError, function, activation="swish")
    says(message, "activation", "tanh", "relu", "sigmoid", "identity", "'swish'")
    for wrong in (None, 3, np.tanh, (np.tanh,), (np.tanh, 1), (np.tanh, np.tanh, np.tanh)):
        says(refused(ArgumentError, function, activation=wrong), "activation", "pair")


def test_what_runs_forward_only_refuses_reverse():
    says(refused(ArgumentError, "truncated_backward", reverse=True), "reverse", "False")
    maths.truncated_backward(**calls()[maths.truncated_backward], reverse=False)
    assert "reverse" in refused(ArgumentError, "rtrl", reverse=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_missing_or_unknown(name):
    with pytest.raises(ArgumentError, match=f"{name}: missing a required argument"):
        FUNCTIONS[name]()
    with pytest.raises(ArgumentError, match=f"{name}: got an unexpected keyword argument 'speed'"):
        FUNCTIONS[name](**calls()[FUNCTIONS[name]], speed=3)


# ---- anything at all

sizes = st.integers(0, 4)
dtypes = st.sampled_from(["f2", "f4", "f8", "g", "i1", "u1", "i4", "i8", "u8", "?", "O", "c8", "U1"])
arrays = st.builds(
    lambda shape, dtype, fill: np.full(shape, fill).astype(dtype),
    st.one_of(st.lists(sizes, max_size=4), st.sampled_from([[T, B], [T, B, X], [T, B, H], [T, B, Y], [B], [B, H]])),
    dtypes,
    st.sampled_from([0, 1, -1, 3, 100]),
)
anything = st.one_of(
    arrays,
    arrays,
    st.sampled_from([None, True, 0, 1, 2.5, -1, math.nan, "tanh", "", (), [], {}, [[1.0]], [1, 2], np.tanh, object()]),
    st.sampled_from([np.full((B, H), np.nan), np.full((B, H), np.inf), np.array(np.inf)]),
)
OPTIONS = {
    "rnn_forward": ["activation", "lengths", "h_mask", "out"],
    "rnn_backward": ["activation", "lengths", "h_mask", "out"],
    "truncated_backward": ["activation", "lengths", "h_mask", "out", "k1", "k2"],
    "cross_entropy": ["weights", "normalizer", "out"],
    "mean_squared_error": ["weights", "normalizer", "out"],
}


@pytest.mark.parametrize("name", OPTIONS)
@given(st.data())
@settings(deadline=None, max_examples=120)
def test_anything_gives_a_result_or_an_elman_error(name, data):
    arguments = calls(data.draw(st.booleans()))[FUNCTIONS[name]]
    wrong = data.draw(st.lists(st.sampled_from([*arguments, *OPTIONS[name]]), min_size=1, max_size=3, unique=True))
    arguments |= {argument: data.draw(anything, label=argument) for argument in wrong}
    assert ": expected " in complaint(FUNCTIONS[name], **arguments)


@given(st.lists(arrays, min_size=5, max_size=5), st.lists(arrays, min_size=2, max_size=2))
@settings(deadline=None, max_examples=100)
def test_random_shapes_and_dtypes_give_a_result_or_an_elman_error(five, two):
    for function, values in ((maths.rnn_forward, five), (maths.rnn_backward, five), (maths.cross_entropy, two)):
        assert ": expected " in complaint(function, *values)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_shapes_that_fit_by_chance_give_a_result(data):
    """Sizes from 1 to 2, so that much fits: what the edge lets in, the equations can do."""
    size = st.integers(1, 2)
    dtype = data.draw(st.sampled_from([np.float16, np.float32, np.float64, np.longdouble]))
    shapes = [data.draw(st.tuples(*[size] * rank)) for rank in (3, 2, 2, 2, 1)]
    arguments = [np.full(shape, 0.5, dtype) for shape in shapes]
    try:
        h = maths.rnn_forward(*arguments)
    except ShapeError:
        return
    assert h.shape == (shapes[0][0] + 1, shapes[0][1], shapes[4][0])
    x, _, W_xh, W_hh, _ = arguments
    assert maths.rnn_backward(h[1:].copy(), x, h, W_xh, W_hh).d_x.shape == x.shape


def cell_call(name="lstm"):
    cell, rng = maths.make_cell(name), np.random.default_rng(0)
    p = {key: rng.standard_normal(shape) for key, shape in cell.shapes(X, H).items()}
    return {"cell": cell, "x": rng.standard_normal((T, B, X)), "s0": rng.standard_normal((cell.parts, B, H)), "p": p}


@pytest.mark.parametrize("name", maths.CELLS)
def test_the_layers_of_all_cells_are_public(name):
    call = cell_call(name)
    trace = maths.cell_forward(**call)
    d = maths.cell_backward(call["cell"], trace.s[0, 1:], trace, call["x"], call["p"])
    short = maths.truncated_cell_backward(call["cell"], trace.s[0, 1:], trace, call["x"], call["p"], k1=1, k2=2)
    assert d.d_p.keys() == short.d_p.keys() == call["p"].keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda call: call["p"].pop("b_h"), r"p\['b_h'\]: expected an array"),
        (lambda call: call["p"].update(W_hh=np.zeros((H, H))), "W_hh"),
        (lambda call: call["p"].update(W_hh=np.zeros((H, 8)), W_xh=np.zeros((X, 8)), b_h=np.zeros(8)), "for cell lstm"),
        (lambda call: call.update(p=None), "p: expected a mapping of arrays"),
        (
            lambda call: call.update(s0=np.zeros((1, B, H))),
            r"s0: expected \(2, B, H\), which is h and c, for cell lstm, got shape \(1, 3, 5\)",
        ),
        (lambda call: call.update(x=np.full((T, B, X), np.nan)), "x: expected numbers, got NaN"),
        (lambda call: call.update(lengths=np.array([1, 2, 9])), "lengths: expected integers from 0 to 4"),
    ],
)
def test_parameters_that_do_not_fit_a_cell_are_named(change, message):
    call = cell_call()
    change(call)
    with pytest.raises(ArgumentError, match=message):
        maths.cell_forward(**call)
