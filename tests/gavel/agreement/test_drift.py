"""Hand-worked values: the arithmetic stands beside each expectation."""

from math import erfc, log, sqrt

import pytest

from gavel.agreement.drift import (
    Shift,
    label_shift,
    pool_sparse,
    population_stability_index,
    two_sample,
)


class TestPopulationStabilityIndex:
    def test_hand_worked(self) -> None:
        # shares .5/.5 against .75/.25: (.25)ln(1.5) + (-.25)ln(.5) = .25 * ln 3
        psi = population_stability_index({"a": 50, "b": 50}, {"a": 75, "b": 25})
        assert psi.value == pytest.approx(0.25 * log(3))
        assert psi.reason is None

    def test_equal_shares_are_zero_whatever_the_sizes(self) -> None:
        assert population_stability_index({1: 2, 2: 6}, {2: 300, 1: 100}).value == pytest.approx(0)

    def test_is_symmetric(self) -> None:
        a, b = {1: 10, 2: 30}, {1: 7, 2: 3}
        assert population_stability_index(a, b).value == pytest.approx(
            population_stability_index(b, a).value
        )

    def test_a_bin_empty_in_one_sample_counts_half_a_record(self) -> None:
        # reference 9.5 and .5 of 10 become shares .95, .05; current .5, .5
        psi = population_stability_index({"a": 9}, {"a": 5, "b": 5})
        r = (9 / 9.5, 0.5 / 9.5)
        expected = (0.5 - r[0]) * log(0.5 / r[0]) + (0.5 - r[1]) * log(0.5 / r[1])
        assert psi.value == pytest.approx(expected)

    def test_bins_empty_in_both_change_nothing(self) -> None:
        psi = population_stability_index({"a": 50, "b": 50, "c": 0}, {"a": 75, "b": 25, "d": 0})
        assert psi.value == pytest.approx(0.25 * log(3))

    def test_one_shared_bin_has_not_moved(self) -> None:
        assert population_stability_index({5: 8}, {5: 1}).value == 0

    def test_empty_is_undefined(self) -> None:
        psi = population_stability_index({"a": 0}, {"a": 3})
        assert (psi.value, psi.reason) == (None, "the reference sample is empty")
        assert (
            population_stability_index({}, {}).reason
            == "the reference and the current sample is empty"
        )


class TestTwoSample:
    def test_complete_separation(self) -> None:
        # All 9 pairs favour current. Exact: 2 of the C(6,3) = 20 orderings are this extreme.
        shift = two_sample([1, 2, 3], [4, 5, 6])
        assert (shift.statistic, shift.effect) == (9, 1)
        assert shift.p_value == pytest.approx(2 / 20)

    def test_ties_count_half(self) -> None:
        # pairs (current over reference): 2>1, 2=2, 3>1, 3>2: U = 3.5 of 4, delta = 2*3.5/4 - 1
        shift = two_sample([1, 2], [2, 3])
        assert (shift.statistic, shift.effect) == (3.5, 0.75)

    def test_normal_approximation_with_ties(self) -> None:
        # Ten 1s, ten 2s against five 1s, fifteen 2s. U = 15*10 + .5*(10*5 + 10*15) = 250 of 400.
        # Tie groups 15 and 25 of N = 40:
        # variance = 400/12 * (41 - (15^3-15 + 25^3-25)/(40*39)); z = (250 - 200 - .5)/sd
        shift = two_sample([1] * 10 + [2] * 10, [1] * 5 + [2] * 15)
        variance = 400 / 12 * (41 - (3360 + 15600) / 1560)
        z = 49.5 / sqrt(variance)
        assert shift.statistic == 250
        assert shift.effect == 0.25
        assert shift.p_value == pytest.approx(erfc(z / sqrt(2)))

    def test_lower_is_negative(self) -> None:
        assert two_sample([4, 5, 6], [1, 2, 3]).effect == -1

    def test_one_value_a_side_has_an_effect_but_no_test(self) -> None:
        shift = two_sample([1], [2, 3])
        assert (shift.effect, shift.p_value) == (1, None)
        assert shift.reason == "one value is no sample to test (n = 1 and 2)"

    def test_constant_has_no_test(self) -> None:
        shift = two_sample([3, 3, 3], [3, 3])
        assert (shift.effect, shift.p_value) == (0, None)
        assert shift.reason == "every value is the same in both samples"

    def test_empty_is_undefined(self) -> None:
        assert two_sample([], [1]) == Shift(None, None, None, "the reference sample is empty")
        assert two_sample([1], []) == Shift(None, None, None, "the current sample is empty")

    def test_nan_is_refused(self) -> None:
        with pytest.raises(ValueError, match="nan"):
            two_sample([1, float("nan")], [1, 2])


class TestLabelShift:
    def test_hand_worked(self) -> None:
        # 2x2 with rows (30, 20) and (20, 30): every cell expects 25, chi2 = 4 * 25/25 = 4, 1 degree
        # of freedom, V = sqrt(4/100). p of 4 = erfc(sqrt(4/2)) = .0455.
        shift = label_shift({"a": 30, "b": 20}, {"a": 20, "b": 30})
        assert shift.statistic == pytest.approx(4)
        assert shift.p_value == pytest.approx(0.04550026)
        assert shift.effect == pytest.approx(0.2)

    def test_same_mix(self) -> None:
        shift = label_shift({"a": 30, "b": 60}, {"a": 10, "b": 20})
        assert shift.statistic == pytest.approx(0)
        assert shift.p_value == pytest.approx(1)
        assert shift.effect == pytest.approx(0)

    def test_one_class(self) -> None:
        shift = label_shift({"a": 30}, {"a": 20})
        assert shift == Shift(None, None, None, "both samples hold one class, the same")

    def test_disjoint_classes(self) -> None:
        assert label_shift({"a": 20}, {"b": 20}).effect == pytest.approx(1)

    def test_too_few(self) -> None:
        reason = label_shift({"a": 1}, {"b": 1}).reason
        assert reason == "no two classes with 5 records expected in each sample"

    def test_empty(self) -> None:
        assert label_shift({"a": 1}, {}).reason == "the current sample is empty"


class TestPoolSparse:
    def test_sparse_classes_become_the_last(self) -> None:
        # equal sizes: a class needs 10 in all to expect 5 on each side
        reference = {"a": 40, "b": 40, "c": 8, "d": 6, "e": 6}
        current = {"a": 50, "b": 40, "c": 1, "d": 3, "e": 6}
        assert pool_sparse(reference, current) == [(40, 50), (40, 40), (6, 6), (14, 4)]

    def test_a_sparse_pool_takes_in_the_smallest_other(self) -> None:
        assert pool_sparse({"a": 40, "b": 10, "c": 1}, {"a": 40, "b": 10, "c": 1}) == [
            (40, 40),
            (11, 11),
        ]

    def test_keeps_every_record(self) -> None:
        reference = {i: i for i in range(30)}
        current = {i: 30 - i for i in range(30)}
        pooled = pool_sparse(reference, current)
        assert sum(r for r, _ in pooled) == 435
        assert sum(c for _, c in pooled) == 465

    def test_nothing(self) -> None:
        assert pool_sparse({}, {}) == []
