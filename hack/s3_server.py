"""An S3 server for tests: moto's, in memory, as a process.

    python -m hack.s3_server HOST PORT

It answers one request at a time. moto first checks the condition of a write (If-None-Match, If-Match), and then writes.
`moto_server` has a thread for each request, so the conditions of two writers could both be true at the same time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3

from hack.processes import answers, becomes_ready, free_ports, spawn

BUCKET = "records"
START_SECONDS = 60.0
REPOSITORY = Path(__file__).parents[1]


def environment(endpoint: str) -> dict[str, str]:
    """The variables with which every S3 client finds it."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "an-open-secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def s3_server(host: str = "127.0.0.1") -> Iterator[dict[str, str]]:
    """A server on an address of this machine with one bucket; its variables."""
    [port] = free_ports(1)
    endpoint = f"http://{host}:{port}"
    command = [sys.executable, "-m", "hack.s3_server", host, str(port)]
    with tempfile.TemporaryDirectory(prefix="s3-server-") as folder:
        log = Path(folder, "log")
        process = spawn(command, log, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
        try:
            if not becomes_ready(process, lambda: answers(f"{endpoint}/moto-api/"), START_SECONDS):
                raise RuntimeError(f"the S3 server does not start: {log.read_text()}")
            variables = environment(endpoint)
            boto3.session.Session(
                aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
                region_name=variables["AWS_REGION"],
            ).client("s3", endpoint_url=endpoint).create_bucket(Bucket=BUCKET)
            yield variables
        finally:
            process.kill()
            process.wait()


def main(host: str, port: str) -> None:
    """Serve until killed."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    run_simple(host, int(port), DomainDispatcherApplication(create_backend_app), threaded=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
