"""A node without the controller role does not start in a voter's place."""

from __future__ import annotations

import pytest
from tests.controller.cluster import CLUSTER
from tests.server.quorum_node import DIRECTORY, OWN, config, formatted, make, run, running

from barnabas.errors import ConfigError
from barnabas.log.files.meta_properties import read_meta_properties
from barnabas.model import Uuid
from barnabas.raft.voters import Voter, VoterSet
from barnabas.server.kraft.settings import QuorumSettings

AS_BROKER = {
    "process_roles": "broker",
    "node_id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "controller_listener_names": "CONTROLLER",
    "controller_quorum_bootstrap_servers": "127.0.0.1:9094",
}


def test_a_node_that_its_own_log_names_as_a_voter_does_not_start_without_the_controller_role() -> None:
    disk = formatted()

    async def story() -> None:
        async with running(disk):
            pass
        refused = make(disk, **AS_BROKER)
        with pytest.raises(ConfigError) as caught:
            await refused.start()
        meta = read_meta_properties(disk, DIRECTORY)
        assert meta is not None
        remove = f"remove-controller --controller-id 1 --controller-directory-id {meta.directory_id}"
        assert "is a voter" in caught.value.message and remove in (caught.value.next_step or "")
        async with running(disk):
            pass  # with its role it starts as before

    run(story)


def test_a_broker_and_the_new_disk_of_a_voter_may_start_without_the_role() -> None:
    given = config(log_dirs=DIRECTORY, **AS_BROKER)
    old = QuorumSettings.of(given, cluster_id=CLUSTER, directory_id=Uuid.of(1, 1), endpoints=OWN)
    new = QuorumSettings.of(given, cluster_id=CLUSTER, directory_id=Uuid.of(1, 2), endpoints=OWN)
    voters = VoterSet.of([Voter(old.key, OWN)])
    new.check_role(voters)
    old.check_role(VoterSet.EMPTY)
    with pytest.raises(ConfigError):
        old.check_role(voters)
