"""What `make test` runs of a product of parameters (the mark `sampled`, tests/conftest.py)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace

import pytest

DEVICES = ("cpu", "reference", "opencl:0")
PRODUCTS = [
    {"device": DEVICES},
    {"device": DEVICES, "case": tuple(f"case {i}" for i in range(30))},
    {"device": DEVICES, "n_bins": (2, 15, 255), "missing": (0.0, 0.3), "precision": ("auto", "high")},
]


class Item:
    """A case of a test, as pytest collects it."""

    def __init__(self, **params):
        self.callspec = SimpleNamespace(params=params)


def cases_of(values):
    return [Item(**dict(zip(values, chosen, strict=True))) for chosen in product(*values.values())]


@pytest.fixture
def covering(request):
    """The function that chooses."""
    conftest = request.config.pluginmanager.get_plugin(str(Path(__file__).parents[1] / "conftest.py"))
    return conftest._covering


@pytest.mark.parametrize("values", PRODUCTS, ids=len)
@pytest.mark.parametrize("size", [1, 2])
def test_every_value_or_pair_of_values_is_run(covering, values, size):
    cases = cases_of(values)
    chosen = covering(cases, size)
    for some in combinations(values, min(size, len(values))):
        wanted = set(product(*(values[name] for name in some)))
        assert {tuple(case.callspec.params[name] for name in some) for case in chosen} == wanted
    assert len(chosen) < len(cases) or len(values) <= size


def test_values_are_taken_about_equally_often(covering):
    chosen = covering(cases_of(PRODUCTS[1]), 1)
    assert len(chosen) == 30
    assert Counter(case.callspec.params["device"] for case in chosen) == dict.fromkeys(DEVICES, 10)


def test_a_case_that_is_asked_for_alone_is_run(covering):
    case = cases_of(PRODUCTS[2])[5]
    assert covering([case], 1) == {case}
