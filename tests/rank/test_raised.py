"""Exceptions as records: what was being handled, what a DataLoader's worker raised, what ended a thread."""

from __future__ import annotations

import threading

import pytest

from labkit.rank.raised import ThreadErrors, describe_error, handled_now
from labkit.wire import CallSite, CodeError

WORKER = """Caught KeyError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/x/site-packages/torch/utils/data/_utils/worker.py", line 309, in _worker_loop
    data = fetcher.fetch(index)
  File "cell 3", line 12, in __getitem__
    return self.rows[i]["y"]
KeyError: 'y'
"""


def run(source: str, **names: object) -> dict[str, object]:
    exec(compile(source, "cell 3", "exec"), names)
    return names


def raised(source: str) -> CodeError:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run(source)
    return describe_error(caught.value)


def test_what_is_handled_when_a_call_in_a_handler_fails() -> None:
    error = raised("def f():\n    {}['y']\ntry:\n    f()\nexcept KeyError:\n    raise ValueError('cut')")
    assert (error.type, error.site) == ("ValueError", CallSite("cell 3", 6, "<module>"))
    assert error.handling is not None
    assert (error.handling.said(), error.handling.site) == ("KeyError: 'y'", CallSite("cell 3", 2, "f"))


@pytest.mark.parametrize("handler", ["except KeyError:\n pass\n1 / 0", "except KeyError:\n raise ValueError('n') from None"])
def test_what_was_handled_before_is_not(handler: str) -> None:
    assert raised(f"try:\n    {{}}['y']\n{handler}").handling is None


HANDLERS = {
    "except": "try:\n    {}['y']\nexcept KeyError:\n    found = now()",
    "finally": "try:\n    try:\n        {}['y']\n    finally:\n        found = now()\nexcept KeyError:\n    pass",
    "with": "class W:\n    def __enter__(self): pass\n    def __exit__(self, *a):\n        global found\n        found = now()\n"
    "        return True\nwith W():\n    {}['y']",
    "a function": "def save():\n    return now()\ntry:\n    {}['y']\nexcept KeyError:\n    found = save()",
}


@pytest.mark.parametrize("source", HANDLERS.values(), ids=HANDLERS)
def test_what_the_main_thread_is_handling(source: str) -> None:
    found = run(source, now=handled_now)["found"]
    assert isinstance(found, CodeError)
    assert found.said() == "KeyError: 'y'"
    assert found.site is not None


def test_a_librarys_own_exception_does_not_hide_the_learners() -> None:
    source = "def probe(now):\n    try:\n        {}['x']\n    except KeyError:\n        return now()"
    library: dict[str, object] = {}
    exec(compile(source, threading.__file__, "exec"), library)
    found = run("try:\n    1 / 0\nexcept ZeroDivisionError:\n    found = probe(now)", probe=library["probe"], now=handled_now)[
        "found"
    ]
    assert isinstance(found, CodeError)
    assert found.type == "ZeroDivisionError"


def test_no_exception_is_handled() -> None:
    assert run("try:\n    {}['y']\nexcept KeyError:\n    pass\nfound = now()", now=handled_now)["found"] is None


def test_a_librarys_own_exceptions_are_not_told() -> None:
    source = "def probe(now):\n    try:\n        {}['x']\n    except KeyError:\n        return now()"
    library: dict[str, object] = {}
    exec(compile(source, threading.__file__, "exec"), library)
    assert run("found = probe(now)", probe=library["probe"], now=handled_now)["found"] is None


def test_what_a_worker_raised_is_told_with_its_own_line() -> None:
    error = raised(f"raise KeyError({WORKER!r})".replace("KeyError(", "RuntimeError(", 1))
    assert error.message == "'y' (in DataLoader worker process 0)"
    assert error.site == CallSite("cell 3", 12, "__getitem__")


def test_a_long_message_is_cut_in_the_middle() -> None:
    error = raised("raise RuntimeError('Expected to have finished ' + 'words ' * 300 + 'for rank 0: lora.0.weight')")
    assert error.message.startswith("Expected to have")
    assert error.message.endswith("lora.0.weight")
    assert len(error.said()) < 300


def test_what_ended_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    errors = ThreadErrors()
    errors.install()
    thread = threading.Thread(target=run, args=("def work():\n    {}['y']\nwork()",))
    thread.start()
    thread.join()
    assert errors.newest is not None
    assert (errors.newest.said(), errors.newest.site) == ("KeyError: 'y'", CallSite("cell 3", 2, "work"))


def test_the_parameters_of_a_model_that_ddp_refuses() -> None:
    torch = pytest.importorskip("torch")
    source = "class DDP:\n    def __init__(self, module):\n        raise RuntimeError('DDP expects same model')\n"
    names: dict[str, object] = {}
    exec(compile(source, "/x/site-packages/torch/nn/parallel/distributed.py", "exec"), names)
    model = torch.nn.Linear(2, 3)
    model.bias.requires_grad_(False)
    with pytest.raises(RuntimeError) as caught:
        run("DDP(model)", DDP=names["DDP"], model=model)
    assert describe_error(caught.value).parameters == ("weight (3, 2)",)
    model.bias.requires_grad_(True)
    source = source.replace("expects same model", "parameter indices which did not receive grad for rank 1: 1")
    exec(compile(source, "/x/site-packages/torch/nn/parallel/distributed.py", "exec"), names)
    with pytest.raises(RuntimeError) as caught:
        run("DDP(model)", DDP=names["DDP"], model=model)
    assert describe_error(caught.value).message.endswith("for rank 1: 1 (1: bias)")
    started = "Expected to have finished reduction in the prior iteration"
    source = source.replace("DDP parameter", f"{started} before starting a new one. This tells much.\\nParameter")
    exec(compile(source, "/x/site-packages/torch/nn/parallel/distributed.py", "exec"), names)
    with pytest.raises(RuntimeError) as caught:
        run("DDP(model)", DDP=names["DDP"], model=model)
    assert describe_error(caught.value).message == f"{started}: no gradient came to bias"
    assert raised("raise RuntimeError('DDP expects same model')").parameters == ()
