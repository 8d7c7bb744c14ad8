"""The progress bar in notebooks: one output that is replaced, through IPython alone."""

from __future__ import annotations

import pickle
import sys
import types

import pytest

import hornbeam as hb
from hornbeam.testing.data import make_higgs_like
from hornbeam.training import progress as module

X, Y = make_higgs_like(200, 6)


class Screen:
    """Stands in for IPython in a notebook: remembers what is displayed, by output."""

    def __init__(self, monkeypatch, kernel="a kernel"):
        self.drawn: list[list[dict[str, str]]] = []
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: types.SimpleNamespace(kernel=kernel)
        ipython.display = types.ModuleType("IPython.display")
        ipython.display.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            monkeypatch.delenv(name, raising=False)

    def display(self, bundle, *, raw, display_id):
        assert raw and display_id
        drawn = [bundle]
        self.drawn.append(drawn)
        return types.SimpleNamespace(update=lambda bundle, raw: drawn.append(bundle))


def train(rounds=5, **arguments):
    data = hb.Dataset(X, label=Y)
    sets = {"<mine>": hb.Dataset(X, label=Y, reference=data)}
    return hb.train({"num_leaves": 4, "verbosity": -1}, data, rounds, sets, **arguments)


def test_a_notebook_has_one_output_that_is_replaced(monkeypatch):
    screen = Screen(monkeypatch)
    monkeypatch.setattr(module, "REDRAW_S", 0.0)
    model = train(callbacks=[hb.progress()])
    assert model.fingerprint() == train().fingerprint()
    assert len(screen.drawn) == 1
    assert len(screen.drawn[0]) == 5
    for done, bundle in enumerate(screen.drawn[0], 1):
        assert f'value="{done}" max="5"' in bundle["text/html"]
    last = model.eval_history["<mine>"]["l2"][-1]
    assert f"&lt;mine&gt; l2 {last:.5g}" in screen.drawn[0][-1]["text/html"]
    assert screen.drawn[0][-1]["text/plain"].startswith("boosting 5/5")


def test_fast_iterations_are_not_all_drawn_but_the_last_is(monkeypatch):
    screen = Screen(monkeypatch)
    monkeypatch.setattr(module, "REDRAW_S", 1e9)
    train(callbacks=[hb.progress()])
    assert [bundle["text/plain"].split()[1] for bundle in screen.drawn[0]] == ["1/5", "5/5"]


def test_every_training_has_an_output_of_its_own_also_after_an_error(monkeypatch):
    screen = Screen(monkeypatch)
    bar = hb.progress()

    def fail(env):
        raise RuntimeError("stop here")

    fail.order = 50
    with pytest.raises(RuntimeError, match="stop here"):
        train(callbacks=[bar, fail])
    train(callbacks=[bar])
    assert [drawn[-1]["text/plain"].split()[1] for drawn in screen.drawn] == ["1/5", "5/5"]


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch):
    screen = Screen(monkeypatch, kernel=None)
    train(callbacks=[hb.progress()])
    assert screen.drawn == []


def test_a_bar_can_be_pickled():
    assert isinstance(pickle.loads(pickle.dumps(hb.progress())), type(hb.progress()))


def test_a_real_kernel_shows_the_bar():
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    nbformat = pytest.importorskip("nbformat")
    code = (
        "import numpy as np, hornbeam as hb\nX = np.arange(300.0).reshape(100, 3)\n"
        "hb.train({'num_leaves': 4, 'verbosity': -1}, hb.Dataset(X, label=X[:, 0]), 3, callbacks=[hb.progress()]);"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    (output,) = [output for output in book.cells[0].outputs if output.output_type == "display_data"]
    assert 'value="3" max="3"' in output.data["text/html"]
    assert output.data["text/plain"].startswith("boosting 3/3")
