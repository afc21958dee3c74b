"""Finding each other: the address book, and the exchange that fills it."""

from __future__ import annotations

import pytest
from raft_cluster import CLUSTER, endpoint_of, key_of
from raft_solo import Solo

from barnabas.errors import ErrorCode
from barnabas.model import ZERO_UUID, Endpoint, ReplicaKey, Uuid
from barnabas.raft.discovery.book import LAST_START, MOST_CONTACTS, AddressBook, Contact
from barnabas.raft.effects import Effect, Event, SaveBook, Send
from barnabas.raft.entries import ElectionState
from barnabas.raft.messages import (
    Answered,
    BeginQuorumEpochRequest,
    ExchangeRequest,
    ExchangeResponse,
    Failed,
    FetchRequest,
    FetchResponse,
    Received,
    Tick,
    UpdateVoterRequest,
    VoteRequest,
)
from barnabas.raft.settings import RaftConfig

ME = key_of(1)
KNOWN = Endpoint("CONTROLLER", "known", 9)
QUORUM, OTHER = Uuid(b"q" * 16), Uuid(b"x" * 16)


def contact(node_id: int, port: int, epoch: int = 0, start: int = 1) -> Contact:
    return Contact(key_of(node_id), (Endpoint("CONTROLLER", f"n{node_id}", port),), epoch, start)


def lost(bootstrap: tuple[Endpoint, ...] = (KNOWN,)) -> Solo:
    """Voter 1 of 1, 2, 3 that has just started, with one address in its settings."""
    config = RaftConfig(cluster_id=CLUSTER, bootstrap=bootstrap, exchange_interval=30.0)
    return Solo(config=config, saved=ElectionState(3, origin=QUORUM))


def wait(node: Solo, seconds: float = 0.3) -> list[Effect]:
    node.mono += seconds
    return node.step(Tick())


def asked(node: Solo) -> dict[tuple[str, int], Send]:
    """The exchanges asked for so far, the newest for each place."""
    return {
        (send.endpoint.host, send.endpoint.port): send
        for send in node.sent
        if isinstance(send.request, ExchangeRequest) and send.endpoint is not None
    }


# ------------------------------------------------------------------ the book


def test_an_entry_is_only_replaced_by_a_newer_one() -> None:
    book = AddressBook(ME)
    assert book.take(contact(2, 10, epoch=5, start=7))
    assert not book.take(contact(2, 11, epoch=5, start=7))
    assert not book.take(contact(2, 12, epoch=4, start=9))
    assert book.take(contact(2, 13, epoch=5, start=8))
    assert not book.take(contact(2, 13, epoch=6, start=1)), "newer, and at the same address"
    assert [c.endpoints[0].port for c in book] == [13]


def test_what_a_node_says_itself_counts_more_than_what_a_voter_set_says() -> None:
    book = AddressBook(ME)
    assert book.take(contact(2, 10, epoch=9, start=0))
    assert book.take(contact(2, 11, epoch=1, start=1))
    assert not book.take(contact(2, 12, epoch=99, start=0))


def test_a_node_that_starts_is_newer_than_all_it_said_before_even_when_its_clock_went_back() -> None:
    book = AddressBook(ME, [contact(1, 10, epoch=8, start=5000)])
    book.enter((endpoint_of(1),), 3, 4000)
    assert book.own == Contact(ME, (endpoint_of(1),), 8, 5001)


def test_a_node_contradicts_what_others_say_of_it() -> None:
    book = AddressBook(ME)
    book.enter((endpoint_of(1),), 3, 4000)
    book.is_changed = False
    assert not book.take(contact(1, 666, epoch=7, start=9000))
    assert book.own == Contact(ME, (endpoint_of(1),), 7, 9001)
    assert book.is_changed


@pytest.mark.parametrize(
    "wrong",
    [
        Contact(ReplicaKey(-1, ZERO_UUID), (KNOWN,), 1, 1),
        Contact(key_of(2), (), 1, 1),
        Contact(key_of(2), (KNOWN,) * 9, 1, 1),
        Contact(key_of(2), (Endpoint("C", "", 9),), 1, 1),
        Contact(key_of(2), (Endpoint("C", "two words", 9),), 1, 1),
        Contact(key_of(2), (Endpoint("C", "a\nb", 9),), 1, 1),
        Contact(key_of(2), (Endpoint("C", "h" * 256, 9),), 1, 1),
        Contact(key_of(2), (Endpoint("C", "h", 0),), 1, 1),
        Contact(key_of(2), (Endpoint("C", "h", 70_000),), 1, 1),
        Contact(key_of(2), (KNOWN,), -1, 1),
        Contact(key_of(2), (KNOWN,), 1, -1),
        Contact(key_of(2), (KNOWN,), 1, LAST_START),
    ],
)
def test_what_cannot_be_an_entry_is_none(wrong: Contact) -> None:
    book = AddressBook(ME, [wrong])
    assert not book.take(wrong)
    assert len(book) == 0


def test_a_full_book_keeps_the_voters_and_of_the_others_the_newest() -> None:
    book = AddressBook(ME)
    book.enter((endpoint_of(1),), 0, 1)
    voters = [key_of(2)]
    book.take(contact(2, 2, start=1), voters)
    for number in range(3, 200):
        book.take(contact(number, number, start=number), voters)
    assert len(book) == MOST_CONTACTS
    ids = [c.key.id for c in book]
    assert ids[:2] == [1, 2]
    assert ids[-1] == 199
    assert not book.take(contact(300, 1, start=1), voters)
    assert book.take(contact(300, 1, start=1), [key_of(300)])


# ------------------------------------------------------------------ whom a node asks


def test_a_node_without_a_leader_asks_every_place_it_has_heard_of() -> None:
    node = lost()
    wait(node)
    assert set(asked(node)) == {("known", 9), *((endpoint_of(i).host, endpoint_of(i).port) for i in (2, 3))}
    request = asked(node)["known", 9].request
    assert isinstance(request, ExchangeRequest)
    assert request.cluster_id == CLUSTER
    assert [c.key.id for c in request.contacts] == [1, 2, 3]


def test_what_one_node_learned_takes_a_vote_to_where_the_voter_is_now() -> None:
    node = lost()
    wait(node)
    answer = ExchangeResponse(ErrorCode.NONE, (contact(2, 77, start=9), contact(3, 78, start=9)))
    effects = node.step(Answered(asked(node)["known", 9].correlation, answer))
    assert any(isinstance(effect, SaveBook) for effect in effects)
    node.sent.clear()
    wait(node, 2.5)
    votes = {send.to: send.endpoint for send in node.sent if isinstance(send.request, VoteRequest)}
    assert votes == {2: Endpoint("CONTROLLER", "n2", 77), 3: Endpoint("CONTROLLER", "n3", 78)}
    assert all(
        send.request.voter == key_of(send.to) for send in node.sent if isinstance(send.request, VoteRequest)
    ), "the vote still names whom it is for"


def test_a_node_that_is_asked_passes_on_what_it_knows_and_takes_what_it_is_told() -> None:
    node = lost()
    told = ExchangeRequest(key_of(2), (contact(2, 77, start=9),), CLUSTER, origin=QUORUM)
    node.step(Received("t1", told))
    node.step(Received("t2", ExchangeRequest(key_of(3), (), CLUSTER)))
    answer = node.replies["t2"]
    assert isinstance(answer, ExchangeResponse)
    assert contact(2, 77, start=9) in answer.contacts
    assert [c.key.id for c in answer.contacts] == [1, 2, 3]


def test_a_node_that_does_not_know_the_request_is_left_alone() -> None:
    node = lost()
    wait(node)
    node.step(Failed(asked(node)["known", 9].correlation, "it does not serve it", unsupported=True))
    first = asked(node)["known", 9].correlation
    for _ in range(40):
        wait(node, 0.5)
    assert asked(node)["known", 9].correlation == first
    for _ in range(40):
        wait(node, 0.5)
    assert asked(node)["known", 9].correlation > first


def test_a_leader_that_needs_nobody_tells_where_it_is_until_the_known_place_has_heard_it() -> None:
    """Quorum seeds 200261, 200423 and 200991: a lone voter moved, and those who looked for it never found it."""
    config = RaftConfig(cluster_id=CLUSTER, bootstrap=(KNOWN,), exchange_interval=30.0)
    node = Solo((1,), config=config, saved=ElectionState(3, origin=QUORUM))
    tries = 0
    while node.mono < 110.0:
        for send in asked(node).values():
            node.step(Failed(send.correlation, "refused"))
            tries += 1
        node.sent.clear()
        wait(node)
    assert node.role == "leader" and 4 <= tries <= 8, "with pauses that grow"
    while not asked(node):
        wait(node)
    assert node.mono < 120.0, "it still asks"
    answer = ExchangeResponse(ErrorCode.NONE, (contact(2, 77, start=9),), origin=QUORUM)
    heard, question = node.mono, asked(node)["known", 9].correlation
    node.sent.clear()
    node.step(Answered(question, answer))
    assert set(asked(node)) == {("n2", 77)}, "and asks those of whom it hears then"
    node.step(
        Answered(asked(node)["n2", 77].correlation, ExchangeResponse(ErrorCode.NONE, (), origin=QUORUM))
    )
    node.sent.clear()
    while not asked(node):
        wait(node)
    assert node.mono - heard >= 5.0, "once heard, from time to time"


@pytest.mark.parametrize(("voters", "said"), [((1,), 0), ((1, 2), 1)])
def test_only_a_node_that_found_others_says_that_its_known_addresses_are_outdated(
    voters: tuple[int, ...], said: int
) -> None:
    """The first node of a cluster names those that are yet to come."""
    config = RaftConfig(cluster_id=CLUSTER, bootstrap=(KNOWN,), exchange_interval=30.0)
    node = Solo(voters, config=config, saved=ElectionState(3, origin=QUORUM))
    if len(voters) > 1:
        node.step(
            Received(
                "begin", BeginQuorumEpochRequest(4, 2, (endpoint_of(2),), cluster_id=CLUSTER, origin=QUORUM)
            )
        )
    noted: list[str] = []
    while node.mono < 140.0:
        for send in asked(node).values():
            node.step(Failed(send.correlation, "refused"))
        node.sent.clear()
        noted += [effect.name for effect in wait(node) if isinstance(effect, Event)]
    assert noted.count("raft.bootstrap.outdated") == said


def test_without_an_interval_nobody_is_asked() -> None:
    node = Solo(config=RaftConfig(cluster_id=CLUSTER, bootstrap=(KNOWN,)))
    wait(node)
    assert not asked(node)


# ------------------------------------------------------------------ who is not believed


@pytest.mark.parametrize(
    ("cluster", "origin", "error"),
    [
        ("another", ZERO_UUID, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (None, ZERO_UUID, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (CLUSTER, OTHER, ErrorCode.INCONSISTENT_VOTER_SET),
    ],
)
def test_a_node_of_another_cluster_or_quorum_is_told_nothing_and_not_listened_to(
    cluster: str | None, origin: Uuid, error: ErrorCode
) -> None:
    node = lost()
    lie = ExchangeRequest(key_of(9), (contact(2, 666, epoch=1000, start=1 << 50),), cluster, origin=origin)
    node.step(Received("t", lie))
    assert node.replies["t"] == ExchangeResponse(error, (), 0, QUORUM)
    assert [c.key.id for c in node.node.core.peers.book] == [1]


def test_an_answer_of_another_quorum_is_not_believed() -> None:
    node = lost()
    wait(node)
    lie = ExchangeResponse(ErrorCode.NONE, (contact(2, 666, epoch=9, start=1 << 50),), origin=OTHER)
    node.step(Answered(asked(node)["known", 9].correlation, lie))
    assert [c.key.id for c in node.node.core.peers.book] == [1]


def test_an_epoch_that_no_quorum_can_be_in_is_not_believed() -> None:
    node = lost()
    lie = ExchangeRequest(key_of(2), (contact(2, 666, epoch=(1 << 31) - 1),), CLUSTER)
    node.step(Received("t", lie))
    assert [c.key.id for c in node.node.core.peers.book] == [1]


def test_a_lie_costs_a_dial_and_the_address_of_the_set_is_tried_too() -> None:
    node = lost()
    lie = ExchangeRequest(key_of(2), (contact(2, 666, start=1 << 50),), CLUSTER, origin=QUORUM)
    node.step(Received("t", lie))
    places = set()
    for _ in range(30):
        wait(node, 0.5)
        for send in [s for s in node.sent if isinstance(s.request, VoteRequest) and s.to == 2]:
            places.add(send.endpoint)
            node.step(Failed(send.correlation, "refused"))
        node.sent.clear()
    assert places == {Endpoint("CONTROLLER", "n2", 666), endpoint_of(2), KNOWN}


def test_the_exchange_changes_nothing_but_the_book() -> None:
    node = lost()
    before = (node.node.epoch, node.role, node.node.core.superseded, node.node.core.origin)
    said = ExchangeRequest(key_of(2), (contact(2, 77, epoch=500, start=9),), CLUSTER, 7, QUORUM)
    node.step(Received("t", said))
    assert before == (node.node.epoch, node.role, node.node.core.superseded, node.node.core.origin)


def test_a_voter_that_starts_under_the_same_leader_tells_it_where_it_is_now() -> None:
    node = Solo(saved=ElectionState(3, 2), endpoint=Endpoint("CONTROLLER", "new", 77))
    node.mono += 2.5
    for send in [s for s in node.sent if isinstance(s.request, FetchRequest)]:
        node.step(Answered(send.correlation, FetchResponse(ErrorCode.NONE, 3, 2, (endpoint_of(2),), 0, 0)))
    updates = [send.request for send in node.sent if isinstance(send.request, UpdateVoterRequest)]
    assert [update.endpoints for update in updates] == [(Endpoint("CONTROLLER", "new", 77),)]


def test_a_configured_address_that_does_not_answer_is_not_proposed_again() -> None:
    """The voters' entries in the log may say the same as the file, and be as old."""
    solo = Solo((1, 2), config=RaftConfig(cluster_id=CLUSTER, bootstrap=(endpoint_of(2),)))
    assert solo.node.exchange._found(solo.node.core) == []
    elsewhere = Solo((1, 2), config=RaftConfig(cluster_id=CLUSTER, bootstrap=(Endpoint("C", "old", 1),)))
    assert elsewhere.node.exchange._found(elsewhere.node.core) == [endpoint_of(2)]
