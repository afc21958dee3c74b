"""HTML of the console: whatever is put into it is text."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from barnabas.console.frame import href, lines, page, table, when
from barnabas.console.markup import Markup, tag, visible
from barnabas.console.records import shown

FRAME = {
    "html",
    "head",
    "meta",
    "title",
    "link",
    "body",
    "header",
    "b",
    "a",
    "span",
    "form",
    "button",
    "main",
}
HOSTILE = st.one_of(
    st.text(),
    st.sampled_from(
        [
            "</td><script>alert(1)</script>",
            '" onmouseover="x',
            "' onfocus='x",
            "<!--",
            "]]>",
            "&lt;b&gt;",
            "\0",
        ]
    ),
)


class Read(HTMLParser):
    """What a browser would find: elements with attributes, and text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(HOSTILE, HOSTILE)
def test_a_text_stays_a_text_inside_an_element_and_in_an_attribute(inside: str, attribute: str) -> None:
    read = Read(tag("p", inside, title=attribute))
    assert read.elements == [("p", (("title", visible(attribute)),))]
    assert read.text == visible(inside)


@given(HOSTILE)
def test_the_same_holds_for_tables_pages_and_links(text: str) -> None:
    assert [
        e for e, _ in Read(table(["a", "b."], [[text, lines(text)]])).elements if e in ("script", "b")
    ] == []
    whole = Read(page(text, text, user=text))
    assert {name for name, _ in whole.elements} <= FRAME | {"h1"}
    [(_, attributes)] = Read(tag("a", "x", href=href("/topic", name=text))).elements
    assert dict(attributes)["href"].startswith("/topic?name=")  # type: ignore[union-attr]
    assert not set(dict(attributes)["href"] or "") & set("<>\"' \n")


@given(st.text())
def test_what_cannot_be_seen_is_spelled_out(text: str) -> None:
    assert not set(visible(text)) & {chr(n) for n in (*range(32), 127, 0x202E, 0x2066, 0xFEFF, 0x200B, 0xA0)}


@given(st.one_of(st.none(), st.binary()))
def test_bytes_of_a_record_are_text_and_not_long(content: bytes | None) -> None:
    assert len(shown(content, 10)) < 60


def test_a_long_value_is_cut_and_its_size_said() -> None:
    assert shown(b"x" * 3000).endswith("... (3,000 bytes)") and len(shown(b"x" * 3000)) < 2100
    assert shown("ä".encode() * 2000) == "ä" * 2000


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_of_a_record_can_be_shown(ms: int) -> None:
    assert isinstance(when(ms), str) and not isinstance(when(ms), Markup)
