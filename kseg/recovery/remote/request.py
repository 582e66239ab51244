"""What a rebuild from remote storage was asked for."""

from dataclasses import dataclass

from kseg.stores.remote.choice import is_wanted


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """``logs`` is the log directory of a broker of the old cluster, ``new_cluster`` one of a broker of the new one.

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
        """What has to be the same when an interrupted run goes on."""
        return {
            "store": self.store, "topics": list(self.topics), "logs": self.logs, "newCluster": self.new_cluster,
            "topicId": self.topic_id, "name": self.name, "resetEpochs": self.resets_epochs,
        }  # fmt: skip
