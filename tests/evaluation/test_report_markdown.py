import pytest

from poolsieve.evaluation.report_markdown import BEGIN, END, put_section


def test_only_what_stands_between_the_markers_changes(tmp_path):
    page = tmp_path / "results.md"
    page.write_text("# Results\n\nby hand\n")
    put_section(page, "first\n")
    assert page.read_text() == f"# Results\n\nby hand\n\n{BEGIN}\nfirst\n{END}\n"
    page.write_text(page.read_text() + "\nmore by hand\n")
    put_section(page, "second\n")
    put_section(page, "second\n")
    assert page.read_text() == f"# Results\n\nby hand\n\n{BEGIN}\nsecond\n{END}\n\nmore by hand\n"


@pytest.mark.parametrize("text", [BEGIN, END, f"{END}\n{BEGIN}\n"])
def test_a_page_with_broken_markers_is_left_alone(tmp_path, text):
    page = tmp_path / "results.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="must stand both"):
        put_section(page, "text")
    assert page.read_text() == text
