"""Variables on their way between kernel and ranks: what goes in comes out, and what can't travel says so."""

from __future__ import annotations

import io
import json

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from labkit.errors import UnknownName, UsageError
from labkit.instruments.variables import pack, unpack
from labkit.testing import Script, ok, raises

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def there_and_back(value: object) -> object:
    plain, forms, buffers = pack({"x": value})
    if plain:
        return json.loads(plain["x"])
    return unpack({"kind": "array", **forms["x"]}, buffers)


@given(st.data(), st.sampled_from(DTYPES))
def test_arrays_of_every_kind(data: st.DataObject, dtype: str) -> None:
    array = data.draw(arrays(dtype, array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
    back = there_and_back(array)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes(), "NaN and signed zeros too"
    back[...] = 0  # it can be written to


@given(PLAIN)
def test_plain_values(value: object) -> None:
    assert there_and_back(value) == value


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(24).reshape(4, 6)[::2, ::-3],
        numpy.arange(12.0).reshape(3, 4).T,
        numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
        numpy.broadcast_to(numpy.float32(3), (2, 2)),
        numpy.arange(4, dtype=">i4"),
        numpy.arange(4, dtype=">f8").reshape(2, 2),
    ],
    ids=["strided", "transposed", "fortran", "broadcast", "big-endian", "big-endian 2"],
)
def test_however_it_lies_in_memory(array: numpy.ndarray) -> None:
    back = there_and_back(array)
    assert numpy.array_equal(back, array)
    assert back.dtype.isnative, "torch takes no other byte order"


@pytest.mark.parametrize("value", [numpy.float32(1.5), numpy.int64(7), numpy.bool_(True)])
def test_a_numpy_number_is_a_tensor_without_dimensions(value: numpy.generic) -> None:
    back = there_and_back(value)
    assert (back.shape, back.dtype, back.item()) == ((), value.dtype, value.item())


def test_a_tensor_travels_as_its_array() -> None:
    class Tensor:
        def detach(self) -> Tensor:
            return self

        cpu = detach

        def numpy(self) -> numpy.ndarray:
            return numpy.ones((2,), dtype="float32")

    assert there_and_back(Tensor()).tolist() == [1.0, 1.0]


def test_a_tensor_that_numpy_does_not_have() -> None:
    class Tensor:
        def detach(self) -> Tensor:
            return self

        cpu = detach

        def numpy(self) -> None:
            raise TypeError("Got unsupported ScalarType BFloat16")

    with pytest.raises(UsageError, match=r"w can.t be sent to a rank: .*BFloat16.*float32"):
        pack({"w": Tensor()})


def test_a_file_is_not_taken_apart() -> None:
    file = io.TextIOWrapper(io.BytesIO(b"text"))
    with pytest.raises(UsageError, match="f is a TextIOWrapper"):
        pack({"f": file})
    assert file.read() == "text"


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"bytes", lambda: None, numpy.array(["a"]), numpy.array([object()]), [object()]]
)
def test_what_does_not_travel(value: object) -> None:
    with pytest.raises(UsageError, match=r"x is a .*, which can.t be sent to a rank; push numbers"):
        pack({"x": value})


def test_what_has_no_end() -> None:
    circle: list[object] = []
    circle.append(circle)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep):
        with pytest.raises(UsageError, match="be sent to a rank"):
            pack({"x": value})


@pytest.mark.parametrize("name", ["a b", "", "1x", "a.b", "x-y"])
def test_a_name_must_be_one(name: str) -> None:
    with pytest.raises(UsageError, match="is not a variable name"):
        pack({name: 1})


def test_what_is_only_shown() -> None:
    assert unpack({"kind": "shown", "type": "Model", "text": "Model()", "cut": 0}, []) == "Model()"
    assert unpack({"kind": "shown", "type": "Model", "text": "Mod", "cut": 4}, []) == "Mod ..."


def test_all_of_a_push_or_nothing() -> None:
    script = Script(ranks=2)
    with script.world() as world:
        with pytest.raises(UsageError):
            world.push(a=1, b=object())
        assert script.asked == [], "no rank was asked"
        world.push(a=[1], b=numpy.eye(2), ranks=1)
    ((rank, op, payload),) = script.asked
    assert (rank, op, payload["values"]) == (1, "push", {"a": "[1]"})
    assert payload["arrays"] == {"b": {"dtype": "<f8", "shape": [2, 2]}}


def test_a_variable_that_some_ranks_lack_names_them_and_offers_the_others_values() -> None:
    script = Script(ranks=3)
    values = {rank: ok({"kind": "json", "text": str(rank)}) for rank in range(3)}
    with script.world() as world:
        script.on("pull", {**values, 1: raises("UnknownName: no variable 'loss'; there are: x")})
        with pytest.raises(UnknownName) as caught:
            world.pull("loss")
        told = "rank 1 has no variable 'loss'; ranks 0 and 2 have one"
        assert str(caught.value) == f"{told}; world.pull('loss', ranks=[0, 2]) gives their values"
        script.on("pull", values)
        assert (caught.value.ranks, world.pull("loss", ranks=[0, 2])) == ((1,), {0: 0, 2: 2})
        script.on("pull", raises("UnknownName: no variable 'los'; there are: loss"))
        with pytest.raises(UnknownName, match="no variable 'los'"):
            world.pull("los")
