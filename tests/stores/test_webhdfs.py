"""HDFS over http: errors are no bytes of files, and requests reach the active name node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("requests", reason="requests is not installed")

from kseg.errors import KsegError, PathError
from kseg.stores.http_requests import ATTEMPTS
from kseg.stores.object_urls import UrlObjects
from kseg.stores.stored_object import StoredObject
from webhdfs_server import DROPPED, HALF, HALF_UNANNOUNCED, Cluster, closed_address, hdfs

CONTENT = bytes(range(256)) * 8
SECRET = "t0psecret"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with hdfs() as found:
        found.put("/logs/orders-0/a b=%41.log", CONTENT)
        found.put("/logs/orders-0/empty.log", b"")
        yield found


def objects_of(cluster: Cluster, scheme: str = "webhdfs", **settings: Any) -> UrlObjects:
    pauses = settings.pop("pauses", [])
    return UrlObjects(f"{scheme}://{cluster.address}", settings, pauses.append)


NAME = "logs/orders-0/a b=%41.log"


def test_folders_and_files(cluster: Cluster) -> None:
    objects = objects_of(cluster)
    assert objects.folder("") == ([], ["logs"])
    assert objects.folder("logs") == ([], ["orders-0"])
    files = [StoredObject(NAME, len(CONTENT)), StoredObject("logs/orders-0/empty.log", 0)]
    assert objects.folder("logs/orders-0") == (files, [])
    assert objects.folder(NAME) == ([], [])
    assert objects.info(NAME) == files[0]
    assert objects.info("logs") is None
    for missing in (objects.info, objects.folder):
        with pytest.raises(FileNotFoundError):
            missing("logs/other-0")


def test_ranges_come_from_the_data_node_and_end_with_the_file(cluster: Cluster) -> None:
    objects = objects_of(cluster)
    assert objects.read(NAME, 100, 300) == CONTENT[100:400]
    assert cluster.data_node.requests[-1] | {"user.name": ""} == {
        "op": "OPEN", "offset": "100", "length": "300", "user.name": "",
    }  # fmt: skip
    assert len(cluster.name_nodes[0].requests) == 1
    assert objects.read(NAME, 2000, 300) == CONTENT[2000:]
    assert objects.read(NAME, len(CONTENT), 10) == b""
    assert objects.read("logs/orders-0/empty.log", 0, 10) == b""
    with pytest.raises(PathError, match="no such object"):
        objects.read("logs/orders-0/other.log", 0, 10)


def test_answers_of_a_failing_data_node_are_no_content(cluster: Cluster) -> None:
    pauses: list[float] = []
    objects = objects_of(cluster, pauses=pauses)
    cluster.data_node.failures = [503, 500, DROPPED, HALF, HALF_UNANNOUNCED]
    assert objects.read(NAME, 100, 300) == CONTENT[100:400]
    assert pauses == [0.5, 1, 2, 4, 8]
    for failure in (404, 403):
        cluster.data_node.failures = [failure]
        with pytest.raises(PathError, match=rf"{NAME}: {cluster.data_node.address}: the server answered {failure}"):
            objects.read(NAME, 100, 300)


def test_a_cluster_that_stays_busy_is_named(cluster: Cluster) -> None:
    for server in (cluster.name_nodes[0], cluster.data_node):
        server.failures = [503] * 2 * ATTEMPTS
        with pytest.raises(PathError, match=rf"{NAME}: {server.address}: the server answered 503"):
            objects_of(cluster).read(NAME, 0, 10)
        assert len(server.failures) == ATTEMPTS
        server.failures.clear()
    cluster.data_node.failures = [HALF_UNANNOUNCED]
    with pytest.raises(PathError, match="5 of 10 bytes were sent"):
        objects_of(cluster, max_attempts="1").read(NAME, 0, 10)


def test_the_active_name_node_is_found_again(cluster: Cluster) -> None:
    first, second = cluster.name_nodes
    nodes = (closed_address(), second.address, first.address)
    objects = objects_of(cluster, "hdfs", name_nodes=nodes)
    assert objects.read(NAME, 0, 10) == CONTENT[:10]
    assert objects.read(NAME, 10, 10) == CONTENT[10:20]
    assert (len(second.requests), len(first.requests)) == (1, 2)
    first.is_standby, second.is_standby = True, False
    assert objects.read(NAME, 20, 10) == CONTENT[20:30]
    assert objects.info("logs") is None


def test_a_writer_finds_the_active_name_node(cluster: Cluster) -> None:
    first, second = cluster.name_nodes
    objects_of(cluster, "hdfs", name_nodes=(second.address, first.address)).write("new/a", CONTENT)
    assert cluster.files["/new/a"] == CONTENT


def test_a_failover_is_waited_for(cluster: Cluster) -> None:
    first, second = cluster.name_nodes
    first.is_standby = True
    pauses: list[float] = []

    def become_active(seconds: float) -> None:
        pauses.append(seconds)
        second.is_standby = len(pauses) < 2

    settings = {"name_nodes": f"{first.address},{second.address}"}
    objects = UrlObjects("hdfs://archive", settings, become_active)
    assert objects.read(NAME, 0, 10) == CONTENT[:10]
    assert pauses == [0.5, 1]
    second.is_standby = True
    with pytest.raises(
        PathError, match=rf"^hdfs://archive/logs: no active name node: .*{first.address}: Oper.*standby"
    ):
        UrlObjects("hdfs://archive", settings, [].append).info("logs")


def test_a_name_node_that_is_not_there_is_named(cluster: Cluster) -> None:
    address = closed_address()
    pauses: list[float] = []
    with pytest.raises(PathError, match=rf"^webhdfs://{address}/logs: {address}: no connection$"):
        UrlObjects(f"webhdfs://{address}", {}, pauses.append).info("logs")
    assert pauses == []
    cluster.data_node.shutdown()
    cluster.data_node.server_close()
    with pytest.raises(PathError, match=rf"{NAME}: {cluster.data_node.address}: no connection$"):
        objects_of(cluster, pauses=pauses).read(NAME, 0, 10)
    assert len(pauses) == ATTEMPTS - 1, "another data node may be chosen"


def test_slow_servers_have_a_time_limit(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import requests

    wait = MagicMock(side_effect=requests.ReadTimeout)
    monkeypatch.setattr(requests.Session, "request", wait)
    with pytest.raises(PathError, match="no answer within 7 seconds"):
        objects_of(cluster, request_timeout="7").info("logs")
    assert wait.call_args.kwargs["timeout"] == 7


def test_files_are_written_replaced_renamed_and_removed(cluster: Cluster, tmp_path: Path) -> None:
    objects = objects_of(cluster)
    cluster.data_node.failures = [503]
    objects.write("new/a", CONTENT)
    objects.write("new/a", CONTENT[:5])
    objects.write("new/empty", b"")
    (tmp_path / "b").write_bytes(CONTENT)
    objects.upload("new/b", str(tmp_path / "b"))
    assert [cluster.files[f"/new/{name}"] for name in ("a", "empty", "b")] == [CONTENT[:5], b"", CONTENT]
    system = objects._system
    objects.put("new/b", "new/c")
    with pytest.raises(OSError, match="/new/a cannot be renamed to /new/c"):
        system.mv("/new/a", "/new/c")
    objects.remove("new/c")
    assert sorted(cluster.files) == [f"/{NAME}", "/logs/orders-0/empty.log", "/new/a", "/new/empty"]
    cluster.data_node.failures = [500] * ATTEMPTS
    with pytest.raises(PathError, match=r"new/d: .* answered 500"):
        objects.write("new/d", CONTENT)


def test_the_user_is_that_of_hadoop(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def user(url: str, **settings: Any) -> str | None:
        UrlObjects(url, settings).info("logs")
        return cluster.name_nodes[0].requests[-1].get("user.name")

    monkeypatch.setattr("getpass.getuser", lambda: "of-system")
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    assert user(f"webhdfs://{cluster.address}") == "of-system"
    monkeypatch.setenv("HADOOP_USER_NAME", "of-hadoop")
    assert user(f"webhdfs://{cluster.address}") == "of-hadoop"
    assert user(f"webhdfs://of-url@{cluster.address}") == "of-url"
    assert user(f"webhdfs://of-url@{cluster.address}", user="given") == "given"


def test_tokens_are_sent_and_not_shown(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.token = SECRET
    objects = objects_of(cluster, token=SECRET)
    assert objects.read(NAME, 0, 10) == CONTENT[:10]
    assert "user.name" not in cluster.name_nodes[0].requests[-1]
    with pytest.raises(PathError, match="token is expired"):
        objects_of(cluster).info("logs")
    address, errors = closed_address(), []
    for failing in (503, 404, DROPPED, None):
        cluster.name_nodes[0].failures = [failing or 200] * ATTEMPTS
        url = f"webhdfs://{cluster.address if failing else address}"
        with pytest.raises(PathError) as raised:
            UrlObjects(url, {"token": SECRET}, [].append).info("logs")
        errors.append(f"{raised.value!r}{raised.value.__cause__!r}")
    assert SECRET not in "".join(errors)


def test_passwords_go_to_the_name_node_only(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import requests

    sent: list[tuple[str, bool]] = []
    send = requests.Session.send

    def record(session: Any, request: Any, **options: Any) -> Any:
        sent.append((request.url.split("/")[2], "Authorization" in request.headers))
        return send(session, request, **options)

    monkeypatch.setattr(requests.Session, "send", record)
    assert objects_of(cluster, user="someone", password=SECRET).read(NAME, 0, 10) == CONTENT[:10]
    assert sent == [(cluster.address, True), (cluster.data_node.address, False)]


def test_kerberos_needs_a_package(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.stores.webhdfs.find_spec", lambda _: None)
    with pytest.raises(KsegError, match="Kerberos needs the package requests-kerberos"):
        objects_of(cluster, kerberos=True)


def test_default_ports_and_other_addresses() -> None:
    def address(url: str, **settings: Any) -> tuple[str, ...]:
        return UrlObjects(url, settings)._system._addresses

    assert address("webhdfs://nn") == ("nn:9870",)
    assert address("swebhdfs://nn") == ("nn:9871",)
    assert address("webhdfs://nn:50070") == ("nn:50070",)
    assert address("webhdfs://nn", port="14000", host="gateway") == ("gateway:14000",)
    assert address("hdfs://nn:8020", name_nodes="") == ("nn:9870",)
    assert address("hdfs://archive", name_nodes="nn1,nn2:50070") == ("nn1:9870", "nn2:50070")
    assert UrlObjects("swebhdfs://nn")._system._scheme == "https"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"prot": "1"}, "no parameter 'prot'"),
        ({"port": "x"}, "invalid literal for int"),
        ({"request_timeout": "soon"}, "could not convert string to float: 'soon'"),
        ({"token": "t", "user": "u"}, "must not set user or proxy_to"),
        ({"name_nodes": ",nn2"}, "has no name node"),
    ],
)
def test_invalid_settings_are_reported(settings: dict[str, str], text: str) -> None:
    with pytest.raises(KsegError, match=f"^webhdfs://nn: .*{text}"):
        UrlObjects("webhdfs://nn", settings)


def test_a_url_needs_a_name_node() -> None:
    with pytest.raises(KsegError, match="give hdfs://HOST/PATH"):
        UrlObjects("webhdfs:///logs", {})
