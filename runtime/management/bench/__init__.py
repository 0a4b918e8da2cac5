"""What `manage.py bench` measures; imported by that command alone, so nothing of it is loaded in normal use."""
