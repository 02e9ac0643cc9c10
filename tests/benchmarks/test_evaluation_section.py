import pytest
from evaluation_section import put_section

BEGIN, END = "<!-- evaluation of cars: begin -->", "<!-- evaluation of cars: end -->"


def test_only_what_stands_between_the_markers_changes(tmp_path):
    page = tmp_path / "results.md"
    page.write_text("# Results\n\nby hand\n")
    put_section(page, "cars", "first\n")
    assert page.read_text() == f"# Results\n\nby hand\n\n{BEGIN}\nfirst\n{END}\n"
    page.write_text(page.read_text() + "\nmore by hand\n")
    put_section(page, "cars", "second\n")
    put_section(page, "cars", "second\n")
    assert page.read_text() == f"# Results\n\nby hand\n\n{BEGIN}\nsecond\n{END}\n\nmore by hand\n"


def test_sections_of_two_bundles_stand_side_by_side(tmp_path):
    page = tmp_path / "results.md"
    for name, text in (("cars", "old\n"), ("boats", "boats\n"), ("cars", "new\n")):
        put_section(page, name, text)
    boats = "<!-- evaluation of boats: begin -->\nboats\n<!-- evaluation of boats: end -->\n"
    assert page.read_text() == f"{BEGIN}\nnew\n{END}\n\n{boats}"


@pytest.mark.parametrize("text", [BEGIN, END, f"{END}\n{BEGIN}\n"])
def test_a_page_with_broken_markers_is_left_alone(tmp_path, text):
    page = tmp_path / "results.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="must stand both"):
        put_section(page, "cars", "text")
    assert page.read_text() == text
