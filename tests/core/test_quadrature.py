"""Points and weights of the quadrature."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest

from hornbeam.core.quadrature import SMALLEST_ERROR, error_bound, gauss_legendre, points_needed


@pytest.mark.parametrize("n_points", [2, 4, 7, 16, 40])
def test_points_and_weights_are_those_of_numpy(n_points):
    points, weights = gauss_legendre(n_points)
    expected, expected_weights = np.polynomial.legendre.leggauss(n_points)
    np.testing.assert_allclose(points, (1.0 + expected) / 2.0, rtol=0, atol=1e-15)
    np.testing.assert_allclose(weights, expected_weights / 2.0, rtol=0, atol=1e-14)
    assert (np.diff(points) > 0.0).all()


@pytest.mark.parametrize("n_points", [2, 6, 10, 40])
def test_powers_up_to_the_degree_are_integrated_to_rounding(n_points):
    points, weights = gauss_legendre(n_points)
    for degree in range(2 * n_points):
        exact = sum(Fraction(w) * Fraction(t) ** degree for t, w in zip(points.tolist(), weights.tolist(), strict=True))
        assert abs(exact * (degree + 1) - 1) < 4e-15


def test_few_points_are_enough_for_products_of_chances():
    rng = np.random.default_rng(0)
    for n_features in (3, 17, 60, 200):
        points, weights = gauss_legendre(points_needed(n_features))
        many, many_weights = gauss_legendre(n_features // 2 + 2)
        shares, known = rng.random(n_features - 1), rng.integers(0, 2, n_features - 1)

        def integral(t, w, shares=shares, known=known):
            return float(sum(w * prod((1.0 - t) * z + t * o for z, o in zip(shares, known, strict=True))))

        assert abs(integral(points, weights) - integral(many, many_weights)) < 1e-15


def test_the_number_of_points_is_even_and_within_the_bound():
    for n_features in range(1, 400, 7):
        n_points = points_needed(n_features)
        assert n_points % 2 == 0
        assert error_bound(n_features, n_points) < SMALLEST_ERROR
