"""What a picture of tensors is made from: a few elements before a collective and after it, and true figures of the whole."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import UsageError
from labkit.rank.samples import LIMIT, BeforeSamples, plain_tensor, sample, stride_of


@given(count=st.integers(0, 10**9), limit=st.integers(1, 4096))
def test_the_stride_shows_at_most_the_limit_and_no_fewer_than_half_of_it(count: int, limit: int) -> None:
    shown = len(range(0, count, stride_of(count, limit)))
    assert shown <= limit
    assert shown >= min(count, (limit + 1) // 2)


def test_before_and_after_are_the_same_places() -> None:
    before, tensor = BeforeSamples(), torch.arange(200.0)
    before.take("all_reduce", (tensor,), {})
    tensor += 1000
    seen = sample(3, "x", tensor, before)
    assert (seen.rank, seen.name, seen.op, seen.shape, seen.dtype) == (3, "x", "all_reduce", (200,), "float32")
    assert seen.indices == tuple(range(0, 200, 4))
    assert seen.before == tuple(float(at) for at in seen.indices)
    assert seen.values == tuple(1000.0 + at for at in seen.indices)
    assert (seen.minimum, seen.maximum, seen.mean, seen.num_nan) == (1000.0, 1199.0, 1099.5, 0)
    assert seen.num_bytes == 800


@pytest.mark.parametrize(
    "tensor", [torch.zeros(6, 6).t()[:3], torch.eye(3).to_sparse(), "no tensor"], ids=["view", "sparse", "text"]
)
def test_what_has_no_plain_memory_is_not_remembered(tensor: object) -> None:
    before = BeforeSamples()
    before.take("all_reduce", (tensor,), {})
    before.take("barrier", (), {})
    if isinstance(tensor, torch.Tensor):
        assert sample(0, "x", tensor, before).before is None


def test_the_tensor_may_come_by_name() -> None:
    before, tensor = BeforeSamples(), torch.ones(3)
    before.take("broadcast", (), {"tensor": tensor, "src": 0})
    assert sample(0, "x", tensor, before).op == "broadcast"


def test_the_copy_is_not_the_tensor() -> None:
    before, tensor = BeforeSamples(), torch.ones(3)
    before.take("all_reduce", (tensor,), {})
    tensor.zero_()
    assert sample(0, "x", tensor, before).before == (1.0, 1.0, 1.0)


def test_an_old_sample_is_dropped_when_a_cell_makes_too_many_calls() -> None:
    """No picture is better than one of an earlier call; the next cell's first calls are looked at again."""
    before, tensor = BeforeSamples(), torch.ones(3)
    for _ in range(64):
        before.take("all_reduce", (tensor,), {})
    assert before.of(tensor) is not None
    before.take("all_reduce", (tensor,), {})
    assert before.of(tensor) is None
    before.begin_cell()
    before.take("all_reduce", (tensor,), {})
    assert before.of(tensor) is not None


def test_only_so_many_tensors_are_remembered() -> None:
    before, tensors = BeforeSamples(), [torch.full((2,), float(at)) for at in range(70)]
    for tensor in tensors:
        before.begin_cell()
        before.take("all_reduce", (tensor,), {})
    assert before.of(tensors[0]) is None
    assert before.of(tensors[-1]) is not None


def test_a_finer_sample_has_no_before() -> None:
    """What was kept has the usual places, so it can't be laid beside others."""
    before, tensor = BeforeSamples(), torch.ones(200)
    before.take("all_reduce", (tensor,), {})
    assert sample(0, "x", tensor, before, limit=2 * LIMIT).before is None


def test_nan_is_counted_and_left_out_of_the_figures() -> None:
    seen = sample(0, "x", torch.tensor([1.0, float("nan"), 3.0]), BeforeSamples())
    assert (seen.minimum, seen.maximum, seen.mean, seen.num_nan) == (1.0, 3.0, 2.0, 1)
    assert math.isnan(seen.values[1])
    nothing = sample(0, "x", torch.tensor([float("nan")]), BeforeSamples())
    assert (nothing.minimum, nothing.maximum, nothing.mean, nothing.num_nan) == (None, None, None, 1)
    empty = sample(0, "x", torch.empty(0, 4), BeforeSamples())
    assert (empty.values, empty.minimum, empty.digest) == ((), None, "")


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.bool, torch.uint16, torch.int8, torch.float8_e4m3fn, torch.complex64]
)
def test_every_kind_of_number_has_figures(dtype: torch.dtype) -> None:
    seen = sample(0, "x", torch.tensor([0, 1, 1]).to(dtype), BeforeSamples())
    assert (seen.minimum, seen.maximum, seen.dtype) == (0.0, 1.0, str(dtype)[6:])
    assert seen.mean == pytest.approx(2 / 3)
    assert seen.values == (0, 1, 1)


def test_sparse_conjugate_and_quantized_tensors_are_shown_as_numbers() -> None:
    assert plain_tensor(torch.eye(2).to_sparse()).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert plain_tensor(torch.tensor([1 + 2j]).conj()).tolist() == [1 - 2j]


def test_a_tensor_without_numbers_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="meta device"):
        sample(0, "x", torch.empty(3, device="meta"), BeforeSamples())


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20), st.integers(0, 19))
def test_the_digest_tells_one_changed_element(values: list[float], at: int) -> None:
    tensor = torch.tensor(values)
    same, other = tensor.clone(), tensor.clone()
    other[at % len(values)] = 12345.0 if values[at % len(values)] != 12345.0 else 1.0
    digests = [sample(0, "x", one, BeforeSamples()).digest for one in (tensor, same, other)]
    assert digests[0] == digests[1] != digests[2]


def test_a_large_tensor_has_a_quick_digest_that_tells_a_change_too() -> None:
    large = torch.zeros(16 * 2**20 // 4 + 1)
    first = sample(0, "x", large, BeforeSamples()).digest
    large[-1] = 1.0
    assert first != sample(0, "x", large, BeforeSamples()).digest
    assert "-" in first
