"""`poolsieve serve`: moderation as a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from poolsieve.cli.shared_options import EngineName, Threads

if TYPE_CHECKING:
    from poolsieve.serving.service import Service
    from poolsieve.store import Store

_DATABASE = "poolsieve.sqlite"
REVIEW = "/review"
"""Where the pages for reviewers are."""


def serve(
    bundle: Annotated[
        list[str],
        typer.Option(
            help="Folder of a bundle, or the name of one that comes with poolsieve; may be several."
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    data: Annotated[
        Path, typer.Option(help="Folder for the database, uploads of jobs and the webhooks' secret.")
    ] = Path("poolsieve-data"),
    store: Annotated[
        str | None,
        typer.Option(help="postgresql://USER:PASSWORD@HOST/DATABASE. \\[default: SQLite in the data folder]"),
    ] = None,
    scheme: Annotated[
        str, typer.Option(help="How images are decided about; what decides by pools alone is refused.")
    ] = "auto",
    prevalence: Annotated[float | None, typer.Option(help="Expected share of bad images.")] = None,
    engine: EngineName = "auto",
    threads: Threads = None,
    precision: Annotated[
        Literal["auto", "fp32", "low", "int8"],
        typer.Option(help="As in `moderate`; auto: the int8 edition where the processor gains by it."),
    ] = "auto",
    deadline_ms: Annotated[
        float, typer.Option(help="Milliseconds to an answer, unless a request says otherwise.")
    ] = 1000.0,
    room: Annotated[
        int | None,
        typer.Option(help="Images of requests that are held at most. \\[default: four full chunks]"),
    ] = None,
    prefix: Annotated[
        list[str] | None,
        typer.Option(help="Folder or s3://BUCKET/FOLDER that manifests may name files in; may be several."),
    ] = None,
    webhook: Annotated[str | None, typer.Option(help="URL that is told of flags and finished jobs.")] = None,
    webhook_host: Annotated[
        list[str] | None, typer.Option(help="Host that jobs may name for a webhook, HOST or HOST:PORT.")
    ] = None,
    fetch_urls: Annotated[bool, typer.Option("--fetch-urls", help="Fetch images at URLs.")] = False,
    url_host: Annotated[
        list[str] | None, typer.Option(help="With --fetch-urls: only from this host; may be several.")
    ] = None,
    private_host: Annotated[
        list[str] | None,
        typer.Option(help="Host of your own network that webhooks and URLs may reach; may be several."),
    ] = None,
) -> None:
    """Answer requests for verdicts, run jobs, and keep what was decided."""
    try:
        from poolsieve.review.review_application import review_app
        from poolsieve.serving.limits import Limits
        from poolsieve.serving.policies import load_policies
        from poolsieve.serving.running import keep_arenas_few, listen
        from poolsieve.serving.running import serve as run
        from poolsieve.serving.service import Options, Service
        from poolsieve.store import Store
    except ModuleNotFoundError as error:
        raise ImportError(f"serving needs {error.name}: pip install 'poolsieve[serve]'") from None

    keep_arenas_few()
    listening = listen(host, port)
    policies = load_policies(
        bundle, scheme=scheme, engine=engine, threads=threads, precision=precision, prevalence=prevalence
    )
    data.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds pictures and secrets
    options = Options(
        data=data,
        prefixes=prefix or (),
        webhook=webhook,
        webhook_hosts=webhook_host or (),
        fetch_urls=fetch_urls,
        url_hosts=url_host or (),
        private_hosts=private_host or (),
        limits=Limits(deadline=deadline_ms / 1000, room=room),
    )
    with Store(store or f"sqlite:///{data / _DATABASE}") as opened:
        at = listening.getsockname()[1]
        service = Service(policies, opened, options, holder=f"{host}:{at}")
        pages = review_app(opened, live=service.live, plans=service.plans)
        address = f"http://{_shown(host)}:{at}"
        run(service, listening, mounts={REVIEW: pages}, on_ready=lambda: _tell(service, opened, address))


def _tell(service: Service, store: Store, address: str) -> None:
    """Where it is; at the first start also a link for an administrator, and a key that is shown once."""
    names = ", ".join(service.policies)
    typer.echo(f"serving {names} at {address} (its API: {address}/docs)")
    if not store.users.count():
        token = store.users.invite("poolsieve", "admin")
        typer.echo(f"first administrator, by this link once: {address}{REVIEW}/join/{token}")
    if not store.keys.all():
        _, text = store.keys.create("poolsieve", "first key")
        typer.echo(f"first API key, shown once: {text}")
        typer.echo(f'curl -F image=@photo.jpg -H "Authorization: Bearer {text}" {address}/v1/moderate')
    else:
        typer.echo(f"API keys are made on the settings page of {address}{REVIEW}")


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host
