"""The queue and the image, without a browser, on both databases."""

import io
import re
from itertools import pairwise

import pytest
from databases import store  # noqa: F401 - here both databases
from PIL import Image, ImageStat
from review_site import add_people, fill


@pytest.fixture
def people(store):  # noqa: F811
    return add_people(store)


def tasks_of(text):
    return [int(number) for number in re.findall(r'class="card task" data-task="(\d+)"', text)]


def test_a_reviewer_holds_what_the_grid_shows_and_nobody_else_gets_it(client, store, people, clock):  # noqa: F811
    fill(store, flagged=20)
    first, second = client("reviewer"), client("lead")
    mine, theirs = tasks_of(first.get("/").text), tasks_of(second.get("/").text)
    assert len(mine) == 12 and len(theirs) == 8 and not set(mine) & set(theirs)
    assert "Another reviewer has this image" in second.get(f"/task/{mine[0]}").text
    clock.time += 601
    assert set(tasks_of(second.get("/").text)) & set(mine)
    answer = first.submit("/decide", tasks=mine, decision="reject")
    assert answer.status_code == 409 and "not yours any more" in answer.text


def test_a_batch_is_decided_undone_and_found_in_the_audit(client, store, people):  # noqa: F811
    fill(store, flagged=5)
    visitor = client("lead")
    mine = tasks_of(visitor.get("/").text)
    assert len(tasks_of(visitor.submit("/decide", tasks=mine[:3], decision="reject").text)) == 2
    assert len(tasks_of(visitor.submit("/undo").text)) == 5
    visitor.submit("/decide", tasks=mine[3], decision="escalate", comment="what is it?")
    text = visitor.get("/audit?verify=true").text
    assert "none of" in text and text.count("<td>reject</td>") == 3 and text.count("<td>undo</td>") == 3
    assert "what is it?" in text
    lines = visitor.get("/audit.jsonl").text.splitlines()
    assert len(lines) == store.audit.head()[0]
    assert visitor.submit("/decide", tasks=mine[3], decision="keep").status_code == 422


def test_a_skipped_image_goes_to_somebody_else(client, store, people):  # noqa: F811
    fill(store, flagged=2)
    visitor = client("reviewer")
    number = int(visitor.get("/next").url.path.rsplit("/", 1)[1])
    after = visitor.submit("/decide", tasks=number, decision="skip", view="single")
    assert after.url.path != f"/task/{number}"
    assert number in tasks_of(client("lead").get("/").text)


def test_the_image_page_tells_every_stage_in_words_history_and_similar_decisions(client, store, people):  # noqa: F811
    fill(store, flagged=3)
    lead = client("lead")
    assert "first look" not in lead.get("/task/1").text
    store.settings.set("test", {"blind": False})
    text = lead.get("/task/1").text
    assert "<li>first look .63</li><li>tested alone .6</li><li>threshold .5</li>" in text
    lead.submit("/task/1/comment", text="a toy <b>gun</b>")
    lead.submit("/decide", tasks=1, decision="approve", comment="a toy")
    text = lead.get("/task/1").text
    assert "a toy &lt;b&gt;gun&lt;/b&gt;" in text and "lead</bdi>: approve" in text
    assert re.search(r"Similar decisions.*approved", lead.get("/task/2").text, re.S)


def test_pictures_are_blurred_and_grey_unless_asked_for_otherwise(client, store, people):  # noqa: F811
    fill(store, flagged=1)
    visitor = client("reviewer")

    def seen(query=""):
        answer = visitor.get(f"/picture/1{query}")
        picture = Image.open(io.BytesIO(answer.content))
        across = [picture.convert("L").getpixel((x, picture.height // 2)) for x in range(picture.width)]
        return picture.mode, max(abs(a - b) for a, b in pairwise(across)) / (
            ImageStat.Stat(picture).mean[0] + 1
        )

    soft, sharp = seen(), seen("?blur=false&grey=false")
    assert soft[0] == "L" and sharp[0] == "RGB"
    assert soft[1] < 0.1 * sharp[1]
    assert seen("?blur=true&grey=false")[0] == "RGB" and seen("?blur=false")[0] == "L"
    assert visitor.get("/picture/99").status_code == 404
    for page in ("/", "/task/1"):
        addresses = re.findall(r'src="(/picture/[^"]*)"', visitor.get(page).text)
        assert addresses and all(place.endswith("?blur=true&amp;grey=true") for place in addresses)


def test_the_organisation_and_everybody_for_themselves_choose_blur_and_grey(client, store, people):  # noqa: F811
    fill(store, flagged=1)
    visitor, admin = client("reviewer"), client("admin")
    values = {"sampling_percent": "0", "thumbnail_days": "30", "lease_minutes": "10"}
    admin.submit("/settings/organisation", **values, blur="true")
    assert "blur=true&amp;grey=false" in visitor.get("/task/1").text
    visitor.submit("/settings/own", blur="off", grey="on")
    assert "blur=false&amp;grey=true" in visitor.get("/task/1").text
    visitor.submit("/settings/own")
    assert "blur=true&amp;grey=false" in visitor.get("/task/1").text


@pytest.mark.parametrize("role", ["reviewer", "lead", "admin"])
def test_a_sampled_clear_image_cannot_be_told_from_a_flagged_one(client, store, people, role):  # noqa: F811
    names = fill(store, flagged=6, clear=6)
    visitor = client(role)
    for reason in ("sampled", "flagged"):
        assert visitor.get(f"/?reason={reason}").status_code == 403
    grid = visitor.get("/").text
    assert len(tasks_of(grid)) == 12
    pages = []
    for name in names:
        task = store.tasks.of_verdict(name)
        text = visitor.get(f"/task/{task.id}").text
        text = text.replace(f"photo-{int(task.sha256, 16)}.jpg", "…")
        text = re.sub(rf'((/task/|/picture/|data-task="|name="tasks" value=")){task.id}\b', "…", text)
        pages.append(re.sub(r'value="[^"]{20,}"|data-csrf="[^"]*"', "", text))
    assert len(set(pages)) == 1
    cards = re.findall(r'<li class="card task".*?</li>', grid, re.S)
    plain = {re.sub(r"\d+", "0", re.sub(r"photo-\d+", "photo", card)) for card in cards}
    assert len(plain) == 1
    assert "score" not in "".join(cards) and "sampled" not in grid
    sampled = store.tasks.of_verdict(names[-1]).id
    visitor.submit("/decide", tasks=sampled, decision="escalate")
    assert "clear" not in str(store.audit.newest(1, action="escalate")[0].details)
    if role != "reviewer":
        assert tasks_of(visitor.get("/?reason=escalated").text) == [sampled]
        assert "0.02" not in visitor.get(f"/task/{sampled}").text
    visitor.submit("/decide", tasks=store.tasks.of_verdict(names[-2]).id, decision="approve")
    assert "<b>clear</b>, score 0.02" in visitor.get(f"/task/{store.tasks.of_verdict(names[-2]).id}").text


def test_filters_narrow_the_queue(client, store, people):  # noqa: F811
    fill(store, flagged=6, clear=2)
    lead = client("lead")
    store.settings.set("test", {"blind": False})
    assert len(tasks_of(lead.get("/?reason=sampled").text)) == 2
    assert len(tasks_of(lead.get("/?reason=flagged&low=0.603").text)) == 3
    assert tasks_of(lead.get("/?policy=cars").text) == []
    assert lead.get("/?low=high").status_code == 400
    assert lead.get("/?order=name").status_code == 400
    assert len(tasks_of(lead.get("/?age=hour&order=newest").text)) == 8


def test_filters_last_through_decisions_undo_and_single_images(client, store, people):  # noqa: F811
    fill(store, flagged=6)
    lead = client("lead")
    text = lead.get("/?low=0.602&high=0.604&order=oldest").text
    mine = tasks_of(text)
    assert len(mine) == 3
    action = re.search(r'id="decide" method="post" action="([^"]*)"', text).group(1).replace("&amp;", "&")
    after = lead.submit(action, tasks=mine[0], decision="approve")
    assert tasks_of(after.text) == mine[1:] and "order=oldest" in str(after.url)
    one = lead.get("/next?low=0.602&high=0.604&order=oldest")
    assert one.url.path == f"/task/{mine[1]}"
    action = re.search(r'id="decide"[^>]*action="([^"]*)"', one.text).group(1).replace("&amp;", "&")
    assert lead.submit(action, tasks=mine[1], decision="reject", view="single").url.path == f"/task/{mine[2]}"
    back = re.search(r'action="(/undo[^"]*)"', one.text).group(1).replace("&amp;", "&")
    assert "low=0.602" in str(lead.submit(back, view="single").url)
    hostile = lead.get('/?key="><script>&order=oldest').text
    assert "<script>" not in hostile.replace("<script src", "")
