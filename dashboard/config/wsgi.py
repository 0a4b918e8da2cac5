"""For servers that speak WSGI only: pages and API without sockets."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
