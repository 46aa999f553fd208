"""One class per mistake; the message is a template on the class, filled from named fields."""

from fuser.errors.base import FuserError as FuserError
from fuser.errors.definitions import *  # noqa: F403
from fuser.errors.running import *  # noqa: F403
