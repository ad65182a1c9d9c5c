"""A node of a federation, by Flower's fleet interface: it asks for messages, trains on what stays here, sends an update.

It runs Flower's ClientApp in its own process. It takes no app from the SuperLink, and installs nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from engines.settings import RankSettings
from flwr.app import Context, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects, push_objects
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from .superlink import FLEET_PORT

HEARTBEAT_S = 10.0
"""The shortest that Flower takes. A node that was killed can come back after twice this time."""
POLL_S = 0.2
AGAIN_S = 2.0


class FleetNode:
    """The connection of one node, with its registered key."""

    def __init__(self, settings: RankSettings) -> None:
        keys = Path(settings.federated["keys"])
        private = load_pem_private_key((keys / "node.key").read_bytes(), None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{keys / 'node.key'} is no key of a node. Next: remove the job's folder, start again")
        self._public = public_key_to_bytes(private.public_key())
        self._client = FleetHttpClient.from_server_address(
            f"{settings.addresses[0]}:{FLEET_PORT}",
            insecure=False,
            root_certificates=(keys / "aggregator.pem").read_bytes(),
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(private, private.public_key()),
            ],
        )
        self._lost = threading.Event()

    def serve(self, app: ClientApp, is_over: Callable[[], bool]) -> None:
        """Join, and answer messages until it is over. Raises :class:`httpx.HTTPError` when the connection is lost."""
        found = self._client.ActivateNode(ActivateNodeRequest(public_key=self._public, heartbeat_interval=HEARTBEAT_S))
        node = Node(node_id=found.node_id)
        self._lost.clear()
        beating = threading.Thread(target=self._beat, args=(node,), daemon=True)
        beating.start()
        try:
            while not is_over():
                if self._lost.is_set():
                    raise httpx.ConnectError("the SuperLink does not answer heartbeats")
                message = self._newest(node)
                if message is None:
                    time.sleep(POLL_S)
                    continue
                began = time.monotonic()
                TaskIdentity.run_id, TaskIdentity.node_id = message.metadata.run_id, node.node_id
                context = Context(
                    run_id=message.metadata.run_id,
                    node_id=node.node_id,
                    node_config={},
                    state=RecordDict(),
                    run_config={},
                )
                self._send(node, app(message=message, context=context), time.monotonic() - began)
        finally:
            self._lost.set()

    def _beat(self, node: Node) -> None:
        request = SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT_S)
        while not self._lost.wait(HEARTBEAT_S / 3):
            try:
                if self._client.SendNodeHeartbeat(request).success:
                    continue
            except httpx.TransportError:
                continue  # the next one may arrive; if none does, the node is taken for offline, and joins again
            except (httpx.HTTPError, ValueError):
                pass
            self._lost.set()

    def _newest(self, node: Node) -> Message | None:
        """Return the last message that waits; a round that has passed needs no answer."""
        found = None
        while (response := self._client.PullMessages(PullMessagesRequest(node=node))).messages_list:
            metadata = message_from_proto(response.messages_list[0]).metadata
            pull = make_pull_object_fn_protobuf(self._client.PullObject, node, metadata.run_id)
            names = [each.object_id for each in iterate_object_tree(response.message_object_trees[0])]
            contents = pull_objects(names, pull)
            make_confirm_message_received_fn_protobuf(self._client.ConfirmMessageReceived, node, metadata.run_id)(
                metadata.message_id
            )
            inflated = inflate_object_from_contents(metadata.message_id, contents)
            if isinstance(inflated, Message):
                found = inflated
                found.metadata.__dict__["_message_id"] = metadata.message_id
        return found

    def _send(self, node: Node, reply: Message, took_s: float) -> None:
        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            answer = self._client.PushMessages(
                PushMessagesRequest(
                    node=node,
                    messages_list=[message_to_proto(remove_content_from_message(reply))],
                    message_object_trees=[get_object_tree(reply)],
                    clientapp_runtime_list=[took_s],
                )
            )
            push_objects(
                get_all_nested_objects(reply),
                make_push_object_fn_protobuf(self._client.PushObject, node, reply.metadata.run_id, answer.session_id),
                object_ids_to_push=set(answer.objects_to_push),
            )
