"""Drawing: the distribution by its definition, the text by the equations, streams, stops, prompts, seeds."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models_writers import VOCABULARIES, random_writer

from elman.data import ByteVocabulary, CharVocabulary, WordVocabulary
from elman.errors import ArgumentError, RangeError, VocabularyError
from elman.kernels import KERNELS
from elman.maths.cells.rnn import rnn_forward
from elman.maths.layers import output_forward
from elman.models.sampling import Sampling, distribution, pick

LOGITS = st.lists(st.floats(-30, 30), min_size=1, max_size=12)
GREEDY = Sampling(temperature=0)


# -- the distribution -------------------------------------------------------------------------------------------------


def defined(logits, temperature, top_k, top_p):
    """The same by its definition, in exact sums and plain Python; and how close top_p is to a tie."""
    shifted = [(o - max(logits)) / temperature for o in logits]
    total = math.fsum(map(math.exp, shifted))
    p = [math.exp(o) / total for o in shifted]
    order = sorted(range(len(p)), key=lambda i: (-logits[i], i))
    kept, near = [], False
    for i in order:
        sum_before = math.fsum(p[j] for j in kept)
        if top_p is not None:
            near = near or abs(sum_before - top_p) < 1e-9
        if (top_k is not None and len(kept) >= top_k) or (top_p is not None and sum_before >= top_p):
            break
        kept.append(i)
    mass = math.fsum(p[i] for i in kept)
    return [p[i] / mass if i in kept else 0.0 for i in range(len(p))], near


@given(
    LOGITS,
    st.floats(0.05, 10),
    st.none() | st.integers(1, 15),
    st.none() | st.floats(0.01, 1),
)
def test_the_distribution_is_the_one_defined(logits, temperature, top_k, top_p):
    wanted, near = defined(logits, temperature, top_k, top_p)
    if near:
        return
    got = distribution(np.array(logits), Sampling(temperature, top_k, top_p))
    np.testing.assert_allclose(got, wanted, atol=1e-11)


@given(LOGITS, st.integers(1, 12), st.floats(0.01, 1))
def test_top_k_and_top_p_keep_the_likeliest_and_sum_to_one(logits, top_k, top_p):
    o = np.array(logits)
    y_hat = distribution(o, Sampling(1.0, top_k, top_p))
    assert y_hat.sum() == pytest.approx(1)
    assert 1 <= np.count_nonzero(y_hat) <= top_k
    assert y_hat[o.argmax()] == y_hat.max()
    np.testing.assert_array_equal(distribution(o, Sampling(1.0, top_k=1)), distribution(o, GREEDY))


def test_top_p_keeps_the_one_that_crosses_it_and_a_tie_takes_no_more():
    o = np.log([0.5, 0.25, 0.125, 0.125])
    kept = {p: np.count_nonzero(distribution(o, Sampling(1.0, top_p=p))) for p in (0.1, 0.5, 0.51, 0.75, 0.76, 1.0)}
    assert kept == {0.1: 1, 0.5: 1, 0.51: 2, 0.75: 2, 0.76: 3, 1.0: 4}


@pytest.mark.parametrize("temperature", [1e-300, 5e-324, 1e-3])
def test_a_tiny_temperature_is_greedy_without_warnings(temperature):
    np.testing.assert_array_equal(distribution(np.array([1.0, 30, -30]), Sampling(temperature)), [0, 1, 0])


def test_temperature_0_takes_the_first_of_the_likeliest():
    np.testing.assert_array_equal(distribution(np.array([1.0, 2, 2]), GREEDY), [0, 1, 0])


@pytest.mark.parametrize("how", [Sampling(1.0), GREEDY, Sampling(0.7, 2), Sampling(0.7, None, 0.5), Sampling(9.0, 9)])
def test_banned_tokens_have_probability_0(how):
    o = np.array([50.0, 1, 2, 3], np.float32)
    y_hat = distribution(o, how, np.array([0]))
    assert y_hat[0] == 0
    np.testing.assert_allclose(y_hat[1:], distribution(o[1:], how))
    assert o[0] == 50  # the logits themselves are left alone


# -- drawing from it --------------------------------------------------------------------------------------------------


def test_the_frequencies_of_picks_are_the_probabilities():
    y_hat = np.array([0.0, 0.5, 0.3, 0.0, 0.15, 0.05, 0.0])
    n = 20_000
    rng = np.random.default_rng(1)
    counts = np.bincount([pick(y_hat, u) for u in rng.random(n)], minlength=7)
    assert not counts[y_hat == 0].any()
    chi_square = (((counts - n * y_hat) ** 2)[y_hat > 0] / (n * y_hat[y_hat > 0])).sum()
    assert chi_square < 16.3  # three degrees of freedom: one in a thousand is beyond it


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda p: sum(p) > 1e-6), st.floats(0, 1))
def test_a_pick_is_always_possible_even_at_the_ends(p, u):
    y_hat = np.array(p) / sum(p)
    for at in (u, 0.0, float(np.nextafter(1, 0)), 1.0):
        assert y_hat[pick(y_hat, at)] > 0


def test_a_pick_is_the_interval_that_contains_u():
    assert [pick(np.array([0.25, 0, 0.75]), u) for u in (0, 0.24, 0.25, 0.99)] == [0, 0, 2, 2]


@pytest.mark.parametrize("how", [
    Sampling(-1), Sampling(math.nan), Sampling(math.inf), Sampling(1, 0), Sampling(1, -3),
    Sampling(1, None, 0.0), Sampling(1, None, 2.0), Sampling(1, None, math.nan), Sampling(1, None, -0.5),
])  # fmt: skip
def test_invalid_options_are_refused(how, letters):
    with pytest.raises(RangeError):
        how.check()
    with pytest.raises(RangeError):
        letters.stream("a", how=how)


# -- text -------------------------------------------------------------------------------------------------------------


def logits_by_the_equations(writer, ids):
    """All of it from the first token on, with the functions of elman.maths."""
    p, x = writer.parameters, np.array(ids)[:, np.newaxis]
    for layer in range(writer.network.stack.layers):
        W_xh, W_hh, b_h = (p[f"layers.{layer}.{name}"] for name in ("W_xh", "W_hh", "b_h"))
        x = rnn_forward(x, None, W_xh, W_hh, b_h)[1:]
    return output_forward(x, p["head.W_hy"], p["head.b_y"])[-1, 0]


def test_greedy_text_is_the_argmax_of_the_equations_reread_from_the_start(writer):
    start = writer.vocabulary.encode("the cat", unknown="skip").tolist()
    ids = list(start)
    for _ in range(30):
        o = logits_by_the_equations(writer, ids)
        o[writer.banned] = -np.inf
        ids.append(int(o.argmax()))
    prompt = writer.vocabulary.decode(start)
    assert list(islice(writer.tokens(start, GREEDY, np.random.default_rng(0)), 30)) == ids[len(start) :]
    assert writer.write(prompt, length=30, how=GREEDY) == prompt + "".join(writer.pieces(ids[len(start) :]))


def test_continuing_from_a_state_equals_reading_everything_again(writer):
    ids = np.random.default_rng(3).integers(1, len(writer.vocabulary), 40)
    o, state = writer.read(ids[:25])
    for token in ids[25:]:
        o, state = writer.read([token], state)
    np.testing.assert_allclose(o, logits_by_the_equations(writer, ids), rtol=0, atol=1e-9)
    np.testing.assert_allclose(o, writer.read(ids)[0], rtol=0, atol=1e-9)


def test_reading_does_not_change_the_state_that_is_passed(letters):
    _, state = letters.read([1, 2])
    before = state.state.copy()
    first = letters.read([3], state)[0]
    np.testing.assert_array_equal(letters.read([3], state)[0], first)
    np.testing.assert_array_equal(state.state, before)


@pytest.mark.skipif(KERNELS != "reference", reason="the compiled loop does not call forward")
def test_a_token_costs_one_step_however_long_the_text_is(letters, monkeypatch):
    sizes, stack = [], letters.network.stack
    forward = stack.forward
    monkeypatch.setattr(stack, "forward", lambda q, p, x, s: sizes.append(len(x)) or forward(q, p, x, s))
    letters.write("abc", length=50)
    assert sizes[0] == 3
    assert set(sizes[1:]) == {1}
    assert len(sizes) <= 1 + 64  # two blocks of tokens


def test_the_frequencies_of_first_tokens_are_the_distribution(letters):
    how = Sampling(1.5, top_p=0.95)
    y_hat = distribution(letters.read(letters.vocabulary.encode("ab"))[0], how)
    n = 2000
    drawn = [letters.write("ab", length=1, how=how, seed=5, index=i)[2:] for i in range(n)]
    counts = np.array([drawn.count(token) for token in letters.vocabulary.tokens])
    assert not counts[y_hat == 0].any()
    assert np.abs(counts - n * y_hat).max() < 4 * np.sqrt(n * 0.25)


def test_a_seed_is_a_text_and_each_index_another(writer):
    texts = [writer.write(seed=seed, index=index, length=40) for seed in (0, 1) for index in (0, 1, 2)]
    again = [writer.write(seed=seed, index=index, length=40) for seed in (0, 1) for index in (0, 1, 2)]
    assert texts == again
    assert len(set(texts)) == 6


@pytest.mark.parametrize("how", [Sampling(0.9), GREEDY, Sampling(1.3, 3), Sampling(1.3, None, 0.7)])
@pytest.mark.parametrize("stop", [None, "e"])
def test_samples_of_a_batch_are_those_written_alone(writer, how, stop):
    options = {"length": 45, "how": how, "seed": 2, "stop": stop}  # more than the compiled loop writes at a time
    for count in (1, 2, 5):
        alone = [writer.write(index=i, **options) for i in range(count)]
        assert writer.write_many(count=count, **options) == alone


@pytest.mark.parametrize("length", [0, 1, 20])
def test_without_a_new_line_each_sample_of_a_batch_begins_with_its_own_token(length):
    writer = random_writer(CharVocabulary("abc"), sure=1)
    assert writer.write_many(count=9, length=length) == [writer.write(length=length, index=i) for i in range(9)]


@pytest.mark.parametrize("stop", [None, " the", "e", "zzz"])
def test_the_stream_joined_is_the_whole(writer, stop):
    for index in range(5):
        options = {"length": 60, "index": index, "stop": stop, "how": Sampling(1.2)}
        prompt = "the cat" if writer.vocabulary.kind == "word" else "bad."
        options["unknown"] = "skip"
        assert prompt + "".join(writer.stream(prompt, **options)) == writer.write(prompt, **options)


@pytest.mark.parametrize("length", [0, 1, 7])
@pytest.mark.parametrize("prompt", ["", "ab", "b"])
def test_length_counts_what_is_written_after_the_prompt(letters, length, prompt):
    text = letters.write(prompt, length=length)
    assert text.startswith(prompt)
    assert len(text) == len(prompt) + length


@pytest.mark.parametrize("length", [0, 1, 7])
def test_without_a_new_line_to_begin_with_a_token_is_drawn_and_counts(length):
    writer = random_writer(CharVocabulary("abc"), sure=1)
    texts = {writer.write(length=length, index=i) for i in range(30)}
    assert {len(text) for text in texts} == {length}
    if length == 1:
        assert texts == {"a", "b", "c"}
    writer.parameters["head.b_y"][0] = 1000  # what follows is what follows that token
    greedy = {writer.write(length=length, index=i, how=GREEDY) for i in range(30)}
    assert greedy == {(first + "aaaaaa")[:length] for first in "abc"}


def test_the_new_line_that_is_read_first_is_not_shown(letters):
    assert letters.write(length=20, how=GREEDY) == letters.write("\n", length=20, how=GREEDY)[1:]


# -- prompts ----------------------------------------------------------------------------------------------------------


def test_unknown_characters_of_a_prompt_are_named_and_the_way_out_offered(letters):
    with pytest.raises(VocabularyError, match=r"'X', 'é'.*unknown='skip'"):
        letters.stream("aXbé")


def test_unknown_characters_may_be_skipped_and_the_prompt_is_shown_as_given(letters):
    skipped = letters.write("aXbé", length=20, unknown="skip")
    assert skipped == "aXbé" + letters.write("ab", length=20)[2:]


def test_a_prompt_of_which_nothing_is_known_is_no_prompt():
    for letters in (CharVocabulary("ab\n"), CharVocabulary("ab")):
        writer = random_writer(letters)
        assert writer.write("XYZ", length=9, unknown="skip") == "XYZ" + writer.write(length=9)


def test_a_prompt_of_unknown_words_offers_bidirectional_out():
    writer = random_writer(VOCABULARIES["word"])
    with pytest.raises(VocabularyError, match=r"' dog'.*unknown='replace'.*unknown='skip'"):
        writer.stream("the dog")
    assert writer.write("the dog", length=5, unknown="replace").startswith("the dog")


def test_nothing_to_read_is_refused(letters):
    with pytest.raises(ArgumentError, match="at least one token"):
        letters.read([])


def test_a_word_model_never_writes_unk():
    writer = random_writer(VOCABULARIES["word"])
    writer.parameters["head.b_y"][0] = 50  # it would like to, very much
    for how in (GREEDY, Sampling(1.0), Sampling(5.0, 1), Sampling(1.0, None, 0.1)):
        assert "<unk>" not in writer.write(length=50, how=how)
    wordless = random_writer(WordVocabulary(["<unk>", "a"]))  # and begins with none
    assert {wordless.write(length=1, index=i) for i in range(20)} == {"a"}


# -- bytes ------------------------------------------------------------------------------------------------------------


def writes(writer, text):
    """Make the writer write a text, over and over, whatever it reads."""
    ids = writer.vocabulary.encode(text).tolist()

    def tokens(prompt, how, rng):
        while True:
            yield from ids

    writer.tokens = tokens
    return len(ids)


def test_a_byte_model_streams_no_half_characters():
    writer = random_writer(ByteVocabulary())
    size = writes(writer, "aé日🙂")
    pieces = list(writer.stream(length=2 * size))
    assert [piece for piece in pieces if piece] == list("aé日🙂" * 2)
    assert len(pieces) == 2 * size  # one a token: it does not lag behind


def test_a_character_that_the_length_cuts_is_left_out():
    writer = random_writer(ByteVocabulary())
    writes(writer, "aé日🙂")
    assert [writer.write(length=n) for n in range(11)] == [
        "",
        "a",
        "a",
        "aé",
        "aé",
        "aé",
        "aé日",
        *["aé日"] * 3,
        "aé日🙂",
    ]


def test_invalid_bytes_become_replacement_characters():
    writer = random_writer(ByteVocabulary())
    writer.tokens = lambda prompt, how, rng: iter([0xFF, 0x61, 0xC3, 0x62])
    assert writer.write(length=4) == "\ufffda\ufffdb"


# -- stop texts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "stop", "left"), [
    ("abcabd.", "abd", "abc"),  # its beginning also occurs without its end
    ("aabaaba.", "aaba", ""),  # at the very start
    ("xaabaaab.", "aaab", "xaab"),  # overlaps itself
    ("abababac.", "ababac", "ab"),
    ("ab", "b", "a"),
    ("ab\ncd\n", "\n", "ab"),
])  # fmt: skip
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_the_text_ends_before_the_stop_text(text, stop, left, cut):
    words = [text[i : i + cut] for i in range(0, len(text), cut)]
    tokens = list(dict.fromkeys(words))
    writer = random_writer(WordVocabulary(["<unk>", *tokens]))
    writer.tokens = lambda prompt, how, rng: iter([tokens.index(word) + 1 for word in words] * 2)
    writer.prompt = lambda *_: ([1], [])
    pieces = list(writer.stream(length=99, stop=stop))
    assert "".join(pieces) == left
    for i in range(len(pieces)):
        assert left.startswith("".join(pieces[:i]))  # nothing was shown that had to be taken back


def test_a_stop_text_that_never_comes_changes_nothing():
    writer = random_writer(CharVocabulary("abc\n"))
    writes(writer, "abcab")
    assert writer.write(length=5, stop="abcc") == "abcab"
    assert writer.write(length=5, stop="abX") == "abcab"


@given(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=4))
def test_a_stop_text_is_a_split(text, stop):
    writer = random_writer(VOCABULARIES["char"])
    writer.tokens = lambda prompt, how, rng: iter(writer.vocabulary.encode(text).tolist())
    assert writer.write(length=99, stop=stop) == text.split(stop)[0]


def test_the_first_drawn_token_can_be_the_stop_text():
    writer = random_writer(CharVocabulary("a"))
    assert writer.write(length=5, stop="a") == ""
    assert writer.write(length=5, stop="aaa") == ""


def test_the_stop_text_is_not_sought_in_the_prompt(letters):
    assert letters.write("abc", length=0, stop="b") == "abc"


@pytest.mark.parametrize(("options", "name"), [
    ({"length": -1}, "length"), ({"stop": ""}, "stop"), ({"seed": -1}, "seed"),
])  # fmt: skip
def test_invalid_arguments_are_refused_before_anything_is_written(letters, options, name):
    with pytest.raises(ArgumentError, match=name):
        letters.stream("a", **options)
