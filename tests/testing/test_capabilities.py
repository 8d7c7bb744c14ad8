"""The table of capabilities: every parameter that can change a model has a golden case, and the page says so."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hornbeam.core.errors import HornbeamError
from hornbeam.params.params import BY_NAME, Params
from hornbeam.testing.capabilities import REFUSALS, covered, covered_data, to_markdown
from hornbeam.testing.golden import CASES, expected_fingerprints

ROOT = Path(__file__).parents[2]
COVERED = covered()


def test_page_is_up_to_date():
    assert (ROOT / "docs/capabilities.md").read_text(encoding="utf-8") == to_markdown(), "run `make docs`"


def test_every_parameter_that_can_change_a_model_has_a_golden_case():
    assert [name for name, cases in COVERED.items() if not cases] == []
    assert [kind for kind, cases in covered_data().items() if not cases] == []


def test_every_case_has_a_fingerprint():
    assert set(CASES) == set(expected_fingerprints())


@cache
def model_of_golden(name):
    return model_of(CASES[name])


def model_of(case):
    """Return the trees of a case, and what it predicts of a row."""
    booster = case.train(device="cpu", num_threads=1)
    trees = [(tree.feature.tolist(), tree.gain.tolist(), tree.leaf_value.tolist()) for tree in booster.trees]
    return trees, booster.predict(np.zeros((1, case.n_features))).tolist()


@pytest.mark.parametrize("name", [name for name, cases in COVERED.items() if cases])
def test_a_parameter_makes_a_difference_in_one_of_its_cases(name):
    """Otherwise "identical" would be said of something that nothing looked at."""
    for golden in sorted(COVERED[name], key=lambda name: CASES[name].n_rows * CASES[name].n_rounds):
        case = CASES[golden]
        if name == "objective" and case.callables:
            continue
        given = {key: value for key, value in case.params.items() if BY_NAME[key].name != name}
        if Params.from_dict({**case.params, **case.callables}).model_dict().get(name) is None:
            continue
        without = replace(case, params=given)
        try:
            changed = model_of(without) != model_of_golden(golden)
        except HornbeamError:  # the case cannot be without it
            changed = True
        if changed:
            return
    raise AssertionError(f"{name} changes nothing in {COVERED[name]}")


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.what)
def test_refused_combinations_are_refused_on_every_device(refusal, device):
    error, expected = refusal.error(device), refusal.error("reference")
    assert error is not None and type(error) is type(expected) and str(error) == str(expected)


def test_golden_labels_are_finite():
    for case in CASES.values():
        assert np.isfinite(case.dataset().label).all()
