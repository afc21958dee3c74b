"""The methods of both `Admin`s: each is a function beside this file, called with the admin's cluster."""

from __future__ import annotations

from barnabas.client.admin import acls as of_acls
from barnabas.client.admin import groups as of_groups
from barnabas.client.admin import log_dirs as of_log_dirs
from barnabas.client.admin import moves as of_moves
from barnabas.client.admin import overview as of_cluster
from barnabas.client.admin import quorum as of_quorum
from barnabas.client.admin import quorum_detail as of_detail
from barnabas.client.admin import quotas as of_quotas
from barnabas.client.admin import resources as of_resources
from barnabas.client.admin import settings as of_settings
from barnabas.client.admin import topics as of_topics
from barnabas.client.admin import transactions as of_transactions
from barnabas.client.admin import users as of_users
from barnabas.client.for_both import as_method

__all__ = ["AdminMethods"]


class AdminMethods:
    """Methods of either `Admin`; every one raises as `Admin` says."""

    create_topic = as_method(of_topics.create_topic)
    delete_topic = as_method(of_topics.delete_topic)
    add_partitions = as_method(of_topics.add_partitions)
    topics = as_method(of_topics.topics)
    describe_topic = as_method(of_topics.describe_topic)
    offsets = as_method(of_topics.offsets)
    delete_records = as_method(of_topics.delete_records)

    configs = as_method(of_settings.configs)
    alter_configs = as_method(of_settings.alter_configs)
    resources = as_method(of_resources.resources_of)

    describe_cluster = as_method(of_cluster.describe_cluster)
    features = as_method(of_cluster.features)
    update_features = as_method(of_quorum.update_features)
    unregister_broker = as_method(of_quorum.unregister_broker)

    quorum = as_method(of_detail.quorum)
    quorum_detail = as_method(of_detail.quorum_detail)
    add_controller = as_method(of_quorum.add_controller)
    remove_controller = as_method(of_quorum.remove_controller)
    reassign_controllers = as_method(of_quorum.reassign_controllers)
    unregister_controller = as_method(of_quorum.unregister_controller)

    moves = as_method(of_moves.moves)
    move = as_method(of_moves.move)
    elect_leaders = as_method(of_moves.elect_leaders)
    recoverable = as_method(of_moves.recoverable)
    log_dirs = as_method(of_log_dirs.log_dirs)
    eligible_replicas = as_method(of_log_dirs.eligible_replicas)

    groups = as_method(of_groups.list_groups)
    describe_group = as_method(of_groups.describe_group)
    group_offsets = as_method(of_groups.group_offsets)
    set_group_offsets = as_method(of_groups.set_group_offsets)
    delete_group = as_method(of_groups.delete_group)
    delete_group_offsets = as_method(of_groups.delete_group_offsets)

    transactions = as_method(of_transactions.list_transactions)
    describe_transaction = as_method(of_transactions.describe_transaction)
    open_transactions = as_method(of_transactions.open_transactions)
    hanging_transactions = as_method(of_transactions.hanging_transactions)
    abort_transaction = as_method(of_transactions.abort_transaction)

    users = as_method(of_users.users_of)
    set_password = as_method(of_users.set_password)
    remove_user = as_method(of_users.remove_user)
    acls = as_method(of_acls.acls_of)
    create_acls = as_method(of_acls.create_acls)
    delete_acls = as_method(of_acls.delete_acls)
    quotas = as_method(of_quotas.quotas_of)
    set_quotas = as_method(of_quotas.alter_quotas)
