"""The stepper's own script in a real browser, with a model that stands in for the kernel's."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labkit.exercises.lab02_rings import copied_ring
from labkit.schedule import ALGORITHMS, trace
from labkit.views import schedule_plain as plain
from labkit.views.schedule_geometry import place
from labkit.views.schedule_stepper import source

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
PICTURES = Path(__file__).resolve().parent.parent.parent / "build" / "screenshots"
THEMES = {"light": ("#ffffff", "#212121"), "dark": ("#111111", "#e0e0e0")}

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no chromium on this machine")]

PAGE = """<!doctype html><meta charset="utf-8"><style>{css}
body {{ background: {back}; color: {ink}; margin: 20px; font-family: sans-serif; }}</style><div id="here"></div>
<script type="module">
const values = {{ picture: {picture}, step: {step}, speed: {speed} }};
const listeners = {{}};
window.saved = [];
window.model = {{
  get: (name) => values[name],
  set: (name, value) => {{ values[name] = value; (listeners["change:" + name] ?? []).forEach((each) => each()); }},
  on: (name, call) => (listeners[name] ??= []).push(call),
  off: (name, call) => {{ listeners[name] = (listeners[name] ?? []).filter((each) => each !== call); }},
  save_changes: () => window.saved.push({{ step: values.step, speed: values.speed }}),
}};
window.listening = () => Object.values(listeners).flat().length;
const module = await import("data:text/javascript;base64,{script}");
window.cleanup = module.default.render({{ model: window.model, el: document.getElementById("here") }});
</script>"""


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """show(algorithm, ranks): a page with the stepper in it; a page that asks the network for anything, or errs, fails."""
    pages: list[Any] = []
    wrong: list[str] = []

    def opened(name: str, ranks: int, *, step: int = 0, speed: float = 1.0, theme: str = "light", still: bool = False) -> Any:
        import base64

        made = copied_ring(ranks) if name == "copied-ring" else ALGORITHMS[name].schedule(ranks)
        seen = trace(made, 4096)
        back, ink = THEMES[theme]
        page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce" if still else "no-preference")
        script = base64.b64encode(source("stepper.js").encode()).decode()
        picture = json.dumps(plain.picture(seen, place(seen)))
        file = tmp_path / f"{len(pages)}.html"
        file.write_text(
            PAGE.format(css=source("stepper.css"), picture=picture, step=step, speed=speed, script=script, back=back, ink=ink)
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if request.url.startswith(("http", "ws")) else None)
        page.goto(file.as_uri())
        page.locator(".lks[data-step]").wait_for()
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert wrong == []


def at(page: Any, step: int, timeout_s: float = 5) -> None:
    page.locator(f".lks[data-step='{step}']").wait_for(timeout=timeout_s * 1000)


def texts(page: Any, where: str) -> list[str]:
    return list(page.locator(where).all_inner_texts()) or []


def counts(page: Any, rank: int) -> list[str]:
    return list(page.locator(f"[data-cell^='{rank}.'] .lks-count").all_text_contents())


def test_stepping_back_and_scrubbing_a_ring(show: Callable[..., Any]) -> None:
    page = show("ring", 4, still=True)
    assert counts(page, 1) == ["1", "1", "1", "1"]
    assert page.locator("[data-arrow]").count() == 0
    assert page.locator("[data-do=back]").is_disabled()

    page.locator("[data-do=step]").click()
    at(page, 1)
    assert counts(page, 1) == ["1", "1", "1", "2"]
    assert page.locator("[data-cell='1.3'] title").text_content() == "chunk 3: the part of ranks 0, 1"
    assert page.locator(".lks-fresh").count() == page.locator("[data-arrow]").count() == 4
    assert page.locator("[data-bytes='0']").text_content() == "4 KiB sent"
    assert page.locator("[data-messages='0']").text_content() == "1 message"
    assert page.locator(".lks-plate text").all_text_contents() == ["+3", "+0", "+1", "+2"]

    page.locator("input[type=range]").evaluate("bar => { bar.value = 6; bar.dispatchEvent(new Event('input')); }")
    at(page, 6)
    assert counts(page, 3) == ["4"] * 4
    assert page.locator("[data-do=step]").is_disabled()
    assert page.locator(".lks-line-copy").count() == 4
    assert "together 96 KiB in 24 messages" in page.locator(".lks-summary").text_content()

    page.locator("[data-do=back]").click()
    at(page, 5)
    page.locator("[data-do=first]").click()
    at(page, 0)
    assert counts(page, 3) == ["1"] * 4
    assert [each["step"] for each in page.evaluate("window.saved")] == [1, 6, 5, 0]


def test_playing_to_the_end_and_pausing(show: Callable[..., Any]) -> None:
    page = show("ring", 8, speed=2)
    page.locator("[data-do=play]").click()
    page.wait_for_function("Number(document.querySelector('.lks').dataset.step) >= 2")
    page.locator("[data-do=play]").click()
    page.locator(".lks[data-playing=false]").wait_for()
    paused = int(page.locator(".lks").get_attribute("data-step"))
    page.wait_for_timeout(1500)
    assert page.locator(".lks").get_attribute("data-step") == str(paused) != "14"
    page.evaluate("window.model.set('step', 12)")
    page.locator("[data-do=play]").click()
    at(page, 14)
    page.locator(".lks[data-playing=false]").wait_for()
    assert counts(page, 0) == ["8"] * 8


def test_chunks_arrive_after_their_flight(show: Callable[..., Any]) -> None:
    page = show("ring", 4)
    page.locator("[data-do=step]").click()
    assert counts(page, 1) == ["1"] * 4
    page.locator(".lks[data-flying=false]").wait_for()
    assert counts(page, 1) == ["1", "1", "1", "2"]


def test_the_keyboard(show: Callable[..., Any]) -> None:
    page = show("ring", 4, still=True)
    page.locator(".lks").focus()
    for pressed, step in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 6), ("Home", 0)):
        page.keyboard.press(pressed)
        at(page, step)
    page.keyboard.press("Space")
    page.locator(".lks[data-playing=true]").wait_for()
    page.keyboard.press("Space")
    page.locator(".lks[data-playing=false]").wait_for()
    page.locator("[data-do=step]").focus()  # a button with the focus is pressed once, by us
    before = int(page.locator(".lks").get_attribute("data-step"))
    page.keyboard.press("ArrowRight")
    at(page, before + 1)


@pytest.mark.parametrize(
    ("button", "at_end", "end", "back_key", "there"),
    [("step", "End", 6, "ArrowLeft", 5), ("back", "Home", 0, "ArrowRight", 1), ("first", "Home", 0, "End", 6)],
)
def test_the_keyboard_goes_on_at_both_ends(
    show: Callable[..., Any], button: str, at_end: str, end: int, back_key: str, there: int
) -> None:
    page = show("ring", 4, step=3, still=True)
    pressed = page.locator(f"[data-do={button}]")
    pressed.focus()
    page.keyboard.press(at_end)
    at(page, end)
    assert pressed.is_disabled()
    page.keyboard.press(back_key)
    at(page, there)
    assert pressed.is_enabled()
    assert pressed.evaluate("one => one === document.activeElement"), "the focus stays where it was"


def test_a_click_at_the_last_step_leaves_the_keyboard_alive(show: Callable[..., Any]) -> None:
    page = show("ring", 4, step=5, still=True)
    page.locator("[data-do=step]").click()
    at(page, 6)
    page.locator("[data-do=step]").click(force=True)
    assert page.locator(".lks").get_attribute("data-step") == "6"
    page.keyboard.press("ArrowLeft")
    at(page, 5)


@pytest.mark.parametrize("where", [".lks-picture svg", ".lks-said", ".lks-title", ".lks-legend", "[data-do=back]"])
def test_a_click_anywhere_takes_the_keyboard(show: Callable[..., Any], where: str) -> None:
    page = show("ring", 4, step=3, still=True)
    ring = "one => getComputedStyle(one).outlineStyle"
    assert page.locator(".lks").evaluate(ring) == "none"
    assert page.locator(".lks-away").is_visible()
    before = page.locator(".lks").bounding_box()
    page.locator(where).first.click()
    assert page.locator(".lks").evaluate(ring) == "solid"
    assert not page.locator(".lks-away").is_visible()
    assert page.locator(".lks-here").is_visible()
    assert page.locator(".lks").bounding_box() == before, "nothing moves"
    page.keyboard.press("End")
    at(page, 6)


def test_nothing_takes_the_focus_by_itself(show: Callable[..., Any]) -> None:
    page = show("ring", 4)
    assert page.evaluate("document.activeElement === document.body")


@pytest.mark.parametrize(("name", "ranks", "height"), [("binomial-tree", 8, 600), ("binomial-tree", 16, 680), ("ring", 4, 600)])
@pytest.mark.parametrize("width", [1366, 960])
def test_a_picture_is_seen_with_its_words(show: Callable[..., Any], name: str, ranks: int, height: int, width: int) -> None:
    page = show(name, ranks, still=True)
    page.set_viewport_size({"width": width, "height": 768})
    assert page.locator(".lks").bounding_box()["height"] <= height
    parts = (".lks-bar", ".lks-said", ".lks-summary", ".lks-body")
    tops = [page.locator(part).bounding_box()["y"] for part in parts]
    assert tops == sorted(tops)
    places = set()
    for _ in range(int(page.locator("input[type=range]").get_attribute("max"))):
        places.add(page.locator(".lks-picture").bounding_box()["y"])
        page.locator("[data-do=step]").click()
    assert len(places) == 1, "the picture does not jump when its sentence is shorter"


def test_the_kernel_moves_it_and_closing_lets_go(show: Callable[..., Any]) -> None:
    page = show("ring", 4)
    page.evaluate("window.model.set('step', 3)")
    at(page, 3)
    assert page.evaluate("window.saved") == []
    page.locator("select").select_option("2")
    assert page.evaluate("window.saved").pop()["speed"] == 2
    page.evaluate("window.cleanup()")
    assert page.evaluate("window.listening()") == 0


@functools.cache
def shown() -> list[tuple[str, int, int]]:
    return [
        ("ring", 4, 2), ("ring", 16, 8), ("binomial-tree", 8, 1), ("naive", 16, 20), ("double-tree", 6, 5),
        ("halving-doubling", 8, 2), ("hierarchical", 8, 1), ("pairwise-all-to-all", 4, 2), ("ring-all-gather", 5, 3),
        ("everyone", 16, 3), ("ring", 64, 5), ("double-tree", 64, 6), ("ring", 2, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("name", "ranks", "step"), shown())
def test_pictures(show: Callable[..., Any], name: str, ranks: int, step: int, theme: str) -> None:
    page = show(name, ranks, step=step, theme=theme)
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.locator("#here").screenshot(path=PICTURES / f"stepper-{name}-{ranks}-{theme}.png")
    box = page.locator(".lks svg").bounding_box()
    assert box["width"] <= 1240
    outside = page.evaluate(
        """() => { const all = document.querySelector(".lks svg").getBoundingClientRect();
        return [...document.querySelectorAll(".lks svg text")].map((one) => one.getBoundingClientRect())
          .filter((one) => one.left < all.left - 1 || one.right > all.right + 1 || one.top < all.top - 1
            || one.bottom > all.bottom + 1)
          .length; }"""
    )
    assert outside == 0, "no text is cut"


@pytest.mark.parametrize(("ranks", "scrolled"), [(4, False), (8, True)])
def test_a_picture_shrinks_and_is_scrolled_before_its_words_are_lost(
    show: Callable[..., Any], ranks: int, scrolled: bool
) -> None:
    page = show("ring", ranks, still=True)
    page.set_viewport_size({"width": 385, "height": 900})
    picture = page.locator(".lks-picture")
    assert picture.evaluate("one => one.scrollWidth > one.clientWidth") is scrolled
    assert picture.evaluate("one => getComputedStyle(one, '::-webkit-scrollbar').height") == "10px", "one that is seen"
    assert page.locator(".lks-count").first.evaluate("one => one.getBoundingClientRect().height") >= 7
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page itself does not scroll sideways"
    legend = page.locator(".lks-item", has_text="copies over it")
    assert legend.evaluate("one => one.getClientRects().length") == 1, "a sign stays beside its words"


@pytest.mark.parametrize("where", ["button[data-do=play]", "select", "input[type=range]"])
def test_the_keyboard_sees_where_it_is(show: Callable[..., Any], where: str) -> None:
    page = show("ring", 4, still=True)
    wanted = page.locator(where)
    for _ in range(10):
        page.keyboard.press("Tab")
        if wanted.evaluate("one => one === document.activeElement"):
            break
    assert wanted.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
    assert wanted.evaluate("one => getComputedStyle(one).outlineWidth") == "2px"


def test_many_problems_are_folded(show: Callable[..., Any]) -> None:
    page = show("copied-ring", 4, still=True)
    assert len(texts(page, ".lks-problem > p")) == 4
    assert texts(page, ".lks-problem summary") == ["and 12 more"]
    more = page.locator(".lks-problem details p")
    assert not more.first.is_visible()
    page.locator(".lks-problem summary").click()
    assert more.count() == 12
    assert more.first.is_visible()
