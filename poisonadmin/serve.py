"""Runs the web process: `python -m poisonadmin.serve --port 8000`."""

import argparse

import uvicorn

from poisonadmin.web.api.connections import Connection


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="poisonadmin.serve", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--ssl-certfile")
    parser.add_argument("--ssl-keyfile")
    options = parser.parse_args()
    uvicorn.run(
        "poisonadmin.asgi:application",
        host=options.host,
        port=options.port,
        log_level=options.log_level,
        log_config=None,  # the settings say how lines look
        ssl_certfile=options.ssl_certfile,
        ssl_keyfile=options.ssl_keyfile,
        http=Connection,
        ws="none",
        lifespan="off",
        access_log=False,
        proxy_headers=False,  # the application believes those of POISONADMIN_TRUSTED_PROXIES
        timeout_graceful_shutdown=3,
    )


if __name__ == "__main__":
    main()
