"""Which function decides a request to the controller, by API key.

A module of decisions is loaded with the first request that it decides: all of them cost a start 15 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.controller.decisions import brokers
from barnabas.controller.view import Deciding, Decision, View

__all__ = ["Decider", "decider_of"]

Decider = Callable[[View, Any], Decision | Deciding]


def decider_of(key: int) -> Decider | None:
    """The function that decides requests of that API key; None: they are none for the controller."""
    return _of_brokers(key) or _of_partitions(key) or _of_settings(key)


def _of_brokers(key: int) -> Decider | None:
    match key:
        case 62:
            return brokers.register_broker
        case 63:
            return brokers.heartbeat
        case 64:
            return brokers.unregister_broker
        case 70:
            return brokers.register_controller
        case 94:
            return brokers.unregister_controller
        case 67:
            from barnabas.controller.decisions.producer_ids import allocate_producer_ids

            return allocate_producer_ids
        case 73:
            from barnabas.controller.decisions.directories import assign_replicas_to_dirs

            return assign_replicas_to_dirs
    return None


def _of_partitions(key: int) -> Decider | None:
    match key:
        case 19:
            from barnabas.controller.decisions.topics import create_topics

            return create_topics
        case 20:
            from barnabas.controller.decisions.topics import delete_topics

            return delete_topics
        case 37:
            from barnabas.controller.decisions.topics import create_partitions

            return create_partitions
        case 43:
            from barnabas.controller.decisions.elect_leaders import elect_leaders

            return elect_leaders
        case 45:
            from barnabas.controller.decisions.reassignments import alter_reassignments

            return alter_reassignments
        case 56:
            from barnabas.controller.decisions.isr import alter_partition

            return alter_partition
    return None


def _of_settings(key: int) -> Decider | None:
    match key:
        case 30:
            from barnabas.controller.decisions.acls import create_acls

            return create_acls
        case 31:
            from barnabas.controller.decisions.acls import delete_acls

            return delete_acls
        case 33:
            from barnabas.controller.decisions.configs import alter_configs

            return alter_configs
        case 38:
            from barnabas.controller.decisions.users.delegation_tokens import create_token

            return create_token
        case 39:
            from barnabas.controller.decisions.users.delegation_tokens import renew_token

            return renew_token
        case 40:
            from barnabas.controller.decisions.users.delegation_tokens import expire_token

            return expire_token
        case 44:
            from barnabas.controller.decisions.configs import incremental_alter_configs

            return incremental_alter_configs
        case 49:
            from barnabas.controller.decisions.client_quotas import alter_client_quotas

            return alter_client_quotas
        case 51:
            from barnabas.controller.decisions.users.scram_users import alter_user_scram_credentials

            return alter_user_scram_credentials
        case 57:
            from barnabas.controller.decisions.update_features import update_features

            return update_features
    return None
