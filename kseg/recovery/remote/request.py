"""The request for a rebuild from remote storage."""

from dataclasses import dataclass

from kseg.stores.remote.choice import is_wanted


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """``logs``: a log directory of the old cluster; ``new_cluster``: a log directory of the new cluster.

    ``topic_id`` and the ids of ``new_cluster`` replace the topics' own; ``name`` replaces a topic's name.
    """

    store: str
    output: str
    topics: tuple[str, ...] = ()
    logs: str | None = None
    new_cluster: str | None = None
    topic_id: str | None = None
    name: str | None = None
    resets_epochs: bool = False
    interval_bytes: int | None = None
    jobs: int = 1

    def wants(self, topic: str) -> bool:
        return is_wanted(topic, self.topics)

    @property
    def facts(self) -> dict[str, object]:
        """The options that must be equal when an interrupted run is resumed."""
        return {
            "store": self.store, "topics": list(self.topics), "logs": self.logs, "newCluster": self.new_cluster,
            "topicId": self.topic_id, "name": self.name, "resetEpochs": self.resets_epochs,
        }  # fmt: skip
