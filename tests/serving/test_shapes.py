"""Rekognition's clients, the OpenAPI under fire, metrics, and bodies taken apart."""

import json
import re
from pathlib import Path

import boto3
import pytest
import schemathesis
from botocore.config import Config
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from served import planted_policy, png, serving

from poolsieve.serving.bodies import parse_images, parse_multipart
from poolsieve.serving.errors import Refused
from poolsieve.serving.limits import Limits

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "poolsieve.json"


@pytest.fixture
def served(tmp_path):
    policies = [planted_policy("firearms"), planted_policy("cars", scheme="cascade")]
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    with serving(url, policies=policies, data=tmp_path, limits=Limits(deadline=30.0)) as running:
        yield running


@pytest.mark.parametrize("path", ["", "/v1/rekognition"])
def test_a_client_of_rekognition_moves_by_changing_its_endpoint(served, path):
    client = boto3.client(
        "rekognition",
        endpoint_url=served.address + path,
        region_name="us-east-1",
        aws_access_key_id=served.text,
        aws_secret_access_key="anything",
        config=Config(retries={"max_attempts": 0}, proxies={}),
    )
    found = client.detect_moderation_labels(Image={"Bytes": png(True)}, MinConfidence=60)
    assert [(label["Name"], label["ParentName"]) for label in found["ModerationLabels"]] == [
        ("firearms", ""),
        ("cars", ""),
    ]
    assert all(
        60 <= label["Confidence"] <= 100 and label["TaxonomyLevel"] == 1
        for label in found["ModerationLabels"]
    )
    assert client.detect_moderation_labels(Image={"Bytes": png(False)})["ModerationLabels"] == []
    assert (
        len(client.detect_moderation_labels(Image={"Bytes": png(False)}, MinConfidence=0)["ModerationLabels"])
        == 2
    )
    with pytest.raises(client.exceptions.InvalidImageFormatException):
        client.detect_moderation_labels(Image={"Bytes": b"no image"})
    with pytest.raises(client.exceptions.InvalidS3ObjectException):
        client.detect_moderation_labels(Image={"S3Object": {"Bucket": "bucket", "Name": "name"}})
    stranger = boto3.client(
        "rekognition",
        endpoint_url=served.address + path,
        region_name="us-east-1",
        aws_access_key_id="wrong",
        aws_secret_access_key="anything",
        config=Config(retries={"max_attempts": 0}, proxies={}),
    )
    with pytest.raises(Exception, match="UnrecognizedClientException"):
        stranger.detect_moderation_labels(Image={"Bytes": png(True)})


def test_the_openapi_under_fire_gives_no_server_error(served):
    schema = schemathesis.openapi.from_url(f"{served.address}/openapi.json")
    headers = {"Authorization": f"Bearer {served.text}"}
    tried = []
    for operation in schema.get_all_operations():
        tried.append(operation.ok().path)

        @settings(
            max_examples=12,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(case=operation.ok().as_strategy())
        def fire(case):
            response = case.call(headers=headers, timeout=90)
            assert response.status_code < 500 or response.status_code == 503, case.as_curl_command()

        fire()
    assert len(tried) >= 10


def test_metrics_tell_of_all_that_an_operator_asks(served):
    with served.client() as client:
        served.moderate([png(True, 1), png(False, 2), b"no image"])
        text = client.get("/metrics").text
    for name in (
        'poolsieve_requests_total{route="/v1/moderate",status="200"}',
        'poolsieve_verdicts_total{policy="firearms",status="flagged"} 1.0',
        'poolsieve_verdicts_total{policy="cars",status="error"} 1.0',
        'poolsieve_queue_images{place="waiting"} 0.0',
        'poolsieve_chunk_fill_count{policy="cars"}',
        'poolsieve_chunks_total{policy="cars",reason="idle"}',
        'poolsieve_seconds_total{part="reading"}',
        'poolsieve_seconds_total{part="front"}',
        'poolsieve_cost_share{policy="firearms"} 1.0',
        'poolsieve_prevalence_estimate{bound="high",policy="firearms"}',
        'poolsieve_plan_info{policy="firearms",scheme="individual(',
        'poolsieve_connections{state="open"}',
    ):
        assert name in text, name


def test_the_dashboard_asks_for_metrics_that_there_are(served):
    with served.client() as client:
        served.moderate([png(True, 1)])
        client.post("/v1/moderate?deadline_ms=10", content=png())  # in time, refused or late: all are counted
        told = client.get("/metrics").text
    known = {line.split()[2] for line in told.splitlines() if line.startswith("# TYPE")}
    samples = {re.split(r"[ {]", line)[0] for line in told.splitlines() if not line.startswith("#")}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(asked) >= 10
    for words in asked:
        names = re.findall(r"\bpoolsieve_\w+", words)
        assert names
        for name in names:
            assert name in samples | known, name


@given(
    st.binary(max_size=300),
    st.sampled_from(["", "; boundary=a", "; boundary=--", '; boundary="a b"', "; boundary*=x"]),
)
def test_any_bytes_are_a_form_or_refused(body, boundary):
    for kind in ("multipart/form-data", "application/json"):
        try:
            form = parse_images(body, kind + boundary, Limits())
        except Refused as error:
            assert 400 <= error.status < 500
        else:
            assert form.uploads


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5))
def test_a_form_gives_back_what_was_put_in(images):
    mark = "marked"
    parts = [
        b'--marked\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n' + data + b"\r\n"
        for data in images
    ]
    if any(b"\r\n--marked" in b"\r\n" + data for data in images):
        return
    form = parse_multipart(b"".join(parts) + b"--marked--\r\n", f"multipart/form-data; boundary={mark}")
    assert [upload.data for upload in form.uploads] == images


def test_a_body_of_boundaries_is_taken_apart_only_so_far():
    body = b"\r\n--a" * 1_000_000
    with pytest.raises(Refused, match="more than"):
        parse_multipart(body, "multipart/form-data; boundary=a")
