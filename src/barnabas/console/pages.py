"""The pages: each asks the cluster as the person who looks at it, and shows what that person is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from barnabas.client.admin.admin import Admin
from barnabas.console.door import Answer, RefusedRequest
from barnabas.console.frame import MOST_ROWS, count, href, lines, page, table, trouble, when
from barnabas.console.markup import Markup, tag
from barnabas.console.records import MOST_RECORDS, Excerpt, excerpt, shown
from barnabas.console.sessions import Session
from barnabas.errors import BarnabasError

__all__ = ["brokers", "cluster", "group", "groups", "messages", "topic", "topics"]

Fields = Mapping[str, str]
Found = TypeVar("Found")
_LONGEST_NAME = 512


async def _section(session: Session, question: Callable[[Admin], object]) -> object:
    """What is made of the cluster's answer, or why there is none."""
    try:
        return await session.ask(question)
    except BarnabasError as error:
        return trouble(error)


def _given(fields: Fields, *names: str) -> list[str | None]:
    """The values of these fields, None where one is not given.  Raises RefusedRequest for others."""
    if others := set(fields) - set(names):
        raise RefusedRequest(400, f"this page has no field {min(others)[:50]!r}")
    if any(len(value) > _LONGEST_NAME for value in fields.values()):
        raise RefusedRequest(400, "a field is too long")
    return [fields.get(name) for name in names]


def _number(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        raise RefusedRequest(400, "this is no number")
    return int(text)


def _needed(text: str | None, what: str) -> str:
    if not text:
        raise RefusedRequest(400, f"the page of a {what} needs its name")
    return text


# -- the cluster --


async def cluster(session: Session, fields: Fields) -> Answer:
    """The cluster and its quorum."""
    _given(fields)

    def about(found: Admin) -> object:
        known = found.describe_cluster()
        return [
            tag("p", "cluster id ", tag("b", known.cluster_id)),
            tag("p", f"{count(len(known.brokers), 'broker')}; controller {known.controller}"),
        ]

    def quorum(found: Admin) -> object:
        known = found.quorum()
        end = known.leader_replica.log_end_offset if known.leader_replica else known.high_watermark
        rows = [
            [
                one.id,
                "leader" if one.id == known.leader else role,
                one.log_end_offset,
                max(end - one.log_end_offset, 0),
                when(one.last_caught_up),
                ", ".join(one.endpoints),
            ]
            for role, replicas in (("voter", known.voters), ("observer", known.observers))
            for one in replicas
        ]
        return [
            tag("p", f"leader {known.leader}, epoch {known.epoch}, high watermark {known.high_watermark:,}"),
            table(("node", "role", "log end", "behind", "caught up last", "endpoints"), rows),
        ]

    return _page(
        session,
        "Cluster",
        "/cluster",
        await _section(session, about),
        tag("h2", "Quorum"),
        await _section(session, quorum),
    )


async def brokers(session: Session, fields: Fields) -> Answer:
    """The brokers that are there, and those that are fenced."""
    _given(fields)

    def rows(found: Admin) -> object:
        known = found.describe_cluster(fenced=True)
        return table(
            ("broker", "address", "rack", "state"),
            [
                [one.id, one.address, one.rack or "-", "fenced" if one.id in known.fenced else "serves"]
                for one in known.brokers
            ],
        )

    return _page(session, "Brokers", "/brokers", await _section(session, rows))


# -- topics --


async def topics(session: Session, fields: Fields) -> Answer:
    """All topics that this person may see, some hundred at a time."""
    (after,) = _given(fields, "after")

    def rows(found: Admin) -> object:
        known = [one for one in found.topics(internal=True) if one.name > (after or "")]
        some = known[:MOST_ROWS]
        shown_rows = [
            [
                tag("a", one.name, href=href("/topic", name=one.name)),
                len(one.partitions),
                max((len(part.replicas) for part in one.partitions.values()), default=0),
                sum(len(part.isr) < len(part.replicas) for part in one.partitions.values()),
                sum(part.leader < 0 for part in one.partitions.values()),
            ]
            for one in some
        ]
        columns = ("topic", "partitions", "replicas", "under-replicated", "without a leader")
        return [table(columns, shown_rows), _more("/topics", known, some)]

    return _page(session, "Topics", "/topics", await _section(session, rows))


def _more(
    path: str, known: list[Found], some: list[Found], name: Callable[[Found], str] | None = None
) -> object:
    """A link to what comes after `some`."""
    if len(known) == len(some):
        return None
    last = some[-1]
    after = name(last) if name is not None else last.name  # type: ignore[attr-defined]
    left = f"{len(known) - len(some):,} more"
    return tag("nav", tag("a", left, href=href(path, after=after)), class_="steps")


async def topic(session: Session, fields: Fields) -> Answer:
    """One topic and its partitions."""
    named, after = _given(fields, "name", "after")
    name, begin = _needed(named, "topic"), _number(after)

    def rows(found: Admin) -> object:
        info = found.describe_topic(name)
        known = [info.partitions[one] for one in sorted(info.partitions) if begin is None or one > begin]
        some = known[:MOST_ROWS]
        led = [one.partition for one in some if one.leader >= 0]
        starts = found.offsets(name, "earliest", led)
        ends = found.offsets(name, "latest", led)
        shown_rows = []
        for one in some:
            start, end = starts.get(one.partition), ends.get(one.partition)
            shown_rows.append(
                [
                    one.partition,
                    one.leader if one.leader >= 0 else None,
                    ", ".join(map(str, one.replicas)),
                    ", ".join(map(str, one.isr)),
                    start.offset if start else None,
                    end.offset if end else None,
                    tag("a", "messages", href=href("/messages", topic=name, partition=one.partition)),
                ]
            )
        columns = ("partition", "leader", "replicas", "in sync", "start", "end", "")
        left = len(known) - len(some)
        more = href("/topic", name=name, after=some[-1].partition) if left else None
        steps = tag("nav", tag("a", f"{left:,} more", href=more), class_="steps") if left else None
        return [tag("p", f"topic id {info.id}", class_="quiet"), table(columns, shown_rows), steps]

    return _page(session, f"Topic {name}", "/topics", await _section(session, rows))


async def messages(session: Session, fields: Fields) -> Answer:
    """Some records of a partition."""
    named, part, offset = _given(fields, "topic", "partition", "offset")
    name, partition, first = _needed(named, "topic"), _number(part) or 0, _number(offset)

    def show(found: Excerpt) -> object:
        def step(text: str, to: int, leads: bool) -> Markup | None:
            return (
                tag("a", text, href=href("/messages", topic=name, partition=partition, offset=to))
                if leads
                else None
            )

        rows = [
            [
                one.offset,
                when(one.timestamp),
                shown(one.key, 200),
                lines(shown(one.value)),
                ", ".join(
                    f"{shown(key.encode(), 200)}={shown(value, 200)}" for key, value in one.headers[:10]
                ),
            ]
            for one in found.records
        ]
        return [
            tag(
                "p",
                f"offsets {found.start:,} to {found.end:,}; from {found.first:,} on, at most {MOST_RECORDS}",
                class_="quiet",
            ),
            tag(
                "nav",
                step("first", found.start, found.first > found.start),
                step("earlier", max(found.first - MOST_RECORDS, found.start), found.first > found.start),
                step("later", found.following, found.following < found.end),
                step("last", max(found.end - MOST_RECORDS, found.start), found.following < found.end),
                class_="steps",
            ),
            [tag("p", one, class_="bad") for one in found.unread[:10]],
            table(("offset", "time", "key.", "value.", "headers."), rows),
        ]

    content = await _section(session, lambda admin: show(excerpt(admin, name, partition, first)))
    back = tag("p", tag("a", f"topic {name}", href=href("/topic", name=name)))
    return _page(session, f"Messages of {name}-{partition}", "/topics", back, content)


# -- groups --


async def groups(session: Session, fields: Fields) -> Answer:
    """All groups that this person may see."""
    (after,) = _given(fields, "after")

    def rows(found: Admin) -> object:
        known = [one for one in found.groups() if one.group > (after or "")]
        some = known[:MOST_ROWS]
        shown_rows = [
            [tag("a", one.group, href=href("/group", name=one.group)), one.type, one.protocol, one.state]
            for one in some
        ]
        more = _more("/groups", known, some, lambda one: one.group)
        return [table(("group", "type", "protocol", "state"), shown_rows), more]

    return _page(session, "Groups", "/groups", await _section(session, rows))


async def group(session: Session, fields: Fields) -> Answer:
    """One group: its members, and how far it is."""
    (named,) = _given(fields, "name")
    name = _needed(named, "group")

    def about(found: Admin) -> object:
        known = found.describe_group(name)
        rows = [
            [one.client_id, one.host, one.instance_id or "-", ", ".join(map(str, one.partitions[:100]))]
            for one in known.members[:MOST_ROWS]
        ]
        return [
            tag("p", "; ".join(filter(None, (known.state, known.type, known.protocol)))),
            tag("p", f"coordinator {known.coordinator}", class_="quiet"),
            tag("h2", "Members"),
            table(("client id", "host", "instance", "reads"), rows),
        ]

    def lag(found: Admin) -> object:
        known = found.group_offsets(name)
        total = sum(one.lag or 0 for one in known)
        rows = [
            [
                one.topic,
                one.partition,
                one.committed,
                one.end,
                one.lag,
                one.member.client_id if one.member else "-",
            ]
            for one in known[:MOST_ROWS]
        ]
        return [
            tag("p", f"{count(total, 'record')} behind in {count(len(known), 'partition')}"),
            table(("topic", "partition", "committed", "end", "lag", "read by"), rows),
        ]

    return _page(
        session,
        f"Group {name}",
        "/groups",
        await _section(session, about),
        tag("h2", "Lag"),
        await _section(session, lag),
    )


def _page(session: Session, title: str, here: str, *content: object) -> Answer:
    return Answer(200, page(title, *content, user=session.user, here=here))
