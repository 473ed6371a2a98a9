"""Terms of exclusions that look inside an option's object (kvplan/engines/common/exclusions.py)."""

from __future__ import annotations

import pytest

from kvplan.engines.common.exclusions import Exclusion, excluded


@pytest.mark.parametrize(
    ("asked", "said", "holds"),
    [
        ("config.mode=3,full", '{"mode": "full"}', True),
        ("config.mode=", '{"mode": "full"}', False),
        ("config.mode=", "{}", True),
        ("config.flag=True", '{"flag": true}', True),
        ("config.flag=*", '{"flag": false}', True),
        ("config.sizes.*<=0", '{"sizes": [4, 0]}', True),
        ("config.sizes.*<=0", '{"sizes": []}', False),
        ("config.sizes.*>8", '{"sizes": "8"}', False),
        ("config.inner.n^-.*", '{"inner": {"n": -1}}', True),
        ("config.ops^.*'\\+(\\w+)'.*'-\\1'.*", '{"ops": ["+a", "-a"]}', True),
        ("config.mode=*", '{"mode": "$MODE"}', False),
        ("config.mode=*", "no JSON", False),
    ],
)
def test_terms(asked: str, said: str, holds: bool) -> None:
    assert bool(list(excluded((Exclusion(asked, "other=*", "it stops"),), {"config": said}, "1.0"))) is holds


def test_the_option_is_what_it_speaks_of() -> None:
    one = Exclusion("config.mode=3", "other.key=*|config.more=*", "it stops")
    assert (one.keys, one.lifted_by) == ({"config", "other"}, {"other"})
