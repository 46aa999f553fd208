import pytest

from fuser.passes.factors import Factors, common_factors


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((8, 6), (2, 4, 6), Factors((2, 4, 6), ((0, 1), (2,)), ((0,), (1,), (2,)))),
        ((2, 4, 6), (8, 6), Factors((2, 4, 6), ((0,), (1,), (2,)), ((0, 1), (2,)))),
        ((6, 4), (2, 3, 2, 2), Factors((2, 3, 2, 2), ((0, 1), (2, 3)), ((0,), (1,), (2,), (3,)))),
        ((4, 6), (2, 12), Factors((2, 2, 6), ((0, 1), (2,)), ((0,), (1, 2)))),
        ((1, 5, 1), (5,), Factors((5,), ((), (0,), ()), ((0,),))),
        ((1, 1), (), Factors((), ((), ()), ())),
        ((), (1,), Factors((), (), ((),))),
        ((6, 4), (8, 3), None),
        ((0, 4), (4, 0), None),
    ],
)
def test_factors_are_the_fewest_that_make_both_shapes(
    left: tuple[int, ...], right: tuple[int, ...], expected: Factors | None
):
    assert common_factors(left, right) == expected
