"""A grid of Flower in this process: real ServerApp side, real ClientApps, no network."""

from collections.abc import Callable

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

Meddle = Callable[[Message], list[Message]]


class LocalGrid(Grid):
    """Calls ClientApps when messages are pushed; replies wait until they are pulled.

    ``meddle``, by node, may drop, repeat or replace the reply of that node; ``late`` nodes have
    their replies held back until `release`.
    """

    def __init__(self, apps: dict[int, ClientApp], meddle: dict[int, Meddle] | None = None):
        self.apps, self.meddle = dict(apps), dict(meddle or {})
        self.late: set[int] = set()
        self.sent: list[Message] = []
        self._replies: list[Message] = []
        self._held: list[Message] = []
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 7, 1

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self):
        return list(self.apps)

    def push_messages(self, messages):
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids):
        wanted = set(message_ids)
        found = [m for m in self._replies if m.metadata.reply_to_message_id in wanted]
        self._replies = [m for m in self._replies if m not in found]
        return found

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))

    def release(self) -> None:
        """Deliver what was held back."""
        self._replies += self._held
        self._held = []

    def _push(self, message: Message) -> str:
        message.metadata.__dict__["_message_id"] = message.object_id
        self.sent.append(message)
        node = message.metadata.dst_node_id
        context = Context(7, node, {}, RecordDict(), {})
        there = message_from_proto(message_to_proto(message))
        try:
            reply = self.apps[node](there, context)
        except Exception as error:
            reply = Message(Error(2, str(error)), reply_to=there)
        back = message_from_proto(message_to_proto(reply))
        replies = self.meddle.get(node, lambda m: [m])(back)
        (self._held if node in self.late else self._replies).extend(replies)
        return message.metadata.message_id
