"""Providers of models: files of scikit-learn, servers, functions; and what the catalog keeps of models."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment, udf

LINEAR = "tests/golden/models/data/linear.onnx"


SEEN: list[str] = []


def ran() -> str:
    SEEN.append("ran")
    return "a text has no predict"


class Runs:
    """What a pickle does when it is read."""

    def __reduce__(self) -> Any:
        return ran, ()


def rows(env: TableEnvironment, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in env.execute_sql(sql).collect()]


def failure(env: TableEnvironment, sql: str) -> SqlEngineError:
    with pytest.raises(SqlEngineError) as error:
        list(env.execute_sql(sql).collect())
    return error.value


def points(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE points (id INT, x DOUBLE, y DOUBLE)")
    env.execute_sql("INSERT INTO points VALUES (1, 1, 2), (2, 5, 5), (3, NULL, 1)")


PREDICT = "SELECT id, p FROM ML_PREDICT(TABLE points, MODEL m, DESCRIPTOR(x, y))"


def test_a_file_of_skops_is_data(tmp_path: Path) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    skops = pytest.importorskip("skops.io")
    model = linear.LogisticRegression().fit([[0.0, 0.0], [9.0, 9.0]], ["low", "high"])
    skops.dump(model, tmp_path / "m.skops")
    env = TableEnvironment.create()
    points(env)
    env.execute_sql(
        f"CREATE MODEL m INPUT (x DOUBLE, y DOUBLE) OUTPUT (p STRING) WITH ('provider' = 'sklearn', 'path' = '{tmp_path}/m.skops')"
    )
    env.execute_sql(
        "CREATE MODEL shares INPUT (x DOUBLE, y DOUBLE) OUTPUT (p ARRAY<DOUBLE>) "
        f"WITH ('provider' = 'sklearn', 'path' = '{tmp_path}/m.skops', 'method' = 'predict_proba')"
    )
    env.execute_sql(
        "CREATE MODEL each INPUT (x DOUBLE, y DOUBLE) OUTPUT (high DOUBLE, low DOUBLE) "
        f"WITH ('provider' = 'sklearn', 'path' = '{tmp_path}/m.skops', 'method' = 'predict_proba')"
    )
    assert rows(env, PREDICT) == [(1, "low"), (2, "high"), (3, None)]
    expected = model.predict_proba([[1.0, 2.0], [5.0, 5.0]])
    found = rows(env, PREDICT.replace("MODEL m", "MODEL shares"))
    np.testing.assert_allclose([found[0][1], found[1][1]], expected)
    found = rows(env, "SELECT high, low FROM ML_PREDICT(TABLE points, MODEL each, DESCRIPTOR(x, y)) WHERE id < 3")
    np.testing.assert_allclose(found, expected)
    env.execute_sql(
        "CREATE MODEL wrong INPUT (x DOUBLE, y DOUBLE) OUTPUT (p STRING) "
        f"WITH ('provider' = 'sklearn', 'path' = '{tmp_path}/m.skops', 'method' = 'transform')"
    )
    assert "has no method 'transform'" in failure(env, PREDICT.replace("MODEL m", "MODEL wrong")).message


def test_texts_go_to_a_vectorizer(tmp_path: Path) -> None:
    pipeline = pytest.importorskip("sklearn.pipeline")
    text = pytest.importorskip("sklearn.feature_extraction.text")
    bayes = pytest.importorskip("sklearn.naive_bayes")
    skops = pytest.importorskip("skops.io")
    model = pipeline.make_pipeline(text.CountVectorizer(), bayes.MultinomialNB())
    skops.dump(model.fit(["good day", "bad rain"], ["glad", "sad"]), tmp_path / "m.skops")
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE notes (t STRING)")
    env.execute_sql("INSERT INTO notes VALUES ('a good one'), ('bad')")
    env.execute_sql(
        "CREATE MODEL m INPUT (t STRING) OUTPUT (p STRING) "
        f"WITH ('provider' = 'sklearn', 'path' = '{tmp_path}/m.skops', 'input-shape' = 'column')"
    )
    assert sorted(rows(env, "SELECT * FROM ML_PREDICT(TABLE notes, MODEL m, DESCRIPTOR(t))")) == [
        ("a good one", "glad"),
        ("bad", "sad"),
    ]


def test_a_pickle_is_read_only_where_the_session_says_so(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    path = tmp_path / "m.pkl"
    path.write_bytes(pickle.dumps(Runs()))
    env = TableEnvironment.create()
    points(env)
    env.execute_sql(
        f"CREATE MODEL m INPUT (x DOUBLE, y DOUBLE) OUTPUT (p DOUBLE) WITH ('provider' = 'sklearn', 'path' = '{path}')"
    )
    SEEN.clear()
    assert failure(env, PREDICT).code == "E3141"
    assert SEEN == []
    refused = failure(
        env,
        "CREATE MODEL n INPUT (x DOUBLE) OUTPUT (p DOUBLE) "
        f"WITH ('provider' = 'sklearn', 'path' = '{path}', 'sqlengine.models.allow-pickle' = 'true')",
    )
    assert refused.code == "E1503"
    env.execute_sql("SET 'sqlengine.models.allow-pickle' = 'true'")
    failure(env, PREDICT)
    assert SEEN == ["ran"]


def test_classes_in_a_file_of_skops_are_named_to_be_loaded(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    skops = pytest.importorskip("skops.io")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    skops.dump(preprocessing.FunctionTransformer(json.dumps), tmp_path / "m.skops")
    env = TableEnvironment.create()
    points(env)
    env.execute_sql(
        "CREATE MODEL m INPUT (x DOUBLE, y DOUBLE) OUTPUT (p DOUBLE) "
        f"WITH ('provider' = 'sklearn', 'path' = '{tmp_path}/m.skops', 'method' = 'transform')"
    )
    refused = failure(env, PREDICT)
    assert refused.code == "E3141"
    assert "json.dumps" in refused.message


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    env = TableEnvironment.create()
    points(env)
    (tmp_path / "m.onnx").write_bytes(b"nothing")
    for path in ("m.onnx", "n.onnx"):
        env.execute_sql(
            "CREATE TEMPORARY MODEL m INPUT (x DOUBLE, y DOUBLE) OUTPUT (p DOUBLE) "
            f"WITH ('provider' = 'onnx', 'path' = '{tmp_path}/{path}')"
        )
        assert failure(env, PREDICT).code == "E3140"
        env.execute_sql("DROP TEMPORARY MODEL m")


def test_what_a_model_does_wrong_is_told() -> None:
    env = TableEnvironment.create()
    points(env)

    @udf(result_type="DOUBLE", func_type="arrow")
    def broken(values: Any, others: Any) -> Any:
        raise ValueError("out of order")

    @udf(result_type="STRING", func_type="arrow")
    def words(values: Any, others: Any) -> Any:
        return ["nothing"] * len(values)

    env.create_temporary_system_function("broken", broken)
    env.create_temporary_system_function("words", words)
    for name in ("broken", "words"):
        env.execute_sql(
            f"CREATE MODEL {name} INPUT (x DOUBLE, y DOUBLE) OUTPUT (p DOUBLE) WITH ('provider' = 'python', 'function' = '{name}')"
        )
    assert "out of order" in failure(env, PREDICT.replace("MODEL m", "MODEL broken")).message
    assert failure(env, PREDICT.replace("MODEL m", "MODEL words")).code == "E2120"
    env.execute_sql(
        "CREATE MODEL two INPUT (x DOUBLE, y DOUBLE) OUTPUT (p DOUBLE, q DOUBLE) WITH ('provider' = 'python', 'function' = 'broken')"
    )
    assert failure(env, PREDICT.replace("MODEL m", "MODEL two")).code == "E1451"
    env.execute_sql(
        "CREATE MODEL none INPUT (x DOUBLE, y DOUBLE) OUTPUT (p DOUBLE) WITH ('provider' = 'python', 'function' = 'os.system')"
    )
    assert failure(env, PREDICT.replace("MODEL m", "MODEL none")).code == "E1203"


# --- a server
# ----------------------------------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Answers as OpenAI does, after as many failures as it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.failures = 0
        self.asked: list[tuple[str, str | None, dict[str, Any]]] = []
        self.guard = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.guard:
            self.server.asked.append((self.path, self.headers.get("Authorization"), body))
            failing = self.server.failures > 0
            self.server.failures -= failing
        if failing:
            self._send(503, {"error": "busy"})
        elif self.headers.get("Authorization") != "Bearer sss":
            self._send(401, {"error": "api_key=sss is not known"})
        elif self.path.endswith("embeddings"):
            texts = body["input"]
            data = [{"index": i, "embedding": [float(len(t)), 1.0]} for i, t in enumerate(texts)]
            self._send(200, {"data": data[::-1]})
        else:
            text = body["messages"][-1]["content"]
            self._send(200, {"choices": [{"message": {"content": text.upper()}}]})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def notes(server: Server, path: str, output: str, more: str = "") -> TableEnvironment:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE notes (id INT, t STRING)")
    env.execute_sql("INSERT INTO notes VALUES (1, 'pen'), (2, 'inkwell'), (3, NULL), (4, 'pen')")
    env.execute_sql(
        f"CREATE MODEL m INPUT (t STRING) OUTPUT (a {output}) WITH ('provider' = 'openai', 'model' = 'small', 'api-key' = 'sss', "
        f"'endpoint' = 'http://127.0.0.1:{server.server_address[1]}/v1/{path}', 'retry-delay' = '0 ms'{more})"
    )
    return env


ASK = "SELECT id, a FROM ML_PREDICT(TABLE notes, MODEL m, DESCRIPTOR(t))"


def test_completions_of_a_server(server: Server) -> None:
    env = notes(server, "chat/completions", "STRING", ", 'temperature' = '0.5', 'stop' = 'a,b'")
    server.failures = 2
    assert sorted(rows(env, ASK)) == [(1, "PEN"), (2, "INKWELL"), (3, None), (4, "PEN")]
    # Two different texts, and two requests that were sent again.
    assert len(server.asked) == 4
    _, _, body = server.asked[0]
    assert (body["model"], body["temperature"], body["stop"]) == ("small", 0.5, ["a", "b"])


def test_embeddings_of_a_server_are_asked_for_together(server: Server) -> None:
    env = notes(server, "embeddings", "ARRAY<FLOAT>", ", 'dimension' = '2'")
    assert sorted(rows(env, ASK)) == [(1, [3.0, 1.0]), (2, [7.0, 1.0]), (3, None), (4, [3.0, 1.0])]
    assert [(sorted(body["input"]), body["dimensions"]) for _, _, body in server.asked] == [(["inkwell", "pen"], 2)]


def test_a_server_that_refuses(server: Server) -> None:
    env = notes(server, "chat/completions", "STRING")
    env.execute_sql("ALTER MODEL m SET ('api-key' = 'wrong')")
    told = failure(env, ASK)
    assert told.code == "E3143"
    assert "HTTP 401" in told.message
    assert "sss" not in str(told)
    assert len({body["messages"][-1]["content"] for _, _, body in server.asked}) == len(server.asked)
    env.execute_sql("ALTER MODEL m SET ('error-handling-strategy' = 'ignore')")
    assert sorted(rows(env, ASK)) == [(1, None), (2, None), (3, None), (4, None)]


def test_what_a_server_does_not_take_is_refused(server: Server) -> None:
    env = notes(server, "chat/completions", "INT")
    assert failure(env, ASK).code == "E1451"
    env.execute_sql("ALTER MODEL m SET ('endpoint' = 'http://host/v2/other')")
    assert failure(env, ASK).code == "E1500"


# --- what is kept
# ------------------------------------------------------------------------------------------------------------------


def make_all(env: TableEnvironment) -> None:
    env.execute_sql(f"CREATE CONNECTION files WITH ('path' = '{LINEAR}', 'password' = 'sss')")
    env.execute_sql("ALTER CONNECTION files RESET ('password')")
    env.execute_sql(
        "CREATE MODEL m INPUT (x FLOAT COMMENT 'it''s x', y FLOAT) OUTPUT (score FLOAT) WITH ('provider' = 'onnx', 'connection' = 'files')"
    )


def test_a_database_in_a_folder_keeps_models(tmp_path: Path) -> None:
    path = str(tmp_path / "shop")
    predict = "SELECT id, score FROM ML_PREDICT(TABLE points, MODEL m, DESCRIPTOR(x, y))"
    with TableEnvironment.create(path=path) as env:
        make_all(env)
        env.execute_sql(
            "CREATE TEMPORARY MODEL own INPUT (x FLOAT, y FLOAT) OUTPUT (z FLOAT) "
            f"WITH ('provider' = 'onnx', 'path' = '{LINEAR}')"
        )
        env.execute_sql("CREATE TABLE points (id INT PRIMARY KEY NOT ENFORCED, x FLOAT, y FLOAT)")
        env.execute_sql("INSERT INTO points VALUES (1, 1, 2), (2, 3, 0)")
        env.execute_sql(f"CREATE MATERIALIZED VIEW scores AS {predict}")
        assert (
            failure(
                env, "CREATE MATERIALIZED VIEW v AS SELECT * FROM ML_PREDICT(TABLE points, MODEL own, DESCRIPTOR(x, y))"
            ).code
            == "E3705"
        )
    with TableEnvironment.create(path=path) as env:
        assert rows(env, "SHOW MODELS") == [("m",)]
        assert rows(env, "DESCRIBE MODEL m")[0][4] == "it's x"
        env.execute_sql("DELETE FROM points WHERE id = 1")
        env.execute_sql("INSERT INTO points VALUES (3, 0, 0)")
        assert sorted(rows(env, "SELECT * FROM scores")) == [(2, 6.5), (3, 0.5)]
        env.execute_sql("DROP MATERIALIZED VIEW scores")
        env.execute_sql("DROP MODEL m")
        env.execute_sql("DROP CONNECTION files")
    with TableEnvironment.create(path=path) as env:
        assert rows(env, "SHOW MODELS") == []
        assert rows(env, "SHOW CONNECTIONS") == []


def test_a_catalog_in_a_file_keeps_models(tmp_path: Path) -> None:
    file = tmp_path / "work.sql"
    with TableEnvironment.create() as env:
        env.execute_sql(f"CREATE CATALOG work WITH ('type' = 'file', 'path' = '{file}')")
        env.execute_sql("USE CATALOG work")
        make_all(env)
        assert failure(env, "DROP DATABASE `default`").code == "E1405"
    with TableEnvironment.create() as env:
        env.execute_sql(f"CREATE CATALOG work WITH ('type' = 'file', 'path' = '{file}')")
        env.execute_sql("USE CATALOG work")
        assert rows(env, "SHOW MODELS") == [("m",)]
        assert rows(env, "SHOW CONNECTIONS FROM work.`default`") == [("files",)]
