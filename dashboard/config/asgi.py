"""The web process: `daphne dashboard.config.asgi:application`. It alone pools its database connections."""

import gc
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
os.environ.setdefault("QUARTERDECK_POOL", "1")

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

http = get_asgi_application()

from dashboard.live.routing import sockets  # noqa: E402  the models must be loaded first

application = ProtocolTypeRouter({"http": http, "websocket": sockets})

# What is loaded by now stays: looking through it for garbage again and again stopped every request and socket for
# 100 ms now and then (p95 of a large run's page 147 → 55 ms).
gc.collect()
gc.freeze()
