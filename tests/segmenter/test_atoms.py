"""Which dimensions are one axis. Pictures: (a b) c are the atoms of two dimensions."""

import torch

from fuser import DataType, FusionDefinition
from fuser.frontend.handles import Handle
from fuser.ir.nodes import Value
from fuser.segmenter.atoms import Atoms


class Picture:
    """A definition over tensors of given sizes, and the atoms of its values."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.fd = FusionDefinition()
        self.fd.__enter__()
        self.ops = self.fd.ops
        self.handles = [
            self.fd.from_pytorch(torch.empty(shape), static_sizes=True) for shape in shapes
        ]

    def index(self, *shape: int) -> Handle:
        return self.fd.from_pytorch(torch.zeros(shape, dtype=torch.int64), static_sizes=True)

    def atoms(self) -> Atoms:
        return Atoms(self.fd.fusion)

    def draw(self, *handles: Handle) -> list[str]:
        """The dimensions of values, atoms named a, b, ... as they appear."""
        atoms = self.atoms()
        names: dict[int, str] = {}
        return [_drawn(atoms, handle.value, names) for handle in handles]

    def misplaced(self, reader: Handle, operand: Handle) -> list[int]:
        """The sizes of the atoms at which `reader` reads `operand` out of place."""
        atoms = self.atoms()
        return atoms.sizes(atoms.misplaced(reader.value, operand.value))


def _drawn(atoms: Atoms, value: Value, names: dict[int, str]) -> str:
    words: list[str] = []
    for dim in range(len(value.shape)):
        found = sorted(atoms.along(value, [dim]))
        letters = [names.setdefault(atom, chr(ord("a") + len(names))) for atom in found]
        words.append(letters[0] if len(letters) == 1 else f"({' '.join(letters)})")
    return " ".join(words)


def test_a_view_splits_the_dimension_it_divides():
    p = Picture((8, 6))
    (x,) = p.handles
    assert p.draw(p.ops.reshape(x, [2, 4, 6]), x) == ["a b c", "(a b) c"]


def test_views_of_one_tensor_share_factors():
    p = Picture((8, 6))
    (x,) = p.handles
    first, second = p.ops.reshape(x, [2, 24]), p.ops.reshape(x, [16, 3])
    atoms = p.atoms()
    assert atoms.of(first.value) == atoms.of(second.value) == atoms.of(x.value)


def test_a_view_whose_factors_do_not_nest_has_its_own():
    # [6, 4] -> [8, 3]: no atom in common; a dimension beside them keeps its own
    p = Picture((5, 6, 4))
    (x,) = p.handles
    y = p.ops.reshape(x, [5, 8, 3])
    assert p.draw(x, y) == ["a b c", "a d e"]
    assert p.misplaced(y, x) == [6, 4]


def test_operands_of_arithmetic_have_the_same_atoms():
    p = Picture((8, 6), (8, 6), (1, 6), (6,))
    a, b, row, vector = p.handles
    total = p.ops.add(p.ops.add(p.ops.add(a, b), row), vector)
    assert p.draw(a, b, vector, total) == ["a b", "a b", "b", "a b"]


def test_arithmetic_on_two_views_refines_both():
    p = Picture((8, 6), (2, 4, 6))
    a, b = p.handles
    p.ops.add(p.ops.reshape(a, [2, 4, 6]), b)
    assert p.draw(b, a) == ["a b c", "(a b) c"]


def test_a_permute_reorders_and_a_reduction_drops():
    p = Picture((8, 6, 5))
    (x,) = p.handles
    y = p.ops.permute(x, [2, 0, 1])
    assert p.draw(x, y, p.ops.sum(x, [1]), p.ops.sum(y, [0])) == ["a b c", "c a b", "a c", "a b"]


def test_a_tensor_plus_its_transpose_keeps_two_atoms():
    p = Picture((6, 6))
    (x,) = p.handles
    turned = p.ops.permute(x, [1, 0])
    y = p.ops.add(x, turned)
    assert p.draw(x, y) == ["a b", "a b"]
    assert p.misplaced(y, x) == []
    assert p.misplaced(y, turned) == [6, 6]


def test_an_outer_product_of_a_vector_with_itself_has_two_atoms():
    p = Picture((6,))
    (x,) = p.handles
    column = p.ops.broadcast(x, [False, True])
    y = p.ops.mul(column, x)
    assert p.draw(x, y) == ["a", "a b"]
    assert p.misplaced(y, x) == [6]


def test_a_slice_and_a_flip_read_out_of_place():
    p = Picture((8, 6))
    (x,) = p.handles
    part, turned = p.ops.slice(x, [0, 0], [4, 6]), p.ops.flip(x, [0])
    assert p.draw(x, part, turned) == ["a b", "c b", "d b"]
    assert p.misplaced(part, x) == [8]
    assert p.misplaced(turned, x) == [8]


def test_every_second_of_merged_dimensions_lies_elsewhere_in_the_fastest():
    p = Picture((8, 6))
    (x,) = p.handles
    merged = p.ops.reshape(x, [48])
    part = p.ops.slice(merged, [1], [48], strides=[2])
    assert p.draw(x, part) == ["a b", "(a c)"]
    assert p.misplaced(part, merged) == [6]
    fourth = p.ops.slice(merged, [0], [48], strides=[4])
    assert p.draw(x, fourth) == ["a b", "c"]
    assert p.misplaced(fourth, merged) == [8, 6]
    all_of_one = p.ops.slice(merged, [5], [48], strides=[6])
    assert p.draw(x, all_of_one) == ["a b", "a"]
    begun_later = p.ops.slice(merged, [2], [48], strides=[2])
    assert p.draw(x, begun_later) == ["a b", "c"]


def test_a_flip_is_out_of_place_though_arithmetic_makes_it_the_same_axis():
    p = Picture((8,))
    (x,) = p.handles
    turned = p.ops.flip(x, [0])
    p.ops.add(x, turned)
    assert p.draw(x, turned) == ["a", "a"]
    assert p.misplaced(turned, x) == [8]


def test_a_gather_reads_its_data_out_of_place_along_one_dimension():
    p = Picture((8, 6))
    (x,) = p.handles
    index = p.index(8, 2)
    y = p.ops.gather(x, index, 1)
    assert p.draw(x, index, y) == ["a b", "a c", "a c"]
    assert p.misplaced(y, x) == [6]
    assert p.misplaced(y, index) == []


def test_a_gather_with_fewer_rows_reads_them_out_of_place_too():
    p = Picture((8, 6))
    (x,) = p.handles
    y = p.ops.gather(x, p.index(4, 2), 1)
    assert p.misplaced(y, x) == [8, 6]


def test_index_select_and_select():
    p = Picture((8, 6, 5))
    (x,) = p.handles
    index = p.index(3)
    rows = p.ops.index_select(x, index, 1)
    assert p.draw(x, index, rows, p.ops.select(x, 2, 0)) == ["a b c", "d", "a d c", "b c"]
    assert p.misplaced(rows, x) == [6]


def test_pad_and_cat_have_their_own_atom_where_they_move_elements():
    p = Picture((8, 6), (8, 4))
    a, b = p.handles
    padded, joined = p.ops.pad(a, [1, 1]), p.ops.cat([a, b], 1)
    assert p.draw(a, b, padded, joined) == ["a b", "a c", "a d", "a e"]
    assert p.misplaced(joined, b) == [4]


def test_dimensions_of_size_one_and_empty_tensors():
    p = Picture((1, 6), (0, 6))
    row, empty = p.handles
    viewed = p.ops.reshape(empty, [3, 0])
    atoms = p.atoms()
    assert len(atoms.of(row.value)) == 1
    assert atoms.elements(atoms.of(empty.value)) == 0
    assert len(atoms.of(viewed.value)) == 2


def test_what_torch_makes_is_related_to_nothing_until_it_is_used():
    p = Picture((6, 6), (6, 6))
    a, b = p.handles
    product = p.ops.matmul(a, b)
    assert p.draw(a, product) == ["a b", "c d"]
    p.ops.add(product, a)
    assert p.draw(a, product) == ["a b", "a b"]


def test_a_long_chain_of_joins_ends_in_one_atom():
    p = Picture(*[(4,)] * 300)
    for left, right in zip(p.handles[-2::-1], p.handles[:0:-1], strict=True):
        p.ops.add(left, right)
    atoms = p.atoms()
    assert len({atoms.of(handle.value) for handle in p.handles}) == 1


def test_matched_domains_are_walked_together():
    p = Picture((8, 6), (8, 6))
    a, b = p.handles
    atoms = p.atoms()
    assert atoms.of(a.value).isdisjoint(atoms.of(b.value))
    atoms.match(a.value, b.value)
    assert atoms.of(a.value) == atoms.of(b.value)


def test_scalars_have_no_atoms():
    p = Picture((8,))
    scalar = p.fd.define_scalar(2.0, dtype=DataType.Double)
    assert p.atoms().of(scalar.value) == frozenset()
