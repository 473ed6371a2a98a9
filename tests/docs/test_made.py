"""Pages that tools make of what was kept of a run: docs/accuracy.md, docs/performance.md."""

from __future__ import annotations

from tools import accuracy_page, performance_page


def test_the_accuracy_page_is_made_of_what_was_counted() -> None:
    assert accuracy_page.PAGE.read_text(encoding="utf-8") == accuracy_page.page()


def test_the_performance_page_is_made_of_the_last_run() -> None:
    assert performance_page.PAGE.read_text(encoding="utf-8") == performance_page.page()


def test_words_of_a_row() -> None:
    """Both refuse: refused; one alone: wrong; else what the figures say."""
    assert [accuracy_page._word(*case) for case in ((True, True, False), (True, False, False), (False, True, True))] == [
        "refused",
        "wrong",
        "wrong",
    ]
    assert [accuracy_page._word(False, False, same) for same in (True, False)] == ["right", "wrong"]
