"""Any combination of parameters gives the same model on every device; a failing one is shrunk to what it takes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hornbeam as hb
from hornbeam.testing.checks import first_difference, usable_devices
from hornbeam.testing.sweep import DATA, TABLE, make_dataset, settle

SEEN: set[str] = set()


def draws(table):
    """One value of every row of a table; a failing draw is shrunk towards the first ones."""
    return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in table.items()})


@given(draws(TABLE), draws(DATA))
def check_one(drawn, data):
    params = {**settle(drawn), "verbosity": -1}
    SEEN.add(repr((sorted(params.items()), sorted(data.items()))))
    models = {}
    for device in usable_devices():
        dataset = make_dataset(params, **data)
        models[device] = hb.train({**params, "device": device, "num_threads": 2}, dataset, 2)
    expected = models["reference"]
    for device, model in models.items():
        assert model.fingerprint() == expected.fingerprint(), f"{device}: {first_difference(model, expected)}"


@pytest.mark.parametrize("n_combinations", [30, pytest.param(260, marks=pytest.mark.large)])
def test_any_combination_of_parameters_gives_the_same_model_on_every_device(n_combinations):
    SEEN.clear()
    settings(max_examples=n_combinations, suppress_health_check=[HealthCheck.too_slow])(check_one)()
    assert len(SEEN) >= 3 * n_combinations // 4


def test_every_value_of_the_table_is_accepted_alone():
    for name, values in TABLE.items():
        for value in values:
            params = {"num_leaves": 4, **settle({name: value}), "verbosity": -1}
            hb.train(params, make_dataset(params, n_rows=60), 1)
