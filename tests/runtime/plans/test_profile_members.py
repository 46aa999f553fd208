"""What nvFuser's profiles have, and these do not, is refused with what to use instead."""

import copy
import pickle

import pytest
import torch

from fuser import FusionDefinition, errors
from fuser.runtime.plans.profile import Profile
from fuser.runtime.plans.profile_members import LEFT_OUT


@pytest.fixture(scope="module")
def profiled() -> Profile:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.exp(fd.define_tensor([-1])))
    return fd.profile([torch.ones(4)], runs=1)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_to_use_instead(name: str, profiled: Profile) -> None:
    for owner in (profiled, *profiled.kernel_profiles):
        with pytest.raises(errors.UnknownMemberError) as caught:
            getattr(owner, name)
        assert str(caught.value) == f"a {type(owner).__name__} has no '{name}'; {LEFT_OUT[name]}"
        assert not hasattr(owner, name)


def test_profiles_are_copied_and_pickled(profiled: Profile) -> None:
    assert copy.deepcopy(profiled) == pickle.loads(pickle.dumps(profiled)) == profiled
