"""A service of planted networks as a process of its own, to be killed.

    python planted_service.py STORE DATA PREFIX LOG

It prints its port and a key. An image that is judged leaves a line in the log before its verdict is stored.
"""

import sys
import time
from pathlib import Path

from served import planted_policy

from poolsieve.serving.limits import Limits
from poolsieve.serving.running import listen, serve
from poolsieve.serving.service import Options, Service
from poolsieve.store import Store


def main(url, data, prefix, log):
    policy = planted_policy(chunk=20)
    judge = policy.judge

    def logged(images):
        judged = judge(images)
        with Path(log).open("a", encoding="utf-8") as stream:
            stream.write("".join(f"{image.name}\n" for image in images))
        time.sleep(0.02)
        return judged

    policy.judge = logged
    listening = listen("127.0.0.1", 0)
    with Store(url) as store:
        options = Options(data=Path(data), prefixes=[Path(prefix)], limits=Limits(room=1000))
        service = Service({policy.name: policy}, store, options)

        def tell():
            _, text = store.keys.create("test", "key of the process")
            print(listening.getsockname()[1], text, flush=True)

        serve(service, listening, on_ready=tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
